"""Show nodes at work, and steps while they are applied or undone: how many are done, and what runs where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from clusterctl.apply.records import Event
from clusterctl.apply.watch import StepWatch
from clusterctl.cli.terminal.progress import Progress, share

if TYPE_CHECKING:
    from clusterctl.apply.records import JournalRecord
    from clusterctl.plan.model import NodePlan

_ENDED = (Event.CHANGED, Event.UNCHANGED, Event.FAILED, Event.SKIPPED)
_DONE = (Event.CHANGED, Event.UNCHANGED)


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
        self._done = 0

    @contextlib.contextmanager
    def phase(self, what: str, done: str, total: int, nodes: int) -> Iterator[None]:
        """Show the steps of ``nodes`` as one phase; ``done`` is the verb of the line at its end (``Applied``)."""
        self._done = 0
        with Progress(what, total, "changes") as self._progress:
            yield
            shown = share(self._done, total, "change")
            self._progress.done = f"{done} {shown} on {share(nodes, nodes, 'node')}"

    def round(self, number: int, plans: Mapping[str, NodePlan]) -> contextlib.AbstractContextManager[None]:
        what = "Applying changes" if number == 1 else f"Applying changes of round {number}"
        return self.phase(what, "Applied", sum(len(plan.steps) for plan in plans.values()), len(plans))

    def begun(self, node: str) -> None:
        self._progress.start(node)

    def doing(self, node: str, what: str) -> None:
        self._progress.now(node, what)

    def heard(self, node: str, plan: NodePlan, record: JournalRecord) -> None:
        if record.event is Event.BEGIN and 0 < record.number <= len(plan.steps):
            step = plan.steps[record.number - 1]
            self._progress.now(node, f"{step.requirement}: {step.step.description}")
        elif record.event is Event.ENTRY:
            requirement, _, description = record.detail.partition(" ")
            self._progress.now(node, f"{requirement}: {description}")
        elif record.event in _ENDED and record.number:
            self._done += record.event in _DONE
            self._progress.advance()

    def ended(self, node: str) -> None:
        self._progress.advance(node, by=0)
