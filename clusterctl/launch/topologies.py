"""Put together the topologies of the nodes of a run: from NCCL's dumps, else from facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterctl import log
from clusterctl.documents.proof import Topology
from clusterctl.facts.model.node import NodeFacts
from clusterctl.launch import node_topology
from clusterctl.launch.nccl_dumps import NcclDump
from clusterctl.text.foreign import NotUnderstood
from clusterctl.trust.topology import groups, nccl_dump
from clusterctl.trust.topology.model import NodeTopology

_LOG = log.get(__name__)


def part(
    nodes: Sequence[str], dumps: Mapping[str, NcclDump], facts: Mapping[str, NodeFacts]
) -> Topology | None:
    """Return ``proof.topology`` of these nodes; None if no node has a GPU or a dump."""
    found: dict[str, NodeTopology] = {}
    for name in nodes:
        topology = _of_dump(name, dumps.get(name))
        of = facts.get(name)
        if topology is not None:
            found[name] = topology if of is None else node_topology.with_lanes(topology, of)
        elif of is not None and (of_facts := node_topology.of_facts(of)) is not None:
            found[name] = of_facts
    return groups.part(found) if found else None


def _of_dump(node: str, dump: NcclDump | None) -> NodeTopology | None:
    if dump is None:
        return None
    try:
        topology = nccl_dump.parse_topology(dump.topology, dump.rank)
    except NotUnderstood as error:
        _LOG.warning("%s: the topology that NCCL wrote cannot be read: %s", node, error)
        return None
    try:
        graphs = nccl_dump.parse_graphs(dump.graphs, dump.topology) if dump.graphs else ()
    except NotUnderstood as error:
        _LOG.warning("%s: the graphs that NCCL wrote cannot be read: %s", node, error)
        graphs = ()
    return replace(topology, graphs=graphs) if topology.domains else None
