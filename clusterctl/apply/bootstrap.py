"""Prepare a bootstrap: gather facts, judge, and plan the first round, or the rest of an interrupted run."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from clusterctl.apply import carry, journal, script
from clusterctl.apply.engine import Engine, Prepared, Result, judged, merge, named, planned
from clusterctl.apply.journal import Options
from clusterctl.apply.plan import model as plan_model
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep
from clusterctl.apply.rounds import Announce, Rounds
from clusterctl.errors import PlanError
from clusterctl.facts import document as facts_document
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Inventory
from clusterctl.inventory.recorded import recorded
from clusterctl.requirements.containers import daemon_json
from clusterctl.requirements.steps import Reboot
from clusterctl.rundir import RunDir
from clusterctl.text import model_errors

__all__ = ["Engine", "Prepared", "Result", "apply", "prepare", "prepare_resumed", "stored_inventory"]


def prepare(engine: Engine, inventory: Inventory, options: Options, run: RunDir) -> Prepared:
    """Gather facts, judge and plan; write inventory, facts and plan into the run folder without changing a node."""
    run.write("inventory", recorded(inventory))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts, engine.subjects))
    verdicts = judged(engine, inventory, options, facts)
    plan = planned(inventory, verdicts)
    _refuse_bad_folders(plan)
    run.write("plan", plan_model.to_document(plan))
    return Prepared(inventory, options, facts, verdicts, plan, {})


def _refuse_bad_folders(plan: Plan) -> None:
    """Raise PlanError, before any node is changed, if a package directory of the plan is unusable."""
    for node in plan.nodes:
        carry.folders_of(node)


def stored_inventory(run: RunDir) -> Inventory:
    """Return the inventory that a run was started with; raise PlanError if the stored one is not valid."""
    try:
        return Inventory.model_validate(run.read("inventory"))
    except ValidationError as error:
        raise PlanError(
            f"{run.file('inventory')} is not a valid inventory: {model_errors.first(error)}",
            hint="start a new run",
        ) from None


def prepare_resumed(engine: Engine, run: RunDir) -> Prepared:
    """Gather facts again for an interrupted run and plan its remaining steps.

    Raises PlanError if the run has no plan or kept its journal in another state directory.
    """
    options, state_dir = journal.stored_options(run)
    if state_dir != engine.state_dir:
        raise PlanError(
            f"run {run.id} keeps its journal in {state_dir} on the nodes, expected {engine.state_dir}"
        )
    inventory = stored_inventory(run)
    stored = plan_model.from_document(run.read("plan"))
    facts = engine.gather(inventory)
    run.write("facts", facts_document.fleet_to_document(facts, engine.subjects))
    verdicts = judged(engine, inventory, options, facts)
    plan = planned(inventory, verdicts)
    _refuse_bad_folders(plan)
    merged = merge(stored, plan)
    run.write("plan", plan_model.to_document(merged))
    before = journal.before(run, {node.node: named(node) for node in merged.nodes})
    # An unfinished step may have reached its target state already; its journal entry must still be closed.
    plans, left = [], {}
    for node in plan.nodes:
        ended = before.ended.get(node.node, frozenset())
        again = _reopened(merged.of(node.node), node, ended, facts.values_by_node[node.node])
        plans.append(again)
        left[node.node] = frozenset(named(again)) - frozenset(named(node))
    return Prepared(inventory, options, facts, verdicts, Plan(tuple(plans)), before.changed, left)


def _reopened(merged: NodePlan, fresh: NodePlan, ended: frozenset[str], facts: NodeFacts) -> NodePlan:
    """Return the newly planned steps and those of the run that never reported their end.

    The steps keep the run's order, with a reboot last. An unfinished reboot that no step requires any more is
    dropped.
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
    """Return a stored step with the secrets restored that the plan on disk masks with asterisks.

    Returns None if the node's file has changed since: its secrets cannot be restored, and the masked text must not
    be written.
    """
    step = planned.step
    if not daemon_json.is_written_by(step):
        return planned
    content = daemon_json.restored(step.content, facts)
    return None if content is None else replace(planned, step=replace(step, content=content))


def apply(engine: Engine, prepared: Prepared, run: RunDir, announce: Announce | None = None) -> Result:
    """Apply the plan in batches and rounds until no new step can be planned; return outcomes and final verdicts.

    After each round the facts of its nodes are gathered again, over new connections if a fact may depend on the
    login. Nodes without steps are not contacted again. An empty plan only records the state of the run, so that a run
    with unreachable nodes can be resumed. ``announce`` is called before each later round.
    """
    return Rounds(engine, prepared, run, announce).execute()
