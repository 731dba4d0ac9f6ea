"""Read the headers of the GPU code in a library, without CUDA's tools. Needs only the standard library of Python."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A container of GPU code begins with this; its header has the size of the entries. An entry begins with its kind, and
# the sizes of its header and of its code.
CONTAINER, ENTRY = b"\x50\xed\x55\xba", struct.Struct("<HHIQ")
KINDS = {1: "compute", 2: "sm"}
ARCHITECTURE_AT, FLAGS_AT, LEAST_HEADER = 28, 40, 64


@dataclass(frozen=True)
class Entry:
    """Code for one kind of GPU: PTX (``compute``) or machine code (``sm``)."""

    kind: str
    architecture: int
    """Ten times the compute capability."""
    flags: int
    start: int
    """Where the code begins in the file, and where it ends."""
    end: int

    @property
    def name(self) -> str:
        """``sm_90`` or ``compute_90``; ``sm_90a`` is not distinguished from ``sm_90``."""
        return f"{self.kind}_{self.architecture}"


def entries(path: Path) -> Iterator[Entry]:
    """Yield the code in a library; what is cut off, or has an unknown kind, ends its container."""
    if not path.stat().st_size:
        return
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = -1
        while (start := data.find(CONTAINER, start + 1)) >= 0:
            if start + ENTRY.size > len(data):
                break
            _, header_bytes, size = struct.unpack_from("<HHQ", data, start + len(CONTAINER))
            place, end = start + header_bytes, min(start + header_bytes + size, len(data))
            while place + LEAST_HEADER <= end:
                kind, _, entry_header_bytes, code_bytes = ENTRY.unpack_from(data, place)
                if kind not in KINDS or entry_header_bytes < LEAST_HEADER:
                    break
                (architecture,) = struct.unpack_from("<I", data, place + ARCHITECTURE_AT)
                (flags,) = struct.unpack_from("<Q", data, place + FLAGS_AT)
                begin = place + entry_header_bytes
                place = begin + code_bytes
                if place > end:
                    break
                yield Entry(KINDS[kind], architecture, flags, begin, place)
