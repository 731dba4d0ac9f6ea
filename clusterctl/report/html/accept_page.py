"""The page of ``accept``: nodes by rows, what failed with its evidence, and the distribution of every value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from clusterctl.documents.accept import (
    Accept,
    AcceptedNode,
    AcceptedRow,
    AcceptStatus,
    AcceptValue,
    RowStatus,
)
from clusterctl.foreign import NotUnderstood, decimal
from clusterctl.inventory import nodeset
from clusterctl.report.html import page, strip
from clusterctl.report.html.fleet_page import VerdictCell, matrix, rows_of_nodes
from clusterctl.report.text.accept import OPEN, WORDS, source_of
from clusterctl.report.text.folding import Kinds
from clusterctl.report.view import Tile
from clusterctl.wording import counted

SYMBOLS = {
    RowStatus.OK: "✓",
    RowStatus.MEASURED: "·",
    RowStatus.WARN: "!",
    RowStatus.FAIL: "✕",
    RowStatus.NOT_RUN: "?",
    RowStatus.NOT_APPLICABLE: "–",
}
_CLASSES = {
    RowStatus.OK: "met",
    RowStatus.MEASURED: "not-applicable",
    RowStatus.WARN: "unknown",
    RowStatus.FAIL: "unmet",
    RowStatus.NOT_RUN: "unknown",
    RowStatus.NOT_APPLICABLE: "not-applicable",
}
_LIMIT = re.compile(r"[<>]=? (\S+)")


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """Nodes on which a row has the same status for the same reason, with the threshold, the tool and the log."""

    row: str
    title: str
    status: str
    word: str
    nodes: str
    count: int
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class ValueDistribution:
    """All values of one field on equal hardware, as a drawing and as figures."""

    row: str
    field: str
    hardware: str
    unit: str
    count: int
    limit: str
    source: str
    drawing: Markup


def render(found: Accept) -> str:
    """Return the page as HTML text."""
    names = [title.row for title in found.rows]
    cells_of = {node.name: _cells(node, names) for node in found.nodes}
    groups = matrix(cells_of)
    return page.render(
        "accept.html.j2",
        title=f"Acceptance \u00b7 {counted(len(found.nodes), 'node')}",
        run=found.run,
        verdict="ok" if found.status is AcceptStatus.ACCEPTED else "failed",
        tiles=list(_tiles(found)),
        errors=[(node.name, node.error) for node in found.nodes if node.error is not None],
        requirements=names,
        legend=[(_CLASSES[one], SYMBOLS[one], _word(one)) for one in RowStatus],
        groups=groups,
        every=rows_of_nodes(cells_of, groups),
        answers=list(_answers(found)),
        distributions=list(_distributions(found)),
        false_alarms=f"{found.false_alarms_per_run:.0%}",
    )


def _word(status: RowStatus) -> str:
    return "not applicable" if status is RowStatus.NOT_APPLICABLE else WORDS[status]


def _tiles(found: Accept) -> Iterator[Tile]:
    rows = [row for node in found.nodes for row in node.rows]
    repeats = f"{found.repeats} repeats" if found.repeats > 1 else ""
    yield Tile("Accepted", str(len(found.accepted)), f"of {len(found.nodes)}", repeats)
    for status, label in (
        (RowStatus.FAIL, "Failed"),
        (RowStatus.WARN, "Warnings"),
        (RowStatus.NOT_RUN, "Not run"),
    ):
        count = [row for row in rows if row.status is status]
        names = list(dict.fromkeys(row.row for row in count))
        yield Tile(
            label,
            str(len(count)),
            "result" if len(count) == 1 else "results",
            ", ".join(names[:3]) + (" ..." if len(names) > 3 else ""),
        )
    yield Tile("Time", f"{found.duration_s / 60:.1f}", "min", f"tier {found.tier.value}")


def _cells(node: AcceptedNode, names: Sequence[str]) -> tuple[VerdictCell, ...]:
    by_name = {row.row: row for row in node.rows}
    return tuple(_cell(by_name.get(name)) for name in names)


def _cell(row: AcceptedRow | None) -> VerdictCell:
    if row is None:
        return VerdictCell("", "", "not reached")
    return VerdictCell(_CLASSES[row.status], SYMBOLS[row.status], row.reason or WORDS[row.status])


def _answers(found: Accept) -> Iterator[RowAnswer]:
    for status in OPEN:
        for title in found.rows:
            kinds = Kinds()
            sources: dict[str, str] = {}
            for node in found.nodes:
                for row in node.rows:
                    if row.row == title.row and row.status is status:
                        kinds.add((), row.reason, node.name)
                        sources[node.name] = source_of(row)
            for said, names, differs in kinds.found.values():
                yield RowAnswer(
                    title.row, title.title, _CLASSES[status], WORDS[status], nodeset.fold(names), len(names),
                    Kinds.said(said, differs), sources[names[0]],
                )  # fmt: skip


def _finite(digits: str) -> float | None:
    """Return a limit; None for one that cannot be drawn, such as that of values without bounds."""
    try:
        return decimal(digits)
    except NotUnderstood:
        return None


def _distributions(found: Accept) -> Iterator[ValueDistribution]:
    groups: dict[tuple[str, str, str], list[tuple[str, AcceptValue]]] = {}
    for title in found.rows:
        for node in found.nodes:
            for row in node.rows:
                if row.row == title.row:
                    for one in row.values:
                        name = f"{node.name} {one.device}".strip()
                        groups.setdefault((row.row, one.field, one.hardware), []).append((name, one))
    for (row_name, field, hardware), values in groups.items():
        first = values[0][1]
        limits = {one.limit for _, one in values if one.limit}
        limit = limits.pop() if len(limits) == 1 else ""
        number = _LIMIT.fullmatch(limit)
        dots = [strip.Dot(name, one.value, one.status in OPEN) for name, one in values]
        yield ValueDistribution(
            row_name, field, hardware, first.unit, len(values), limit, first.source or "",
            strip.draw(dots, _finite(number[1]) if number else None),
        )  # fmt: skip
