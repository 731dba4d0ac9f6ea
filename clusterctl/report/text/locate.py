"""The screen of ``locate``: what is slow first, then what was cleared, then the range of all others."""

from __future__ import annotations

from clusterctl.documents.locate import (
    Locate,
    LocateStatus,
    SometimesSlow,
    Suspect,
    SuspectAlone,
    SuspectStatus,
)
from clusterctl.inventory import nodeset

_MEASURES = {
    "gemm": "matrix multiplication",
    "memory": "copies in its own memory",
    "host-to-device": "copies to the GPU",
    "device-to-host": "copies from the GPU",
}


def text(found: Locate) -> str:
    """Return the report."""
    if found.status is LocateStatus.FAILED:
        return "locate: no verdict, because the run failed"
    rails = 1 + max((one.place for one in found.rates), default=0)
    again = f", {found.repeated} rounds more" if found.repeated else ""
    rounds = f"{found.rounds} rounds, {found.windows} windows alone{again}, {found.duration_s:.0f} s"
    wrong = f"at most {found.false_alarms_per_run * 1000:g} false alarms in 1000 runs of a healthy fleet"
    size = f"{found.nodes} node{'' if found.nodes == 1 else 's'} x {rails} rail{'' if rails == 1 else 's'}"
    lines = [f"locate: {size}, {rounds}; {wrong}"]
    for status in (SuspectStatus.NAMED, SuspectStatus.OPEN, SuspectStatus.CLEARED):
        lines += [_alone(one, rails) for one in found.suspects_alone if one.status is status]
        lines += [_pairs(one, found, rails) for one in found.suspects if one.status is status]
    lines += [_sometimes(one, rails) for one in found.sometimes_slow if one.node not in _named(found)]
    for one in found.slow_rails:
        lines.append(
            f"rail {one.place}: {_loss(one.ratio)} on all nodes: its switch, or a setting of all nodes"
        )
    if found.boundary is not None:
        lines.append(
            f"pairs {found.boundary.nodes} nodes apart and more are {_loss(found.boundary.ratio)} than nearer ones: "
            "a level of the network is slow or oversubscribed"
        )
    for group in found.groups:
        lines.append(
            f"inconclusive: on rail {group.place}, {nodeset.fold(group.slow)} {_are(group.slow)} "
            f"{_loss(group.ratio)} than {nodeset.fold(group.fast)}; neither group is small enough to be the exception"
        )
    lines.append(_others(found))
    return "\n".join(lines)


def _are(nodes: tuple[str, ...]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _loss(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f} % slower"


def _speed(gbps: float) -> str:
    return f"{gbps:.3g} GB/s" if gbps >= 1 else f"{1000 * gbps:.3g} MB/s"


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


def _alone(one: SuspectAlone, rails: int) -> str:
    who = f"{one.node}{_rail(one.place, None, rails)}"
    what = _MEASURES.get(one.measure, one.measure)
    if one.status is SuspectStatus.CLEARED:
        return f"{who}: cleared: {what} was slow at first, and not in {one.windows} windows"
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    return f"{who}: {how} alone: {what} {_loss(one.ratio)} than its peers (chance {one.chance:.1g})"


def _pairs(one: Suspect, found: Locate, rails: int) -> str:
    rail = _rail(one.place, one.interface, rails)
    who = f"{one.nodes[0]}{rail}" if len(one.nodes) == 1 else f"link {one.nodes[0]} - {one.nodes[1]}{rail}"
    if one.status is SuspectStatus.CLEARED:
        return f"{who}: cleared: low in {one.low_with} of {one.partners} rounds, well in confirmation"
    seen = f"low in {one.low_with} of {one.partners} rounds" if len(one.nodes) == 1 else "low each time"
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    line = f"{who}: {how}: {_loss(one.ratio)} than pairs beside it, {seen} and in {one.confirmations} confirmations"
    line += f" (chance {one.chance:.1g})"
    return f"{line}\n    {_why(one, found, rails)}" if one.status is SuspectStatus.NAMED else line


def _why(one: Suspect, found: Locate, rails: int) -> str:
    """Return what the other measurements say about the cause."""
    if len(one.nodes) == 2:
        return "both nodes are well with all other partners: the path between these two"
    node = one.nodes[0]
    named = [o for o in found.suspects if o.status is SuspectStatus.NAMED and o.nodes == one.nodes]
    if any(o.node == node and o.status is SuspectStatus.NAMED for o in found.suspects_alone):
        return "it is slow without the network too: look at the node (CPU, GPU, power, PCIe) first"
    if rails > 1 and len(named) == 1:
        return "its other rails are well: this rail's NIC, cable or switch port"
    if rails > 1 and len(named) == rails:
        return "all of its rails are slow: the host (CPU, PCIe switch, IOMMU), not one NIC"
    return "its own CPU or GPU is well: the NIC, its cable or switch port, or the host's PCIe"


def _others(found: Locate) -> str:
    named = {node for one in found.suspects if one.status is not SuspectStatus.CLEARED for node in one.nodes}
    rates = [one.gbps for one in found.rates if one.node not in named] or [one.gbps for one in found.rates]
    nodes = len({one.node for one in found.rates} - named)
    if not rates:
        return "no pairs were measured: that takes two nodes, and three to name the slow one"
    span = f"{_speed(min(rates))} to {_speed(max(rates))} in each direction"
    if found.nodes == 2:
        return f"the link of the two nodes: {span}; with two nodes a slow link cannot be distinguished from a slow node"
    return f"{'the other ' if named else ''}{nodes} nodes: {span}"
