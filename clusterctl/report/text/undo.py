"""What an undo will do and has done, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from clusterctl.documents.kinds import AppliedStatus
from clusterctl.report.text import plan as plan_text
from clusterctl.report.text.plan import CHANGE, LEAVE, Change, NodeChanges

if TYPE_CHECKING:
    from clusterctl.apply.execute import StepOutcome
    from clusterctl.apply.undo import UndoOutcome

_TEXT_CHARACTERS = 200


def planned(outcomes: Mapping[str, UndoOutcome], width: int | None = None) -> str:
    """Return what undo will do, one block for nodes with the same changes, and the number of changes."""
    nodes = [
        NodeChanges(name, tuple(map(_change, outcome.steps)), head=f"undo run {outcome.run}")
        for name, outcome in outcomes.items()
    ]
    end = [*plan_text.disturbed(nodes), f"Plan: {plan_text.size_of(nodes)}"]
    return "\n\n".join([plan_text.blocks(nodes, width), "\n".join(end)])


def done(
    listed: Mapping[str, UndoOutcome], outcomes: Mapping[str, UndoOutcome], width: int | None = None
) -> str:
    """Return what undo has changed, in the words of its plan; empty if it changed nothing."""
    nodes = []
    for name, outcome in outcomes.items():
        plan = {(s.requirement, s.description): s for s in listed[name].steps} if name in listed else {}
        changed = [s for s in outcome.steps if s.status is AppliedStatus.CHANGED]
        changes = (_change(plan.get((s.requirement, s.description), s)) for s in changed)
        nodes.append(
            NodeChanges(name, tuple(plan_text.without_details(c) for c in changes if c.sign != LEAVE))
        )
    return _named(nodes, width)


def _named(nodes: Iterable[NodeChanges], width: int | None) -> str:
    busy = [node for node in nodes if node.changes]
    return f"Undone: {plan_text.size_of(busy)}\n{plan_text.blocks(busy, width)}" if busy else ""


def _change(step: StepOutcome) -> Change:
    sign, _, text = step.undo.partition(" ")
    notes = tuple(f"note: {note}" for note in step.notes)
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
