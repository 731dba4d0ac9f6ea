"""Which node or link makes a launch hang, from pairs of nodes that ran as launches of their own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_PARTNERS = 2
"""A node is blamed if it fails with so many partners that work with other nodes."""


@dataclass(frozen=True, slots=True)
class PairEnd:
    """One pair of nodes, and why it failed; None if it worked."""

    nodes: tuple[str, str]
    why: str | None = None


@dataclass(frozen=True, slots=True)
class DeadPairs:
    """The pairs that were run, and what they lead to: nodes, links between working nodes, and what stays open."""

    pairs: tuple[PairEnd, ...] = ()
    nodes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    open: tuple[tuple[str, str], ...] = ()

    @property
    def is_explained(self) -> bool:
        """Return whether some pair failed, and a node or link explains each one that did."""
        return bool(self.nodes or self.links) and not self.open


def judge(pairs: Sequence[PairEnd]) -> DeadPairs:
    """Return the nodes that fail with every partner, and the links that fail between nodes that work with others."""
    works = {node for one in pairs if one.why is None for node in one.nodes}
    failed = [one.nodes for one in pairs if one.why is not None]
    partners: dict[str, set[str]] = {}
    for one, other in failed:
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    nodes = tuple(
        node for node in partners if node not in works and len(partners[node] & works) >= LEAST_PARTNERS
    )
    left = [pair for pair in failed if not set(pair) & set(nodes)]
    links = tuple(pair for pair in left if set(pair) <= works)
    return DeadPairs(tuple(pairs), nodes, links, tuple(pair for pair in left if pair not in links))
