"""List for which GPUs a library has code: with cuobjdump of the CUDA toolkit, else from the headers of the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.images import fatbin, throwaway
from clusterctl.images.elf import ElfNeeds

if TYPE_CHECKING:
    import docker

_CODE = re.compile(r"\b((?:sm|compute)_\d+[af]?)\b")
_TIMEOUT_S = 300
# collective_core's library has CUDA's runtime linked into it.
_OF_CUDA = ("libnccl.", "libcudart", "libcuda", "libcollective_core_cuda")
_LIST = "cuobjdump --list-elf {0} 2>/dev/null; cuobjdump --list-ptx {0} 2>/dev/null"
_TOOLKIT = "PATH=$PATH:/usr/local/cuda/bin; command -v cuobjdump >/dev/null || exit 0; "


def architectures(
    client: docker.DockerClient, base: str, needs: Sequence[ElfNeeds] | None
) -> frozenset[str] | None:
    """Return ``sm_90``, ``compute_90``, ... of the libraries that use CUDA; None without CUDA, or if it is not known.

    The tool is this machine's, else the base image's, run in a container without network. Where both lack it, the
    headers are read, which do not distinguish ``sm_90a`` from ``sm_90``.
    """
    paths = [need.path for need in needs or () if holds_gpu_code(need)]
    if not paths:
        return None
    run = _here if shutil.which("cuobjdump") else lambda path: _in(client, base, path)
    found = frozenset(code for path in paths for code in _CODE.findall(run(path)))
    return found or frozenset(entry.name for path in paths for entry in fatbin.entries(path)) or None


def holds_gpu_code(need: ElfNeeds) -> bool:
    """Tell whether a library may hold GPU code: by its name, or because it needs a library of CUDA."""
    names = (need.soname or need.path.name, *need.libraries)
    return any(name.startswith(_OF_CUDA) for name in names)


def _here(path: Path) -> str:
    text = ""
    for what in ("--list-elf", "--list-ptx"):
        done = subprocess.run(
            ("cuobjdump", what, str(path)), capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        text += done.stdout
    return text


def _in(client: docker.DockerClient, base: str, path: Path) -> str:
    script = _TOOLKIT + _LIST.format("/tmp/library.so")
    return throwaway.run(client, base, script, {"library.so": path}).stdout
