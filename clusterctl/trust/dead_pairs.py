"""Which node or link makes a launch hang, from pairs of nodes that ran as launches of their own. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.documents.evidence import PairAlone, PairsAlone

LEAST_PARTNERS = 2
"""A node is blamed if it fails with so many partners that work with other nodes."""


def judge(pairs: Sequence[PairAlone]) -> PairsAlone:
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
    return PairsAlone(tuple(pairs), nodes, links, tuple(pair for pair in left if pair not in links))
