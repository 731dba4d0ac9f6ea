"""What a call reads and writes: arrays in host memory as address, length and type."""

from __future__ import annotations

import ctypes
import math
import sys
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


# By the codes of ctypes.
_CTYPES = {**dict.fromkeys("fd", "f"), **dict.fromkeys("bhilq", "i"), **dict.fromkeys("?BHILQ", "u")}
_FOREIGN = "__ctype_be__" if sys.byteorder == "little" else "__ctype_le__"


def as_buffer(array: Any, *, written: bool = False) -> Buffer:
    """Take a Buffer, a C-contiguous numpy array or a ctypes array as memory; raises CollectiveCoreError.

    `written`: the call puts its result there. Read-only memory is refused, because it may be a file, or a constant of
    the program.
    """
    if isinstance(array, Buffer):
        return array
    if isinstance(array, ctypes.Array):
        return _of_ctypes(array)
    interface = getattr(array, "__array_interface__", None)
    if interface is None or not isinstance(interface.get("data"), tuple):
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"{type(array).__name__} is not an array in host memory"
        )
    # numpy shows a copy of it, which lives no longer than the interface does.
    expect(hasattr(array, "__setitem__"), f"{type(array).__name__} is a number: make it an array of one")
    if interface.get("strides") is not None:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, "the array is not C-contiguous")
    dtype_or_none = _TYPESTRS.get(interface["typestr"][1:])
    if dtype_or_none is None or interface["typestr"][0] == ">":
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"unsupported element type {interface['typestr']}")
    address, read_only = interface["data"]
    expect(not (written and read_only), "the array is read-only, and the result is to go there")
    return Buffer(address, math.prod(interface["shape"]), dtype_or_none, array)


def _of_ctypes(array: Any) -> Buffer:
    """Take a ctypes array, which may be one of arrays."""
    element: Any = array._type_
    while issubclass(element, ctypes.Array):
        element = element._type_
    dtype = _TYPESTRS.get(f"{_CTYPES.get(getattr(element, '_type_', ''))}{sizeof(element)}")
    foreign = sizeof(element) > 1 and getattr(element, _FOREIGN, None) is element
    if dtype is None or foreign:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"unsupported element type {element.__name__}")
    return Buffer(ctypes.addressof(array), sizeof(array) // sizeof(element), dtype, array)


def expect(condition: bool, text: str) -> None:
    """Raise INVALID_ARGUMENT with the text unless the condition holds."""
    if not condition:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, text)


def same_type(one: Buffer, other: Buffer) -> None:
    """Raise INVALID_ARGUMENT unless both have elements of one type."""
    expect(one.dtype == other.dtype, f"element types differ: {one.dtype.name} and {other.dtype.name}")
