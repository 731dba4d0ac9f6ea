"""What an undo will do and has done, as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from clusterctl.documents.kinds import AppliedStatus
from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.text import plan as plan_text
from clusterctl.report.text.plan import CHANGE, LEAVE, Change, NodeChanges

if TYPE_CHECKING:
    from clusterctl.apply.execute import StepOutcome
    from clusterctl.apply.undo import UndoOutcome

_TEXT_CHARACTERS = 200
_FILES_SHOWN = 2
_FILE_ENDS = re.compile(" (?=/)")
_GERUNDS = {
    "clear": "Clearing", "disable": "Disabling", "remove": "Removing", "restart": "Restarting", "restore": "Restoring",
    "stop": "Stopping", "take": "Taking", "unload": "Unloading", "write": "Writing",
}  # fmt: skip
"""The verbs of the runner's ``would_*`` functions, for the time in which undo works."""


def planned(
    outcomes: Mapping[str, UndoOutcome], width: int | None = None, more: str = "", *, every: bool = False
) -> str:
    """Return what undo will do, one block for nodes with the same changes, then ``more`` and the number of changes.

    ``every``: notes list all of their files.
    """
    nodes = [
        NodeChanges(
            name,
            tuple(_change(step, every=every) for step in outcome.steps),
            head=f"undo run {outcome.run}",
        )
        for name, outcome in outcomes.items()
    ]
    end = [*plan_text.disturbed(nodes), f"Plan: {plan_text.size_of(nodes)}"]
    return "\n\n".join(filter(None, [plan_text.blocks(nodes, width), more, "\n".join(end)]))


def size(outcomes: Mapping[str, UndoOutcome]) -> int:
    """Return the number of changes that the plan states: steps that undo leaves as they are do not count."""
    return sum(_change(step).sign != LEAVE for outcome in outcomes.values() for step in outcome.steps)


def nothing_lines(outcomes: Mapping[str, UndoOutcome], again: Sequence[str]) -> Iterator[str]:
    """Yield the nodes without anything to undo, why, and the command that undoes their latest run.

    ``again`` are the words of an undo of the same inventory.
    """
    alike = grouped(((one.nothing, one.older), name) for name, one in outcomes.items() if one.nothing)
    for (why, older), names in alike.items():
        said = why if why.startswith("nothing to undo") else f"nothing to undo: {why}"
        yield f"{nodeset.fold_counted(names)}: {said}"
        if older is not None:
            command = shlex.join((*again, "--run", older, "--limit", nodeset.fold(names)))
            yield f"    the latest run there is {older}; to undo it: {command}"


def unread_line(run: str, unread: Sequence[str], beyond: Sequence[str]) -> str:
    """Return the line with the nodes that may hold a newer run than the one to undo; empty without such nodes."""
    parts = [nodeset.fold_counted(unread)] if unread else []
    parts += [f"{nodeset.fold_counted(beyond)} (left out by --limit)"] if beyond else []
    if not parts:
        return ""
    return f"{run} is the newest run of the nodes that were read; not read: {', '.join(parts)}"


def working(outcome: UndoOutcome) -> dict[tuple[str, str], str]:
    """Map each planned step to what undo is doing with it (``Removing /etc/x``), or to nothing if it is left alone."""
    return {(step.requirement, step.description): _working(step) for step in outcome.steps}


def _working(step: StepOutcome) -> str:
    change = _change(step)
    if change.sign == LEAVE:
        return ""
    verb, _, rest = change.text.partition(" ")
    return f"{_GERUNDS.get(verb, verb)} {rest}".replace("Stopping and disable ", "Stopping and disabling ")


def done(
    listed: Mapping[str, UndoOutcome],
    outcomes: Mapping[str, UndoOutcome],
    width: int | None = None,
    *,
    seen: bool = False,
) -> str:
    """Return what undo has changed, in the words of its plan; empty if it changed nothing.

    Only the number of changes, if the reader has just ``seen`` the plan and all of it was done.
    """
    nodes = []
    for name, outcome in outcomes.items():
        plan = {(s.requirement, s.description): s for s in listed[name].steps} if name in listed else {}
        changed = [s for s in outcome.steps if s.status is AppliedStatus.CHANGED]
        changes = (_change(plan.get((s.requirement, s.description), s)) for s in changed)
        nodes.append(
            NodeChanges(name, tuple(plan_text.without_details(c) for c in changes if c.sign != LEAVE))
        )
    busy = [node for node in nodes if node.changes]
    if not busy:
        return ""
    head = f"Undone: {plan_text.size_of(busy)}"
    ended = [step.status for outcome in outcomes.values() for step in outcome.steps]
    broken = AppliedStatus.FAILED in ended or any(outcome.failure for outcome in outcomes.values())
    return head if seen and not broken else f"{head}\n{plan_text.blocks(busy, width)}"


def note_line(note: str, *, every: bool) -> str:
    """Return a note of a step; unless ``every``, only the first of many files."""
    head, colon, rest = note.partition(": /")
    files = _FILE_ENDS.split(f"/{rest}") if colon else []
    if not every and len(files) > _FILES_SHOWN + 1:
        note = f"{head}: {' '.join(files[:_FILES_SHOWN])} and {len(files) - _FILES_SHOWN} more; -v lists them"
    return f"note: {note}"


def _change(step: StepOutcome, *, every: bool = False) -> Change:
    sign, _, text = step.undo.partition(" ")
    notes = tuple(note_line(note, every=every) for note in step.notes)
    if step.status is AppliedStatus.FAILED:
        return Change(LEAVE, step.requirement, f"cannot be undone: {step.description}: {step.reason}", notes)
    if not text:
        return Change(CHANGE, step.requirement, f"take back: {step.description}", notes)
    unit = text.removeprefix("restart ") if text.startswith("restart ") else ""
    # A text of a node in one line, so that it cannot imitate other lines of the plan.
    shown = " ".join(text.split())
    if len(shown) > _TEXT_CHARACTERS:
        shown = f"{shown[:_TEXT_CHARACTERS]}..."
    return Change(sign, step.requirement, shown, (*step.diff, *notes), restarts=unit)
