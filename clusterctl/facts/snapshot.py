"""Read the health of many nodes at one moment: before and after a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clusterctl.facts.gather_fleet import gather_fleet
from clusterctl.facts.model.health import Health
from clusterctl.inventory.model import Node
from clusterctl.transport.base import HostMap, Transport

READS = frozenset({"health", "counters"})
TIMEOUT_S = 30.0
"""nvidia-smi has a shorter deadline; a node that takes longer must not hold the run."""


def snapshot(
    nodes: Sequence[Node],
    connect: Callable[[Node], Transport],
    *,
    fanout: int = 64,
    release: Callable[[Transport], None] | None = None,
) -> HostMap[Health]:
    """Return the health of every node, read with one command each; a node that does not answer is a Failure.

    ``connect`` and ``release`` may be those of ``transport.kept.Kept``, so that no new login is needed. The kernel log
    needs root on most nodes; it is read with ``sudo -n`` where the inventory allows that.
    """
    found = gather_fleet(nodes, connect, fanout=fanout, timeout_s=TIMEOUT_S, subjects=READS, release=release)
    return found.map(lambda _, facts: facts.health)
