"""The Python face of collective_core: where its compiled parts are. Importing it loads nothing heavy."""

from collective_core.errors import CollectiveCoreError, LibraryNotFoundError, Result
from collective_core.locations import library_path, perf_binary

__version__ = "0.1.0"

__all__ = [
    "CollectiveCoreError",
    "LibraryNotFoundError",
    "Result",
    "__version__",
    "library_path",
    "perf_binary",
]
