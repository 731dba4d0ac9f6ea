"""torch's streams by their cudaStream_t: the library makes a stream, and work of torch may have to go there."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

# Any: torch's stubs leave its streams untyped.
_cuda: Any = torch.cuda
_C: Any = torch._C

# The current stream of a device, by its number, as a cudaStream_t.
raw_stream: Any = getattr(_C, "_cuda_getCurrentRawStream", None)

_ids: dict[tuple[int, int], tuple[int, int, int]] = {}


def stream_of(raw: int, device: torch.device) -> Any:
    """Return torch's stream of a cudaStream_t. For 0, torch's own constructor would return another stream."""
    return _cuda.ExternalStream(raw, device=device) if raw else _cuda.default_stream(device)


class OnStream:
    """A context in which a cudaStream_t is torch's current stream. torch.cuda.stream takes 20 us, this two."""

    def __init__(self, raw: int, device: torch.device) -> None:
        """Take the stream and its device, which the context makes the current device, too."""
        self._key = raw, device.index
        self._device = device

    def __enter__(self) -> None:
        """Make it current."""
        raw, index = self._key
        if (ids := _ids.get(self._key)) is None:
            stream = stream_of(raw, self._device)
            ids = _ids[self._key] = stream.stream_id, stream.device_index, stream.device_type
        self._before_device = _C._cuda_getDevice()
        self._before = _C._cuda_getCurrentStream(index)
        _set(ids)  # and the device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore stream and device."""
        _set(self._before)
        if self._before_device != self._key[1]:
            _C._cuda_setDevice(self._before_device)


def _set(ids: tuple[int, int, int]) -> None:
    _C._cuda_setStream(stream_id=ids[0], device_index=ids[1], device_type=ids[2])
