"""The table of NCCL's tuner plugin as text, which tuner/table.h parses: which choice holds for which sizes."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TITLE = "collective_core nccl choices 1"
COLLECTIVES = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce")
"""By NCCL's numbers, as the next two."""
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
CHANNELS = (0, 1, 2, 4, 8, 16)
"""0: NCCL's own number."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What NCCL is made to use."""

    algorithm: int
    protocol: int
    channels: int

    def text(self) -> str:
        """Return it as the table has it."""
        return f"{ALGORITHMS[self.algorithm]} {PROTOCOLS[self.protocol]} {self.channels}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome for one size of a collective. choice: None if NCCL's own is not beaten."""

    collective: int
    size_bytes: int
    own_us: float
    choice: Choice | None
    us: float


def candidates(available: int, channels: Iterable[int] = CHANNELS) -> list[Choice]:
    """Return the choices of a bit mask of pairs (bit 3 * algorithm + protocol)."""
    return [
        Choice(algorithm, protocol, count)
        for algorithm in range(len(ALGORITHMS))
        for protocol in range(len(PROTOCOLS))
        if available >> (len(PROTOCOLS) * algorithm + protocol) & 1
        for count in channels
    ]


def ranges(measured: Sequence[Measured]) -> list[str]:
    """Return the lines of the table: each size stands for the sizes around it, neighbours with one choice are joined.

    Below the smallest size its choice holds too; above the largest one NCCL chooses.
    """
    lines: list[str] = []
    for collective in sorted({one.collective for one in measured}):
        rows = sorted(
            (one for one in measured if one.collective == collective), key=lambda one: one.size_bytes
        )
        begin = 0
        for index, one in enumerate(rows):
            last = index + 1 == len(rows)
            end = one.size_bytes if last else math.isqrt(one.size_bytes * rows[index + 1].size_bytes)
            if last or rows[index + 1].choice != one.choice:
                if one.choice is not None:
                    lines.append(f"choice {COLLECTIVES[collective]} {begin} {end} {one.choice.text()}")
                begin = end + 1
    return lines


def table_text(key: str, measured: Sequence[Measured]) -> str:
    """Return the whole file."""
    text = "\n".join((TITLE, f"key {key}", *ranges(measured))) + "\n"
    return f"{text}sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


def write_table(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
