"""The Python face of collective_core. Importing it loads nothing heavy; the compiled parts load with `Communicator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collective_core.errors import CollectiveCoreError, LibraryNotFoundError, Result
from collective_core.locations import library_path, perf_binary

if TYPE_CHECKING:
    from collective_core.communicator import Communicator

__version__ = "0.1.0"

__all__ = [
    "CollectiveCoreError",
    "Communicator",
    "LibraryNotFoundError",
    "Result",
    "__version__",
    "library_path",
    "perf_binary",
]


def __getattr__(name: str) -> Any:
    """Return the class `Communicator`, which is imported when it is first asked for."""
    if name == "Communicator":
        from collective_core.communicator import Communicator

        return Communicator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
