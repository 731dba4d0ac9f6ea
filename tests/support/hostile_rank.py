"""A rank of a job whose rank 1 sends what it likes.

``hostile_rank.py lies PATH LIBRARY`` exchanges each value of a seeded list; honest ranks write how it ended to
PATH.rankN. ``hostile_rank.py workload PATH WORDS`` runs a workload, in which rank 1 sends a pickle wherever it should
send a value. Code that reaches another rank appends a line to PATH.
"""

from __future__ import annotations

import json
import os
import pickle
import posix
import random
import sys
from pathlib import Path

from clusterctl.workloads import places, rank_values

LIAR = 1
HONEST = ["node01", 1, True, 0.5]


class Code:
    """An object whose pickle runs a command."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return posix.system, (f"echo run >> {self.path}",)


def lies(path: str, count: int) -> list[tuple[bytes, int | None]]:
    """Return what the liar sends in each turn, and the size that it claims (None: its own)."""
    first = [
        (pickle.dumps(Code(path)), None),
        (pickle.dumps([Code(path)] * 4, protocol=0), None),
        (b"x" * (rank_values.SMALL_BYTES + 1), None),
        (b"", 0),
        (b"", 2**40),
        (b"[" * 2000 + b"]" * 2000, None),
        (b'["node01", 1, true, NaN]', None),
        (b'["node01", 1, true, -Infinity]', None),
        (b'["node01", ' + b"9" * 3000 + b", true, 0.5]", None),
        (b'["node01", 1e999, true, 0.5]', None),
        (b'["node01\\nFAIL node02", 1, true, 0.5]', None),
        (b'{"__reduce__": ["os.system", "id"]}', None),
        (b"__import__('os').system('id')", None),
        (b'["node01", 1, true]', None),
        (b'[["node01"], 1, true, 0.5]', None),
        (b"\xff\xfe\x00", None),
    ]
    chance = random.Random(30)
    while len(first) < count:
        lie = bytearray(chance.choice(first[:16])[0] or b"[]")
        for _ in range(chance.randint(1, 9)):
            lie.insert(chance.randrange(len(lie) + 1), chance.choice(b'[]{}",:0129eE-.NI\\\x00\xff\x80'))
        first.append((bytes(lie), None))
    return first[:count]


def read(value: object) -> list[object]:
    """Read what every honest rank sends."""
    name, number, flag, rate = rank_values.array(value, 4)
    return [
        rank_values.text(name, 32), rank_values.whole(number, 9), rank_values.flag(flag), rank_values.number(rate)
    ]  # fmt: skip


class Lying:
    """Gather as another one does, but with other bytes."""

    def __init__(self, inner: rank_values.ByteGather, lie: bytes, size: int | None) -> None:
        self.inner, self.lie, self.size = inner, lie, size

    def sizes(self, _own: int) -> list[int]:
        """Claim a size."""
        return self.inner.sizes(len(self.lie) if self.size is None else self.size)

    def parts(self, _own: bytes, sizes: list[int]) -> list[bytes]:
        """Send the lie."""
        return self.inner.parts(self.lie, sizes)


def exchange_lies(path: str, library: str) -> None:
    """Exchange all of them, then an honest value of all ranks."""
    place = places.read_place(os.environ)
    ranks, leave = _joined(place, library)
    ends = []
    for lie, size in lies(path, 120):
        gather = Lying(ranks, lie, size) if place.rank == LIAR else ranks
        try:
            rank_values.gather(gather, HONEST, read)
            ends.append("read")
        except places.RankError as error:
            ends.append(str(error))
    assert rank_values.gather(ranks, HONEST, read) == [HONEST] * place.world_size
    if place.rank != LIAR:
        Path(f"{path}.rank{place.rank}").write_text(json.dumps(ends))
    leave()


def _joined(place: places.Place, library: str):
    if library == "core":
        from clusterctl.workloads.locate.core_rank import CoreRank

        rank = CoreRank(None, 60.0)
        return rank, rank.leave
    import torch
    import torch.distributed as dist

    from clusterctl.workloads import exchange, ranks

    ranks.join(place, library, torch.device("cpu"), 60.0)
    return exchange.TorchGather(torch.device("cpu")), dist.destroy_process_group


class _Pickles:
    """json's functions, but what is written is a pickle."""

    def __init__(self, path: str) -> None:
        self.path = path

    def dumps(self, *_: object, **__: object) -> _Pickles:
        return self

    def encode(self) -> bytes:
        return pickle.dumps(Code(self.path))


def main() -> int:
    """Run as this rank."""
    what, path, *words = sys.argv[1:]
    if what == "lies":
        exchange_lies(path, words[0])
        return 0
    if places.read_place(os.environ).rank == LIAR:
        rank_values.json = _Pickles(path)  # type: ignore[assignment]
    from clusterctl.workloads.__main__ import main as work

    return work(words)


if __name__ == "__main__":
    raise SystemExit(main())
