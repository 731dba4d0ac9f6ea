"""Write the state of an optimizer as JSON and the bytes of its tensors, and read it without running what was sent."""

from __future__ import annotations

import ctypes
import json
import math
from typing import Any

import torch

_DTYPES = {
    str(one).removeprefix("torch."): one
    for one in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
        torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
_DEEPEST = 50


class StateError(ValueError):
    """Report a state that cannot be sent, or a text that is not one."""


def packed(state: object) -> bytes:
    """Return the state as bytes: a line of JSON, then the data of the tensors.

    Raise StateError for a value other than None, a bool, a number, a text, a tensor, and lists, tuples and dicts of
    these.
    """
    tensors: list[torch.Tensor] = []
    text = json.dumps(_written(state, tensors, "the state", 0), separators=(",", ":"))
    parts = [text.encode(), b"\n"]
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        parts.append(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()))
    return b"".join(parts)


def unpacked(data: bytes) -> Any:
    """Return the state, its tensors on the CPU; raise StateError for bytes that ``packed`` does not write."""
    text, _, rest = data.partition(b"\n")
    tensors = _Tensors(rest)
    try:
        state = _read(json.loads(text), tensors, 0)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise StateError(f"not the state of an optimizer: {error!s:.200}") from None
    if tensors.at != len(rest):
        raise StateError("not the state of an optimizer: more data than its tensors have")
    return state


def _written(value: object, tensors: list[torch.Tensor], where: str, depth: int) -> Any:
    """Return what JSON can hold: containers, tensors and numbers as arrays that begin with a letter."""
    if depth > _DEEPEST:
        raise StateError(f"{where} is nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", float(value).hex()]
    if isinstance(value, list | tuple):
        items = [_written(one, tensors, f"{where}[{at}]", depth + 1) for at, one in enumerate(value)]
        return ["l" if isinstance(value, list) else "t", items]
    if isinstance(value, dict):
        pairs = [
            [_written(key, tensors, where, depth + 1), _written(one, tensors, f"{where}[{key!r}]", depth + 1)]
            for key, one in value.items()
        ]
        return ["d", pairs]
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        name = str(value.dtype).removeprefix("torch.")
        if name in _DTYPES:
            tensors.append(value)
            return ["x", name, list(value.shape)]
    kind = f"a tensor of {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
    raise StateError(f"{where} is {kind}, which cannot be sent as data: use broadcast_object")


class _Tensors:
    """The data of the tensors, in the order of the text."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, name: str, shape: list[int]) -> torch.Tensor:
        dtype = _DTYPES[name]
        if not all(type(size) is int and size >= 0 for size in shape):
            raise StateError(f"a shape {shape!r:.100}")
        count = math.prod(shape)
        size = count * torch.empty((), dtype=dtype, device="cpu").element_size()
        if self.at + size > len(self.data):
            raise StateError("less data than its tensors have")
        part = bytearray(self.data[self.at : self.at + size])
        self.at += size
        if not count:
            return torch.empty(shape, dtype=dtype, device="cpu")
        return torch.frombuffer(part, dtype=dtype).reshape(shape)


def _read(value: Any, tensors: _Tensors, depth: int) -> Any:
    if depth > _DEEPEST:
        raise StateError(f"it is nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, bool | str):
        return value
    if not isinstance(value, list):
        raise StateError(f"a {type(value).__name__}")
    kind, *rest = value
    if kind == "x":
        name, shape = rest
        return tensors.take(name, shape)
    (inside,) = rest
    if kind == "i" and isinstance(inside, str):
        return int(inside)
    if kind == "f" and isinstance(inside, str):
        return float.fromhex(inside)
    if kind in ("l", "t"):
        items = [_read(one, tensors, depth + 1) for one in inside]
        return items if kind == "l" else tuple(items)
    if kind == "d":
        return {_read(key, tensors, depth + 1): _read(one, tensors, depth + 1) for key, one in inside}
    raise StateError(f"the kind {kind!r:.40}")
