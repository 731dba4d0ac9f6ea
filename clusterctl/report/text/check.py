"""The verdicts of a fleet as text that stays readable at a thousand nodes: nodes with the same answer share a row."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterctl.facts import drift as drifting
from clusterctl.inventory import nodeset
from clusterctl.report.text.failures import failure_lines
from clusterctl.report.text.folding import Kinds, named
from clusterctl.report.text.wrapping import wrapped, wrapped_message
from clusterctl.report.verdict_order import OPEN, SECTIONS, in_order, sentence
from clusterctl.wording import counted

if TYPE_CHECKING:
    from clusterctl.facts.drift import Deviation
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import Failure, HostMap

ROWS_PER_REQUIREMENT = 6
DRIFT_LINES = 20
WARNING_LINES = 20
FOLDED = ("met", "not-applicable")
"""The verdicts that need no attention: one line each names their requirements."""
_HEADS = ("status", "fix", "requirement", "nodes", "reason")
_NAMES_CHARACTERS = 38
"""With the columns before it, a longer list of nodes is wider than a terminal of 80 columns."""
_REASON_CHARACTERS = 34
"""A narrower column for reasons is hard to read; then reasons go below their rows."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One line of the table: nodes with the same verdict on a requirement, for the same reason.

    ``fix`` is who meets the requirement: you or bootstrap.
    """

    status: str
    fix: str
    requirement: str
    nodes: str
    reason: str


def folded(
    verdicts: HostMap[tuple[Decision, ...]],
    width: int | None = None,
    *,
    every: bool = False,
    reasons: bool = True,
) -> str:
    """Return the verdicts as one table: what a person must fix, what bootstrap fixes, unknown, unreachable nodes.

    Nodes whose reasons are the same except for names and numbers share a row. Requirements that are met or not
    applicable are only named, unless ``every`` is set. ``width`` wraps the text; None: never wrap, for text that
    programs read. Without ``reasons``, unreachable nodes are only named.
    """
    answered = verdicts.values_by_node
    kinds, warnings = _kinds(answered)
    blocks = []
    if answered:
        rows = list(_rows(kinds, len(answered), SECTIONS if every else OPEN))
        lines = [nodeset.fold_counted(answered, " nodes"), *_table(rows, width=width)]
        if not every:
            lines += _folded_lines(kinds, len(answered), width)
        blocks.append("\n".join([*lines, *_warnings(warnings, len(answered), width)]))
    if verdicts.failures:
        blocks.append(unreachable(verdicts.failures, width, reasons=reasons))
    return "\n\n".join(blocks)


def not_planned(verdicts: HostMap[tuple[Decision, ...]], width: int | None = None) -> str:
    """Return the table of what is unmet or unknown and has no step in the plan; empty without any."""
    answered = verdicts.values_by_node
    left = {name: tuple(one for one in outcome if not one.steps) for name, outcome in answered.items()}
    rows = list(_rows(_kinds(left)[0], len(answered), OPEN))
    return "\n".join(["Not in this plan:", *_table(rows, width=width)]) if rows else ""


def unreachable(failures: Mapping[str, Failure], width: int | None = None, *, reasons: bool = True) -> str:
    """Return the unreachable nodes, with their reasons and hints below them."""
    lines = failure_lines(failures) if reasons else ()
    indented = (f"  {line}".replace("\n", "\n  ") for line in lines)
    return wrapped_message("\n".join([f"unreachable: {named(list(failures), 10**6)}", *indented]), width)


def summary_line(document: Mapping[str, Any]) -> str:
    """Return the number of nodes and what they need in one line, from a ``clusterctl.check/1`` document."""
    return f"Checked {counted(len(document['nodes']), 'node')}: {sentence(document)}"


def _kinds(answered: Mapping[str, tuple[Decision, ...]]) -> tuple[dict[str, Kinds], Kinds]:
    """Return the verdicts by requirement, and the warnings, each grouped by their texts."""
    requirements: dict[str, Kinds] = {}
    warnings = Kinds()
    for name, outcome in answered.items():
        for verdict in outcome:
            kinds = requirements.setdefault(verdict.requirement, Kinds())
            owner = "" if verdict.owner is None else verdict.owner.value
            kinds.add((verdict.status.value, owner), verdict.full_reason, name)
            for warning in verdict.warnings:
                warnings.add((verdict.requirement,), warning, name)
    return requirements, warnings


def _rows(
    requirements: Mapping[str, Kinds], total: int, sections: Iterable[tuple[str, str]]
) -> Iterator[VerdictRow]:
    for status, owner in sections:
        for requirement in in_order(requirements, owner):
            kinds = requirements[requirement]
            found = [answer for key, answer in kinds.found.items() if key[:2] == (status, owner)]
            for index, (reason, nodes, differs) in enumerate(found):
                if index == ROWS_PER_REQUIREMENT and len(found) > ROWS_PER_REQUIREMENT + 1:
                    rest = [node for _, names, _ in found[index:] for node in names]
                    more = f"... {len(found) - index} more different answers"
                    yield VerdictRow(status, owner, requirement, named(rest, _NAMES_CHARACTERS), more)
                    break
                who = "all" if len(nodes) == total else named(nodes, _NAMES_CHARACTERS)
                yield VerdictRow(status, owner, requirement, who, Kinds.said(reason, differs))


def _table(rows: Sequence[VerdictRow], *, width: int | None) -> Iterator[str]:
    """Yield the lines of the table, without the column of nodes if all nodes share each answer."""
    if not rows:
        return
    alike = all(row.nodes == "all" for row in rows)
    empty = {"nodes" if alike else "", "" if any(row.fix for row in rows) else "fix"}
    heads = [head for head in _HEADS if head not in empty]
    cells = [heads, *([str(getattr(row, head)) for head in heads] for row in rows)]
    sizes = [max(len(row[column]) for row in cells) for column in range(len(heads) - 1)]
    if width is not None and not alike:
        # One long list of nodes must not take the place of all reasons: its row continues below.
        sizes[-1] = min(sizes[-1], max(width // 4, len("nodes")))
    indent = sum(sizes) + 2 * len(sizes)
    if width is not None and width - indent < _REASON_CHARACTERS:
        indent = min(4, max(0, width - _REASON_CHARACTERS))
        cells[0] = [*heads[:-1], ""]
    before: list[str] = []
    for cell in cells:
        # A requirement is named once; its other answers follow below.
        key = cell[: heads.index("requirement") + 1]
        shown = [*key[:-1], "" if key == before else key[-1], *cell[len(key) :]]
        before = key
        yield from _line(shown, sizes, indent, width)


def _line(row: Sequence[str], sizes: Sequence[int], indent: int, width: int | None) -> Iterator[str]:
    start = "".join(cell.ljust(size + 2) for cell, size in zip(row, sizes, strict=False))
    if width is None or (len(start) <= indent and indent + len(row[-1]) <= width):
        yield (start + row[-1]).rstrip()
        return
    parts = textwrap.wrap(row[-1], max(width - indent, 20), break_long_words=False, break_on_hyphens=False)
    if not parts:
        yield start.rstrip()
        return
    if len(start) > indent:
        yield start.rstrip()
        start = " " * indent
    yield start + parts[0]
    yield from (" " * indent + part for part in parts[1:])


def _folded_lines(requirements: Mapping[str, Kinds], total: int, width: int | None) -> Iterator[str]:
    """Yield a line for the requirements that are met, and one for those that are not applicable."""
    for status in FOLDED:
        named_here = []
        for requirement, kinds in requirements.items():
            count = sum(len(nodes) for key, (_, nodes, _) in kinds.found.items() if key[0] == status)
            if count:
                named_here.append(
                    requirement if count == total else f"{requirement} ({count} of {total} nodes)"
                )
        if named_here:
            yield from wrapped(f"{status}: {', '.join(named_here)}", width)


def _warnings(warnings: Kinds, total: int, width: int | None) -> Iterator[str]:
    lines = [
        f"warning: {key[0]}: {Kinds.said(text, differs)}"
        + ("" if len(nodes) == total else f" [{named(nodes)}]")
        for key, (text, nodes, differs) in warnings.found.items()
    ]
    more = len(lines) - WARNING_LINES
    for line in lines if more <= 1 else lines[:WARNING_LINES]:
        yield from wrapped(line, width)
    if more > 1:
        yield f"... and {more} more different warnings"


def drift_text(deviations: Sequence[Deviation], names: Iterable[str], width: int | None = None) -> str:
    """Return the deviations from the majority in at most ``DRIFT_LINES`` lines; empty without deviations."""
    if not deviations:
        return ""
    lines = drifting.render(deviations, names).splitlines()
    more = len(lines) - DRIFT_LINES
    if more > 1:
        lines = [*lines[:DRIFT_LINES], f"... and {more} more differences (--json has them all)"]
    shown = [part for line in lines for part in wrapped(f"  {line}", width, 6)]
    return "\n".join(["drift (differences from most nodes of the same kind):", *shown])
