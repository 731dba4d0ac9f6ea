"""The sentence on top of ``locate``: what is slow and where to look, or what would decide it."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl.documents.locate import Locate, LocateStatus, Suspect, SuspectStatus
from clusterctl.inventory import nodeset
from clusterctl.report.text.failures import in_a_sentence
from clusterctl.results import words
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted, some
from clusterctl.views import locate_cause
from clusterctl.views.pair_matrix import speed

_MOST_NAMED = 3
_ON_GPUS = ("host-to-device", "device-to-host")
MEASURES = {
    "gemm": "matrix multiplication",
    "hash": "hashing on its CPU",
    "memory": "copies in its own memory",
    "host-to-device": "copies to the GPU",
    "device-to-host": "copies from the GPU",
}


def sentence(found: Locate) -> str:
    """Return what is slow, with the part that the measurements leave, and what to do next."""
    if found.status is LocateStatus.FAILED:
        return f"bad (failed): {in_a_sentence(found.failures) or 'no pair was measured'}"
    named = list(dict.fromkeys(_named(found)))
    if named:
        more = (
            [f"{counted(len(named) - _MOST_NAMED, 'more finding')} below"] if len(named) > _MOST_NAMED else []
        )
        return "; ".join([*named[:_MOST_NAMED], *more, *_leave_out(found)])
    if found.status is LocateStatus.INCONCLUSIVE:
        return _inconclusive(found)
    open_ = dict.fromkeys(
        of_suspect(one, found) for one in found.suspects if one.status is SuspectStatus.OPEN
    )
    open_ |= dict.fromkeys(
        f"{one.node}{gpu_of(one.place, one.measure, found)}"
        for one in found.suspects_alone
        if one.status is SuspectStatus.OPEN
    )
    again = f"; undecided: {some(list(open_), _MOST_NAMED)}: run locate again" if open_ else ""
    again += "".join(f"; {one}" for one in words.doubts_of_locate(found))
    if found.nodes == 2 and found.rates:
        return (
            f"the link of the two nodes: {_span(found)}; with two nodes a slow link cannot be distinguished from a "
            f"slow node: add a third node to name one{again}"
        )
    if not found.rates:
        return f"no pairs were measured: that takes two nodes, and three to name the slow one{again}"
    return f"no node, rail or link was named as slow: {counted(found.nodes, 'node')}, {_span(found)}{again}"


def parts(found: Locate) -> tuple[str, ...]:
    """Return what is slow in a few words each: ``gpu03 rail 2``, ``gpu05 GPU 1``, ``link gpu01 - gpu02``."""
    alone = [
        f"{one.node}{gpu_of(one.place, one.measure, found)}"
        for one in found.suspects_alone
        if one.status is SuspectStatus.NAMED
    ]
    pairs = [of_suspect(one, found) for one in found.suspects if one.status is SuspectStatus.NAMED]
    named = (*alone, *pairs)
    nodes = [name for name in found.named if not any(name in one for one in named)]
    return tuple(dict.fromkeys((*named, *nodes)))


def gpu_of(place: int, measure: str, found: Locate) -> str:
    """Return what was slow alone as words behind its node: its GPU, or its rail if the device is not known."""
    if measure in _ON_GPUS or (found.library == "nccl" and measure != "hash"):
        return f" GPU {place}"
    return f" rail {place}" if rails_of(found) > 1 else ""


def of_suspect(one: Suspect, found: Locate) -> str:
    """Return a rail of a node or a link in a few words."""
    rail = f" rail {one.place}" if rails_of(found) > 1 else ""
    return f"link {' - '.join(one.nodes)}{rail}" if len(one.nodes) == 2 else f"{one.nodes[0]}{rail}"


def rails_of(found: Locate) -> int:
    """Return the number of rails."""
    return 1 + max((one.place for one in found.rates), default=0)


def _named(found: Locate) -> Iterator[str]:
    rails = rails_of(found)
    for held in found.held_back:
        if held.named:
            yield f"{held.node}: {held.what}; {held.fix}"
    for alone in found.suspects_alone:
        if alone.status is SuspectStatus.NAMED:
            why = next(iter(locate_cause.of_alone(alone, found)), "")
            what = MEASURES.get(alone.measure, alone.measure)
            yield (
                f"{alone.node}{gpu_of(alone.place, alone.measure, found)}: {what} is {_loss(alone.ratio)} slower than "
                f"its peers: {why}"
            )
    slow = [one for one in found.suspects if one.status is SuspectStatus.NAMED]
    for nodes, suspects in grouped((one.nodes, one) for one in slow).items():
        why = next(iter(locate_cause.of_pairs(suspects[0], found, rails)), "")
        loss = _loss(min(one.ratio for one in suspects))
        if len(nodes) == 2:
            yield f"{' and '.join(of_suspect(one, found) for one in suspects)} is {loss} slower: {why}"
        elif rails > 1:
            names = sorted(
                f"{one.place}" + (f" ({one.interface})" if one.interface else "") for one in suspects
            )
            said = f"its rail {names[0]} is" if len(names) == 1 else f"its rails {' and '.join(names)} are"
            yield f"{nodes[0]}: {said} {loss} slower in all pairs: {why}"
        else:
            yield f"{nodes[0]} is {loss} slower in all pairs: {why}"
    in_all_rounds = {
        node for one in found.suspects if one.status is SuspectStatus.NAMED for node in one.nodes
    }
    for turn in found.sometimes_slow:
        if turn.node not in in_all_rounds:
            yield f"{turn.node}: slow in {turn.low} of {turn.rounds} rounds"
    for node in found.at_fault:
        yield f"{node}: reports other rates than its partners, which agree with each other"
    for rail in found.slow_rails:
        yield f"rail {rail.place} is {_loss(rail.ratio)} slower on all nodes: its switch, or a setting of all nodes"
    if found.boundary is not None:
        yield (
            f"pairs {found.boundary.nodes} nodes apart and more are {_loss(found.boundary.ratio)} slower: a level of "
            "the network is slow or oversubscribed"
        )


def _leave_out(found: Locate) -> Iterator[str]:
    nodes = found.named_nodes
    if nodes and len(nodes) < found.nodes - 1:
        others = nodeset.fold(f"!{name}" for name in nodes)
        yield f"to leave {'it' if len(nodes) == 1 else 'them'} out: --limit '{others}'"


def _inconclusive(found: Locate) -> str:
    group = found.groups[0] if found.groups else None
    if group is None:
        return "inconclusive: so many nodes are slow that the healthy group is unknown"
    slow, fast = nodeset.fold(group.slow), nodeset.fold(group.fast)
    are = "is" if len(group.slow) == 1 else "are"
    rail = f" on rail {group.place}" if rails_of(found) > 1 else ""
    return (
        f"inconclusive: {slow} {are} {_loss(group.ratio)} slower than {fast}{rail}; bench --limit '{slow}' and bench "
        f"--limit '{fast}' show which of them is as expected"
    )


def _span(found: Locate) -> str:
    rates = [one.gbps for one in found.rates]
    ends = dict.fromkeys((speed(min(rates)), speed(max(rates))))
    return f"{' to '.join(ends)} in each direction"


def _loss(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f} %"
