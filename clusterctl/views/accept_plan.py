"""The screen of ``accept --dry-run``: rows, nodes, and thresholds with their sources."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl.documents.accept import AcceptPlan, PlannedRow, RowStatus
from clusterctl.report.line import Tone
from clusterctl.report.text.folding import Kinds, named
from clusterctl.report.view import Block, Item, View
from clusterctl.results import words
from clusterctl.text.grouping import grouped


def view(found: AcceptPlan) -> View:
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
        "", (*(Block("", items=(_row(row),), apart=True) for row in used), Block("", lines=lines, apart=True))
    )


def _row(row: PlannedRow) -> Item:
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
