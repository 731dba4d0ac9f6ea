"""The page of one check: what the nodes need, who must act, the evidence, drift, and unreachable nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.documents.kinds import VerdictOwner
from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.html import page
from clusterctl.report.text.failures import add_message, folded_hint
from clusterctl.report.text.folding import Kinds
from clusterctl.report.text.next_step import NextStep, next_lines, ready_line
from clusterctl.report.verdict_order import in_order, sentence
from clusterctl.report.view import Tile
from clusterctl.wording import counted, some

SYMBOLS = {"unmet": "✕", "fixable": "+", "unknown": "?", "met": "✓", "not-applicable": "–"}
"""A sign for each verdict, so that the page does not depend on colours; the keys are classes of the style sheet."""
WORDS = {"unmet": "needs a person", "fixable": "bootstrap fixes it"}
"""The words of the verdicts that are not their own names."""
_OPEN = ("unmet", "fixable", "unknown")
_HEADINGS = {"unmet": "Left to a person", "fixable": "Fixed by bootstrap", "unknown": "Unknown"}


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


def render(document: Mapping[str, Any], *, checked_at: str, following: Sequence[NextStep]) -> str:
    """Return the page of a ``clusterctl.check/1`` document as HTML text.

    ``checked_at`` is the time of the check as text, ``following`` are the commands to type next.
    """
    nodes: Sequence[Mapping[str, Any]] = document["nodes"]
    answered = [node for node in nodes if node["reachable"]]
    requirements = list(dict.fromkeys(v["requirement"] for node in answered for v in node["verdicts"]))
    answers = list(_answers(answered))
    cells_of = {node["name"]: _cells(node, requirements) for node in answered}
    # Nodes that need a person come first, then those with the most faults.
    groups = sorted(matrix(cells_of), key=lambda row: -sum(cell.status == "unmet" for cell in row.cells))
    return page.render(
        "fleet.html.j2",
        title=f"Fleet check \u00b7 {counted(len(nodes), 'node')}",
        checked_at=checked_at,
        verdict="ok" if document["summary"]["nodes"]["whole"] == len(nodes) else _verdict(document),
        sentence=_capital(sentence(document)),
        ready=ready_line(document),
        tiles=_tiles(document, answered),
        lost=list(_lost(nodes)),
        commands=[line.removeprefix("Next: ") for line in next_lines(following)],
        open_answers=[(_HEADINGS[of], found) for of in _OPEN if (found := _in_section(answers, of))],
        other_answers=[one for one in answers if one.status not in _OPEN],
        warnings=list(_warnings(answered)),
        requirements=requirements,
        symbols=SYMBOLS,
        words=WORDS,
        groups=groups,
        every=rows_of_nodes(cells_of, groups),
        drift=[{**one, "nodes": nodeset.fold(one["nodes"])} for one in document["drift"]],
        one_node=len(answered) == 1,
    )


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _verdict(document: Mapping[str, Any]) -> str:
    total = len(document["nodes"])
    return f"{total - document['summary']['nodes']['whole']} of {counted(total, 'node')} not as required"


def _kind(verdict: Mapping[str, Any]) -> str:
    """Return the class of a verdict: its status, and ``fixable`` if bootstrap meets it."""
    return "fixable" if verdict.get("owner") == VerdictOwner.BOOTSTRAP.value else str(verdict["status"])


def _in_section(answers: Sequence[AnsweredAlike], of: str) -> list[AnsweredAlike]:
    order = in_order(dict.fromkeys(one.requirement for one in answers), "you" if of == "unmet" else "")
    return sorted((one for one in answers if one.status == of), key=lambda one: order.index(one.requirement))


def _tiles(document: Mapping[str, Any], answered: Sequence[Mapping[str, Any]]) -> list[Tile]:
    counts = document["summary"]["nodes"]
    drifting = len({name for one in document["drift"] for name in one["nodes"]})

    def tile(label: str, count: int, note: str) -> Tile:
        return Tile(label, str(count), _noun(count, "node"), note)

    return [
        tile("Need a person", counts["you"], _of_requirements(answered, "unmet")),
        tile("Bootstrap fixes", counts["bootstrap"], _of_requirements(answered, "fixable")),
        tile("Unknown", counts["unknown"], _of_requirements(answered, "unknown")),
        tile("Down", counts["unreachable"], f"{len(answered)} of {len(document['nodes'])} answered"),
        tile("As required", counts["whole"], "every requirement met or not applicable"),
        Tile(
            "Drift",
            str(len(document["drift"])),
            _noun(len(document["drift"]), "fact"),
            f"on {counted(drifting, 'node')}" if drifting else "",
        ),
    ]


def _of_requirements(answered: Sequence[Mapping[str, Any]], kind: str) -> str:
    found = {v["requirement"] for node in answered for v in node["verdicts"] if _kind(v) == kind}
    return some(sorted(found), 3) if found else ""


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
            nodeset.fold_counted(names, " nodes"),
            kind,
            Kinds.said(message, differs),
            folded_hint(names, hints),
        )


def _answers(answered: Sequence[Mapping[str, Any]]) -> Iterator[AnsweredAlike]:
    """Yield the verdicts by requirement, in their order, grouped as the table on the terminal does."""
    kinds: dict[str, Kinds] = {}
    evidence: dict[tuple[str, str], Mapping[str, Any]] = {}
    for node in answered:
        for verdict in node["verdicts"]:
            name = verdict["requirement"]
            kinds.setdefault(name, Kinds()).add((_kind(verdict),), _reason(verdict), node["name"])
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


def _reason(verdict: Mapping[str, Any]) -> str:
    why = verdict.get("no_step")
    return f"{verdict['reason']}; no step: {why}" if why else str(verdict["reason"])


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
        VerdictCell(_kind(one), SYMBOLS[_kind(one)], _reason(one))
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
