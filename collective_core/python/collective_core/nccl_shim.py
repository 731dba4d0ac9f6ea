"""NCCL behind collective_core. Import this before torch::

    import collective_core.nccl_shim
    import torch

The import puts libcollective_core_nccl.so in front of the NCCL that torch loads: calls that collective_core makes
faster go to it, all others to NCCL. `CCORE_NCCL=0` leaves every call to NCCL. `LD_PRELOAD` with :func:`library_path`
does the same for programs without Python (docs/nccl.md).
"""

from __future__ import annotations

import ctypes
import json
import sys
from functools import cache
from typing import Any

from collective_core.locations import nccl_library_path as library_path

__all__ = ["library_path", "report"]


def report() -> dict[str, Any]:
    """Return what the library did in this process so far.

    `communicators` holds for each communicator of NCCL its number of ranks, this rank, `path` (how the ranks reach each
    other) or `why` (the reason that NCCL serves it alone); `functions` the calls and bytes taken and passed.
    """
    needed = ctypes.c_size_t()
    function = _library().cc_nccl_report
    function(None, ctypes.c_size_t(0), ctypes.byref(needed))
    text = ctypes.create_string_buffer(needed.value + 1024)  # counts may grow by digits meanwhile
    function(text, ctypes.c_size_t(len(text)), ctypes.byref(needed))
    found: dict[str, Any] = json.loads(text.value)
    return found


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)


def _is_preloaded() -> bool:
    """Tell whether the process was started with the library in front, so that torch found it."""
    return hasattr(ctypes.CDLL(None), "cc_nccl_report")


# torch binds NCCL's names when it is loaded; a library that comes later is not asked.
if "torch" in sys.modules and not _is_preloaded():
    raise ImportError("collective_core.nccl_shim has no effect after `import torch`: import it first")
_library()
