"""The parts of a proof that stages make and read themselves; without pydantic, so that imports stay quick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from clusterctl.documents.kinds import Compatibility, FaultKind

GpuDirectStatus = Literal[
    "proven", "sockets", "no-gpudirect", "too-far", "unsupported", "no-rdma", "nvlink", "unknown"
]
_FALLEN_BACK: tuple[GpuDirectStatus, ...] = ("sockets", "no-gpudirect")


def _as_written(shown: dict[str, Any]) -> None:
    """Describe in the JSON Schema that every field is always written."""
    shown["required"] = list(shown["properties"])
    for field_ in shown["properties"].values():
        field_.pop("default", None)


class Closed:
    """An object inside a document; unknown fields are rejected."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "json_schema_extra": _as_written}


@dataclass(frozen=True, slots=True)
class Fault(Closed):
    """One thing that is wrong with a run, the rank and node that it concerns, and what to do."""

    kind: FaultKind
    message: str
    rank: int | None = None
    node: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class RankProof(Closed):
    """Where one rank ran, as that rank reported it; of a program of the user, where it was placed (``pid`` 0)."""

    rank: int
    host: str
    pid: int
    device: str


@dataclass(frozen=True, slots=True)
class RankSpeed(Closed):
    """The images or sequences per second of a rank, and 1.96 sigma of its windows."""

    rank: int
    host: str | None
    samples_per_s: float
    spread: float


@dataclass(frozen=True, slots=True)
class GpuDirectNode(Closed):
    """One node's verdict: the transports of its channels to other nodes with their counts, and the cause."""

    name: str
    status: GpuDirectStatus
    send: Mapping[str, int] = field(default_factory=dict)
    receive: Mapping[str, int] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    cause: str | None = None
    hint: str | None = None

    @property
    def fallen_back(self) -> bool:
        """Tell whether the run was slow on this node for a reason that can be fixed."""
        return self.status in _FALLEN_BACK


@dataclass(frozen=True, slots=True)
class GraphSearch(Closed):
    """One line of NCCL's search for rings and trees (src/graph/search.cc): GB/s per channel, and path types."""

    pattern: int
    channels: int
    intra_gbps: float
    inter_gbps: float
    intra_path: str
    inter_path: str


@dataclass(frozen=True, slots=True)
class Choice(Closed):
    """The algorithm and protocol that NCCL chose for a collective and size in bytes (subsystem TUNING)."""

    collective: str
    size_bytes: int
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True)
class RankPath(Closed):
    """One rank's path; ``why``: the reason that NCCL served it alone. Calls are by NCCL's names.

    ``chosen``: who the tuner chose, by the collective and the power of two of bytes: ``all_reduce 2^20``.
    """

    rank: int
    path: str | None = None
    why: str | None = None
    taken: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Calls(Closed):
    """How many operations of one kind and size in bytes used an algorithm, of those that were looked at."""

    operation: str
    size_bytes: int
    algorithm: str
    calls: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class SlowPart(Closed):
    """A rail of a node, or a link of two, that was confirmed as slow, as in the document of ``locate``."""

    nodes: tuple[str, ...]
    place: int
    interface: str | None
    ratio: float
    chance: float


@dataclass(frozen=True, slots=True)
class NvLinkBundle(Closed):
    """The NVLinks from one GPU to another GPU or to the NVSwitches."""

    gpu: str
    to: str
    links: int


@dataclass(frozen=True, slots=True)
class ChannelOrder(Closed):
    """The order in which channels pass the GPUs of a node, and the cards by which they enter and leave it."""

    gpus: tuple[str, ...]
    enters: str
    leaves: str
    channels: int


@dataclass(frozen=True, slots=True)
class GraphOfNode(Closed):
    """One graph that NCCL chose for a node; GB/s of each channel inside the node and between nodes."""

    name: str
    channels: int
    intra_gbps: float | None
    inter_gbps: float | None
    intra_path: str
    inter_path: str
    orders: tuple[ChannelOrder, ...]


@dataclass(frozen=True, slots=True)
class CompatibilityFinding(Closed):
    """One requirement of software in an image on the image or the host: its name, the result, and both values."""

    what: str
    judgement: Compatibility
    reason: str


@dataclass(frozen=True, slots=True)
class VersionOnNodes(Closed):
    """A version, and the nodes that have it; ``version`` None: these nodes have none."""

    version: str | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SoftwareVersion(Closed):
    """The versions of one software in the image and on the hosts; empty where it was not looked for."""

    name: str
    image: tuple[VersionOnNodes, ...]
    host: tuple[VersionOnNodes, ...]


@dataclass(frozen=True, slots=True)
class SoftwareVersions(Closed):
    """The versions of all software that a launch uses, and whether they fit together."""

    rows: tuple[SoftwareVersion, ...]
    findings: tuple[CompatibilityFinding, ...]

    @property
    def unfit(self) -> tuple[CompatibilityFinding, ...]:
        """Return what does not fit, or may not."""
        return tuple(one for one in self.findings if one.judgement is not Compatibility.FITS)


@dataclass(frozen=True, slots=True)
class FactDifference(Closed):
    """A fact in which a named node differs from most nodes of its kind: a reason to look at, not a proof."""

    node: str
    fact: str
    value: str
    others: str


@dataclass(frozen=True, slots=True)
class PairAlone(Closed):
    """Two nodes that ran alone after a launch of all nodes failed and named none; ``why`` is None if they worked."""

    nodes: tuple[str, str]
    why: str | None = None


@dataclass(frozen=True, slots=True)
class PairsAlone(Closed):
    """All such pairs, the ``nodes`` and ``links`` that fail, and the failed pairs that neither explains (``open``)."""

    pairs: tuple[PairAlone, ...] = ()
    nodes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    open: tuple[tuple[str, str], ...] = ()

    @property
    def is_explained(self) -> bool:
        """Return whether some pair failed, and a node or link explains each one that did."""
        return bool(self.nodes or self.links) and not self.open
