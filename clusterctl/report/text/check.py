"""The verdicts of a fleet as text that stays readable at a thousand nodes: nodes with the same answer share a row."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from clusterctl.facts import drift as drifting
from clusterctl.inventory import nodeset

if TYPE_CHECKING:
    from clusterctl.facts.drift import Deviation
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap

ROWS_PER_REQUIREMENT = 6
DRIFT_LINES = 20
WARNING_LINES = 20
NAMES_CHARACTERS = 44
_ORDER = ("unmet", "unknown", "met", "not-applicable")
# Parts that differ between nodes in the same state: numbers, addresses, quoted names, device names.
_OWN = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\b[A-Za-z_.-]*\d[\w.:/+-]*")


def named(names: Sequence[str], limit: int = NAMES_CHARACTERS) -> str:
    """Return node names folded, cut at a limit, with their number when there are several."""
    text = nodeset.fold(names)
    if len(text) > limit:
        text = text[: limit - 3].rstrip(",-") + "..."
    return f"{text} ({len(names)})" if len(names) > 1 else text


def shape(text: str) -> str:
    """Return the text without the parts that differ between nodes in the same state."""
    return _OWN.sub("#", text)


class Kinds:
    """Group nodes' texts by shape: the first text of a group represents all of them."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], tuple[str, list[str], bool]] = {}

    def add(self, key: tuple[str, ...], text: str, node: str, *, like: str | None = None) -> None:
        """Add a node's text; ``like`` is the part that decides the group (None: the whole text)."""
        kind = (*key, shape(text if like is None else like))
        first, nodes, differs = self.found.get(kind, (text, [], False))
        nodes.append(node)
        self.found[kind] = (first, nodes, differs or text != first)

    @staticmethod
    def said(text: str, differs: bool) -> str:
        return f"{text} [others differ in names or numbers]" if differs else text


def folded(verdicts: HostMap[tuple[Decision, ...]], width: int | None = None) -> str:
    """Return the verdicts as one table, worst first for each requirement, then warnings and unreachable nodes.

    Nodes whose reasons are the same except for names and numbers share a row. ``width`` wraps reasons; None: never
    wrap, for text that programs read.
    """
    answered = verdicts.values_by_node
    requirements: dict[str, Kinds] = {}
    warnings = Kinds()
    for name, outcome in answered.items():
        for verdict in outcome:
            kinds = requirements.setdefault(verdict.requirement, Kinds())
            kinds.add((verdict.status.value,), verdict.reason, name)
            for warning in verdict.warnings:
                warnings.add((verdict.requirement,), warning, name)
    blocks = []
    if answered:
        alike = all(len(kinds.found) == 1 for kinds in requirements.values())
        head = named(list(answered), 10**6)
        head = head.replace(f"({len(answered)})", f"({len(answered)} nodes)")
        lines = [head, *_table(requirements, len(answered), alike=alike, width=width)]
        lines += _warnings(warnings, len(answered))
        blocks.append("\n".join(lines))
    if verdicts.failures:
        blocks.append(f"unreachable: {nodeset.fold(list(verdicts.failures))}")
    return "\n\n".join(blocks)


def _table(requirements: dict[str, Kinds], total: int, *, alike: bool, width: int | None) -> list[str]:
    rows: list[tuple[str, str, str, str]] = []
    for requirement, kinds in requirements.items():
        ordered = sorted(kinds.found.items(), key=lambda item: _ORDER.index(item[0][0]))
        for index, ((status, _), (reason, nodes, differs)) in enumerate(ordered):
            if index == ROWS_PER_REQUIREMENT and len(ordered) > ROWS_PER_REQUIREMENT + 1:
                rest = [node for _, (_, names, _) in ordered[index:] for node in names]
                worst = ordered[index][0][0]
                rows.append(("", worst, named(rest), f"... {len(ordered) - index} more different answers"))
                break
            who = "all" if len(nodes) == total else named(nodes)
            rows.append((requirement if index == 0 else "", status, who, Kinds.said(reason, differs)))
    heads = ("requirement", "status", "nodes", "reason")
    columns = (0, 1, 3) if alike else (0, 1, 2, 3)
    cells = [[row[column] for column in columns] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns) - 1)]
    indent = sum(widths) + 2 * len(widths)
    lines = []
    for row in cells:
        start = "".join(cell.ljust(size + 2) for cell, size in zip(row, widths, strict=False))
        lines += _wrapped(start, row[-1], indent, width)
    return lines


def _wrapped(start: str, text: str, indent: int, width: int | None) -> list[str]:
    if width is None or width - indent < 30 or len(start) + len(text) <= width:
        return [(start + text).rstrip()]
    parts = textwrap.wrap(text, width - indent, break_long_words=False, break_on_hyphens=False)
    return [start + parts[0], *(" " * indent + part for part in parts[1:])]


def _warnings(warnings: Kinds, total: int) -> list[str]:
    lines = [
        f"warning: {key[0]}: {Kinds.said(text, differs)}"
        + ("" if len(nodes) == total else f" [{named(nodes)}]")
        for key, (text, nodes, differs) in warnings.found.items()
    ]
    more = len(lines) - WARNING_LINES
    return lines if more <= 1 else [*lines[:WARNING_LINES], f"... and {more} more different warnings"]


def drift_text(deviations: Sequence[Deviation], names: Iterable[str]) -> str:
    """Return the deviations from the majority in at most ``DRIFT_LINES`` lines; empty without deviations."""
    if not deviations:
        return ""
    lines = drifting.render(deviations, names).splitlines()
    more = len(lines) - DRIFT_LINES
    if more > 1:
        lines = [*lines[:DRIFT_LINES], f"... and {more} more differences (--json has them all)"]
    return "drift (differences from most nodes of the same kind):\n" + "\n".join(
        f"  {line}" for line in lines
    )
