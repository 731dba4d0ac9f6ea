"""Show nodes at work, and steps while they are applied or undone: how many are done, and what runs where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from clusterctl.apply.records import Event
from clusterctl.apply.watch import StepWatch
from clusterctl.cli.terminal.progress import Progress, share

if TYPE_CHECKING:
    from clusterctl.apply.plan.model import NodePlan
    from clusterctl.apply.records import JournalRecord

_ENDED = (Event.CHANGED, Event.UNCHANGED, Event.FAILED, Event.SKIPPED)


class LiveNodes(StepWatch):
    """Show the nodes at work, and count those whose work has ended if each works once in the phase."""

    def __init__(self, progress: Progress, *, once: bool = True) -> None:
        self._progress = progress
        self._once = once

    def begun(self, node: str) -> None:
        self._progress.start(node)

    def doing(self, node: str, what: str) -> None:
        self._progress.now(node, what)

    def ended(self, node: str) -> None:
        self._progress.advance(node, by=int(self._once))


class LiveSteps(StepWatch):
    """Count the steps that have ended, in the phases of ``phase`` and of ``round``."""

    def __init__(self) -> None:
        self._progress = Progress("")
        self._changed = 0
        self._unchanged = 0
        self._batch = ""

    @contextlib.contextmanager
    def phase(self, what: str, done: str, total: int, nodes: int) -> Iterator[None]:
        """Show the steps of ``nodes`` as one phase; ``done`` is the verb of the line at its end (``Applied``)."""
        self._changed = self._unchanged = 0
        with Progress(what, total, "changes") as self._progress:
            yield
            shown = share(self._changed, total - self._unchanged, "change")
            kept = f" ({self._unchanged} more needed no change)" if self._unchanged else ""
            self._progress.done = f"{done} {shown} on {share(nodes, nodes, 'node')}{kept}"

    def batch(self, number: int, batches: int, nodes: Sequence[str]) -> None:
        from clusterctl.cli import console
        from clusterctl.inventory import nodeset

        of = f"{number} of {batches}"
        self._batch = f" to batch {of}" if batches > 1 else ""
        if self._batch:
            console.talk(f"Batch {of}: {nodeset.fold(nodes)}")

    def round(self, number: int, plans: Mapping[str, NodePlan]) -> contextlib.AbstractContextManager[None]:
        what = "Applying changes" if number == 1 else f"Applying changes of round {number}"
        what += self._batch
        return self.phase(what, "Applied", sum(len(plan.steps) for plan in plans.values()), len(plans))

    def begun(self, node: str) -> None:
        self._progress.start(node)

    def doing(self, node: str, what: str) -> None:
        self._progress.now(node, what)

    def heard(self, node: str, plan: NodePlan, record: JournalRecord) -> None:
        if record.event is Event.BEGIN and 0 < record.number <= len(plan.steps):
            step = plan.steps[record.number - 1]
            self._progress.now(node, f"{step.requirement}: {step.step.description}")
        elif record.event in _ENDED and record.number:
            self._changed += record.event is Event.CHANGED
            self._unchanged += record.event is Event.UNCHANGED
            self._progress.advance()

    def ended(self, node: str) -> None:
        self._progress.advance(node, by=0)


class LiveUndo(LiveSteps):
    """Count the steps of an undo that its plan counts, and show what undo does with each.

    ``working`` maps the requirement and description of each planned step of a node to what undo is doing with it; the
    text is empty if undo leaves the step as it is.
    """

    def __init__(self, working: Mapping[str, Mapping[tuple[str, str], str]]) -> None:
        super().__init__()
        self._working = working
        self._counts: dict[str, bool] = {}

    def heard(self, node: str, plan: NodePlan, record: JournalRecord) -> None:
        if record.event is Event.ENTRY:
            requirement, _, description = record.detail.partition(" ")
            what = self._working.get(node, {}).get((requirement, description), "")
            self._counts[node] = bool(what)
            if what:
                self._progress.now(node, f"{requirement}: {what}")
        elif self._counts.get(node):
            super().heard(node, plan, record)
