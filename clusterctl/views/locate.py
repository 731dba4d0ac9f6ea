"""The view of ``locate``: what is slow first, then what was cleared, then the range of all others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from clusterctl import run_ids
from clusterctl.documents.locate import (
    Locate,
    LocateStatus,
    SometimesSlow,
    Suspect,
    SuspectAlone,
    SuspectStatus,
)
from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Item, Table, Tile, View
from clusterctl.results import words
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted, some
from clusterctl.views import locate_cause, locate_sentence, pair_matrix
from clusterctl.views.pair_matrix import speed
from clusterctl.views.tones import OF_WORDS

_MOST_PAIRS = 4
_PAIRS = (
    "Bandwidth of both directions at once, the best of the first rounds. A slow node is slow with each partner; a slow "
    "link is one cell."
)


def view(found: Locate, history: Sequence[str] = ()) -> View:
    """Return what people see of a run; ``history`` has the lines on earlier runs."""
    failed = found.status is LocateStatus.FAILED
    entries = [] if failed else items(found)
    named = tuple(one for one in entries if one.tone is Tone.BAD)
    others = tuple(one for one in entries if one.tone is not Tone.BAD)
    shown, more = pair_matrix.matrices(found)
    again = false_alarms(found)
    blocks = (
        Block("", lines=tuple(_head(found)), on_page=False),
        _apart(found),
        Block("Slow", items=named),
        Block("Named in earlier runs", lines=tuple(history)),
        Block("Undecided, cleared, and what concerns all nodes", items=others),
        Block("", lines=tuple(filter(None, () if failed else (_others(found),))), on_page=False),
        Block(
            "Hardware during the run",
            lines=tuple(locate_cause.health_of_others(found, () if failed else _described(found))),
        ),
        Block(
            "Rates of pairs", tables=shown, closed=more, on_terminal=False,
            summary=f"{counted(len(more), 'more rail')}, with nothing slow",
            after=(_PAIRS, f"{again[:1].upper()}{again[1:]}."),
        ),
        _differences(found),
    )  # fmt: skip
    word, finer = words.of_locate(found)
    began = run_ids.started_at(found.run)
    return View(
        title=f"Locate \u00b7 {size(found)}",
        run=found.run,
        began=began.strftime("%Y-%m-%d %H:%M UTC") if began is not None else "",
        word=words.with_finer(word, finer),
        tone=OF_WORDS[word],
        sentence=locate_sentence.sentence(found),
        tiles=tuple(_tiles(found)),
        failures=found.failures,
        blocks=tuple(one for one in blocks if not one.is_empty),
    )


def _head(found: Locate) -> Iterator[str]:
    """Yield what was measured."""
    if found.status is not LocateStatus.FAILED:
        yield f"locate: {size(found)}, {measured(found)}; {false_alarms(found)}"


def _tiles(found: Locate) -> Iterator[Tile]:
    """Yield what is slow and what is undecided by name, and the rate of the others."""
    names = locate_sentence.parts(found)
    if found.status is not LocateStatus.FAILED:
        how = f"{found.rounds} rounds of pairs, {found.library or 'no library'}"
        yield Tile("Slow", some(names, 2) or "none", "", how)
    open_ = [one for one in found.suspects if one.status is SuspectStatus.OPEN]
    if open_:
        yield Tile(
            "Undecided",
            some([locate_sentence.of_suspect(one, found) for one in open_], 2),
            "",
            "run locate again",
        )
    if found.rates:
        value, _, unit = speed(statistics.median(one.gbps for one in found.rates)).partition(" ")
        yield Tile("Median rate", value, unit, "best rate of a rank, each direction")


def _apart(found: Locate) -> Block:
    """Return the pairs that ran alone after a launch of all nodes failed."""
    pairs = found.apart.pairs if found.apart is not None else ()
    works = nodeset.fold(sorted({node for one in pairs if one.why is None for node in one.nodes}))
    before = "The launch of all nodes named none, so pairs of nodes ran as launches of their own."
    rows = tuple((Cell(", ".join(one.nodes)), Cell(one.why, Tone.BAD)) for one in pairs if one.why)
    table = Table((Head("nodes"), Head("outcome")), rows, style="plain", title="Pairs of nodes alone")
    return Block(
        "Pairs of nodes alone",
        tables=(table,) if pairs else (),
        before=before + (f" In some pair these nodes worked: {works}." if works else ""),
        on_terminal=False,
    )


def _differences(found: Locate) -> Block:
    heads = (Head("node"), Head("fact"), Head("here"), Head("others"))
    rows = tuple(
        (Cell(one.node), Cell(one.fact), Cell(one.value), Cell(one.others)) for one in found.differences
    )
    return Block(
        "Facts that differ on named nodes",
        tables=(Table(heads, rows, style="plain", title="Facts that differ on named nodes"),) if rows else (),
        before="Reasons to look at, not proofs.",
        on_terminal=False,
    )


def size(found: Locate) -> str:
    """Return the number of nodes and rails."""
    rails = locate_sentence.rails_of(found)
    return f"{counted(found.nodes, 'node')} x {counted(rails, 'rail')}"


def measured(found: Locate) -> str:
    """Return what was measured, and how long it took."""
    again = f", {found.repeated} rounds more" if found.repeated else ""
    return f"{found.rounds} rounds, {found.windows} windows alone{again}, {found.duration_s:.0f} s"


def false_alarms(found: Locate) -> str:
    """Return the bound of names in a healthy fleet."""
    return f"at most {found.false_alarms_per_run * 1000:g} false alarms in 1000 runs of a healthy fleet"


def items(found: Locate) -> list[Item]:
    """Return what was found: what is slow first, then what is undecided or was cleared, then what concerns all."""
    rails, listed = locate_sentence.rails_of(found), _held_back(found)
    for status in (SuspectStatus.NAMED, SuspectStatus.OPEN, SuspectStatus.CLEARED):
        listed += [_alone(one, found) for one in found.suspects_alone if one.status is status]
        listed += [_pairs(one, found, rails) for one in found.suspects if one.status is status]
    listed += [
        Item(Tone.BAD, _sometimes(one, rails))
        for one in found.sometimes_slow
        if one.node not in _named(found)
    ]
    listed += _ends_differ(found, rails)
    return listed + [Item(Tone.PLAIN, line) for line in _of_all(found)]


def _ends_differ(found: Locate, rails: int) -> Iterator[Item]:
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
        yield Item(Tone.BAD, said, (why,))
    unknown = by_fault.get(None, [])
    for one in unknown[:_MOST_PAIRS]:
        yield Item(
            Tone.OPEN,
            f"{one.nodes[0]} - {one.nodes[1]}{_rail(one.place, one.interface, rails)}: open: {one.nodes[0]} reports "
            f"{speed(one.gbps[0])} and {one.nodes[1]} {speed(one.gbps[1])}, so this pair does not count",
        )
    if len(unknown) > _MOST_PAIRS:
        more = counted(len(unknown) - _MOST_PAIRS, "more pair")
        yield Item(Tone.OPEN, f"{more} whose ends report different rates (--json lists them)")


def _held_back(found: Locate) -> list[Item]:
    """Return the nodes that a CPU quota held back; one entry without a name if the quota is that of all ranks."""
    named = [
        Item(Tone.BAD, f"{one.node} {one.device}: {one.what}", (one.fix,))
        for one in found.held_back
        if one.named
    ]
    common = [one for one in found.held_back if not one.named]
    if not common:
        return named
    nodes, longest = nodeset.fold({one.node for one in common}), max(common, key=lambda one: one.stopped_s)
    said = f"note: equal CPU quotas held back every rank, on {nodes}; most on {longest.node}: {longest.what}"
    return [*named, Item(Tone.PLAIN, said, (longest.fix,))]


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
        what = ", ".join(locate_sentence.MEASURES.get(one.measure, one.measure) for one in of_it)
        yield (
            f"window {number} of {found.windows}: {nodes}: up to {_loss(min(one.ratio for one in of_it))} than in the "
            f"best window of the same rank ({what}); the best window counts; likely causes: another program, or "
            "throttling"
        )


def _are(nodes: tuple[str, ...]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _loss(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f} % slower"


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


def _alone(one: SuspectAlone, found: Locate) -> Item:
    who = f"{one.node}{locate_sentence.gpu_of(one.place, one.measure, found)}"
    what = locate_sentence.MEASURES.get(one.measure, one.measure)
    if one.status is SuspectStatus.CLEARED:
        said = f"{who}: cleared: {what} was slow at first, and not in {one.windows} windows"
        return Item(OF_WORDS[words.OF_SUSPECTS[one.status]], said)
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    said = f"{who}: {how} alone: {what} {_loss(one.ratio)} than its peers (chance {one.chance:.1g})"
    why = locate_cause.of_alone(one, found) if one.status is SuspectStatus.NAMED else ()
    return Item(OF_WORDS[words.OF_SUSPECTS[one.status]], said, tuple(why))


def _pairs(one: Suspect, found: Locate, rails: int) -> Item:
    rail = _rail(one.place, one.interface, rails)
    who = f"{one.nodes[0]}{rail}" if len(one.nodes) == 1 else f"link {one.nodes[0]} - {one.nodes[1]}{rail}"
    if one.status is SuspectStatus.CLEARED:
        said = f"{who}: cleared: low in {one.low_with} of {one.partners} rounds, well in confirmation"
        return Item(OF_WORDS[words.OF_SUSPECTS[one.status]], said)
    seen = f"low in {one.low_with} of {one.partners} rounds" if len(one.nodes) == 1 else "low each time"
    how = "slow" if one.status is SuspectStatus.NAMED else "undecided, may be slow"
    said = f"{who}: {how}: {_loss(one.ratio)} than pairs beside it, {seen} and in {one.confirmations} confirmations"
    said += f" (chance {one.chance:.1g})"
    if one.status is SuspectStatus.NAMED:
        return Item(
            OF_WORDS[words.OF_SUSPECTS[one.status]], said, tuple(locate_cause.of_pairs(one, found, rails))
        )
    return Item(OF_WORDS[words.OF_SUSPECTS[one.status]], said, tuple(locate_cause.of_unlike(one, found)))


def _others(found: Locate) -> str:
    named = {node for one in found.suspects if one.status is not SuspectStatus.CLEARED for node in one.nodes}
    rates = [one.gbps for one in found.rates if one.node not in named] or [one.gbps for one in found.rates]
    nodes = len({one.node for one in found.rates} - named)
    if not rates or not named or found.nodes == 2:
        return ""  # The sentence has the range of all nodes.
    ends = dict.fromkeys((speed(min(rates)), speed(max(rates))))
    return f"the other {counted(nodes, 'node')}: {' to '.join(ends)} in each direction"
