"""``locate``: which node, rail or link is slow; also ``results.json`` of its run."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part
from clusterctl.documents.bench import Fault


class LocateStatus(str, Enum):
    """Tell what a run found; ``inconclusive``: so many nodes are slow that the healthy group is unknown."""

    NONE = "none"
    NAMED = "named"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"


class SuspectStatus(str, Enum):
    """Tell how the confirmation of a suspect ended; ``open``: neither slow nor well beyond doubt."""

    NAMED = "named"
    CLEARED = "cleared"
    OPEN = "open"


class Suspect(Part):
    """A node's rail, or the link of two nodes, that was slow in the first rounds.

    ``ratio`` is its median rate over that of control pairs in the same rounds, ``chance`` how likely such low ranks are
    for a healthy one. ``place`` is the local rank, so the rail; ``interface`` its name without GPUs.
    """

    nodes: tuple[str, ...]
    place: int
    interface: str | None
    status: SuspectStatus
    ratio: float
    chance: float
    confirmations: int
    low_with: int
    partners: int


class SuspectAlone(Part):
    """A rank that was slow without any other rank: ``measure`` is gemm, memory, host-to-device or device-to-host."""

    node: str
    place: int
    measure: str
    status: SuspectStatus
    ratio: float
    chance: float
    windows: int


class SometimesSlow(Part):
    """A rank that was slow in ``low`` of its ``rounds`` with ``--for``; ``fleet_share`` is the share of all others."""

    node: str
    place: int
    interface: str | None
    low: int
    rounds: int
    fleet_share: float
    chance: float


class SlowGroup(Part):
    """Two groups of nodes that differ on one place; neither is a small minority."""

    place: int
    slow: tuple[str, ...]
    fast: tuple[str, ...]
    ratio: float


class NetworkBoundary(Part):
    """Pairs at a distance of ``nodes`` nodes and more are slower than nearer ones."""

    nodes: int
    ratio: float


class SlowRail(Part):
    """A rail that is slow on all nodes."""

    place: int
    ratio: float


class BestRate(Part):
    """The best rate of a rank with any partner, each direction, in 10^9 bytes per second."""

    node: str
    place: int
    gbps: float


class Locate(Document):
    """What ``locate`` measured and named; ``rates`` has every rank, ``suspects`` those that were tested again."""

    schema_: Literal["clusterctl.locate/1"] = Field(default="clusterctl.locate/1", alias="schema")
    run: str
    status: LocateStatus
    library: str | None
    launcher: str | None
    nodes: int
    ranks: int
    rounds: int
    windows: int
    repeated: int
    duration_s: float
    false_alarms_per_run: float
    suspects: tuple[Suspect, ...]
    suspects_alone: tuple[SuspectAlone, ...]
    sometimes_slow: tuple[SometimesSlow, ...]
    groups: tuple[SlowGroup, ...]
    boundary: NetworkBoundary | None
    slow_rails: tuple[SlowRail, ...]
    rates: tuple[BestRate, ...]
    failures: tuple[Fault, ...]
