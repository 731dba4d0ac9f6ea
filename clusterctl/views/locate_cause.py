"""Why something that ``locate`` named may be slow: what the other measurements exclude, and what the facts show."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from clusterctl.documents.evidence import FactDifference
from clusterctl.documents.locate import (
    Locate,
    Suspect,
    SuspectAlone,
    SuspectStatus,
    SuspectTest,
    SuspectTestStatus,
)
from clusterctl.documents.proof import HardwareEvent
from clusterctl.inventory import nodeset
from clusterctl.report.text import health
from clusterctl.text.grouping import grouped
from clusterctl.workloads.locate.alone import LEAST_PEERS
from clusterctl.workloads.locate.trial import NAMED_BELOW

_MOST_SHOWN = 4
_QUOTA = "the CPU quota above may be the reason: raise it, then run locate again"
_TO_OR_FROM_HOST = ("host-to-device", "device-to-host")


def of_pairs(one: Suspect, found: Locate, rails: int) -> Iterator[str]:
    """Yield sentences about a rail or link that was named."""
    tests: dict[str, SuspectTest] = {test.test: test for test in one.tests}
    if len(one.nodes) == 2:
        yield f"both nodes are fine with all other partners: the path between these two{_one_way(one, tests)}"
    else:
        yield _where(one, found, rails, tests.get("alone"))
        direction = _direction(tests)
        if direction:
            yield direction
    yield from _facts(one.nodes, one.interface, found)


def of_alone(one: SuspectAlone, found: Locate) -> Iterator[str]:
    """Yield sentences about a rank that was slow without any other rank."""
    if _is_held_back(one.node, found):
        yield _QUOTA
    elif one.measure in _TO_OR_FROM_HOST:
        yield "the PCIe path between host and GPU"
    else:
        yield "the GPU or CPU itself: clocks, power, temperature, other load"
    yield from _facts((one.node,), None, found)


def _where(one: Suspect, found: Locate, rails: int, alone: SuspectTest | None) -> str:
    """Return which part of the node the other measurements leave."""
    node = one.nodes[0]
    named = [o for o in found.suspects if o.status is SuspectStatus.NAMED and o.nodes == one.nodes]
    if _is_held_back(node, found):
        return _QUOTA
    if any(o.node == node and o.status is SuspectStatus.NAMED for o in found.suspects_alone):
        return "it is slow without the network too: look at the node (CPU, GPU, power, PCIe) first"
    if alone is not None and alone.status is SuspectTestStatus.WELL:
        return "well while the node's other rails pause: what its rails share (CPU, PCIe switch, IOMMU)"
    if alone is not None and alone.status is SuspectTestStatus.SLOW:
        return (
            "slow also while the node's other rails pause: each of its slow rails, or a setting of the node"
        )
    if rails > 1 and len(named) == 1:
        return "its other rails are fine: this rail's NIC, cable or switch port"
    if rails > 1 and len(named) == rails:
        return "all of its rails are slow: the host (CPU, PCIe switch, IOMMU), not one NIC"
    rest = "the NIC, its cable or switch port, or the host's PCIe"
    judged = node not in {one.node for one in found.unlike if one.peers < LEAST_PEERS}
    return f"its own CPU or GPU is well: {rest}" if judged else rest


def _is_held_back(node: str, found: Locate) -> bool:
    return any(one.node == node and one.named for one in found.held_back)


def _direction(tests: dict[str, SuspectTest]) -> str:
    """Return in which direction a rail is slow; empty if the tests do not decide it."""
    sends, receives = tests.get("sends"), tests.get("receives")
    if sends is None or receives is None:
        return ""
    slow, well = SuspectTestStatus.SLOW, SuspectTestStatus.WELL
    if sends.status is slow and receives.status is slow:
        return f"in both directions: it sends {_loss(sends)} and receives {_loss(receives)} slower"
    if sends.status is slow and receives.status is well:
        return (
            f"only when it sends ({_loss(sends)} slower), not when it receives: its transmitter, or the cable"
        )
    if sends.status is well and receives.status is slow:
        return f"only when it receives ({_loss(receives)} slower), not when it sends: its receiver, or a congested port"
    if sends.status is receives.status is well:
        return "well in each direction alone, slow in both at once: PCIe, CPU, or a half-duplex link"
    return ""


def _one_way(one: Suspect, tests: dict[str, SuspectTest]) -> str:
    forth, back = tests.get("sends"), tests.get("receives")
    slow, well = SuspectTestStatus.SLOW, SuspectTestStatus.WELL
    if forth is None or back is None or {forth.status, back.status} != {slow, well}:
        return ""
    source, target = one.nodes if forth.status is slow else one.nodes[::-1]
    return f", only from {source} to {target} ({_loss(forth if forth.status is slow else back)} slower)"


def _loss(test: SuspectTest) -> str:
    return f"{100 * (1 - test.ratio):.0f} %"


def _facts(nodes: tuple[str, ...], interface: str | None, found: Locate) -> Iterator[str]:
    """Yield what differs on these nodes; a rail's sentence leaves out the interfaces of other rails."""
    others = {one.interface for one in found.suspects if one.interface} - {interface}
    for node in nodes:
        own = [one for one in found.differences if one.node == node and not _is_about(one, others, interface)]
        shown = [f"{one.fact} {one.value}, others {one.others}" for one in own[:_MOST_SHOWN]]
        if len(own) > _MOST_SHOWN:
            shown.append(f"and {len(own) - _MOST_SHOWN} more (--json)")
        if shown:
            yield f"{f'{node} ' if len(nodes) > 1 else ''}differs from its peers: {'; '.join(shown)}"
        for event in _events(found, node)[:_MOST_SHOWN]:
            meaning = f" ({event.meaning})" if event.meaning else ""
            yield f"{f'{node} ' if len(nodes) > 1 else ''}during the run: {event.place}: {event.what}{meaning}"


def _events(found: Locate, node: str) -> list[HardwareEvent]:
    return [one for one in (found.health.events if found.health else ()) if one.node == node]


def health_of_others(found: Locate, named: Collection[str]) -> list[str]:
    """Return the lines on what the hardware of nodes without a name reported, and on what was not read."""
    if found.health is None:
        return []
    events = tuple(one for one in found.health.events if one.node not in named)
    return health.lines(found.health.model_copy(update={"events": events}))


def _is_about(one: FactDifference, others: set[str], interface: str | None) -> bool:
    words = set(re.split(r"[ .]", one.fact))
    return bool(words & others) and interface is not None and interface not in words


def of_unlike(one: Suspect, found: Locate) -> Iterator[str]:
    """Yield why a slow rail is not named, if its device is not that of the others."""
    own = [u for u in found.unlike if (u.node, u.place) == (one.nodes[0], one.place)]
    if len(one.nodes) == 1 and own and one.ratio < NAMED_BELOW:
        yield f"not named, because its device differs: {own[0].device}, others {own[0].others}"


def unlike(found: Locate) -> Iterator[str]:
    """Yield a line for each device that few ranks have."""
    devices = grouped(((one.device, one.others, one.peers), one.node) for one in found.unlike)
    for (device, others, peers), nodes in devices.items():
        how = "compared alone only with each other" if peers >= LEAST_PEERS else "not compared alone"
        beside = f" (most: {others})" if others != device else ""
        yield f"{nodeset.fold(list(dict.fromkeys(nodes)))}: {device}{beside}: {how}"
