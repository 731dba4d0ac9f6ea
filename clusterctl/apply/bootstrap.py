"""Plan from facts, apply on all nodes at once, look again; and continue a run that was cut off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusterctl.apply import journal, script
from clusterctl.apply.execute import NodeOutcome, StepOutcome, StepStatus, apply_plan
from clusterctl.apply.journal import Options, RunJournal
from clusterctl.apply.records import Record
from clusterctl.errors import PlanError
from clusterctl.facts import document as facts_document
from clusterctl.facts.model import NodeFacts
from clusterctl.inventory.model import Inventory, Node
from clusterctl.inventory.secret_names import recorded
from clusterctl.plan import build
from clusterctl.plan import model as plan_model
from clusterctl.plan.model import NodePlan, Plan
from clusterctl.requirements import judge
from clusterctl.requirements.base import Requirement, Verdict
from clusterctl.requirements.catalog import ALL
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport
from clusterctl.transport.fanout import fan_out

Gather = Callable[[Inventory], "HostMap[NodeFacts]"]
"""Gathers the facts of all nodes of an inventory, each over a new connection."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How nodes are reached and read, and what they are held against."""

    connect: Callable[[Node], Transport]
    gather: Gather
    fanout: int
    timeout_s: float
    requirements: Mapping[str, Requirement] = field(default_factory=lambda: ALL)
    state_dir: str = script.STATE_DIR


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be done, and what led to it."""

    inventory: Inventory
    options: Options
    verdicts: HostMap[tuple[Verdict, ...]]
    plan: Plan
    before: Mapping[str, tuple[StepOutcome, ...]]
    """Steps that an earlier part of the same run has made."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, and what the nodes looked like afterwards."""

    outcomes: Mapping[str, NodeOutcome]
    verdicts: HostMap[tuple[Verdict, ...]]


def _judged(
    engine: Engine, inventory: Inventory, options: Options, facts: HostMap[NodeFacts]
) -> HostMap[tuple[Verdict, ...]]:
    return facts.map(
        lambda name, found: judge.judge_node(
            found, inventory.node(name), options.only, options.skip, engine.requirements
        )
    )


def _plan(
    engine: Engine, inventory: Inventory, facts: HostMap[NodeFacts], verdicts: HostMap[tuple[Verdict, ...]]
) -> Plan:
    judged = verdicts.values_by_node
    return Plan(
        tuple(
            build.build(found, inventory.node(name), judged[name], engine.requirements)
            for name, found in facts.values_by_node.items()
        )
    )


def prepare(engine: Engine, inventory: Inventory, options: Options, run: RunDir) -> Prepared:
    """Gather facts, judge, and plan; write inventory, facts and plan into the run folder; change no node."""
    run.write("inventory", recorded(inventory))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts))
    verdicts = _judged(engine, inventory, options, facts)
    plan = _plan(engine, inventory, facts, verdicts)
    run.write("plan", plan_model.to_document(plan))
    return Prepared(inventory, options, verdicts, plan, {})


def stored_inventory(run: RunDir) -> Inventory:
    """Return the inventory that a run was started with."""
    return Inventory.model_validate(run.read("inventory"))


def prepare_resumed(engine: Engine, run: RunDir) -> Prepared:
    """Look at a cut-off run's nodes again and plan what is left of it; PlanError for runs without a plan."""
    options, state_dir = journal.stored_options(run)
    if state_dir != engine.state_dir:
        raise PlanError(f"run {run.id} kept its journal in {state_dir}, not in {engine.state_dir}")
    inventory = stored_inventory(run)
    stored = plan_model.from_document(run.read("plan"))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts))
    verdicts = _judged(engine, inventory, options, facts)
    plan = _plan(engine, inventory, facts, verdicts)
    merged = _merged(stored, plan)
    run.write("plan", plan_model.to_document(merged))
    # A step begun and not finished may have left its node looking right: its journal must still be closed.
    left = tuple(
        _reopened(merged.of(node.node), node, run_steps)
        for node in plan.nodes
        for run_steps in [_unfinished(run, merged, node.node)]
    )
    before = journal.changed_before(run, {node.node: _named(node) for node in merged.nodes})
    return Prepared(inventory, options, verdicts, Plan(left), before)


def _named(plan: NodePlan) -> dict[str, tuple[str, str]]:
    return {script.step_key(p): (p.requirement, p.step.description) for p in plan.steps}


def _merged(stored: Plan, fresh: Plan) -> Plan:
    """All steps that the run has ever planned, the fresh form of each winning."""
    names = list(dict.fromkeys([node.node for node in (*stored.nodes, *fresh.nodes)]))
    nodes = []
    for name in names:
        steps = {script.step_key(p): p for p in (*stored.of(name).steps, *fresh.of(name).steps)}
        nodes.append(NodePlan(name, tuple(steps.values())))
    return Plan(tuple(nodes))


def _unfinished(run: RunDir, merged: Plan, node: str) -> frozenset[str]:
    done = journal.changed_before(run, {node: _named(merged.of(node))}).get(node, ())
    return frozenset(_named(merged.of(node))) - {step.key for step in done}


def _reopened(merged: NodePlan, fresh: NodePlan, unfinished: frozenset[str]) -> NodePlan:
    """The fresh steps, and those of the run that never reported their end, in the run's order."""
    wanted = set(_named(fresh)) | unfinished
    return NodePlan(fresh.node, tuple(p for p in merged.steps if script.step_key(p) in wanted))


def apply(engine: Engine, prepared: Prepared, run: RunDir) -> Result:
    """Apply the plan on all nodes at once, then gather facts over new connections and judge what is seen.

    Nodes with nothing to do are not contacted again. With no steps at all this only records how the run stands,
    so that a run with nodes out of reach can be resumed.
    """
    inventory, plan = prepared.inventory, prepared.plan
    busy = [node for node in inventory.nodes if plan.of(node.name).steps]
    outcomes: dict[str, NodeOutcome] = {}
    if not (run.file("apply")).exists():
        journal.start(run, prepared.options, engine.state_dir)
    with RunJournal(run) as records:

        def work(node: Node, transport: Transport) -> NodeOutcome:
            node_plan = plan.of(node.name)
            keys = [script.step_key(planned) for planned in node_plan.steps]

            def record(event: Record) -> None:
                key = keys[event.number - 1] if 0 < event.number <= len(keys) else ""
                records.add(node.name, key, event)

            return apply_plan(
                transport,
                node_plan,
                run=run.id,
                operator=journal.operator(),
                timeout_s=engine.timeout_s,
                record=record,
                state_dir=engine.state_dir,
            )

        answered = fan_out(busy, engine.connect, work, fanout=engine.fanout)
    for name, outcome in answered.items():
        outcomes[name] = (
            NodeOutcome(_not_reached(plan.of(name)), outcome) if isinstance(outcome, Failure) else outcome
        )
    cut = any(outcome.failure is not None for outcome in outcomes.values()) or bool(
        prepared.verdicts.failures
    )
    journal.finish(run, outcomes, prepared.verdicts.failures, "cut" if cut else "finished")
    return Result(outcomes, _look_again(engine, prepared, outcomes))


def _not_reached(plan: NodePlan) -> tuple[StepOutcome, ...]:
    return tuple(
        StepOutcome(p.requirement, p.step.description, StepStatus.SKIPPED, script.step_key(p), "not reached")
        for p in plan.steps
    )


def _look_again(
    engine: Engine, prepared: Prepared, outcomes: Mapping[str, NodeOutcome]
) -> HostMap[tuple[Verdict, ...]]:
    """Judge from fresh facts every node on which a step ran; a node that was lost stays a failure."""
    failed = {name: outcome.failure for name, outcome in outcomes.items() if outcome.failure is not None}
    # A node that answered, and whose lock or journal refused the run, is still what it was.
    lost = {name: failure for name, failure in failed.items() if failure.kind is not FailureKind.ERROR}
    seen: dict[str, tuple[Verdict, ...] | Failure] = dict(prepared.verdicts.items())
    again = tuple(
        node for node in prepared.inventory.nodes if node.name in outcomes and node.name not in failed
    )
    if again:
        part = prepared.inventory.model_copy(update={"nodes": again})
        seen.update(_judged(engine, part, prepared.options, engine.gather(part)).items())
    seen.update(lost)
    return HostMap(seen)
