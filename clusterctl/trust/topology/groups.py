"""Group nodes with equal topologies, and name the differences between groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from clusterctl.grouping import grouped
from clusterctl.trust.topology.model import NodeTopology

MOST_PICTURES = 8
"""Of further groups only the nodes and the differences are kept."""
MOST_DIFFERENCES = 8
ABSENT = "absent"


def document(topologies: Mapping[str, NodeTopology]) -> dict[str, Any]:
    """Return ``proof.topology``: the groups of equal nodes, the largest first, and how the others differ from it.

    A dump of NCCL and a topology of facts are not compared, because NCCL leaves out what its ranks do not use.
    """
    groups = grouped(
        ((topology.source, tuple(sorted(topology.labels().items()))), name)
        for name, topology in topologies.items()
    )
    ordered = sorted(groups.values(), key=len, reverse=True)
    first: dict[str, list[str]] = {}
    differences = []
    for nodes in ordered:
        topology = topologies[nodes[0]]
        like = first.setdefault(topology.source, nodes)
        if like is not nodes:
            differences.append(_difference(topologies, nodes, like))
    return {
        "groups": [_group(topologies, nodes, number < MOST_PICTURES) for number, nodes in enumerate(ordered)],
        "differences": differences,
    }


def _group(topologies: Mapping[str, NodeTopology], nodes: list[str], drawn: bool) -> dict[str, Any]:
    topology = topologies[nodes[0]]
    found: dict[str, Any] = {"nodes": nodes, "source": topology.source}
    if not drawn:
        return found
    return {
        **found,
        "domains": [
            {"name": domain.name, "below": [part.document() for part in domain.below]} for domain in topology.domains
        ],
        "nvlinks": [asdict(bundle) for bundle in topology.nvlinks],
        "graphs": [asdict(graph) for graph in topology.graphs],
        "other_graphs": [name for name in nodes if topologies[name].graphs != topology.graphs],
    }  # fmt: skip


def _difference(topologies: Mapping[str, NodeTopology], nodes: list[str], like: list[str]) -> dict[str, Any]:
    own, others = topologies[nodes[0]].labels(), topologies[like[0]].labels()
    unequal = [name for name in {**others, **own} if own.get(name) != others.get(name)]
    # What is missing or additional explains the rest.
    unequal.sort(key=lambda name: name in own and name in others)
    parts = []
    for name in unequal[:MOST_DIFFERENCES]:
        value, other = _unequal(own.get(name, ABSENT), others.get(name, ABSENT))
        parts.append({"name": name, "value": value, "other": other})
    return {"nodes": nodes, "like": like, "parts": parts, "more": len(unequal) - len(parts)}


def _unequal(value: str, other: str) -> tuple[str, str]:
    """Return two labels without the words that they share, unless one of them consists of such words only."""
    one, two = value.split(", "), other.split(", ")
    own, others = [word for word in one if word not in two], [word for word in two if word not in one]
    return (", ".join(own), ", ".join(others)) if own and others else (value, other)
