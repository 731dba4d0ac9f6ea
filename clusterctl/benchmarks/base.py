"""Define the common types of benchmarks, which build an argv and parse the ranks' output; no side effects."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.documents import kinds

FaultKind = kinds.FaultKind


@dataclass(frozen=True, slots=True)
class Fault:
    """Hold one fault: its kind, a message, rank and node if known, and what to do."""

    kind: FaultKind
    message: str
    rank: int | None = None
    node: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class RankProof:
    """Hold where one rank ran, as that rank reported it."""

    rank: int
    host: str
    pid: int
    device: str
