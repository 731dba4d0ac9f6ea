"""Tell from verdicts whether a launch finds what it needs on every node (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.requirements.base import SWITCHED_OFF, Owner, Status
from clusterctl.requirements.catalog import ALL

if TYPE_CHECKING:
    from clusterctl.requirements.base import Decision

NEEDED = frozenset({"disk", "names", "memlock", "ssh-mesh", "mpi", "python"})
"""The requirements that a launch on the nodes of the inventory needs."""


@dataclass(frozen=True, slots=True)
class LaunchReady:
    """Which of the needed requirements are not met on some node; each tuple is in catalogue order.

    ``fixable``: those of ``missing`` that bootstrap meets. ``switched_off``: those that the inventory
    switches off on some node. ``not_checked``: those that were left out on some node, which may be missing too.
    """

    missing: tuple[str, ...]
    fixable: tuple[str, ...]
    switched_off: tuple[str, ...]
    not_checked: tuple[str, ...]
    unreachable: int

    @property
    def ready(self) -> bool:
        """Return whether no checked requirement prevents a launch and every node answered."""
        return not self.missing and not self.unreachable


def launch_ready(verdicts: Mapping[str, tuple[Decision, ...]], unreachable: int) -> LaunchReady | None:
    """Return what a launch lacks on the nodes that answered; None if none of the needed requirements was checked."""
    missing, fixable, switched_off, not_checked = set[str](), set[str](), set[str](), set[str]()
    for decisions in verdicts.values():
        of = {decision.requirement: decision for decision in decisions if decision.requirement in NEEDED}
        not_checked |= NEEDED - of.keys()
        for name, decision in of.items():
            if decision.status in (Status.UNMET, Status.UNKNOWN):
                missing.add(name)
            if decision.owner is Owner.BOOTSTRAP:
                fixable.add(name)
            if SWITCHED_OFF in decision.evidence:
                switched_off.add(name)
    if not verdicts or not_checked == NEEDED:
        return None
    return LaunchReady(
        _ordered(missing), _ordered(fixable), _ordered(switched_off), _ordered(not_checked), unreachable
    )


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in ALL if name in set(names))
