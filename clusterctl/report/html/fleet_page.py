"""The page of one check: nodes by requirements, what is unmet with its evidence, drift, and unreachable nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.html import page
from clusterctl.report.html.run_page import Tile
from clusterctl.report.text.failures import add_message
from clusterctl.report.text.folding import Kinds
from clusterctl.wording import counted

SYMBOLS = {"met": "✓", "unmet": "✕", "unknown": "?", "not-applicable": "–"}
"""A sign for each verdict, so that the page does not depend on colours."""
_OPEN = ("unmet", "unknown")


@dataclass(frozen=True, slots=True)
class VerdictCell:
    """One verdict of the matrix; ``status`` is empty where a node was not judged."""

    status: str
    symbol: str
    reason: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """Nodes with the same verdict on every requirement."""

    nodes: str
    count: int
    cells: tuple[VerdictCell, ...]


@dataclass(frozen=True, slots=True)
class AnsweredAlike:
    """Nodes with the same verdict on a requirement for the same reason; ``evidence`` is that of the first node."""

    requirement: str
    status: str
    nodes: str
    count: int
    reason: str
    first: str
    evidence: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LostNodes:
    """Nodes that are unreachable for the same reason."""

    nodes: str
    kind: str
    message: str
    hint: str | None


def render(document: Mapping[str, Any], *, checked_at: str, next_lines: Sequence[str]) -> str:
    """Return the page of a ``clusterctl.check/1`` document as HTML text.

    ``checked_at`` is the time of the check as text, ``next_lines`` the commands to type next.
    """
    nodes: Sequence[Mapping[str, Any]] = document["nodes"]
    answered = [node for node in nodes if node["reachable"]]
    requirements = list(dict.fromkeys(v["requirement"] for node in answered for v in node["verdicts"]))
    answers = list(_answers(answered))
    cells_of = {node["name"]: _cells(node, requirements) for node in answered}
    groups = matrix(cells_of)
    return page.render(
        "fleet.html.j2",
        title=f"Fleet check \u00b7 {counted(len(nodes), 'node')}",
        checked_at=checked_at,
        verdict=_verdict(document),
        tiles=_tiles(document, answered),
        lost=list(_lost(nodes)),
        commands=[line.removeprefix("Next: ") for line in next_lines],
        open_answers=[one for status in _OPEN for one in answers if one.status == status],
        other_answers=[one for one in answers if one.status not in _OPEN],
        warnings=list(_warnings(answered)),
        requirements=requirements,
        symbols=SYMBOLS,
        groups=groups,
        every=rows_of_nodes(cells_of, groups),
        drift=[{**one, "nodes": nodeset.fold(one["nodes"])} for one in document["drift"]],
        one_node=len(answered) == 1,
    )


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _verdict(document: Mapping[str, Any]) -> str:
    summary = document["summary"]
    words = [f"{summary[word]} {word}" for word in (*_OPEN, "unreachable") if summary[word]]
    return ", ".join(words) or "ok"


def _tiles(document: Mapping[str, Any], answered: Sequence[Mapping[str, Any]]) -> list[Tile]:
    summary, total = document["summary"], len(document["nodes"])
    whole = sum(not any(v["status"] in _OPEN for v in node["verdicts"]) for node in answered)
    drifting = len({name for one in document["drift"] for name in one["nodes"]})
    return [
        Tile(
            "Nodes that answered", str(len(answered)), f"of {total}", f"{summary['unreachable']} unreachable"
        ),
        Tile("Nodes without a fault", str(whole), f"of {total}", "every requirement met or not applicable"),
        Tile(
            "Unmet",
            str(summary["unmet"]),
            _noun(summary["unmet"], "verdict"),
            _of_requirements(answered, "unmet"),
        ),
        Tile(
            "Unknown",
            str(summary["unknown"]),
            _noun(summary["unknown"], "verdict"),
            _of_requirements(answered, "unknown"),
        ),
        Tile(
            "Drift",
            str(len(document["drift"])),
            _noun(len(document["drift"]), "fact"),
            f"on {counted(drifting, 'node')}" if drifting else "",
        ),
    ]


def _of_requirements(answered: Sequence[Mapping[str, Any]], status: str) -> str:
    found = {v["requirement"] for node in answered for v in node["verdicts"] if v["status"] == status}
    return f"of {counted(len(found), 'requirement')}" if found else ""


def _lost(nodes: Sequence[Mapping[str, Any]]) -> Iterator[LostNodes]:
    kinds = Kinds()
    hints: dict[str, str | None] = {}
    for node in nodes:
        error = node["error"]
        if error is not None:
            add_message(kinds, (error["kind"],), error["message"], node["name"])
            hints[node["name"]] = error["hint"]
    for (kind, _), (message, names, differs) in kinds.found.items():
        yield LostNodes(
            nodeset.fold_counted(names, " nodes"), kind, Kinds.said(message, differs), hints[names[0]]
        )


def _answers(answered: Sequence[Mapping[str, Any]]) -> Iterator[AnsweredAlike]:
    """Yield the verdicts by requirement, in their order, grouped as the table on the terminal does."""
    kinds: dict[str, Kinds] = {}
    evidence: dict[tuple[str, str], Mapping[str, Any]] = {}
    for node in answered:
        for verdict in node["verdicts"]:
            name = verdict["requirement"]
            kinds.setdefault(name, Kinds()).add((verdict["status"],), verdict["reason"], node["name"])
            evidence[name, node["name"]] = verdict["evidence"]
    for requirement, found in kinds.items():
        for (status, _), (reason, names, differs) in found.found.items():
            of_first = {key: _value(value) for key, value in evidence[requirement, names[0]].items()}
            yield AnsweredAlike(
                requirement,
                status,
                nodeset.fold(names),
                len(names),
                Kinds.said(reason, differs),
                names[0],
                of_first,
            )


def _value(value: object) -> str:
    """Return a value of the evidence in words; lists and maps of plain values in one line."""
    if isinstance(value, Mapping) and value:
        return "; ".join(f"{key}: {_value(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)) and value:
        return ", ".join(_value(one) for one in value)
    if value is None or isinstance(value, (Mapping, list, tuple)):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _warnings(answered: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    kinds = Kinds()
    for node in answered:
        for verdict in node["verdicts"]:
            for warning in verdict.get("warnings") or ():
                kinds.add((verdict["requirement"],), warning, node["name"])
    for (requirement, _), (text, names, differs) in kinds.found.items():
        yield requirement, nodeset.fold_counted(names, " nodes"), Kinds.said(text, differs)


def _cells(node: Mapping[str, Any], requirements: Sequence[str]) -> tuple[VerdictCell, ...]:
    found = {verdict["requirement"]: verdict for verdict in node["verdicts"]}
    return tuple(
        VerdictCell(one["status"], SYMBOLS[one["status"]], one["reason"])
        if one
        else VerdictCell("", "", "not checked")
        for one in (found.get(name) for name in requirements)
    )


def matrix(cells_of: Mapping[str, tuple[VerdictCell, ...]]) -> list[MatrixRow]:
    """Return one row for all nodes with the same verdicts, those with the most faults first."""
    alike = grouped((tuple(cell.symbol for cell in cells), node) for node, cells in cells_of.items())
    rows = [MatrixRow(nodeset.fold(nodes), len(nodes), cells_of[nodes[0]]) for nodes in alike.values()]
    return sorted(rows, key=lambda row: -sum(cell.status in _OPEN for cell in row.cells))


def rows_of_nodes(
    cells_of: Mapping[str, tuple[VerdictCell, ...]], groups: Sequence[MatrixRow]
) -> list[MatrixRow]:
    """Return one row for each node; none if the groups show the same."""
    return (
        [MatrixRow(name, 1, cells) for name, cells in cells_of.items()] if len(groups) < len(cells_of) else []
    )
