"""Show the plan of each round before it is applied, and at the end what was changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.cli import console, plan_output
from clusterctl.cli.bootstrap import permits as permits_of
from clusterctl.report.line import TonedLine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterctl.apply.bootstrap import Engine, Prepared, Result
    from clusterctl.apply.plan.model import Plan
    from clusterctl.documents.steps import Bootstrap
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Inventory
    from clusterctl.report.view import View
    from clusterctl.transport.base import HostMap
    from clusterctl.views.plan import Change, NodeChanges


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
        from clusterctl.report.view import View
        from clusterctl.views import bootstrap as view_of
        from clusterctl.views.plan import work_of

        if self.on_stdout or self.on_screen:
            nodes = self._nodes(prepared.plan, prepared.facts)
            self.work = work_of(nodes)
            self._show(view_of.plan(prepared, nodes, may_reboot=permits.reboot))
        elif missing := _lines(View("", (view_of.missing(prepared),))):
            console.error(missing)

    def later(self, number: int, plan: Plan, facts: HostMap[NodeFacts]) -> None:
        """Show the plan of a later round; the answer to the first question covers it."""
        from clusterctl.views import bootstrap as view_of

        if self.on_stdout or self.on_screen:
            self._show(view_of.later(number, self._nodes(plan, facts)), (TonedLine(""),))

    def _nodes(self, plan: Plan, facts: HostMap[NodeFacts]) -> tuple[NodeChanges, ...]:
        from clusterctl.apply import carry, present, script
        from clusterctl.cli.live_steps import LiveNodes
        from clusterctl.cli.terminal.progress import Progress
        from clusterctl.views.plan import changes_of

        with Progress("Reading the files that change", unit="nodes") as progress:
            files = present.read(self.engine, self.inventory, facts, plan, LiveNodes(progress))
        copied = {node.node: carry.folders_of(node) for node in plan.nodes}
        nodes = changes_of(plan, files, copied)
        for planned, node in zip(plan.nodes, nodes, strict=True):
            keys = [(node.node, script.step_key(step)) for step in planned.steps]
            self._changes.update(zip(keys, node.changes, strict=True))
        return nodes

    def _show(self, view: View, before: Sequence[TonedLine] = ()) -> None:
        plan_output.show([*before, *_lines(view)], on_stdout=self.on_stdout, on_screen=self.on_screen)

    def ended(
        self, found: Bootstrap, prepared: Prepared, result: Result | None, folder: Path
    ) -> list[TonedLine]:
        """Return the end of the report, without what the terminal has just shown.

        A run that applied nothing (``result`` is None) has only the plan, which was printed.
        """
        from clusterctl.views import bootstrap as view_of

        if result is None:
            return [TonedLine(f"run folder: {folder}")]
        seen = self.on_screen and console.width() is not None
        return [
            TonedLine(""),
            *_lines(view_of.ended(found, prepared, result, self._changes, folder, seen=seen)),
        ]


def _lines(view: View) -> list[TonedLine]:
    from clusterctl.report.text import of_view

    return of_view.lines(view, console.width())
