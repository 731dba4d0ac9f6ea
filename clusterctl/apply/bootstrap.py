"""Prepare a bootstrap: look at all nodes, judge them, plan the first round; or the rest of a run that was cut off."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from clusterctl.apply import carry, journal, script
from clusterctl.apply.engine import Engine, Prepared, Result, judged, merge, named, planned
from clusterctl.apply.journal import Options
from clusterctl.apply.rounds import Rounds
from clusterctl.errors import PlanError
from clusterctl.facts import document as facts_document
from clusterctl.facts.model import NodeFacts
from clusterctl.inventory.model import Inventory
from clusterctl.inventory.recorded import recorded
from clusterctl.plan import model as plan_model
from clusterctl.plan.model import NodePlan, Plan, PlannedStep
from clusterctl.requirements import daemon_json
from clusterctl.requirements.base import Reboot
from clusterctl.rundir import RunDir

__all__ = ["Engine", "Prepared", "Result", "apply", "prepare", "prepare_resumed", "stored_inventory"]


def prepare(engine: Engine, inventory: Inventory, options: Options, run: RunDir) -> Prepared:
    """Gather facts, judge, and plan; write inventory, facts and plan into the run folder; change no node."""
    run.write("inventory", recorded(inventory))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts, engine.subjects))
    verdicts = judged(engine, inventory, options, facts)
    plan = planned(engine, inventory, facts, verdicts)
    _refuse_bad_folders(plan)
    run.write("plan", plan_model.to_document(plan))
    return Prepared(inventory, options, facts, verdicts, plan, {})


def _refuse_bad_folders(plan: Plan) -> None:
    """Raise PlanError, before anything is changed, for packages that could not be carried."""
    for node in plan.nodes:
        carry.folders_of(node)


def stored_inventory(run: RunDir) -> Inventory:
    """Return the inventory that a run was started with; PlanError when it cannot be read as one."""
    try:
        return Inventory.model_validate(run.read("inventory"))
    except ValidationError as error:
        raise PlanError(
            f"{run.file('inventory')} is no inventory: {error.errors()[0]['msg']}", hint="start a new run"
        ) from None


def prepare_resumed(engine: Engine, run: RunDir) -> Prepared:
    """Look at a cut-off run's nodes again and plan what is left of it; PlanError for runs without a plan."""
    options, state_dir = journal.stored_options(run)
    if state_dir != engine.state_dir:
        raise PlanError(f"run {run.id} kept its journal in {state_dir}, not in {engine.state_dir}")
    inventory = stored_inventory(run)
    stored = plan_model.from_document(run.read("plan"))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts, engine.subjects))
    verdicts = judged(engine, inventory, options, facts)
    plan = planned(engine, inventory, facts, verdicts)
    _refuse_bad_folders(plan)
    merged = merge(stored, plan)
    run.write("plan", plan_model.to_document(merged))
    before = journal.before(run, {node.node: named(node) for node in merged.nodes})
    # A step begun and not finished may have left its node looking right: its journal must still be closed.
    plans, left = [], {}
    for node in plan.nodes:
        ended = before.ended.get(node.node, frozenset())
        again = _reopened(merged.of(node.node), node, ended, facts.values_by_node[node.node])
        plans.append(again)
        left[node.node] = frozenset(named(again)) - frozenset(named(node))
    return Prepared(inventory, options, facts, verdicts, Plan(tuple(plans)), before.changed, left)


def _reopened(merged: NodePlan, fresh: NodePlan, ended: frozenset[str], facts: NodeFacts) -> NodePlan:
    """The fresh steps, and those of the run that never reported their end, in the run's order; a reboot last.

    A reboot that nothing asks for any more has been, or need not be.
    """
    wanted = set(named(fresh))
    steps = []
    for p in merged.steps:
        key = script.step_key(p)
        if key in wanted:
            steps.append(p)
        elif not (key in ended or isinstance(p.step, Reboot)):
            whole = _whole(p, facts)
            steps += [] if whole is None else [whole]
    return NodePlan(fresh.node, tuple(sorted(steps, key=lambda p: isinstance(p.step, Reboot))))


def _whole(planned: PlannedStep, facts: NodeFacts) -> PlannedStep | None:
    """Return a stored step as it can be applied, with the secrets that the plan on disk has only stars for.

    None where the node's file has become another one: it is what its judge wants now, and stars must not replace it.
    """
    step = planned.step
    if not daemon_json.is_written_by(step):
        return planned
    content = daemon_json.restored(step.content, facts)
    return None if content is None else replace(planned, step=replace(step, content=content))


def apply(engine: Engine, prepared: Prepared, run: RunDir) -> Result:
    """Apply the plan, batch by batch and round by round, until nothing new can be done; return what is then so.

    After each round the facts of its nodes are gathered, over new connections where a login may decide what is seen.
    Nodes with nothing to do are not contacted again. With no steps at all this only records how the run stands, so
    that a run with nodes out of reach can be resumed.
    """
    return Rounds(engine, prepared, run).execute()
