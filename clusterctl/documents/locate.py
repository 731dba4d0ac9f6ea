"""``locate``: which node, rail or link is slow; also ``results.json`` of its run."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.evidence import FactDifference, Fault, PairsAlone
from clusterctl.documents.explain import KnownCause
from clusterctl.documents.proof import HardwareHealth


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


class SuspectTestStatus(str, Enum):
    """Tell how a test of a named rail or link ended."""

    SLOW = "slow"
    WELL = "well"
    UNDECIDED = "undecided"


class SuspectTest(Part):
    """One test of a named rail or link: it (of a link, its first node) only ``sends``, only ``receives``, or is in use
    ``alone`` while the node's other rails pause.

    ``ratio`` and ``chance`` are those of a suspect, for this test.
    """

    test: Literal["sends", "receives", "alone"]
    status: SuspectTestStatus
    ratio: float
    chance: float
    rounds: int


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
    tests: tuple[SuspectTest, ...] = ()


class SuspectAlone(Part):
    """A rank that was slow without any other rank.

    ``measure`` is gemm (without torch hash), memory, host-to-device or device-to-host.
    """

    node: str
    place: int
    measure: str
    status: SuspectStatus
    ratio: float
    chance: float
    windows: int


class SlowWindow(Part):
    """One of the ``windows`` (from 1) in which ranks of these nodes were slower alone than in their own best window.

    ``ratio`` is the lowest share of a rank's best rate in this ``measure``.
    """

    window: int
    measure: str
    nodes: tuple[str, ...]
    ratio: float


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


class PairRate(Part):
    """The best rate of two ranks in the first rounds, each direction, in 10^9 bytes per second."""

    nodes: tuple[str, str]
    place: int
    gbps: float


class EndsDiffer(Part):
    """A pair whose two ranks report different rates in most rounds, so that it says nothing about its nodes.

    ``gbps`` are the medians in the order of ``nodes``. ``at_fault`` is the node that differs from most of its partners,
    which agree with each other; None: it is not known which of the two.
    """

    nodes: tuple[str, str]
    place: int
    interface: str | None
    gbps: tuple[float, float]
    at_fault: str | None


class UnlikeDevice(Part):
    """A rank with another device than most ranks; ``peers`` ranks have it, and fewer than 3 cannot be compared.

    It is not named for slow pairs unless two ranks with its device are well: it may be slower by design.
    """

    node: str
    place: int
    device: str
    others: str
    peers: int


class CpuHeldBack(Part):
    """A node whose ranks stood still because a CPU quota of their cgroup was used up, counted by the kernel.

    ``cpus`` is the quota; the kernel stopped the group in ``stopped`` of the ``periods`` in which it ran, for
    ``stopped_s`` seconds of ``elapsed_s``. ``named`` is False if an equal quota held back every rank of the run.
    """

    node: str
    device: Literal["CPU"]
    named: bool
    ranks: tuple[int, ...]
    group: str
    cpus: float
    periods: int
    stopped: int
    stopped_s: float
    elapsed_s: float
    what: str
    fix: str


class Locate(Sparse, Document):
    """What ``locate`` measured and named; ``rates`` has every rank, ``suspects`` those that were tested again.

    ``cause`` is the known cause of a failure in the run's logs; omitted without one.
    """

    ALWAYS: ClassVar = frozenset({"apart", "health"})

    schema_: Literal["clusterctl.locate/1"] = Field(default="clusterctl.locate/1", alias="schema")
    run: str
    status: LocateStatus
    cause: KnownCause | None = None
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
    slow_windows: tuple[SlowWindow, ...] = ()
    groups: tuple[SlowGroup, ...]
    boundary: NetworkBoundary | None
    slow_rails: tuple[SlowRail, ...]
    rates: tuple[BestRate, ...]
    pairs: tuple[PairRate, ...] = ()
    ends_differ: tuple[EndsDiffer, ...] = ()
    differences: tuple[FactDifference, ...] = ()
    unlike: tuple[UnlikeDevice, ...] = ()
    held_back: tuple[CpuHeldBack, ...] = ()
    apart: PairsAlone | None = None
    gpus_not_measured: tuple[str, ...] = ()
    """Nodes whose GPUs were not measured, because the run did without torch; pairs moved host memory."""
    health: HardwareHealth | None = None
    """As the entry ``health`` of the proof of ``bench``: what the hardware reported during the run."""
    failures: tuple[Fault, ...]

    @property
    def named_nodes(self) -> tuple[str, ...]:
        """Return the nodes that were named, each once: which end of a link is slow is left to the operator."""
        alone = [one.node for one in self.suspects_alone if one.status is SuspectStatus.NAMED]
        held = [one.node for one in self.held_back if one.named]
        pairs = [one.nodes[0] for one in self._suspects_named(1)]
        dead = self.apart.nodes if self.apart is not None else ()
        sometimes = [one.node for one in self.sometimes_slow]
        return tuple(dict.fromkeys([*held, *alone, *pairs, *sometimes, *dead, *self.at_fault]))

    @property
    def at_fault(self) -> tuple[str, ...]:
        """Return the nodes that report other rates than most of their partners, each once."""
        return tuple(dict.fromkeys(one.at_fault for one in self.ends_differ if one.at_fault is not None))

    @property
    def named(self) -> tuple[str, ...]:
        """Return what was named: nodes, then links as ``gpu01 - gpu02``."""
        links = [" - ".join(one.nodes) for one in self._suspects_named(2)]
        return (*self.named_nodes, *dict.fromkeys(links))

    def _suspects_named(self, ends: int) -> list[Suspect]:
        return [one for one in self.suspects if one.status is SuspectStatus.NAMED and len(one.nodes) == ends]
