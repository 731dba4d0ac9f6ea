"""The topology of a run's nodes: a picture of each group of equal nodes, its rings and trees, and the differences."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.documents.evidence import ChannelOrder, GraphOfNode
from clusterctl.documents.proof import Proof, TopologyGroup
from clusterctl.inventory import nodeset
from clusterctl.report.figures import GpuChain, ShownGraph, ShownGroup, TopologySection
from clusterctl.report.text.topology import difference_lines
from clusterctl.text.wording import counted

_MOST_ORDERS = 8
_SOURCES = {
    "nccl": "As NCCL wrote it in this run, without what its ranks do not use.",
    "facts": "From the facts of the nodes, because NCCL wrote no topology there.",
}


def of_proof(proof: Proof) -> TopologySection | None:
    """Return the section for ``proof.topology``; None without it."""
    found = proof.topology
    if found is None:
        return None
    unequal = {one.nodes: frozenset(part.name for part in one.parts) for one in found.differences}
    groups = tuple(
        _group(group, number, unequal.get(group.nodes, frozenset()))
        for number, group in enumerate(found.groups)
    )
    return TopologySection(tuple(difference_lines(found)), groups)


def _group(group: TopologyGroup, number: int, unequal: frozenset[str]) -> ShownGroup:
    nodes = group.nodes
    title = f"{len(nodes)} nodes: {nodeset.fold(nodes)}" if len(nodes) > 1 else nodes[0]
    return ShownGroup(
        f"topology-{number}",
        title,
        _SOURCES[group.source],
        group,
        unequal,
        tuple(_graph(graph) for graph in group.graphs or ()),
        nodeset.fold(group.other_graphs) if group.other_graphs else "",
    )


def _graph(graph: GraphOfNode) -> ShownGraph:
    name, channels, orders = graph.name, graph.channels, graph.orders
    words = [f"{counted(channels, 'channel')}", _rate(graph.intra_gbps, graph.intra_path, "inside the node")]
    if any(order.enters for order in orders):
        words.append(_rate(graph.inter_gbps, graph.inter_path, "between nodes"))
    title = f"{name[:1].upper()}{name[1:]}: {', '.join(word for word in words if word)}"
    if all(len(order.gpus) == 1 for order in orders):
        return ShownGraph(title, _heads(orders), 0)
    chains = tuple(
        GpuChain(_caption(order, channels), order.gpus, is_ring=name == "ring" and not order.enters)
        for order in orders[:_MOST_ORDERS]
    )
    return ShownGraph(title, chains, len(orders) - len(chains))


def _rate(rate: float | None, path: str, where: str) -> str:
    return "" if rate is None else f"{rate:g} GB/s each {where}{f' ({path})' if path else ''}"


def _heads(orders: Sequence[ChannelOrder]) -> tuple[GpuChain, ...]:
    """Return the one row of a graph whose channels name a single GPU, such as NVLS."""
    gpus = tuple(dict.fromkeys(gpu for order in orders for gpu in order.gpus))
    return (GpuChain("GPUs at the head of the channels", gpus, is_linked=False),)


def _caption(order: ChannelOrder, channels: int) -> str:
    words = [f"{order.channels} of {channels} channels"]
    if order.enters == order.leaves != "":
        words.append(f"in and out by {order.enters}")
    elif order.enters:
        words.append(f"in by {order.enters}, out by {order.leaves}")
    return ", ".join(words)
