"""Leave nodes on which another run works out of a plan, before a person is asked to apply it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterctl.apply import script
from clusterctl.apply.drive import drive
from clusterctl.apply.engine import Engine, Prepared
from clusterctl.apply.journal import operator
from clusterctl.apply.plan import model as plan_model
from clusterctl.apply.plan.model import NodePlan, Plan
from clusterctl.apply.records import Event, JournalRecord
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.inventory.model import Node
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Failure, Transport
from clusterctl.transport.fanout import fan_out

_TIMEOUT_S = 30.0


@dataclass
class _Answer:
    refused: str | None = None
    ended: bool = False

    def follow(self, record: JournalRecord) -> None:
        if record.event is Event.REFUSED:
            self.refused = record.detail
        elif record.event is Event.DONE:
            self.ended = True


def left_out(engine: Engine, prepared: Prepared, run: RunDir, watch: StepWatch = SILENT) -> Prepared:
    """Return the plan without the nodes on which another run works; write it into the run folder if it differs.

    One command on each node that the plan changes. The answer of a node that cannot say it is ignored: the apply takes
    the lock, or reports why not.
    """
    changing = {node.node for node in prepared.plan.nodes if node.steps}
    rooted = {name for name, found in prepared.facts.values_by_node.items() if found.root.available}
    nodes = [node for node in prepared.inventory.nodes if node.name in changing & rooted]

    def work(node: Node, transport: Transport) -> tuple[Failure, ...]:
        header = script.Header(run.id, operator(), script.new_nonce(), engine.state_dir)
        answer, timeout_s = _Answer(), min(engine.timeout_s, _TIMEOUT_S)
        failure = drive(
            transport, script.busy_script(header), header.nonce, answer, answer.follow,
            timeout_s=timeout_s, go_on="",
        )  # fmt: skip
        return (failure,) if failure is not None and answer.refused is not None else ()

    if not nodes:
        return prepared
    kept = engine.kept
    answers = fan_out(
        nodes, kept.over(engine.connect), work, fanout=engine.fanout, release=kept.release,
        on_start=lambda node: watch.begun(node.name), on_done=lambda node, _: watch.ended(node.name),
    )  # fmt: skip
    busy = {name: found[0] for name, found in answers.values_by_node.items() if found}
    if not busy:
        return prepared
    plan = Plan(tuple(NodePlan(n.node, ()) if n.node in busy else n for n in prepared.plan.nodes))
    run.write("plan", plan_model.to_document(plan))
    return replace(prepared, plan=plan, busy=busy)
