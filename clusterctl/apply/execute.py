"""Run one node's script over its transport and follow its records to the outcome of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from clusterctl.apply import script
from clusterctl.apply.drive import drive
from clusterctl.apply.plan.model import NodePlan
from clusterctl.apply.records import Event, JournalRecord
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.transport.base import Failure, Transport


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step and how it ended: ``reason`` explains a failed or skipped step, ``notes`` list anything unusual."""

    requirement: str
    description: str
    status: AppliedStatus
    key: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    round: int = 1
    """The round, within this part of the run, in which the step was planned."""
    interrupted: bool = False
    """Whether the connection or the runner ended while the step was running."""
    needs_reboot: bool = False
    """Whether the step is a reboot that this run does not make: not allowed, or impossible from this machine."""
    undo: str = ""
    """Of a step of an undo: what undo does with it, as a sign and a sentence (``- remove /etc/x``)."""
    diff: tuple[str, ...] = ()
    """Of a planned step of an undo: the lines that change in its file."""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What happened on one node; ``failure`` is set if the node, the lock or the journal ended the run early.

    ``boot_id`` is the node's boot ID when its runner started, empty if the runner never started. ``rebooting`` is
    True if the node is about to reboot as planned.
    """

    steps: tuple[StepOutcome, ...]
    failure: Failure | None = None
    boot_id: str = ""
    rebooting: bool = False
    started: bool = True
    """False for a node that was not started because too many others had failed."""

    @property
    def failed(self) -> bool:
        """Whether the node counts as failed for ``--max-failures``."""
        return self.started and (
            self.failure is not None or any(step.status is AppliedStatus.FAILED for step in self.steps)
        )


Recorder = Callable[[JournalRecord], None]

_FINAL = {
    Event.CHANGED: AppliedStatus.CHANGED,
    Event.UNCHANGED: AppliedStatus.UNCHANGED,
    Event.FAILED: AppliedStatus.FAILED,
    Event.SKIPPED: AppliedStatus.SKIPPED,
}


class Follower:
    """Updates the outcome of each planned step as records arrive."""

    def __init__(self, plan: NodePlan) -> None:
        self._outcomes = [
            StepOutcome(p.requirement, p.step.description, AppliedStatus.PLANNED, script.step_key(p))
            for p in plan.steps
        ]
        self._begun: set[int] = set()
        self._booting: int | None = None
        self.refused: str | None = None
        self.ended = False
        self.boot_id = ""

    def follow(self, record: JournalRecord) -> None:
        """Update the outcomes with one record."""
        if record.number == 0:
            self.refused = record.detail if record.event is Event.REFUSED else self.refused
            self.ended = self.ended or record.event is Event.DONE
            self.boot_id = record.detail if record.event is Event.START else self.boot_id
            return
        index = record.number - 1
        if index >= len(self._outcomes):
            return
        outcome = self._outcomes[index]
        if record.event is Event.BEGIN:
            self._begun.add(index)
        elif record.event is Event.REBOOTING:
            self._booting = index
        elif record.event is Event.NOTE:
            self._outcomes[index] = replace(outcome, notes=(*outcome.notes, record.detail))
        elif record.event in _FINAL:
            self._outcomes[index] = replace(outcome, status=_FINAL[record.event], reason=record.detail)
            self._booting = None if self._booting == index else self._booting

    def outcome(self, failure: Failure | None) -> NodeOutcome:
        """Return how all steps ended; an unfinished step is failed if it had begun, else skipped."""
        steps = []
        rebooting = self._booting is not None
        # A planned reboot may close the connection before the last record arrives.
        failure = None if rebooting else failure
        for index, outcome in enumerate(self._outcomes):
            if outcome.status is not AppliedStatus.PLANNED or index == self._booting:
                steps.append(outcome)
            elif index in self._begun:
                reason = f"interrupted: {failure.message}" if failure else "interrupted"
                steps.append(replace(outcome, status=AppliedStatus.FAILED, reason=reason, interrupted=True))
            else:
                steps.append(replace(outcome, status=AppliedStatus.SKIPPED, reason="not reached"))
        return NodeOutcome(tuple(steps), failure, self.boot_id, rebooting)


def apply_plan(
    transport: Transport,
    plan: NodePlan,
    header: script.Header,
    *,
    timeout_s: float,
    record: Recorder,
    carried: Mapping[str, str] | None = None,
) -> NodeOutcome:
    """Apply one node's steps in one exec; a lost node gives an outcome with a ``failure`` and raises no error.

    ``carried`` maps each package directory to its name on the node. ``timeout_s`` bounds the exec, in seconds.
    """
    text = script.apply_script(header, plan, carried=carried)
    follower = Follower(plan)

    def on_record(parsed: JournalRecord) -> None:
        record(parsed)
        follower.follow(parsed)

    return follower.outcome(
        drive(
            transport,
            text,
            header.nonce,
            follower,
            on_record,
            timeout_s=timeout_s,
            go_on="continue with: clusterctl bootstrap --resume",
        )
    )
