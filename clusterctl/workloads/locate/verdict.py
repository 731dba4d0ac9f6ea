"""What a search found: units (the rank of one place on a node, so a rail), links, or two groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from clusterctl.workloads.locate.rounds import Pair


class SuspectState(Enum):
    """Why a unit or link is listed."""

    NAMED = "named"
    CLEARED = "cleared"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspect after its confirmation.

    ``ratio`` is the median of its rate over that of its controls; ``chance`` how likely ranks as low as these are for a
    healthy one; ``low_with`` and ``partners`` count the first rounds.
    """

    nodes: tuple[int, ...]
    place: int
    status: SuspectState
    ratio: float
    chance: float
    rounds: int
    low_with: int
    partners: int

    @property
    def is_link(self) -> bool:
        """Return whether it is a link between two nodes, and not a node's own rail."""
        return len(self.nodes) == 2


@dataclass(frozen=True, slots=True)
class Groups:
    """Two groups of units of one place that differ, of which neither is a small minority."""

    place: int
    slow: tuple[int, ...]
    fast: tuple[int, ...]
    slow_ratio: float


@dataclass(frozen=True, slots=True)
class Boundary:
    """Pairs at a distance of ``group`` nodes and more are slower than those below it: a level of the network."""

    group: int
    ratio: float


@dataclass(frozen=True, slots=True)
class SlowPlace:
    """A rail that is slow on all nodes."""

    place: int
    ratio: float


@dataclass(frozen=True, slots=True)
class LocateVerdict:
    """The end of a search. ``best`` is each unit's best rate in GB/s, by (node, place), ``pairs`` that of each pair."""

    findings: tuple[Finding, ...] = ()
    groups: tuple[Groups, ...] = ()
    boundary: Boundary | None = None
    slow_places: tuple[SlowPlace, ...] = ()
    rounds: int = 0
    best: dict[tuple[int, int], float] = field(default_factory=dict)
    pairs: dict[tuple[Pair, int], float] = field(default_factory=dict)

    @property
    def named(self) -> tuple[Finding, ...]:
        """Return the suspects whose confirmation succeeded."""
        return tuple(one for one in self.findings if one.status is SuspectState.NAMED)

    @property
    def is_inconclusive(self) -> bool:
        """Return whether too many units are slow to say which of two groups is the healthy one."""
        return bool(self.groups)


Values = dict[tuple[Pair, int], float]
"""The rates of one round in GB/s, by pair of nodes and place; what could not be measured is left out."""
