"""Compare a node's clock with this machine's and the other nodes', and decide which of them is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from statistics import median
from typing import TYPE_CHECKING

from clusterctl.requirements.fleet.time_sync import daemon as time_daemon
from clusterctl.requirements.fleet.votes import OncePerFleet

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

DAY_S = 86400.0
FEW = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _beyond(difference_s: float, uncertainty_s: float, limit_s: float) -> bool:
    """Return whether clocks differ by more than the limit even after subtracting the uncertainty."""
    return abs(difference_s) - uncertainty_s > limit_s


def span(seconds: float) -> str:
    """Return a difference of clocks in seconds, minutes, hours, days or years, without its sign."""
    for unit, size_s, most_s in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 2 * DAY_S)):
        if abs(seconds) < most_s:
            return f"{abs(seconds) / size_s:.3g} {unit}"
    days = abs(seconds) / DAY_S
    return f"{days:.0f} days" if days < 730 else f"{days / 365.25:.0f} years"


def _date(gathered_at: float, offset_s: float) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=gathered_at + offset_s):%Y-%m-%d %H:%M}"
    except OverflowError:
        return "a year past 9999" if offset_s > 0 else "a year before Christ"


def _known(fleet: Fleet) -> dict[str, tuple[float, float]]:
    """Return the offset and uncertainty (seconds) of each clock that was read, by node."""
    return {
        name: (facts.clock.offset_s, facts.clock.uncertainty_s or 0.0)
        for name, facts in fleet.facts.items()
        if facts.clock.offset_s is not None
    }


_clocks = OncePerFleet(_known)
_middle = OncePerFleet(lambda fleet: median(value for value, _ in _clocks(fleet).values()))
_least_sure = OncePerFleet(lambda fleet: max(unsure for _, unsure in _clocks(fleet).values()))


def _of_the_others(name: str, fleet: Fleet) -> tuple[float, float]:
    """Return the median offset of the other nodes, and the largest uncertainty among them (seconds)."""
    clocks = _clocks(fleet)
    if len(clocks) > FEW:
        # In a large fleet one node hardly moves the median, so one median is computed for all nodes.
        return _middle(fleet), _least_sure(fleet)
    peers = [clock for other, clock in clocks.items() if other != name]
    if not peers:
        return 0.0, 0.0
    return median(value for value, _ in peers), max(unsure for _, unsure in peers)


def in_step(facts: NodeFacts, node: Node) -> bool:
    """Return whether the clock is synchronized with a time server; never for a node that serves its own time."""
    own_time = time_daemon.serves(node) and not time_daemon.others(node)
    return facts.clock.synchronized.value is True and not own_time


_in_step = OncePerFleet(
    lambda fleet: {n.name for n in fleet.nodes if n.name in fleet.facts and in_step(fleet.facts[n.name], n)}
)


def _this_machine_is_wrong(facts: NodeFacts, node: Node, fleet: Fleet, offset: float) -> str | None:
    """Return why this machine's clock is the wrong one; None unless better evidence supports the node's clock."""
    limit = node.requirements.time_sync.max_offset_s
    unsure = facts.clock.uncertainty_s or 0.0
    way = "ahead of" if offset > 0 else "behind"
    peers = {name: clock for name, clock in _clocks(fleet).items() if name != node.name}
    alike = {n for n, (value, also) in peers.items() if not _beyond(offset - value, unsure + also, limit)}
    # Three clocks that agree with each other are more likely right than this machine's.
    if len(alike) >= 2 and len(alike) * 2 > len(peers):
        return f"{len(alike) + 1} nodes agree and are {span(offset)} {way} it"
    # A clock that is synchronized with a time server is more likely right than one of unknown state, unless other
    # synchronized nodes disagree with it.
    kept = _in_step(fleet) & peers.keys()
    if len(kept - alike) > len(alike):
        return None
    if in_step(facts, node):
        return f"the node is synchronized with a time server and {span(offset)} {way} it"
    if kept & alike:
        said = ", ".join(sorted(kept & alike))
        return f"{said} is synchronized with a time server, agrees with this node, and is {span(offset)} {way} it"
    return None


def judge_offset(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[str | None, tuple[str, ...]]:
    """Return the fault of the clock itself, and warnings, compared with this machine and with the other nodes."""
    limit = node.requirements.time_sync.max_offset_s
    offset = facts.clock.offset_s
    if offset is None:
        return None, ()
    unsure = facts.clock.uncertainty_s or 0.0
    clocks = _clocks(fleet)
    count = len(clocks) - (node.name in clocks)
    way = "ahead of" if offset > 0 else "behind"
    if _beyond(offset, unsure, limit):
        wrong = _this_machine_is_wrong(facts, node, fleet, offset)
        if wrong is not None:
            return None, (f"this machine's own clock seems wrong: {wrong}",)
        if abs(offset) > DAY_S:
            return (
                f"the clock shows {_date(facts.gathered_at, offset)} (UTC), {span(offset)} {way} this machine's: "
                "certificates and package signatures will be rejected"
            ), ()
        return f"the clock is {span(offset)} {way} this machine's (limit {limit:g} s)", ()
    middle, unsure_peers = _of_the_others(node.name, fleet)
    trusted = count >= 2 or not _beyond(middle, unsure_peers, limit)
    if count and trusted and _beyond(offset - middle, unsure + unsure_peers, limit):
        word = "ahead of" if offset > middle else "behind"
        return f"the clock is {span(offset - middle)} {word} the other nodes' (limit {limit:g} s)", ()
    if unsure > limit:
        return None, (f"the node answered slowly, so its clock offset is only accurate to {unsure:.1f} s",)
    return None, ()
