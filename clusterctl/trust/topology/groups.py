"""Group nodes with equal topologies, and name the differences between groups."""

from __future__ import annotations

from collections.abc import Mapping

from clusterctl.documents.proof import (
    Topology,
    TopologyDifference,
    TopologyDomain,
    TopologyGroup,
    UnequalPart,
)
from clusterctl.text.grouping import grouped
from clusterctl.trust.topology.model import NodeTopology

MOST_PICTURES = 8
"""Of further groups only the nodes and the differences are kept."""
MOST_DIFFERENCES = 8
ABSENT = "absent"


def part(topologies: Mapping[str, NodeTopology]) -> Topology:
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
    shown = (_group(topologies, nodes, number < MOST_PICTURES) for number, nodes in enumerate(ordered))
    return Topology(groups=tuple(shown), differences=tuple(differences))


def _group(topologies: Mapping[str, NodeTopology], nodes: list[str], drawn: bool) -> TopologyGroup:
    topology = topologies[nodes[0]]
    if not drawn:
        return TopologyGroup(nodes=tuple(nodes), source=topology.source)
    return TopologyGroup(
        nodes=tuple(nodes),
        source=topology.source,
        domains=tuple(
            TopologyDomain(name=domain.name, below=tuple(one.part() for one in domain.below))
            for domain in topology.domains
        ),
        nvlinks=topology.nvlinks,
        graphs=topology.graphs,
        other_graphs=tuple(name for name in nodes if topologies[name].graphs != topology.graphs),
    )


def _difference(
    topologies: Mapping[str, NodeTopology], nodes: list[str], like: list[str]
) -> TopologyDifference:
    own, others = topologies[nodes[0]].labels(), topologies[like[0]].labels()
    unequal = [name for name in {**others, **own} if own.get(name) != others.get(name)]
    # What is missing or additional explains the rest.
    unequal.sort(key=lambda name: name in own and name in others)
    parts = []
    for name in unequal[:MOST_DIFFERENCES]:
        value, other = _unequal(own.get(name, ABSENT), others.get(name, ABSENT))
        parts.append(UnequalPart(name=name, value=value, other=other))
    more = len(unequal) - len(parts)
    return TopologyDifference(nodes=tuple(nodes), like=tuple(like), parts=tuple(parts), more=more)


def _unequal(value: str, other: str) -> tuple[str, str]:
    """Return two labels without the words that they share, unless one of them consists of such words only."""
    one, two = value.split(", "), other.split(", ")
    own, others = [word for word in one if word not in two], [word for word in two if word not in one]
    return (", ".join(own), ", ".join(others)) if own and others else (value, other)
