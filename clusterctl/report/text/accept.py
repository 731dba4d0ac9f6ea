"""The screen of ``accept``: what failed and what did not run first, with values, thresholds and their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterctl.documents.accept import Accept, AcceptedNode, AcceptedRow, AcceptValue, RowStatus
from clusterctl.inventory import nodeset
from clusterctl.report.text.failures import failure_lines
from clusterctl.report.text.folding import Kinds, named
from clusterctl.report.text.table import columns
from clusterctl.transport.base import Failure
from clusterctl.wording import counted

WORDS = {
    RowStatus.OK: "OK",
    RowStatus.MEASURED: "measured",
    RowStatus.WARN: "WARN",
    RowStatus.FAIL: "FAIL",
    RowStatus.NOT_RUN: "NOT RUN",
    RowStatus.NOT_APPLICABLE: "-",
}
OPEN = (RowStatus.FAIL, RowStatus.NOT_RUN, RowStatus.WARN)
"""What the reader must look at, the worst first."""
_FURTHER = "\n           "
"""Further lines of a text are indented, so that what one node printed cannot imitate the line of another."""


def text(found: Accept) -> str:
    """Return the report for people."""
    blocks = ["\n".join(_open(found)), _table(found), "\n".join(_end(found))]
    return "\n\n".join(block for block in blocks if block)


def _open(found: Accept) -> Iterator[str]:
    errors = {node.name: node.error for node in found.nodes if node.error is not None}
    yield from failure_lines(
        {name: Failure(error.kind, error.message, error.hint) for name, error in errors.items()}
    )
    for status in OPEN:
        for title in found.rows:
            kinds = Kinds()
            sources: dict[str, str] = {}
            for node in found.nodes:
                for row in node.rows:
                    if row.row == title.row and row.status is status:
                        kinds.add((), row.reason + _when(row), node.name)
                        sources[node.name] = source_of(row)
            for said, names, differs in kinds.found.values():
                line = f"{WORDS[status]:7}  {named(names)}: {title.row}: {Kinds.said(said, differs)}"
                yield line.replace("\n", _FURTHER)
                if sources[names[0]]:
                    yield f"         {sources[names[0]]}".replace("\n", _FURTHER)


def _when(row: AcceptedRow) -> str:
    return f" (first in repeat {row.repeat + 1} of {row.repeats})" if row.repeats > 1 else ""


def source_of(row: AcceptedRow) -> str:
    """Return the source of the threshold that decided about a row, and its log."""
    decided = next((one for one in row.values if one.status is row.status and one.source), None)
    parts = [f"threshold: {decided.source}"] if decided is not None else []
    parts += [f"tool: {row.tool}"] if row.tool else []
    parts += [f"log: {row.log}"] if row.log and row.status is not RowStatus.OK else []
    return "; ".join(parts)


def _table(found: Accept) -> str:
    """Return one line for each row: the number of nodes by status, and the range of the value that decides."""
    lines = []
    unused = []
    for title in found.rows:
        rows = [row for node in found.nodes for row in node.rows if row.row == title.row]
        if rows and all(row.status is RowStatus.NOT_APPLICABLE for row in rows):
            unused.append(title.row)
            continue
        counted = [
            f"{sum(row.status is status for row in rows)} {word}"
            for status, word in WORDS.items()
            if status is not RowStatus.NOT_APPLICABLE and any(row.status is status for row in rows)
        ]
        lines.append([title.row, ", ".join(counted) or "-", _range([v for row in rows for v in row.values])])
    table = columns(["row", "nodes", "values"], lines, left=(0, 1, 2)) if lines else ""
    return table + (f"\n\nnot applicable here: {', '.join(unused)}" if unused else "")


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
    verdict = OPEN.index(value.status) if value.status in OPEN else len(OPEN)
    return verdict, value.limit is None


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
    nodes = f"{len(found.accepted)} of {counted(total, 'node')}"
    yield f"accepted: {nodes}: {names}"
    if any(value.compared for node in found.nodes for row in node.rows for value in row.values):
        share = round(1 / found.false_alarms_per_run)
        yield f"Comparison between nodes: at most 1 false alarm in {share} runs of a healthy fleet."
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
