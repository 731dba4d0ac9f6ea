"""Tell which drivers can load the GPU code of a library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clusterctl.images import fatbin

COMPRESSED = 0x2000 | 0x8000
"""Flags of CUDA's compressions: LZ4, and the one of CUDA 12.8 and newer."""
RELEASE = re.compile(rb"Cuda compilation tools, release (\d+)\.(\d+)")
PTX_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)", re.M)
OLD_FORMAT = (0x33, 7)
"""OS/ABI and ABI version of the machine code that every CUDA 12 makes for GPUs before 10.0. CUDA 13 makes (0x41, 8)."""
FIRST_NEW_GPU = 100
MOST_PTX = (8, 7)
"""Of CUDA 12.8, whose drivers are the first for GPUs of 10.0 and later."""


@dataclass(frozen=True)
class Code:
    """Code for one kind of GPU."""

    name: str
    """``sm_90`` for machine code and ``compute_90`` for PTX."""
    version: tuple[int, int]
    """The version of PTX, or the CUDA whose assembler made machine code; (0, 0) if it does not name one."""
    elf_format: tuple[int, int] = (0, 0)
    """OS/ABI and ABI version of machine code."""
    compressed: bool = False

    @property
    def fault(self) -> str:
        """Why the first drivers of CUDA 12 that know this GPU cannot load the code; empty if they can."""
        kind, _, gpu = self.name.partition("_")
        made = f"{self.version[0]}.{self.version[1]}"
        if self.compressed:
            return "is compressed, which drivers of CUDA 12 may not read"
        if kind == "compute":
            most = f"{MOST_PTX[0]}.{MOST_PTX[1]}"
            good = (0, 0) < self.version <= MOST_PTX
            return "" if good else f"is PTX {made}, expected at most {most} (CUDA 12.8)"
        if int(gpu) < FIRST_NEW_GPU:
            return (
                "" if self.elf_format == OLD_FORMAT else f"is in the format of CUDA {made}, expected CUDA 12"
            )
        return "" if self.version[0] == 12 else f"was assembled by CUDA {made}, expected CUDA 12"


def gpu_code(library: Path) -> set[Code]:
    """Return the code in a library, without repetitions."""
    data = library.read_bytes()
    return {_code(entry, data[entry.start : entry.end]) for entry in fatbin.entries(library)}


def _code(entry: fatbin.Entry, contents: bytes) -> Code:
    is_ptx = entry.kind == "compute"
    found = (PTX_VERSION if is_ptx else RELEASE).search(contents)
    return Code(
        entry.name,
        (int(found[1]), int(found[2])) if found else (0, 0),
        (0, 0) if is_ptx or len(contents) < 9 else (contents[7], contents[8]),
        bool(entry.flags & COMPRESSED),
    )
