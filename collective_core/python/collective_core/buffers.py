"""What a call reads and writes: arrays in host memory as address, length and type."""

from __future__ import annotations

import ctypes
import math
from ctypes import sizeof
from dataclasses import dataclass
from typing import Any

from collective_core.enums import Dtype
from collective_core.errors import CollectiveCoreError, Result


@dataclass(frozen=True, slots=True)
class Buffer:
    """Host memory: address, elements and their type. `owner` keeps the memory alive."""

    address: int
    count: int
    dtype: Dtype
    owner: object = None


_TYPESTRS = {
    "f8": Dtype.FLOAT64,
    "f4": Dtype.FLOAT32,
    "f2": Dtype.FLOAT16,
    "i1": Dtype.INT8,
    "u1": Dtype.UINT8,
    "i4": Dtype.INT32,
    "u4": Dtype.UINT32,
    "i8": Dtype.INT64,
    "u8": Dtype.UINT64,
}


def as_buffer(array: Any, *, written: bool = False) -> Buffer:
    """Take a Buffer, a C-contiguous numpy array or a ctypes array as memory; raises CollectiveCoreError.

    `written`: the call puts its result there, which what is read-only is no place for: it may be a file, or a constant
    of the program.
    """
    if isinstance(array, Buffer):
        return array
    if isinstance(array, ctypes.Array):
        view = memoryview(array).cast("B")
        kind = {"f": "f", "d": "f"}.get(array._type_._type_, "i" if _is_signed(array) else "u")
        dtype = _TYPESTRS[f"{kind}{sizeof(array._type_)}"]
        return Buffer(ctypes.addressof(array), view.nbytes // sizeof(array._type_), dtype, array)
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"{type(array).__name__} is not an array in host memory"
        )
    if interface.get("strides") is not None:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, "the array is not C-contiguous")
    dtype_or_none = _TYPESTRS.get(interface["typestr"][1:])
    if dtype_or_none is None or interface["typestr"][0] == ">":
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"unsupported element type {interface['typestr']}")
    address, read_only = interface["data"]
    expect(not (written and read_only), "the array is read-only, and the result is to go there")
    return Buffer(address, math.prod(interface["shape"]), dtype_or_none, array)


def _is_signed(array: Any) -> bool:
    return bool(array._type_(-1).value < 0)


def expect(condition: bool, text: str) -> None:
    """Raise INVALID_ARGUMENT with the text unless the condition holds."""
    if not condition:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, text)


def same_type(one: Buffer, other: Buffer) -> None:
    """Raise INVALID_ARGUMENT unless both have elements of one type."""
    expect(one.dtype == other.dtype, f"element types differ: {one.dtype.name} and {other.dtype.name}")
