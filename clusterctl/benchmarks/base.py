"""Define the common types of benchmarks, which build an argv and parse the ranks' output; no side effects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FaultKind(str, Enum):
    """List the kinds of faults of a run."""

    CRASHED = "crashed"
    UNPARSABLE = "unparsable"
    FEWER_RANKS = "fewer-ranks"
    DUPLICATE_RANKS = "duplicate-ranks"
    WRONG_RESULTS = "wrong-results"
    NAN_LOSS = "nan-loss"
    REPLICAS_DIFFER = "replicas-differ"
    RATES_DIFFER = "rates-differ"
    SLOW_PATH = "slow-path"
    SETTING_UNPROVEN = "setting-unproven"
    RANK_DIED = "rank-died"
    DEADLINE = "deadline"
    NODE_LOST = "node-lost"
    NODE_UNREACHABLE = "node-unreachable"
    MISSING_PROGRAM = "missing-program"
    MESH = "ssh-mesh"
    MEMLOCK = "memlock"
    LAUNCHER = "launcher"


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
