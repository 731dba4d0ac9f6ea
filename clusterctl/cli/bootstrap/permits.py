"""Hold what ``bootstrap`` may do on its nodes, and print later rounds, reboots and nodes not started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Engine, Prepared


@dataclass(frozen=True, slots=True)
class Permits:
    """Hold what the command line allows on the nodes; a resumed run needs the options again."""

    reboot: bool
    force_reboot: bool
    node_timeout_s: float | None

    def on(self, engine: Engine) -> Engine:
        """Return the engine with these permissions."""
        return replace(
            engine,
            reboot=self.reboot,
            force_reboot=self.force_reboot,
            node_timeout_s=self.node_timeout_s,
        )


def outlook(prepared: Prepared, permits: Permits) -> list[str]:
    """Return what may follow the printed plan: later rounds, and reboots that are not allowed."""
    from clusterctl.apply.on_node import NEEDS_REBOOT
    from clusterctl.inventory import nodeset
    from clusterctl.report.text.wrapping import wrapped
    from clusterctl.requirements.steps import Reboot

    if prepared.plan.is_empty:
        return []
    said = ["clusterctl then checks the nodes again and may plan further steps."]
    boots = [n.node for n in prepared.plan.nodes if any(isinstance(p.step, Reboot) for p in n.steps)]
    if boots and not permits.reboot:
        said.append(f"  {nodeset.fold(boots)}: {NEEDS_REBOOT}")
    width = console.width()
    return ["\n".join(line for text in said for line in wrapped(text, width))]


def say_not_started(names: list[str]) -> None:
    """Print the nodes that were not started, folded, to stderr."""
    from clusterctl.inventory import nodeset

    if names:
        count = f" ({len(names)} nodes)" if len(names) > 1 else ""
        console.talk(f"{nodeset.fold(names)}{count}: not started, because too many other nodes failed")
