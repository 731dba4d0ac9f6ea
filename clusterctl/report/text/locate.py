"""The screen of ``locate``: what is slow first, then what was cleared, then the range of all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clusterctl.documents.locate import (
    Locate,
    LocateStatus,
    SometimesSlow,
    Suspect,
    SuspectAlone,
    SuspectStatus,
)
from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.text import locate_cause
from clusterctl.wording import counted

_MOST_PAIRS = 4
_MEASURES = {
    "gemm": "matrix multiplication",
    "hash": "hashing on its CPU",
    "memory": "copies in its own memory",
    "host-to-device": "copies to the GPU",
    "device-to-host": "copies from the GPU",
}


@dataclass(frozen=True, slots=True)
class LocateEntry:
    """One thing that the report lists: how its confirmation ended (None: no suspect), what it is, and why."""

    status: SuspectStatus | None
    said: str
    why: tuple[str, ...] = ()

    @property
    def lines(self) -> str:
        """Return the lines on the terminal; further lines of a text are indented, as those that say why."""
        return "\n".join([self.said, *self.why]).replace("\n", "\n    ")


def text(found: Locate) -> str:
    """Return the report."""
    if found.status is LocateStatus.FAILED:
        return "locate: no verdict, because the run failed"
    lines = [f"locate: {size(found)}, {measured(found)}; {false_alarms(found)}"]
    lines += _nothing_named(found)
    lines += [one.lines for one in entries(found)]
    lines.append(_others(found))
    lines += locate_cause.health_of_others(found, _described(found))
    return "\n".join(lines)


def _nothing_named(found: Locate) -> Iterator[str]:
    """Yield the verdict of a run without names; two nodes cannot get one."""
    if found.status is LocateStatus.NONE and found.nodes > 2:
        ends = [*(one.status for one in found.suspects), *(one.status for one in found.suspects_alone)]
        again = "; run locate again to decide what is undecided" if SuspectStatus.OPEN in ends else ""
        yield f"no node, rail or link was named as slow{again}"


def size(found: Locate) -> str:
    """Return the number of nodes and rails."""
    rails = rails_of(found)
    return f"{counted(found.nodes, 'node')} x {counted(rails, 'rail')}"


def measured(found: Locate) -> str:
    """Return what was measured, and how long it took."""
    again = f", {found.repeated} rounds more" if found.repeated else ""
    return f"{found.rounds} rounds, {found.windows} windows alone{again}, {found.duration_s:.0f} s"


def false_alarms(found: Locate) -> str:
    """Return the bound of names in a healthy fleet."""
    return f"at most {found.false_alarms_per_run * 1000:g} false alarms in 1000 runs of a healthy fleet"


def rails_of(found: Locate) -> int:
    """Return the number of rails."""
    return 1 + max((one.place for one in found.rates), default=0)


def entries(found: Locate) -> list[LocateEntry]:
    """Return what was found: what is slow first, then what is undecided or was cleared, then what concerns all."""
    rails, listed = rails_of(found), _held_back(found)
    for status in (SuspectStatus.NAMED, SuspectStatus.OPEN, SuspectStatus.CLEARED):
        listed += [_alone(one, found, rails) for one in found.suspects_alone if one.status is status]
        listed += [_pairs(one, found, rails) for one in found.suspects if one.status is status]
    listed += [
        LocateEntry(SuspectStatus.NAMED, _sometimes(one, rails))
        for one in found.sometimes_slow
        if one.node not in _named(found)
    ]
    listed += _ends_differ(found, rails)
    return listed + [LocateEntry(None, line) for line in _of_all(found)]


def _ends_differ(found: Locate, rails: int) -> Iterator[LocateEntry]:
    """Yield the nodes that report other rates than their partners, then the pairs in which either node may be wrong."""
    by_fault = grouped((one.at_fault, one) for one in found.ends_differ)
    for node, pairs in by_fault.items():
        if node is None:
            continue
        first = pairs[0]
        own, other = (first.gbps, first.gbps[::-1])[first.nodes.index(node)]
        partners = [name for one in pairs for name in one.nodes if name != node]
        said = (
            f"{node}{_rail(first.place, first.interface, rails)}: reports other rates than {nodeset.fold(partners)}, "
            f"which agree with each other: {speed(own)}, not {speed(other)}"
        )
        why = "a rank that is disturbed after each message, or one that reports false rates: its pairs do not count"
        yield LocateEntry(SuspectStatus.NAMED, said, (why,))
    unknown = by_fault.get(None, [])
    for one in unknown[:_MOST_PAIRS]:
        yield LocateEntry(
            SuspectStatus.OPEN,
            f"{one.nodes[0]} - {one.nodes[1]}{_rail(one.place, one.interface, rails)}: open: {one.nodes[0]} reports "
            f"{speed(one.gbps[0])} and {one.nodes[1]} {speed(one.gbps[1])}, so this pair does not count",
        )
    if len(unknown) > _MOST_PAIRS:
        more = counted(len(unknown) - _MOST_PAIRS, "more pair")
        yield LocateEntry(SuspectStatus.OPEN, f"{more} whose ends report different rates (--json lists them)")


def _held_back(found: Locate) -> list[LocateEntry]:
    """Return the nodes that a CPU quota held back; one entry without a name if the quota is that of all ranks."""
    named = [
        LocateEntry(SuspectStatus.NAMED, f"{one.node} {one.device}: {one.what}", (one.fix,))
        for one in found.held_back
        if one.named
    ]
    common = [one for one in found.held_back if not one.named]
    if not common:
        return named
    nodes, longest = nodeset.fold({one.node for one in common}), max(common, key=lambda one: one.stopped_s)
    said = f"note: equal CPU quotas held back every rank, on {nodes}; most on {longest.node}: {longest.what}"
    return [*named, LocateEntry(None, said, (longest.fix,))]


def _of_all(found: Locate) -> Iterator[str]:
    for one in found.slow_rails:
        yield f"rail {one.place}: {_loss(one.ratio)} on all nodes: its switch, or a setting of all nodes"
    if found.boundary is not None:
        yield (
            f"pairs {found.boundary.nodes} nodes apart and more are {_loss(found.boundary.ratio)} than nearer ones: "
            "a level of the network is slow or oversubscribed"
        )
    yield from locate_cause.unlike(found)
    yield from _slow_windows(found)
    if found.gpus_not_measured:
        yield f"the GPUs of {nodeset.fold(found.gpus_not_measured)} were not measured: pairs moved host memory"
    for group in found.groups:
        yield (
            f"inconclusive: on rail {group.place}, {nodeset.fold(group.slow)} {_are(group.slow)} "
            f"{_loss(group.ratio)} than {nodeset.fold(group.fast)}; neither group is small enough to be the exception"
        )


def _slow_windows(found: Locate) -> Iterator[str]:
    """Yield a line for each window that differs: its rates do not count, since each rank's best window does."""
    for number in sorted({one.window for one in found.slow_windows}):
        of_it = [one for one in found.slow_windows if one.window == number]
        nodes = nodeset.fold(dict.fromkeys(node for one in of_it for node in one.nodes))
        what = ", ".join(_MEASURES.get(one.measure, one.measure) for one in of_it)
        yield (
            f"window {number} of {found.windows}: {nodes}: up to {_loss(min(one.ratio for one in of_it))} than in the "
            f"best window of the same rank ({what}); the best window counts; likely causes: another program, or "
            "throttling"
        )


def _are(nodes: tuple[str, ...]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _loss(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f} % slower"


def speed(gbps: float) -> str:
    return f"{gbps:.3g} GB/s" if gbps >= 1 else f"{1000 * gbps:.3g} MB/s"


def _described(found: Locate) -> set[str]:
    """Return the nodes below whose name the report says why."""
    alone = {one.node for one in found.suspects_alone if one.status is SuspectStatus.NAMED}
    return alone | _named(found)


def _named(found: Locate) -> set[str]:
    """Return the nodes that are slow in all rounds, for which counting rounds adds nothing."""
    return {node for one in found.suspects if one.status is SuspectStatus.NAMED for node in one.nodes}


def _sometimes(one: SometimesSlow, rails: int) -> str:
    return (
        f"{one.node}{_rail(one.place, one.interface, rails)}: sometimes slow: in {one.low} of {one.rounds} rounds, "
        f"others in {100 * one.fleet_share:.0f} % (chance {one.chance:.1g})"
    )


def _rail(place: int, interface: str | None, rails: int) -> str:
    name = f" rail {place}" if rails > 1 else ""
    return f"{name} ({interface})" if interface and rails > 1 else name


def _alone(one: SuspectAlone, found: Locate, rails: int) -> LocateEntry:
    who = f"{one.node}{_rail(one.place, None, rails)}"
    what = _MEASURES.get(one.measure, one.measure)
    if one.status is SuspectStatus.CLEARED:
        said = f"{who}: cleared: {what} was slow at first, and not in {one.windows} windows"
        return LocateEntry(one.status, said)
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    said = f"{who}: {how} alone: {what} {_loss(one.ratio)} than its peers (chance {one.chance:.1g})"
    why = locate_cause.of_alone(one, found) if one.status is SuspectStatus.NAMED else ()
    return LocateEntry(one.status, said, tuple(why))


def _pairs(one: Suspect, found: Locate, rails: int) -> LocateEntry:
    rail = _rail(one.place, one.interface, rails)
    who = f"{one.nodes[0]}{rail}" if len(one.nodes) == 1 else f"link {one.nodes[0]} - {one.nodes[1]}{rail}"
    if one.status is SuspectStatus.CLEARED:
        said = f"{who}: cleared: low in {one.low_with} of {one.partners} rounds, well in confirmation"
        return LocateEntry(one.status, said)
    seen = f"low in {one.low_with} of {one.partners} rounds" if len(one.nodes) == 1 else "low each time"
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    said = f"{who}: {how}: {_loss(one.ratio)} than pairs beside it, {seen} and in {one.confirmations} confirmations"
    said += f" (chance {one.chance:.1g})"
    if one.status is SuspectStatus.NAMED:
        return LocateEntry(one.status, said, tuple(locate_cause.of_pairs(one, found, rails)))
    return LocateEntry(one.status, said, tuple(locate_cause.of_unlike(one, found)))


def _others(found: Locate) -> str:
    named = {node for one in found.suspects if one.status is not SuspectStatus.CLEARED for node in one.nodes}
    rates = [one.gbps for one in found.rates if one.node not in named] or [one.gbps for one in found.rates]
    nodes = len({one.node for one in found.rates} - named)
    if not rates:
        return "no pairs were measured: that takes two nodes, and three to name the slow one"
    ends = dict.fromkeys((speed(min(rates)), speed(max(rates))))
    span = f"{' to '.join(ends)} in each direction"
    if found.nodes == 2:
        return f"the link of the two nodes: {span}; with two nodes a slow link cannot be distinguished from a slow node"
    return f"{'the other ' if named else ''}{counted(nodes, 'node')}: {span}"
