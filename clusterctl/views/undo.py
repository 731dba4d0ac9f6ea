"""The views of ``undo``: what it will do, and what it has done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from clusterctl.documents.kinds import AppliedStatus
from clusterctl.inventory import nodeset
from clusterctl.report.text.failures import failure_items, step_lines
from clusterctl.report.view import Block, View
from clusterctl.text.grouping import grouped
from clusterctl.views import plan as changes_of_nodes
from clusterctl.views.plan import CHANGE, LEAVE, Change, NodeChanges

if TYPE_CHECKING:
    from clusterctl.apply.execute import StepOutcome
    from clusterctl.apply.undo import UndoOutcome
    from clusterctl.transport.base import Failure, HostMap

_TEXT_CHARACTERS = 200
_FILES_SHOWN = 2
_FILE_ENDS = re.compile(" (?=/)")
_GERUNDS = {
    "clear": "Clearing", "disable": "Disabling", "remove": "Removing", "restart": "Restarting", "restore": "Restoring",
    "stop": "Stopping", "take": "Taking", "unload": "Unloading", "write": "Writing",
}  # fmt: skip
"""The verbs of the runner's ``would_*`` functions, for the time in which undo works."""


def plan(
    outcomes: HostMap[UndoOutcome],
    again: Sequence[str],
    newest: str | None = None,
    beyond: Sequence[str] = (),
    *,
    every: bool = False,
) -> View:
    """Return what undo will do, on which nodes there is nothing to undo, and which nodes could not be read.

    ``again`` are the words of an undo of the same inventory. ``newest`` is the run that was found to be the newest one
    of the nodes (None: not searched), and ``beyond`` are the nodes left out. ``every``: notes list all of their files.
    """
    found, lost = outcomes.values_by_node, failures_of(outcomes)
    nodes = [
        NodeChanges(name, tuple(_change(step, every=every) for step in one.steps), f"undo run {one.run}")
        for name, one in found.items()
        if one.run is not None and not one.nothing
    ]
    left = Block(
        "",
        lines=tuple(_nothing_lines(found, again)),
        items=tuple(failure_items(lost)),
        after=() if newest is None else tuple(_unread_lines(newest, list(lost), beyond)),
        apart=True,
    )
    return View("", (*changes_of_nodes.blocks(nodes), left, changes_of_nodes.end(nodes)))


def ended(
    outcomes: HostMap[UndoOutcome],
    planned: HostMap[UndoOutcome] | None,
    again: Sequence[str],
    counts: str,
    *,
    seen: bool = False,
    every: bool = False,
) -> View:
    """Return the end of the report: what was undone, failed steps and nodes, and the ``counts``.

    ``planned`` are the outcomes that the plan has shown; None without a plan. What it said is not repeated. ``seen``:
    the reader has just seen that plan.
    """
    found, lost = outcomes.values_by_node, failures_of(outcomes)
    said = {} if planned is None else failures_of(planned)
    told = [
        (name, step, text)
        for name, outcome in found.items()
        for step in outcome.steps
        for text in _told(step, every=every)
    ]
    failed = Block(
        "",
        lines=(*step_lines(told), *(() if planned is not None else _nothing_lines(found, again))),
        items=tuple(failure_items({name: one for name, one in lost.items() if name not in said})),
        apart=True,
    )
    done = () if planned is None else _done(planned.values_by_node, found, seen=seen)
    return View("", (*done, failed, Block("", lines=(counts,), apart=True)))


def failures_of(outcomes: HostMap[UndoOutcome]) -> dict[str, Failure]:
    """Return why nodes could not be contacted, or why their undo ended early."""
    lost = {name: one.failure for name, one in outcomes.values_by_node.items() if one.failure is not None}
    return {**outcomes.failures, **lost}


def _told(step: StepOutcome, *, every: bool) -> Iterator[str]:
    if step.status is AppliedStatus.FAILED:
        yield step.reason or "failed"
    if step.status is not AppliedStatus.PLANNED:
        yield from (_note(note, every=every) for note in step.notes)


def size(outcomes: Mapping[str, UndoOutcome]) -> int:
    """Return the number of changes that the plan states: steps that undo leaves as they are do not count."""
    return sum(_change(step).sign != LEAVE for outcome in outcomes.values() for step in outcome.steps)


def _nothing_lines(outcomes: Mapping[str, UndoOutcome], again: Sequence[str]) -> Iterator[str]:
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


def _unread_lines(run: str, unread: Sequence[str], beyond: Sequence[str]) -> Iterator[str]:
    """Yield the line with the nodes that may hold a newer run than the one to undo, if there are any."""
    parts = [nodeset.fold_counted(unread)] if unread else []
    parts += [f"{nodeset.fold_counted(beyond)} (left out by --limit)"] if beyond else []
    if parts:
        yield f"{run} is the newest run of the nodes that were read; not read: {', '.join(parts)}"


def working(outcome: UndoOutcome) -> dict[tuple[str, str], str]:
    """Map each planned step to what undo is doing with it (``Removing /etc/x``), or to nothing if it is left alone."""
    return {(step.requirement, step.description): _working(step) for step in outcome.steps}


def _working(step: StepOutcome) -> str:
    change = _change(step)
    if change.sign == LEAVE:
        return ""
    verb, _, rest = change.text.partition(" ")
    return f"{_GERUNDS.get(verb, verb)} {rest}".replace("Stopping and disable ", "Stopping and disabling ")


def _done(
    listed: Mapping[str, UndoOutcome], outcomes: Mapping[str, UndoOutcome], *, seen: bool
) -> Iterator[Block]:
    """Yield what undo has changed, in the words of its plan; nothing if it changed nothing.

    Only the number of changes, if the reader has just ``seen`` the plan and all of it was done.
    """
    nodes = []
    for name, outcome in outcomes.items():
        plan = {(s.requirement, s.description): s for s in listed[name].steps} if name in listed else {}
        changed = [s for s in outcome.steps if s.status is AppliedStatus.CHANGED]
        changes = (_change(plan.get((s.requirement, s.description), s)) for s in changed)
        nodes.append(NodeChanges(name, tuple(changes)))
    ends = [step.status for outcome in outcomes.values() for step in outcome.steps]
    broken = AppliedStatus.FAILED in ends or any(outcome.failure for outcome in outcomes.values())
    return changes_of_nodes.made(nodes, "Undone", seen=seen and not broken)


def _note(note: str, *, every: bool) -> str:
    """Return a note of a step; unless ``every``, only the first of many files."""
    head, colon, rest = note.partition(": /")
    files = _FILE_ENDS.split(f"/{rest}") if colon else []
    if not every and len(files) > _FILES_SHOWN + 1:
        note = f"{head}: {' '.join(files[:_FILES_SHOWN])} and {len(files) - _FILES_SHOWN} more; -v lists them"
    return f"note: {note}"


def _change(step: StepOutcome, *, every: bool = False) -> Change:
    sign, _, text = step.undo.partition(" ")
    notes = tuple(_note(note, every=every) for note in step.notes)
    if step.status is AppliedStatus.FAILED:
        said = f"cannot be undone: {step.description}: {step.reason}"
        return Change(LEAVE, step.requirement, said, notes=notes, is_refused=True)
    if not text:
        return Change(CHANGE, step.requirement, f"take back: {step.description}", notes=notes)
    unit = text.removeprefix("restart ") if text.startswith("restart ") else ""
    # A text of a node in one line, so that it cannot imitate other lines of the plan.
    shown = " ".join(text.split())
    if len(shown) > _TEXT_CHARACTERS:
        shown = f"{shown[:_TEXT_CHARACTERS]}..."
    return Change(sign, step.requirement, shown, step.diff, notes, restarts=unit)
