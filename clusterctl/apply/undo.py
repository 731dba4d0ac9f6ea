"""Undo a run: restore prior values from each node's own journal, in reverse order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from clusterctl import run_ids
from clusterctl.apply import script
from clusterctl.apply.drive import drive
from clusterctl.apply.execute import StepOutcome
from clusterctl.apply.plan import file_diff
from clusterctl.apply.plan.model import NodePlan
from clusterctl.apply.records import Event, JournalRecord
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, HostMap, Transport
from clusterctl.transport.fanout import fan_out

_RESTORED = re.compile(r"~ restore (/.*) \([0-7]+ \S+\)")


@dataclass(frozen=True, slots=True)
class UndoOutcome:
    """One node: the run that was (or would be) undone, its steps, and why nothing was done or the undo ended early.

    ``known`` lists the runs in the node's journal if the requested one is missing; else None. ``older`` is the latest
    run of a node on which there is nothing of the requested run to undo, as far as it was read.
    """

    run: str | None
    steps: tuple[StepOutcome, ...]
    nothing: str = ""
    failure: Failure | None = None
    known: tuple[str, ...] | None = None
    older: str | None = None


class _Follower:
    def __init__(self) -> None:
        self.steps: dict[int, StepOutcome] = {}
        self.run: str | None = None
        self.nothing = ""
        self.known: tuple[str, ...] | None = None
        self.refused: str | None = None
        self.ended = False
        self._prior: dict[int, str] = {}

    def follow(self, record: JournalRecord) -> None:
        if record.event is Event.RUN:
            self.run = record.detail
        elif record.event is Event.UNKNOWN:
            self.known = ()
        elif record.event is Event.KNOWN:
            self.known = (*(self.known or ()), record.detail)
        elif record.event is Event.NOTHING:
            self.nothing, self.ended = record.detail, True
        elif record.event is Event.REFUSED:
            self.refused = record.detail
        elif record.event is Event.DONE:
            self.ended = True
        elif record.event is Event.ENTRY:
            requirement, _, description = record.detail.partition(" ")
            self.steps[record.number] = StepOutcome(requirement, description, AppliedStatus.PLANNED)
        elif record.number in self.steps and record.event is Event.WOULD:
            self.steps[record.number] = replace(self.steps[record.number], undo=record.detail.strip())
        elif record.event is Event.PRIOR:
            self._prior[record.number] = record.detail
        elif record.number in self.steps and record.event is Event.PRESENT:
            step = self.steps[record.number]
            path = _RESTORED.fullmatch(step.undo)
            lines = file_diff.diff(path[1] if path else "", record.detail, self._prior.pop(record.number, ""))
            self.steps[record.number] = replace(step, diff=lines)
        elif record.number in self.steps and record.event is Event.NOTE:
            step = self.steps[record.number]
            self.steps[record.number] = replace(step, notes=(*step.notes, record.detail.strip()))
        elif record.number in self.steps and record.event in (Event.CHANGED, Event.FAILED, Event.SKIPPED):
            self.steps[record.number] = replace(
                self.steps[record.number], status=AppliedStatus(record.event.value), reason=record.detail
            )

    def outcome(self, failure: Failure | None) -> UndoOutcome:
        steps = self.steps.values()
        if failure is not None:
            steps_ended = tuple(
                replace(s, status=AppliedStatus.FAILED, reason=f"interrupted: {failure.message}")
                if s.status is AppliedStatus.PLANNED
                else s
                for s in steps
            )
            return UndoOutcome(self.run, steps_ended, self.nothing, failure)
        return UndoOutcome(self.run, tuple(steps), self.nothing, known=self.known)


def _run(
    transport: Transport, text: str, nonce: str, timeout_s: float, on_record: Callable[[JournalRecord], None]
) -> UndoOutcome:
    follower = _Follower()

    def heard(record: JournalRecord) -> None:
        follower.follow(record)
        on_record(record)

    return follower.outcome(
        drive(
            transport,
            text,
            nonce,
            follower,
            heard,
            timeout_s=timeout_s,
            go_on="run undo again: it is safe to repeat",
        )
    )


def with_unreached(listed: UndoOutcome, done: UndoOutcome | Failure) -> UndoOutcome:
    """Return the outcome of an undo with the steps of its plan that it never began."""
    if isinstance(done, Failure):
        done = UndoOutcome(listed.run, (), failure=done)
    begun = {(step.requirement, step.description) for step in done.steps}
    left = tuple(
        replace(step, status=AppliedStatus.SKIPPED, reason="not reached", notes=())
        for step in listed.steps
        if done.failure is not None and (step.requirement, step.description) not in begun
    )
    return replace(done, run=done.run or listed.run, steps=(*done.steps, *left))


def newest(listed: HostMap[UndoOutcome]) -> str | None:
    """Return the newest run among the latest ones of the nodes, by its id; None without any.

    A name that is not the id of a bootstrap is left out: other nodes would take it for a part of a path.
    """
    runs = (outcome.run for outcome in listed.values_by_node.values() if outcome.run is not None)
    return max(
        (run for run in runs if run_ids.is_id(run) and run_ids.verb_of(run) == "bootstrap"), default=None
    )


@dataclass(frozen=True, slots=True)
class Undo:
    """The parameters of an undo. ``run`` None: the latest run of each node that has not been undone."""

    connect: Callable[[Node], Transport]
    fanout: int
    timeout_s: float
    operator: str
    run: str | None = None
    force: bool = False
    state_dir: str = script.STATE_DIR

    def _header(self, run: str | None) -> script.Header:
        return script.Header(run or "", self.operator, script.new_nonce(), self.state_dir, self.force)

    def list(self, nodes: tuple[Node, ...], watch: StepWatch = SILENT) -> HostMap[UndoOutcome]:
        """Return what an undo would revert on each node, without changing anything."""
        return self._on(nodes, watch, lambda _node: self._header(self.run), script.list_script)

    def list_newest(self, nodes: tuple[Node, ...], watch: StepWatch = SILENT) -> HostMap[UndoOutcome]:
        """Return what an undo of the newest run among the nodes' latest ones would revert, and nothing of older runs.

        Nodes whose latest run is another one are asked for the newest run: it may have been resumed on them, or they
        had no part in it.
        """
        listed = self.list(nodes, watch)
        run = newest(listed)
        latest = {name: one.run for name, one in listed.values_by_node.items() if one.run not in (None, run)}
        if run is None or not latest:
            return listed
        others = tuple(node for node in nodes if node.name in latest)
        again = replace(self, run=run).list(others)
        found = {
            name: replace(one, older=latest[name]) if not isinstance(one, Failure) and one.nothing else one
            for name, one in again.items()
        }
        return HostMap({**dict(listed.items()), **found})

    def execute(
        self, nodes: tuple[Node, ...], runs: dict[str, str], watch: StepWatch = SILENT
    ) -> HostMap[UndoOutcome]:
        """Undo on each node the run named in ``runs`` (as returned by ``list``)."""
        chosen = tuple(node for node in nodes if node.name in runs)
        return self._on(chosen, watch, lambda node: self._header(runs[node.name]), script.undo_script)

    def _on(
        self,
        nodes: tuple[Node, ...],
        watch: StepWatch,
        header_of: Callable[[Node], script.Header],
        text_of: Callable[[script.Header], str],
    ) -> HostMap[UndoOutcome]:
        def work(node: Node, transport: Transport) -> UndoOutcome:
            header = header_of(node)
            return _run(
                transport, text_of(header), header.nonce, self.timeout_s,
                lambda record: watch.heard(node.name, NodePlan(node.name, ()), record),
            )  # fmt: skip

        return fan_out(
            nodes, self.connect, work, fanout=self.fanout,
            on_start=lambda node: watch.begun(node.name), on_done=lambda node, _: watch.ended(node.name),
        )  # fmt: skip
