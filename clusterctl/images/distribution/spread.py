"""Plan which node sends an archive to which: a tree that doubles its senders (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

CONTROLLER = ""
"""This machine among the senders; no node has an empty name."""
NEITHER_END = "-"
"""Blamed when neither end of a transfer is at fault; no node has this name."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy that is in progress."""

    source: str
    target: str


@dataclass(slots=True)
class DistributionState:
    """The state of one distribution: it receives what ended, and returns what to start.

    Every node that has the archive sends to one other at a time, so that after k equal steps 2**(k-1) nodes
    have it, and the last of N after 1 + ceil(log2 N). The controller sends again only while no node can.
    """

    waiting: list[str]
    """Nodes that lack the archive and are not being sent to, in the order in which they are served."""
    holders: list[str] = field(default_factory=list)
    """Nodes that have it and can send it on."""
    running: list[Transfer] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Nodes that were abandoned, and why."""
    tries: dict[str, int] = field(default_factory=dict)
    max_tries: int = 3
    silent: set[str] = field(default_factory=set)
    """Nodes that hold the archive but could not send it on."""

    def start(self) -> tuple[Transfer, ...]:
        """Return the transfers that can begin now, and count them as running."""
        begun = []
        busy = {transfer.source for transfer in self.running}
        for source in self._senders(busy):
            if not self.waiting:
                break
            transfer = Transfer(source, self.waiting.pop(0))
            self.running.append(transfer)
            begun.append(transfer)
        return tuple(begun)

    def _senders(self, busy: set[str]) -> Iterable[str]:
        able = [node for node in self.holders if node not in self.silent]
        free = [node for node in able if node not in busy]
        if free:
            return free
        # The controller's link should be spared: it sends only while no node can, now or soon.
        idle = not able and not any(transfer.source == CONTROLLER for transfer in self.running)
        return [CONTROLLER] if idle and CONTROLLER not in busy else []

    def arrived(self, transfer: Transfer) -> None:
        """Note that the target has the archive: it sends on from now."""
        self.running.remove(transfer)
        self.holders.append(transfer.target)

    def broke(self, transfer: Transfer, reason: str, *, blame: str | None = None) -> None:
        """Note that a transfer ended early. ``blame``: the node at fault, when that is known, or NEITHER_END.

        A source at fault sends no more; a target that fails too often is given up, else it waits for another
        sender, in front of the others because a part of the archive may be there already.
        """
        self.running.remove(transfer)
        if transfer.source != CONTROLLER and blame in (None, transfer.source):
            self.silent.add(transfer.source)
        self.tries[transfer.target] = self.tries.get(transfer.target, 0) + 1
        if blame == transfer.target or self.tries[transfer.target] >= self.max_tries:
            self.failed[transfer.target] = reason
        else:
            self.waiting.insert(0, transfer.target)

    def lost(self, node: str, reason: str) -> None:
        """Record that a node is unreachable, so that it sends nothing more."""
        self.silent.add(node)
        self.failed.setdefault(node, reason)

    @property
    def over(self) -> bool:
        """Whether no transfer runs or waits."""
        return not self.running and not self.waiting
