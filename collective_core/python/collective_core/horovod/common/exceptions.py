"""Errors of the Horovod API."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed on this rank or on another; the text names operation and cause."""


class NotSupportedError(NotImplementedError):
    """A part of Horovod's API that is not here; the text names it and says what to use."""


def not_supported(name: str, instead: str) -> NotSupportedError:
    """Make the error of a part that was left out."""
    return NotSupportedError(f"horovod: {name} is not part of collective_core's Horovod API; {instead}")
