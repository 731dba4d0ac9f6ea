"""The views of ``bootstrap``: the plan of each round, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterctl.apply.on_node import NEEDS_REBOOT
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.inventory import nodeset
from clusterctl.report.check_document import document_of
from clusterctl.report.line import Tone
from clusterctl.report.text.failures import failure_items, rootless_lines, step_lines
from clusterctl.report.view import Block, Item, View
from clusterctl.requirements.steps import Reboot
from clusterctl.runs import counts
from clusterctl.views import check
from clusterctl.views import plan as changes_of_nodes
from clusterctl.views.next_step import ready_line
from clusterctl.views.plan import NodeChanges

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Prepared, Result
    from clusterctl.documents.steps import Bootstrap
    from clusterctl.transport.base import Failure
    from clusterctl.views.plan import Change

_BATCHES_SHOWN = 8


def plan(prepared: Prepared, nodes: Sequence[NodeChanges], *, may_reboot: bool) -> View:
    """Return the plan of the first round, what it leaves, what is missing on nodes, and last the plan's size."""
    verdicts = type(prepared.verdicts)(prepared.verdicts.values_by_node)
    blocks = [*changes_of_nodes.blocks(nodes)]
    if prepared.plan.is_empty:
        blocks += check.blocks_of(document_of(verdicts))
    else:
        blocks += (
            _outlook(prepared, may_reboot=may_reboot),
            replace(check.not_planned(verdicts), apart=True),
        )
    blocks.append(missing(prepared))
    if prepared.plan.nodes:
        blocks.append(changes_of_nodes.end(nodes, batches(prepared)))
    return View("", tuple(blocks))


def _outlook(prepared: Prepared, *, may_reboot: bool) -> Block:
    """Return what may follow the plan: later rounds, and reboots that are not allowed."""
    boots = [n.node for n in prepared.plan.nodes if any(isinstance(p.step, Reboot) for p in n.steps)]
    refused = (f"  {nodeset.fold(boots)}: {NEEDS_REBOOT}",) if boots and not may_reboot else ()
    said = "clusterctl then checks the nodes again and may plan further steps."
    return Block("", lines=(said, *refused), apart=True)


def batches(prepared: Prepared) -> list[str]:
    """Return the line with the batches in which nodes are changed; none if all of them are one batch."""
    names = [node.node for node in prepared.plan.nodes if node.steps]
    found = [nodeset.fold(batch) for batch in prepared.options.rolling.batches(names, len(names))]
    if len(found) < 2:
        return []
    more = f"; {len(found) - _BATCHES_SHOWN} more" if len(found) > _BATCHES_SHOWN else ""
    return [f"Batches, one after another: {'; '.join(found[:_BATCHES_SHOWN])}{more}"]


def missing(prepared: Prepared) -> Block:
    """Return the nodes that the plan leaves out, or on which root is not available, and why."""
    changing = [node.node for node in prepared.plan.nodes if node.steps]
    rootless = rootless_lines(prepared.facts.values_by_node, prepared.verdicts.values_by_node, changing)
    lost = {**prepared.verdicts.failures, **prepared.busy}
    return Block("", items=tuple(failure_items(lost)), after=tuple(rootless), apart=True)


def later(number: int, nodes: Sequence[NodeChanges]) -> View:
    """Return the plan of a later round."""
    head = Item(Tone.HEAD, f"Round {number}: {changes_of_nodes.size_of(nodes)}")
    alert = (Item(Tone.OPEN, line) for line in changes_of_nodes.disturbed(nodes))
    return View("", (Block("", items=(head, *alert)), *changes_of_nodes.blocks(nodes)))


def ended(
    document: Bootstrap,
    prepared: Prepared,
    result: Result,
    planned: Mapping[tuple[str, str], Change],
    folder: Path,
    *,
    seen: bool,
) -> View:
    """Return the end of the report: what was changed, what is not met, failed steps and nodes, and the counts.

    ``planned`` are the changes that plans have shown, by node and key of a step. ``seen``: the reader has just seen
    the plan.
    """
    told = [
        (node.name, step, "; ".join(filter(None, (*(step.notes or ()), step.reason))))
        for node in document.nodes
        for step in node.steps
        if step.status is AppliedStatus.FAILED or step.notes
    ]
    lost = {**result.verdicts.failures, **failures_of(result)}
    new = {name: failure for name, failure in lost.items() if name not in prepared.verdicts.failures}
    # Beside a plan without steps, the same table has been printed.
    known = prepared.plan.is_empty and result.verdicts.values_by_node == prepared.verdicts.values_by_node
    failed = Block("", lines=tuple(step_lines(told)), items=tuple(failure_items(new)), apart=True)
    verdicts = () if known else check.blocks_of(document_of(result.verdicts), reasons=False)
    lines = (
        counts_line(document.document(), result),
        ready_line(document.ready_to_launch),
        f"run folder: {folder}",
    )
    end = Block("", lines=tuple(filter(None, lines)), apart=True)
    return View("", (*_made(result, planned, seen=seen), *verdicts, failed, end))


def _made(result: Result, planned: Mapping[tuple[str, str], Change], *, seen: bool) -> Iterator[Block]:
    nodes = []
    for name, outcome in result.outcomes.items():
        changed = [step for step in outcome.steps if step.status is AppliedStatus.CHANGED]
        changes = (planned.get((name, step.key)) for step in changed)
        nodes.append(NodeChanges(name, tuple(one for one in changes if one is not None)))
    broken = any(outcome.failure or outcome.failed for outcome in result.outcomes.values())
    head = f"Applied in {result.rounds} rounds" if result.rounds > 1 else "Applied"
    return changes_of_nodes.made(nodes, head, seen=seen and not broken)


def counts_line(document: Mapping[str, Any], result: Result) -> str:
    """Return the counts of all parts of a run, and how many changes earlier parts of it made."""
    steps = (step for outcome in result.outcomes.values() for step in outcome.steps)
    made = sum(step.status is AppliedStatus.CHANGED for step in steps)
    return counts.line(document, earlier=document["summary"]["changed"] - made)


def failures_of(result: Result) -> dict[str, Failure]:
    """Return the failures of the nodes that were started."""
    return {name: one.failure for name, one in result.outcomes.items() if one.started and one.failure}
