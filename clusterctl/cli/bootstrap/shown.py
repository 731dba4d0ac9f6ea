"""Show the plan of each round before it is applied, and at the end what was changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.cli import console, plan_output
from clusterctl.cli.bootstrap import permits as permits_of

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Engine, Prepared, Result
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Inventory
    from clusterctl.plan.model import Plan
    from clusterctl.report.text.plan import Change, NodeChanges
    from clusterctl.transport.base import HostMap

_BATCHES_SHOWN = 8


@dataclass(slots=True)
class Shown:
    """The plans of one run that people have seen.

    ``on_stdout`` is False if stdout holds a JSON document; ``on_screen`` is True if a question follows that the plan
    must precede.
    """

    engine: Engine
    inventory: Inventory
    on_stdout: bool
    on_screen: bool
    work: str = ""
    """The number of changes of the first round, in words."""
    _changes: dict[tuple[str, str], Change] = field(default_factory=dict)

    def first(self, prepared: Prepared, permits: permits_of.Permits) -> None:
        """Show the plan of the first round, what it leaves, what is missing on nodes, and last the plan's size."""
        from clusterctl.cli.check.output import folded
        from clusterctl.report.text import of_view
        from clusterctl.report.text import plan as plan_text
        from clusterctl.report.text.failures import failure_lines, rootless_lines
        from clusterctl.report.text.wrapping import wrapped_message
        from clusterctl.report.view import View
        from clusterctl.views.check import not_planned

        changing = [node.node for node in prepared.plan.nodes if node.steps]
        rootless = rootless_lines(prepared.facts.values_by_node, prepared.verdicts.values_by_node, changing)
        failures = {**prepared.verdicts.failures, **prepared.busy}
        missing = "\n".join([*failure_lines(failures), *rootless])
        if not (self.on_stdout or self.on_screen):
            if missing:
                console.error(missing)
            return
        width = console.width()
        nodes = self._nodes(prepared.plan, prepared.facts)
        self.work = plan_text.work_of(nodes)
        blocks = [plan_text.blocks(nodes, width), *permits_of.outlook(prepared, permits)]
        if prepared.plan.is_empty:
            blocks.append(folded(type(prepared.verdicts)(prepared.verdicts.values_by_node), width))
        else:
            left = (not_planned(prepared.verdicts),)
            blocks.append(of_view.render(View("", left), width))
        blocks.append(wrapped_message(missing, width))
        if prepared.plan.nodes:
            size = [*batches(prepared), *plan_text.disturbed(nodes), f"Plan: {plan_text.size_of(nodes)}"]
            blocks.append("\n".join(size))
        self._show("\n\n".join(filter(None, blocks)))

    def later(self, number: int, plan: Plan, facts: HostMap[NodeFacts]) -> None:
        """Show the plan of a later round; the answer to the first question covers it."""
        from clusterctl.report.text import plan as plan_text

        if self.on_stdout or self.on_screen:
            nodes = self._nodes(plan, facts)
            head = [f"Round {number}: {plan_text.size_of(nodes)}", *plan_text.disturbed(nodes)]
            self._show("\n" + "\n".join([*head, plan_text.blocks(nodes, console.width())]))

    def _nodes(self, plan: Plan, facts: HostMap[NodeFacts]) -> tuple[NodeChanges, ...]:
        from clusterctl.apply import carry, present, script
        from clusterctl.cli.live_steps import LiveNodes
        from clusterctl.cli.terminal.progress import Progress
        from clusterctl.report.text import plan as plan_text

        with Progress("Reading the files that change", unit="nodes") as progress:
            files = present.read(self.engine, self.inventory, facts, plan, LiveNodes(progress))
        copied = {node.node: carry.folders_of(node) for node in plan.nodes}
        nodes = plan_text.changes_of(plan, files, copied)
        for planned, node in zip(plan.nodes, nodes, strict=True):
            keys = [(node.node, script.step_key(step)) for step in planned.steps]
            self._changes.update(zip(keys, node.changes, strict=True))
        return nodes

    def _show(self, text: str) -> None:
        plan_output.show(text, on_stdout=self.on_stdout, on_screen=self.on_screen)

    def applied(self, result: Result) -> str:
        """Return the changes that this part of the run made, as a text; empty if there is none.

        Only their number, if all that the terminal has just shown was applied.
        """
        from clusterctl.documents.kinds import AppliedStatus
        from clusterctl.report.text import plan as plan_text

        nodes = []
        for name, outcome in result.outcomes.items():
            changed = [step for step in outcome.steps if step.status is AppliedStatus.CHANGED]
            made = (self._changes.get((name, step.key)) for step in changed)
            nodes.append(
                plan_text.NodeChanges(
                    name, tuple(plan_text.without_details(c) for c in made if c is not None)
                )
            )
        nodes = [node for node in nodes if node.changes]
        if not nodes:
            return ""
        rounds = f" in {result.rounds} rounds" if result.rounds > 1 else ""
        head = f"Applied{rounds}: {plan_text.size_of(nodes)}"
        broken = any(outcome.failure or outcome.failed for outcome in result.outcomes.values())
        seen = self.on_screen and console.width() is not None
        return head if seen and not broken else f"{head}\n{plan_text.blocks(nodes, console.width())}"


def batches(prepared: Prepared) -> list[str]:
    """Return the line with the batches in which nodes are changed; none if all of them are one batch."""
    from clusterctl.inventory import nodeset

    names = [node.node for node in prepared.plan.nodes if node.steps]
    found = [nodeset.fold(batch) for batch in prepared.options.rolling.batches(names, len(names))]
    if len(found) < 2:
        return []
    more = f"; {len(found) - _BATCHES_SHOWN} more" if len(found) > _BATCHES_SHOWN else ""
    return [f"Batches, one after another: {'; '.join(found[:_BATCHES_SHOWN])}{more}"]
