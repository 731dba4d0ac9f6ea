"""Tell from verdicts whether a launch finds what it needs on every node (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from clusterctl.documents.check import ReadyToLaunch
from clusterctl.requirements.base import SWITCHED_OFF, Owner, Status
from clusterctl.requirements.catalog import ALL

if TYPE_CHECKING:
    from clusterctl.requirements.base import Decision

NEEDED = frozenset({"disk", "names", "memlock", "ssh-mesh", "mpi", "python"})
"""The requirements that a launch on the nodes of the inventory needs."""


def launch_ready(verdicts: Mapping[str, tuple[Decision, ...]], unreachable: int) -> ReadyToLaunch | None:
    """Return what a launch lacks on the nodes that answered; None if none of the needed requirements was checked.

    Each list of requirements is in catalogue order.
    """
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
    return ReadyToLaunch(
        ready=not missing and not unreachable,
        missing=_ordered(missing),
        bootstrap=_ordered(fixable),
        switched_off=_ordered(switched_off),
        not_checked=_ordered(not_checked),
        unreachable=unreachable,
    )


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in ALL if name in set(names))
