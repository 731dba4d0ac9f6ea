"""Where the shared library and the perf programs are.

`CCORE_LIBRARY` names another build of libcollective_core.so; its programs are then looked for beside it
and in `../bin`.
"""

from __future__ import annotations

import os
from pathlib import Path

from collective_core.errors import LibraryNotFoundError

LIBRARY_NAME = "libcollective_core.so"
NCCL_LIBRARY_NAME = "libcollective_core_nccl.so"
_PACKAGE = Path(__file__).resolve().parent
HINT = "install collective_core (pip install collective_core), or set CCORE_LIBRARY to a built libcollective_core.so"


def library_path() -> Path:
    """Return the path of libcollective_core.so; raises LibraryNotFoundError if it is not built."""
    override = os.environ.get("CCORE_LIBRARY")
    path = Path(override) if override else _PACKAGE / "lib" / LIBRARY_NAME
    if not path.is_file():
        origin = "CCORE_LIBRARY names" if override else "the package has"
        raise LibraryNotFoundError(f"{origin} no library at {path}: {HINT}")
    return path


def nccl_library_path() -> Path:
    """Return the path of the library in front of NCCL; raises LibraryNotFoundError if it is not built."""
    path = library_path().parent / NCCL_LIBRARY_NAME
    if not path.is_file():
        raise LibraryNotFoundError(f"the package has no library at {path}: {HINT}")
    return path


def perf_binary(name: str) -> Path:
    """Return the path of an installed perf program, such as `all_reduce_perf`."""
    library = library_path()
    candidates = (library.parent.parent / "bin" / name, library.parent / name)
    for path in candidates:
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise LibraryNotFoundError(f"no program {name} at {' or '.join(map(str, candidates))}: {HINT}")
