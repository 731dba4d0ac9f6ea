"""Hold what ``bootstrap`` may do on its nodes, and print later rounds, reboots and nodes not started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Engine


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


def say_not_started(names: list[str]) -> None:
    """Print the nodes that were not started, folded, to stderr."""
    from clusterctl.inventory import nodeset

    if names:
        count = f" ({len(names)} nodes)" if len(names) > 1 else ""
        console.talk(f"{nodeset.fold(names)}{count}: not started, because too many other nodes failed")
