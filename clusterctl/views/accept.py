"""The view of ``accept``: what failed and what did not run first, with values, thresholds and their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from textwrap import shorten

from clusterctl import run_ids
from clusterctl.documents.accept import (
    Accept,
    AcceptedNode,
    AcceptedRow,
    AcceptPlan,
    AcceptValue,
    PlannedRow,
    RowStatus,
)
from clusterctl.inventory import nodeset
from clusterctl.report.figures import Dot, Strip
from clusterctl.report.line import Tone
from clusterctl.report.text.failures import failure_items
from clusterctl.report.text.folding import Kinds, named
from clusterctl.report.view import (
    Block,
    Case,
    CaseEnd,
    Cell,
    Head,
    Item,
    Metric,
    Suite,
    Table,
    Tile,
    View,
)
from clusterctl.results import words
from clusterctl.text import typed_inventory
from clusterctl.text.foreign import NotUnderstood, decimal
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted, some
from clusterctl.views import verdict_matrix
from clusterctl.views.tones import OF_WORDS

_SIGNS = {
    RowStatus.OK: Cell("\u2713", Tone.GOOD),
    RowStatus.MEASURED: Cell("\u00b7", Tone.FAINT),
    RowStatus.WARN: Cell("!", Tone.OPEN),
    RowStatus.FAIL: Cell("\u2715", Tone.BAD),
    RowStatus.NOT_RUN: Cell("?", Tone.OPEN),
    RowStatus.NOT_APPLICABLE: Cell("\u2013", Tone.FAINT),
}
_ENDS = {
    RowStatus.FAIL: CaseEnd.FAILURE,
    RowStatus.NOT_RUN: CaseEnd.ERROR,
    RowStatus.NOT_APPLICABLE: CaseEnd.SKIPPED,
}
_OPEN = (RowStatus.FAIL, RowStatus.NOT_RUN, RowStatus.WARN)
"""What the reader must look at, the worst first."""
_LIMIT = re.compile(r"[<>]=? (\S+)")
_MOST_REASONS = 4
"""The most different reasons in the sentence."""
_REASON_CHARACTERS = 90
"""The most characters of a reason in the sentence."""
_LEAST_OTHERS = 3
"""Of fewer values of equal hardware, no share of the median is shown."""
_LEAST_OFF, _MOST_TIMES = 0.02, 10
"""A share of the median that is nearer to 1 or larger does not say what is wrong; the threshold does."""
_STRIPS = (
    "Each dot is a device or node; the short line is the median, the dashed line the threshold. The comparison between "
    "nodes names a healthy one in at most {} of runs."
)


def view(found: Accept) -> View:
    """Return what people, CI servers and monitoring systems see of a run."""
    used, unused = _used(found)
    strips = tuple(_strips(found))
    lost = tuple(failure_items({node.name: node.error for node in found.nodes if node.error is not None}))
    began = run_ids.started_at(found.run)
    blocks = (
        Block("Unreachable nodes", items=lost, tone=Tone.BAD, apart=True),
        Block("Failed, not run, and warnings", items=tuple(_items(found)), apart=not lost),
        _matrix(found),
        Block("Rows", tables=(_counts(found, used),) if used else (), on_page=False, apart=True),
        Block(
            "", lines=(f"not applicable here: {', '.join(unused)}",) if unused else (), on_page=False,
            apart=True,
        ),
        Block("Distributions", before=_STRIPS.format(f"{found.false_alarms_per_run:.0%}"), strips=strips,
              after=("clusterctl accept --dry-run prints every threshold with its source.",), on_terminal=False),
        Block("", lines=tuple(words.strict_lines(found.strict)), apart=True),
        Block("What follows", lines=tuple(_end(found)), apart=True),
    )  # fmt: skip
    word, finer = words.of_accept(found.status)
    return View(
        title=f"Acceptance \u00b7 {counted(len(found.nodes), 'node')}",
        run=found.run,
        began=began.strftime("%Y-%m-%d %H:%M UTC") if began is not None else "",
        word=words.with_finer(word, finer),
        tone=OF_WORDS[word],
        sentence=_sentence(found),
        tiles=tuple(_tiles(found)),
        blocks=tuple(one for one in blocks if not one.is_empty),
        suites=lambda: _suites(found),
        metrics=lambda: _metrics(found),
    )


def _sentence(found: Accept) -> str:
    """Return which nodes are accepted, and what is wrong with each of the others."""
    total = len(found.nodes)
    of = f"all {total}" if len(found.accepted) == total > 1 else f"{len(found.accepted)} of {total}"
    names = f": {nodeset.fold(found.accepted)}" if found.accepted else ""
    parts = [f"{of} {'node' if total == 1 else 'nodes'} accepted{names}"]
    kinds = Kinds()
    for node in found.nodes:
        if not node.accepted:
            kinds.add((), _why(node, found), node.name)
    why = list(kinds.found.values())
    parts += [
        f"{nodeset.fold(names)}: {Kinds.said(text, differs)}" for text, names, differs in why[:_MOST_REASONS]
    ]
    rest = [name for _, names, _ in why[_MOST_REASONS:] for name in names]
    if rest:
        parts.append(f"{counted(len(rest), 'more node')} with other reasons ({named(rest)})")
    warned = list(_warned(found).found.values())
    parts += [
        f"warning on {nodeset.fold(names)}: {Kinds.said(text, differs)}"
        for text, names, differs in warned[:_MOST_REASONS]
    ]
    rest = [name for _, names, _ in warned[_MOST_REASONS:] for name in names]
    if rest:
        parts.append(f"other warnings on {named(rest)}")
    return "; ".join(parts)


def _warned(found: Accept) -> Kinds:
    """Return what the warnings on accepted nodes found."""
    kinds = Kinds()
    for name, rows in _warnings(found):
        kinds.add((), some([_judged(row, found) for row in rows], 2), name)
    return kinds


def _warnings(found: Accept) -> Iterator[tuple[str, list[AcceptedRow]]]:
    """Yield the accepted nodes that have warnings, with the rows."""
    for node in found.nodes:
        rows = [row for row in node.rows if row.status is RowStatus.WARN]
        if node.accepted and rows:
            yield node.name, rows


def _why(node: AcceptedNode, found: Accept) -> str:
    """Return what was found on a node that is not accepted, or why its rows did not run."""
    if node.error is not None:
        return f"down ({node.error.kind.value})"
    failed = [row for row in node.rows if row.status is RowStatus.FAIL]
    if failed:
        return some([_judged(row, found) for row in failed], 2)
    missing = grouped((row.reason, row.row) for row in node.rows if row.status is RowStatus.NOT_RUN)
    return (
        some([f"{some(rows, 3)} not measured: {_brief(why)}" for why, rows in missing.items()], 2)
        or "nothing measured: no row applies"
    )


def _judged(row: AcceptedRow, found: Accept) -> str:
    """Return what a row found, with its name: how far its one bad value is from equal hardware, or its reason."""
    low = [one for one in row.values if one.status is row.status]
    if len(low) == 1:
        (bad,) = low
        of_all = [
            one.value
            for node in found.nodes
            for other in node.rows
            for one in other.values
            if other.row == row.row and (one.field, one.hardware) == (bad.field, bad.hardware)
        ]
        middle = median(of_all) if len(of_all) > _LEAST_OTHERS else 0.0
        share = bad.value / middle if middle > 0 else 1.0
        if abs(share - 1) > _LEAST_OFF and share < _MOST_TIMES:
            return f"{bad.device or bad.field} at {100 * share:.0f} % of the median ({row.row})"
    reason = _brief(row.reason)
    return f"{reason} ({row.row})" if reason else row.row


def _brief(reason: str) -> str:
    """Return the beginning of a reason, whole words of one line."""
    return shorten(reason, _REASON_CHARACTERS, placeholder=" ...")


def _tiles(found: Accept) -> Iterator[Tile]:
    repeats = f" in {found.repeats} repeats" if found.repeats > 1 else ""
    accepted = nodeset.fold(found.accepted) if found.accepted else "none"
    yield Tile("Accepted", str(len(found.accepted)), f"of {len(found.nodes)}", f"{accepted}{repeats}")
    for status, label in (
        (RowStatus.FAIL, "Failed"),
        (RowStatus.WARN, "Warnings"),
        (RowStatus.NOT_RUN, "Not run"),
    ):
        rows = grouped(
            (row.row, node.name) for node in found.nodes for row in node.rows if row.status is status
        )
        count = len({name for names in rows.values() for name in names})
        said = [f"{named(names)}: {row}" for row, names in rows.items()]
        yield Tile(label, str(count), "node" if count == 1 else "nodes", some(said, 2))
    yield Tile("Time", f"{found.duration_s / 60:.1f}", "min", f"tier {found.tier.value}")


def _items(found: Accept) -> Iterator[Item]:
    for status in _OPEN:
        for title in found.rows:
            kinds = Kinds()
            sources: dict[str, str] = {}
            for node in found.nodes:
                for row in node.rows:
                    if row.row == title.row and row.status is status:
                        kinds.add((), row.reason + _when(row), node.name)
                        sources[node.name] = source_of(row)
            for said, names, differs in kinds.found.values():
                source = sources[names[0]]
                yield Item(
                    _SIGNS[status].tone, Kinds.said(said, differs), (source,) if source else (),
                    words.OF_ROWS[status].value,
                    named(names), title.row, title.title,
                )  # fmt: skip


def _when(row: AcceptedRow) -> str:
    return f" (first in repeat {row.repeat + 1} of {row.repeats})" if row.repeats > 1 else ""


def source_of(row: AcceptedRow) -> str:
    """Return the source of the threshold that decided about a row, and its log."""
    decided = next((one for one in row.values if one.status is row.status and one.source), None)
    parts = [f"threshold: {decided.source}"] if decided is not None else []
    parts += [f"tool: {row.tool}"] if row.tool else []
    parts += [f"log: {row.log}"] if row.log and row.status is not RowStatus.OK else []
    return "; ".join(parts)


def _used(found: Accept) -> tuple[list[str], list[str]]:
    """Return the rows that apply to some node, and those that apply to none."""
    by_row = grouped((row.row, row.status) for node in found.nodes for row in node.rows)
    unused = [row for row, ends in by_row.items() if set(ends) == {RowStatus.NOT_APPLICABLE}]
    return [title.row for title in found.rows if title.row not in unused], unused


def _counts(found: Accept, used: Sequence[str]) -> Table:
    """Return one line for each row: the number of nodes by status, and the range of the value that decides."""
    lines = []
    for name in used:
        rows = [row for node in found.nodes for row in node.rows if row.row == name]
        counts = [
            f"{sum(row.status is status for row in rows)} {word.value}"
            for status, word in words.OF_ROWS.items()
            if status is not RowStatus.NOT_APPLICABLE and any(row.status is status for row in rows)
        ]
        values = _range([value for row in rows for value in row.values])
        lines.append((Cell(name), Cell(", ".join(counts) or "-"), Cell(values)))
    return Table(tuple(Head(text, words=True) for text in ("row", "nodes", "values")), tuple(lines))


def _range(values: Sequence[AcceptValue]) -> str:
    if not values:
        return ""
    first = min(values, key=_weight)
    found = [one.value for one in values if (one.field, one.hardware) == (first.field, first.hardware)]
    least, most = min(found), max(found)
    span = f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
    more = len({one.field for one in values}) - 1
    return f"{first.field} {span} {first.unit}" + (f", and {more} more" if more else "")


def _weight(value: AcceptValue) -> tuple[int, int]:
    """Order the values of a row: the worst verdict first, then those that a threshold judges, in document order."""
    verdict = _OPEN.index(value.status) if value.status in _OPEN else len(_OPEN)
    return verdict, value.limit is None


def _matrix(found: Accept) -> Block:
    """Return the verdicts of all nodes."""
    names = [title.row for title in found.rows]
    cells_of = {}
    for node in found.nodes:
        by_name = {row.row: row for row in node.rows}
        cells_of[node.name] = tuple(_cell(name, by_name.get(name)) for name in names)
    legend = [replace(sign, text=f"{sign.text} {_word(status)}") for status, sign in _SIGNS.items()]
    return verdict_matrix.block("Nodes by rows", names, cells_of, legend)


def _cell(name: str, row: AcceptedRow | None) -> Cell:
    if row is None:
        return Cell("", title=f"{name}: not reached")
    return replace(_SIGNS[row.status], title=f"{name}: {row.reason or _word(row.status)}")


def _word(status: RowStatus) -> str:
    """Return the word for a row, and the finer one beside it."""
    return words.with_finer(words.OF_ROWS[status], words.FINER_OF_ROWS.get(status, ""))


def _is_replaced(name: str, node: AcceptedNode, found: Accept) -> bool:
    """Return whether another row measured the same on a node, so that this one may stay without a result."""
    other = next((title.also_measured_by for title in found.rows if title.row == name), None)
    return any(
        row.row == other and row.status not in (RowStatus.NOT_RUN, RowStatus.NOT_APPLICABLE)
        for row in node.rows
    )


def _end(found: Accept) -> Iterator[str]:
    total = len(found.nodes)
    names = nodeset.fold(found.accepted) if found.accepted else "none"
    yield f"accepted: {len(found.accepted)} of {counted(total, 'node')}: {names}"
    if any(value.compared for node in found.nodes for row in node.rows for value in row.values):
        share = round(1 / found.false_alarms_per_run)
        yield f"Comparison between nodes: at most 1 false alarm in {share} runs of a healthy fleet."
    warned = dict(_warnings(found))
    if warned:
        on = nodeset.fold(warned)
        again = dict.fromkeys(row.row for rows in warned.values() for row in rows)
        command = typed_inventory.filled(f"clusterctl accept INVENTORY --only {','.join(again)}")
        # All nodes again: --limit would take away those that the values are compared with.
        yield f"To measure the warnings on {on} again, beside nodes to compare with: {command}"
    rows = {
        node.name: [row.row for row in node.rows if row.status is RowStatus.NOT_RUN] for node in found.nodes
    }
    missing = dict.fromkeys(name for names in rows.values() for name in names)
    needed = dict.fromkeys(
        name
        for node in found.nodes
        if not node.accepted
        for name in rows[node.name]
        if not _is_replaced(name, node, found)
    )
    if missing:
        yield f"To run the rows that did not run, fix the cause, then: clusterctl accept --resume {found.run}"
    if needed:
        yield f"To accept the nodes without these rows: --skip {','.join(needed)}"
    else:
        for title in found.rows:
            if title.row in missing:
                yield f"{title.row} did not run; {title.also_measured_by} measures the same."


def _finite(digits: str) -> float | None:
    """Return a limit; None for one that cannot be drawn, such as that of values without bounds."""
    try:
        return decimal(digits)
    except NotUnderstood:
        return None


def _strips(found: Accept) -> Iterator[Strip]:
    """Yield the distribution of each field on equal hardware."""
    order = [title.row for title in found.rows]
    groups = grouped(
        ((row.row, one.field, one.hardware), (f"{node.name} {one.device}".strip(), one))
        for node in found.nodes
        for row in node.rows
        for one in row.values
    )
    for (row, field, hardware), values in sorted(groups.items(), key=lambda one: order.index(one[0][0])):
        first = values[0][1]
        limits = {one.limit for _, one in values if one.limit}
        limit = limits.pop() if len(limits) == 1 else ""
        number = _LIMIT.fullmatch(limit)
        about = f"{counted(len(values), 'value')} in {first.unit}"
        about += (f", {hardware}" if hardware else "") + (f"; wanted {limit}" if limit else "")
        yield Strip(
            f"{row}: {field}",
            about,
            tuple(Dot(name, one.value, one.status in _OPEN) for name, one in values),
            _finite(number[1]) if number else None,
            f"Threshold: {first.source}" if first.source else "",
        )


def _suites(found: Accept) -> Iterator[Suite]:
    """Yield a suite per node with a case per row: NOT RUN and unreachable are errors, WARN fails with ``--strict``."""
    ends = _ENDS if found.strict is None else {**_ENDS, RowStatus.WARN: CaseEnd.FAILURE}
    for node in found.nodes:
        error = node.error
        failed = () if error is None else (Case("reachable", CaseEnd.ERROR, error.kind.value, error.message),)
        yield Suite(
            node.name, (*failed, *(_case(row, ends.get(row.status, CaseEnd.PASSED)) for row in node.rows))
        )


def _case(row: AcceptedRow, end: CaseEnd) -> Case:
    lines = [f"warning: {row.reason}"] if row.status is RowStatus.WARN else []
    lines += [
        f"{one.device + ': ' if one.device else ''}{one.field} {one.value:.6g} {one.unit}"
        + (f", wanted {one.limit} ({one.source})" if one.limit else "")
        for one in row.values
    ]
    lines += [source_of(row)] if source_of(row) else []
    return Case(row.row, end, row.status.value, row.reason, "\n".join(lines), row.seconds)


def _metrics(found: Accept) -> Iterator[Metric]:
    """Yield the metrics; ``clusterctl_accept_row`` has a 0/1 sample per node, row and status."""
    began = run_ids.started_at(found.run)
    rows = [(node, row) for node in found.nodes for row in node.rows]
    yield Metric(
        "clusterctl_accept_timestamp_seconds",
        "When the run began, in seconds since the epoch.",
        (({}, 0 if began is None else began.timestamp()),),
    )
    yield Metric(
        "clusterctl_accept_node",
        "Whether the node is accepted.",
        tuple(({"node": node.name}, int(node.accepted)) for node in found.nodes),
    )
    yield Metric(
        "clusterctl_accept_row",
        "Whether a row has this status on a node.",
        tuple(
            ({"node": node.name, "row": row.row, "status": status.value}, int(row.status is status))
            for node, row in rows
            for status in RowStatus
        ),
    )
    yield Metric(
        "clusterctl_accept_value",
        "What a row measured on a device of a node; the device is empty for the node.",
        tuple(
            (
                {
                    "node": node.name,
                    "row": row.row,
                    "field": one.field,
                    "device": one.device,
                    "unit": one.unit,
                },
                one.value,
            )
            for node, row in rows
            for one in row.values
        ),
    )


def plan(found: AcceptPlan) -> View:
    """Return the plan for people."""
    used = [row for row in found.rows if row.nodes or row.not_run]
    unused = grouped(
        (reason, row.row)
        for row in found.rows
        if row not in used
        for reason in dict.fromkeys(row.not_applicable.values())
    )
    lines = tuple(f"not applicable: {', '.join(names)}: {reason}" for reason, names in unused.items())
    return View(
        "",
        (
            *(Block("", items=(_planned(row),), apart=True) for row in used),
            Block("", lines=lines, apart=True),
        ),
    )


def _planned(row: PlannedRow) -> Item:
    on = f" on {named(row.nodes)}" if row.nodes else ""
    return Item(Tone.NAME, f"{row.row} ({row.tier.value}): {row.title}{on}", tuple(_about(row)))


def _about(row: PlannedRow) -> Iterator[str]:
    for word, reasons in (
        (words.OF_ROWS[RowStatus.NOT_RUN].value, row.not_run),
        ("not applicable", row.not_applicable),
    ):
        kinds = Kinds()
        for name, reason in reasons.items():
            kinds.add((), reason, name)
        for said, names, differs in kinds.found.values():
            yield f"{word} on {named(names)}: {Kinds.said(said, differs)}"
    if row.hardware and row.nodes:
        yield f"hardware: {', '.join(row.hardware)}"
    for one in row.thresholds if row.nodes else ():
        of = f" ({' or '.join(one.hardware)})" if one.hardware else ""
        word = "" if "worse than the median" in one.when else f"{words.OF_ROWS[one.verdict].value} if "
        yield f"{word}{one.when}{of}"
        yield f"    source: {one.source}"
