"""The figures of a view as values: charts, strips of dots, and topologies; ``report.html`` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.report.scale import Tick

if TYPE_CHECKING:
    from clusterctl.documents.proof import TopologyGroup


@dataclass(frozen=True, slots=True)
class Mark:
    """One measured value: its position, its tooltip, and the bounds of its repeats (None: not known)."""

    x: float
    y: float
    says: str
    bounds: tuple[float, float] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Measured values that form one line."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """Expected values, as a dashed line through some points."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its title with the unit, its bounds, and a function from the largest number of ticks to ticks."""

    title: str
    low: float
    high: float
    ticks: Callable[[int], Sequence[Tick]]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with a description for screen readers."""

    name: str
    """Unique on its page; letters and hyphens."""
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[ChartSeries, ...]
    references: tuple[Reference, ...] = field(default=())
    whiskers: str = ""
    """What the bars at the marks show, for the legend."""
    closeup: Chart | None = None
    """The same figures on another scale, for a reader who asks for it."""

    @property
    def has_whiskers(self) -> bool:
        return any(mark.bounds for series in self.series for mark in series.marks)


@dataclass(frozen=True, slots=True)
class Dot:
    """One value and what it belongs to; ``bad`` if its verdict is a warning or a failure."""

    name: str
    value: float
    bad: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The distribution of the values of a fleet, and the threshold, if there is one number for all."""

    title: str
    about: str
    dots: tuple[Dot, ...]
    limit: float | None
    note: str


@dataclass(frozen=True, slots=True)
class GpuChain:
    """The order of GPUs in some channels; a ring returns from the last to the first."""

    title: str
    gpus: tuple[str, ...]
    is_ring: bool = False
    is_linked: bool = True


@dataclass(frozen=True, slots=True)
class ShownGraph:
    """One graph of NCCL: its heading, and its orders of GPUs."""

    title: str
    orders: tuple[GpuChain, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Nodes with one topology; ``unequal`` names the parts that differ from those of other nodes."""

    name: str
    """Unique on its page."""
    title: str
    source: str
    group: TopologyGroup
    unequal: frozenset[str]
    graphs: tuple[ShownGraph, ...]
    other_graphs: str


@dataclass(frozen=True, slots=True)
class TopologySection:
    """The groups of nodes with one topology, and how they differ."""

    differences: tuple[str, ...]
    groups: tuple[ShownGroup, ...]
