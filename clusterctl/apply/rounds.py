"""Run a bootstrap in batches and rounds: apply, gather facts again, plan newly possible steps, until none is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from clusterctl.apply import journal, reboot, script
from clusterctl.apply.engine import Engine, Prepared, Result, judged, merge, named
from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.apply.journal import RunJournal
from clusterctl.apply.on_node import OnNode, left_out
from clusterctl.apply.plan import build
from clusterctl.apply.plan import model as plan_model
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep
from clusterctl.apply.reboot import BOOT_ID
from clusterctl.apply.records import Event, JournalRecord
from clusterctl.documents.apply import RunState
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.errors import ClusterctlError, PlanError
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport
from clusterctl.transport.fanout import fan_out

LIMIT = 4
"""The maximum number of rounds per node and run; a requirement still unmet then needs an operator."""

Announce = Callable[[int, Plan, "HostMap[NodeFacts]"], None]
"""Receives a later round before it is applied: its number, its plan, and the facts that the plan is based on."""


class Rounds:
    """One part of a run, from the first change to the last verdict."""

    def __init__(
        self, engine: Engine, prepared: Prepared, run: RunDir, announce: Announce | None = None
    ) -> None:
        self._announce = announce
        self._engine = engine
        self._prepared = prepared
        self._run = run
        self._nodes = {node.name: node for node in prepared.inventory.nodes}
        self._facts: dict[str, NodeFacts | Failure] = dict(prepared.facts.items())
        self._verdicts = prepared.verdicts
        self._outcomes: dict[str, NodeOutcome] = {}
        self._tried: dict[str, frozenset[PlannedStep]] = {}
        self._rounds: dict[str, int] = {}
        self._deadlines: dict[str, float] = {}
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        self._allowed: int | None = None
        self._records = RunJournal(run)

    def execute(self) -> Result:
        """Apply all batches and rounds; see ``bootstrap.apply``."""
        plan, rolling = self._prepared.plan, self._prepared.options.rolling
        total = sum(1 for node in plan.nodes if node.steps)
        self._allowed = rolling.failures_allowed(total)
        resumed = self._run.file("apply").exists()
        if not resumed:
            journal.start(self._run, self._prepared.options, self._engine.state_dir)
        with self._records:
            while not plan.is_empty:
                batches = tuple(rolling.batches([node for node in plan.nodes if node.steps], total))
                for number, batch in enumerate(batches, 1):
                    if not self._stopped:
                        self._engine.watch.batch(number, len(batches), [node.node for node in batch])
                    self._batch(batch)
                plan = Plan(self._next(self._nodes))
        cut = bool(self._prepared.verdicts.failures or self._prepared.busy) or any(
            outcome.failure is not None for outcome in self._outcomes.values()
        )
        failures = self._prepared.verdicts.failures
        journal.finish(self._run, self._outcomes, failures, RunState.CUT if cut else RunState.FINISHED)
        changed = self._changed() if resumed else {}
        return Result(self._outcomes, self._verdicts, max(self._rounds.values(), default=0), changed)

    def _changed(self) -> Mapping[str, tuple[StepOutcome, ...]]:
        """Return the steps that all parts of the run changed, with those whose record the earlier parts lost."""
        stored = plan_model.from_document(self._run.read("plan"))
        return journal.before(self._run, {node.node: named(node) for node in stored.nodes}).changed

    @property
    def _stopped(self) -> bool:
        return self._allowed is not None and len(self._failed) >= self._allowed

    def _batch(self, plans: tuple[NodePlan, ...]) -> None:
        """Finish one batch, including reboots and final verdicts, before the next one starts."""
        names = [plan.node for plan in plans]
        while plans:
            self._round({plan.node: plan for plan in plans})
            plans = self._next(names)

    def _next(self, names: Iterable[str]) -> tuple[NodePlan, ...]:
        """Plan newly possible steps on nodes without failure; a contradiction in a plan becomes its node's failure."""
        if self._stopped:
            return ()
        seen = self._verdicts.values_by_node
        plans = []
        for name in names:
            done = self._outcomes.get(name)
            if name not in seen or name in self._prepared.busy or self._rounds.get(name, 0) >= LIMIT:
                continue
            if done is not None and done.failure is not None:
                continue
            tried = self._tried.get(name, frozenset())
            try:
                plan = build.build(name, seen[name], tried)
            except PlanError as error:
                failure = Failure(FailureKind.ERROR, f"{name}: {error.message}", error.hint)
                self._keep(name, NodeOutcome((), failure))
                self._count(name, self._outcomes[name])
                continue
            if plan.steps:
                plans.append(plan)
        return tuple(plans)

    def _round(self, plans: Mapping[str, NodePlan]) -> None:
        """Apply the plans of some nodes concurrently, then gather their facts again."""
        later = self._is_later(plans)
        if later:
            self._store(plans)
        busy = [self._nodes[name] for name in plans]
        for name, plan in plans.items():
            self._rounds[name] = self._rounds.get(name, 0) + 1
            left = self._left_over(name)
            asked = frozenset(p for p in plan.steps if script.step_key(p) not in left)
            self._tried[name] = self._tried.get(name, frozenset()) | asked
        # A node that had nothing to do in the first round begins with the second one of the others.
        number = max(2, *(self._rounds[name] for name in plans)) if later else 1
        if later and self._announce is not None:
            self._announce(number, Plan(tuple(plans.values())), HostMap(self._facts))
        watch = self._engine.watch
        with watch.round(number, plans):
            answered = fan_out(
                busy,
                self._engine.kept.over(self._engine.connect),
                lambda node, transport: self._work(node, transport, plans),
                fanout=self._engine.fanout,
                on_start=lambda node: watch.begun(node.name),
                on_done=lambda node, _: watch.ended(node.name),
                release=self._engine.kept.release,
            )
        for name, outcome in answered.items():
            if isinstance(outcome, Failure):
                skipped = left_out(plans[name], AppliedStatus.SKIPPED, "not reached")
                lost = NodeOutcome(skipped, outcome)
                self._count(name, lost)
                self._keep(name, lost)
            else:
                self._keep(name, outcome)
        self._look_again(busy)

    def _is_later(self, plans: Mapping[str, NodePlan]) -> bool:
        """Return whether plans were made after the first round, whose plan is on disk and has been shown already."""
        first = {id(plan) for plan in self._prepared.plan.nodes}
        return any(id(plan) not in first for plan in plans.values())

    def _store(self, plans: Mapping[str, NodePlan]) -> None:
        """Write the plan of a later round to disk before it is applied."""
        stored = plan_model.from_document(self._run.read("plan"))
        merged = merge(stored, Plan(tuple(plans.values())))
        self._run.write("plan", plan_model.to_document(merged))

    def _count(self, name: str, outcome: NodeOutcome) -> None:
        """Count a failed node, once over all rounds."""
        if outcome.failed:
            with self._lock:
                self._failed.add(name)

    def _work(self, node: Node, transport: Transport, plans: Mapping[str, NodePlan]) -> NodeOutcome:
        plan = plans[node.name]
        with self._lock:
            if self._stopped:
                return self._not_started(node, plan)
            now = time.monotonic()
            limit_s = self._engine.node_timeout_s
            deadline = self._deadlines.setdefault(node.name, now + limit_s if limit_s else float("inf"))
        engine, number = self._engine, self._rounds[node.name]
        header = script.Header(
            self._run.id,
            journal.operator(),
            script.new_nonce(),
            engine.state_dir,
            force_reboot=engine.force_reboot,
            lock_wait_s=engine.lock_wait_s,
            controller_boot=_own_boot_id(),
            left_over=self._left_over(node.name),
        )

        def record(key: str, event: JournalRecord) -> None:
            self._records.add(node.name, key, event, number)

        others = (self._nodes[name] for name in plans if name != node.name)
        behind = tuple(other.name for other in others if reboot.is_way_to(node, other))
        try:
            record("", JournalRecord(0, Event.PLANNED, " ".join(named(plan))))
            outcome = OnNode(engine, node, header, deadline, record, behind).run(transport, plan)
        except ClusterctlError as error:
            # The failure must count now: other nodes would be started until the whole round has ended.
            self._count(node.name, NodeOutcome((), Failure(FailureKind.ERROR, error.message)))
            raise
        self._count(node.name, outcome)
        return outcome

    def _left_over(self, name: str) -> frozenset[str]:
        """Return the keys of a node's left-over steps in the first round; steps of later rounds are never left over."""
        return self._prepared.left_over.get(name, frozenset()) if self._rounds[name] == 1 else frozenset()

    def _not_started(self, node: Node, plan: NodePlan) -> NodeOutcome:
        reason = f"not started: {len(self._failed)} nodes failed (--max-failures)"
        failure = Failure(
            FailureKind.ERROR,
            f"{node.name}: {reason}",
            "repair the failed nodes, then continue with: clusterctl bootstrap --resume",
        )
        return NodeOutcome(left_out(plan, AppliedStatus.SKIPPED, reason), failure, started=False)

    def _keep(self, name: str, outcome: NodeOutcome) -> None:
        """Append a round's outcome to those of earlier rounds."""
        number = self._rounds.get(name, 1)
        steps = tuple(replace(step, round=number) for step in outcome.steps)
        earlier = self._outcomes.get(name)
        before = earlier.steps if earlier is not None else ()
        told = {step.key for step in before}
        # A step that changed in an earlier round and is unchanged in this one is listed once.
        new = tuple(s for s in steps if s.status is not AppliedStatus.UNCHANGED or s.key not in told)
        self._outcomes[name] = replace(outcome, steps=(*before, *new))

    def _look_again(self, busy: Sequence[Node]) -> None:
        """Gather and judge again every node that ran steps; a lost node stays a failure."""
        failures = {node.name: self._outcomes[node.name].failure for node in busy}
        # A node whose lock, journal or sudo refused the run is unchanged, so its facts are still valid.
        lost = {
            name: failure
            for name, failure in failures.items()
            if failure is not None and failure.kind not in (FailureKind.ERROR, FailureKind.SUDO)
        }
        again = tuple(node for node in busy if failures[node.name] is None)
        if not self._engine.sees_through_old_logins:
            self._engine.kept.drop()
        inventory = self._prepared.inventory
        if again:
            self._facts.update(self._engine.gather(inventory.model_copy(update={"nodes": again})).items())
        for node in again:
            found = self._facts[node.name]
            if isinstance(found, Failure):
                done = self._outcomes[node.name]
                self._outcomes[node.name] = replace(done, failure=found)
                self._count(node.name, self._outcomes[node.name])
        self._facts.update(lost)
        self._verdicts = judged(self._engine, inventory, self._prepared.options, HostMap(self._facts))


def _own_boot_id() -> str:
    try:
        return Path(BOOT_ID).read_text(encoding="ascii").strip()
    except OSError:
        return ""
