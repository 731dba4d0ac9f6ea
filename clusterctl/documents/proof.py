"""``proof`` of a result of ``bench``: where the ranks ran, and what shows whether its figures can be believed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import ConfigDict, JsonValue

from clusterctl.documents.base import Part, Sparse
from clusterctl.documents.evidence import (
    Calls,
    Choice,
    Fault,
    GpuDirectNode,
    GraphOfNode,
    GraphSearch,
    NvLinkBundle,
    RankPath,
    RankProof,
    RankSpeed,
    SlowPart,
    SoftwareVersions,
)
from clusterctl.documents.kinds import Effect


class HardwareEvent(Sparse):
    """What happened at one place of a node during a run.

    ``by`` is the growth of a counter, or how often the event was logged; null for a state. ``source`` says where the
    meaning comes from. ``repeat``, from 1, is present in runs with repeats.
    """

    node: str
    place: str
    name: str
    what: str
    effect: Effect
    by: int | None
    meaning: str
    source: str
    repeat: int | None = None


class Unread(Part):
    """What could not be compared on a node."""

    node: str
    reason: str


class HardwareHealth(Part):
    """What the hardware reported during a run; ``doubtful``: the figures may not be those of healthy hardware."""

    doubtful: bool
    events: tuple[HardwareEvent, ...]
    unread: tuple[Unread, ...]


def health_of_all(entries: Iterable[HardwareHealth | None]) -> HardwareHealth | None:
    """Return the entry ``health`` of several measurements together; None if none of them has one."""
    found = [entry for entry in entries if entry is not None]
    if not found:
        return None
    return HardwareHealth(
        doubtful=any(entry.doubtful for entry in found),
        events=tuple(event for entry in found for event in entry.events),
        unread=tuple({(one.node, one.reason): one for entry in found for one in entry.unread}.values()),
    )


class GpuDirect(Part):
    """Whether the nodes used GPUDirect RDMA; ``status`` is that of the worst node."""

    status: Literal["proven", "fallen-back", "not-used", "unknown"]
    nodes: tuple[GpuDirectNode, ...]


class NcclProof(Part):
    """What NCCL logged; ``algorithms`` only if it logs them."""

    versions: tuple[str, ...]
    networks: tuple[str, ...]
    plugins: tuple[str, ...]
    connected: tuple[str, ...]
    graphs: tuple[GraphSearch, ...]
    algorithms: tuple[Choice, ...]


class UsageProof(Sparse):
    """What the ranks reported to have used: ``read`` are variables that all of them read, ``algorithms`` rank 0's.

    ``mechanisms`` are the least calls of all ranks. ``same_algorithms_as`` names the first variant, if a variant with
    other settings chose the same ones.
    """

    read: dict[str, str]
    proven: dict[str, str]
    mechanisms: dict[str, int]
    algorithms: tuple[Calls, ...]
    same_algorithms_as: str | None = None


class Expected(Part):
    """The bus bandwidth (GB/s) that the hardware allows, and the measured share of it."""

    verdict: Literal["fine", "warn", "slow", "impossible", "unknown"]
    reason: str
    formula: str | None
    expected_busbw_gbps: float | None
    limit_busbw_gbps: float | None
    size_bytes: int | None
    busbw_gbps: float | None
    share: float | None


class RankNeighbours(Part):
    """The GB/s of a rank with each of its neighbours, and the best of them."""

    rank: int
    host: str
    gbps: float
    gbps_with: dict[str, float]


class NeighbourRates(Part):
    """The rates of ranks with their neighbours, for messages of this size."""

    size_bytes: int
    ranks: tuple[RankNeighbours, ...]


class SlowRank(Sparse):
    """A rank that is slower than its peers: its samples per second in a training, its GB/s in a collective."""

    rank: int
    host: str | None
    samples_per_s: float | None = None
    median_samples_per_s: float | None = None
    gbps: float | None = None
    median_gbps: float | None = None
    loss: float


class TopologyPart(Sparse):
    """A switch, GPU or network card, its link upwards, and what is below it; ``degraded``: what is wrong."""

    kind: Literal["switch", "gpu", "nic"]
    name: str
    address: str
    link: str
    rate: str | None = None
    degraded: str | None = None
    below: tuple[TopologyPart, ...] | None = None


class TopologyDomain(Part):
    """What is attached to the CPUs of one NUMA node."""

    name: str
    below: tuple[TopologyPart, ...]


class TopologyGroup(Sparse):
    """Nodes with the same topology; the parts of groups beyond the largest are left out."""

    nodes: tuple[str, ...]
    source: Literal["nccl", "facts"]
    domains: tuple[TopologyDomain, ...] | None = None
    nvlinks: tuple[NvLinkBundle, ...] | None = None
    graphs: tuple[GraphOfNode, ...] | None = None
    other_graphs: tuple[str, ...] | None = None


class UnequalPart(Part):
    """A part that differs between two groups of nodes."""

    name: str
    value: str
    other: str


class TopologyDifference(Part):
    """How ``nodes`` differ from the largest group; ``more`` parts are left out."""

    nodes: tuple[str, ...]
    like: tuple[str, ...]
    parts: tuple[UnequalPart, ...]
    more: int


class Topology(Part):
    """The groups of nodes with equal topologies, the largest first, and their differences."""

    groups: tuple[TopologyGroup, ...]
    differences: tuple[TopologyDifference, ...]


class NoisyFigure(Part):
    """A figure whose recorded repeats vary too much; ``needed``: about how many would do, null if none would."""

    np: int
    size_bytes: int | None
    unit: str
    cv: float
    repeats: int
    needed: int | None


class UnrecordedFigure(Part):
    """A figure that the baseline does not hold."""

    np: int
    size_bytes: int | None


class FigureBelow(Part):
    """A figure below its baseline; ``loss`` and ``allowed`` are shares."""

    np: int
    size_bytes: int | None
    unit: str
    value: float
    baseline: float
    loss: float
    allowed: float


class BaselineVerdict(Part):
    """The run compared with a baseline: how many of its ``figures`` were ``judged``, and which are below."""

    name: str
    verdict: Literal["ok", "below-baseline", "not-judged", "no-match"]
    reason: str | None
    hint: str | None
    judged: int
    figures: int
    too_noisy: tuple[NoisyFigure, ...]
    not_recorded: tuple[UnrecordedFigure, ...] = ()
    below: tuple[FigureBelow, ...]


class VariantProof(Sparse):
    """What the repeats of one variant show about its figures. An entry is omitted where it does not apply.

    ``stragglers`` are by the number of ranks. A variant with a setting that nothing proves has the reason in
    ``refused`` and no ratio. Entries that later versions add are kept as they are.
    """

    model_config = ConfigDict(extra="allow")

    health: HardwareHealth | None = None
    gpudirect: GpuDirect | None = None
    nccl: NcclProof | None = None
    paths: tuple[RankPath, ...] | None = None
    """How collective_core moved the data; empty if its library in front of NCCL took no call."""
    usage: UsageProof | None = None
    sharing: str | None = None
    """How ranks share GPUs."""
    expected: Expected | None = None
    stragglers: dict[str, tuple[SlowRank, ...]] | None = None
    refused: str | None = None


class Proof(Sparse):
    """What a run shows about its own figures, beside what its variants do. An entry is omitted where it does not apply.

    ``spread``, ``rates`` and ``losses`` are by the number of ranks. Entries that later versions add are kept as they
    are.
    """

    model_config = ConfigDict(extra="allow")

    clusterctl_version: str | None = None
    ranks: tuple[RankProof, ...] | None = None
    library: tuple[str, ...] | None = None
    """The versions that the ranks reported."""
    transports: tuple[str, ...] | None = None
    spread: dict[str, float] | None = None
    """1.96 sigma of the samples per second of the rank with the widest spread."""
    rates: dict[str, tuple[RankSpeed, ...]] | None = None
    losses: dict[str, tuple[float | None, ...]] | None = None
    """The loss at the end of each window, the mean of all ranks."""
    versions: SoftwareVersions | None = None
    """The software of the image and of the hosts."""
    settings: dict[str, JsonValue] | None = None
    hardware: str | None = None
    neighbours: NeighbourRates | None = None
    slow: tuple[SlowPart, ...] | None = None
    failures: tuple[Fault, ...] | None = None
    topology: Topology | None = None
    baseline: BaselineVerdict | None = None
    min_efficiency: float | None = None
    """The least efficiency that was asked for, as a share; points with more than one rank are judged by it."""

    @property
    def more(self) -> frozenset[str]:
        """Return the names of the entries that a later version added."""
        return frozenset(self.model_extra or ())
