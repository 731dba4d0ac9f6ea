"""Which call is next: the ranks of a set agree before each collective, so that their orders may differ.

Horovod lets every rank call in its own order and matches calls by name. Here every rank shows its oldest call. If all
show the same, which is the rule, that is next, after one exchange of 40 bytes per rank. Else they show all their calls,
and the first one of the lowest rank that every rank has is next. If there is none, they wait a little for more calls.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Protocol

from collective_core.horovod.requests import DIGEST_BYTES, JOINABLE, Request, digest, kind_of, stand_in

_FRAME = struct.Struct(f"<{DIGEST_BYTES}s{DIGEST_BYTES}sQ")
_SAID_AT_MOST = 8
_NOTHING = bytes(DIGEST_BYTES)
_JOINED_REFUSAL = "while a rank has joined, only allreduce and barrier are possible"


class Wire(Protocol):
    """What the agreement needs of the communicator; both calls return one entry per rank, in rank order."""

    def gather(self, frame: bytes) -> list[bytes]:
        """Exchange as many bytes from every rank."""

    def gather_texts(self, text: str) -> list[str]:
        """Exchange texts of any length."""


class Calls(Protocol):
    """The calls of this rank that were not run yet."""

    def first(self) -> Request | None:
        """Wait for the oldest one; None when this rank has joined and has none."""

    def names(self) -> list[str]:
        """Return the names of all, oldest first."""

    def named(self, name: str) -> Request:
        """Return one of them."""

    def wait_for_more(self, missing: str) -> None:
        """Wait a little for another call; raises TimeoutError, with this text, when that has taken too long."""


class MismatchError(Exception):
    """The ranks called something else under one name, or what a joined rank cannot take part in."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What all ranks run now, or, if there is an error, skip; no request: this rank has joined and skips."""

    request: Request | None
    error: MismatchError | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    name: bytes
    descriptor: bytes
    calls: int  # that this rank has run with data of its own
    joined: bool

    @classmethod
    def of(cls, request: Request | None, calls: int) -> _Frame:
        if request is None:
            return cls(_NOTHING, _NOTHING, calls, joined=True)
        return cls(digest(request.name), digest(request.descriptor()), calls, joined=False)

    def packed(self) -> bytes:
        return _FRAME.pack(self.name, self.descriptor, self.calls)

    @classmethod
    def unpacked(cls, data: bytes) -> _Frame:
        name, descriptor, calls = _FRAME.unpack(data)
        return cls(name, descriptor, calls, joined=name == _NOTHING)


def agree(wire: Wire, calls: Calls, ran: int) -> Agreed | int:
    """Return what is next, or, when all ranks have joined, the rank that did so last.

    `ran` counts the calls of this rank that were run: who has run most has joined last.
    """
    choice = calls.first()
    while True:
        frames = [_Frame.unpacked(data) for data in wire.gather(_Frame.of(choice, ran).packed())]
        active = [frame for frame in frames if not frame.joined]
        if not active:
            return max(range(len(frames)), key=lambda rank: (frames[rank].calls, rank))
        if all(frame.name == active[0].name for frame in active):
            break
        lists = [json.loads(text) for text in wire.gather_texts(json.dumps(calls.names()))]
        waiting = {rank: set(names) for rank, names in enumerate(lists) if not frames[rank].joined}
        oldest = lists[min(waiting)]
        common = next((name for name in oldest if all(name in names for names in waiting.values())), None)
        if common is None:
            calls.wait_for_more(_missing(lists, waiting))
            choice = calls.first()
        elif choice is not None:
            choice = calls.named(common)
    same = all(frame.descriptor == active[0].descriptor for frame in active)
    if same and len(active) == len(frames):
        return Agreed(choice)
    texts = wire.gather_texts("" if choice is None else f"{choice.name}\n{choice.descriptor()}")
    name, descriptor = next(text for text in texts if text).split("\n", 1)
    if not same:
        return Agreed(choice, MismatchError(_difference(name, texts)))
    if kind_of(descriptor) not in JOINABLE:
        return Agreed(choice, MismatchError(f"{name!r}: {_JOINED_REFUSAL}"))
    return Agreed(choice if choice is not None else stand_in(name, descriptor))


def _missing(lists: list[list[str]], waiting: dict[int, set[str]]) -> str:
    """Say which calls wait for whom."""
    said = []
    for name in dict.fromkeys(name for names in lists for name in names):
        lacking = [str(rank) for rank, names in waiting.items() if name not in names]
        said.append(f"{name} waits for rank {', '.join(lacking)}")
    return f"no call was made by all ranks: {'; '.join(said[:_SAID_AT_MOST])}"


def _difference(name: str, texts: list[str]) -> str:
    said: dict[str, list[str]] = {}
    for rank, text in enumerate(texts):
        if text:
            said.setdefault(text.split("\n", 1)[1], []).append(str(rank))
    sides = "; ".join(f"rank {', '.join(ranks)}: {descriptor}" for descriptor, ranks in said.items())
    return f"the ranks disagree about {name!r}: {sides}"
