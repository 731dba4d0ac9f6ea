"""The topology of a run's nodes: a picture of each group of equal nodes, its rings and trees, and the differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from clusterctl.documents.evidence import ChannelOrder, GraphOfNode
from clusterctl.documents.proof import Proof, TopologyGroup
from clusterctl.inventory import nodeset
from clusterctl.report.html import topology_picture
from clusterctl.report.text.topology import difference_lines
from clusterctl.wording import counted

_MOST_ORDERS = 8
_SOURCES = {
    "nccl": "As NCCL wrote it in this run, without what its ranks do not use.",
    "facts": "From the facts of the nodes, because NCCL wrote no topology there.",
}


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """One graph of NCCL: its heading, and each order of GPUs with its caption and drawing."""

    title: str
    orders: tuple[tuple[str, Markup], ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """Nodes with one topology; ``picture`` is empty beyond the largest groups."""

    title: str
    source: str
    picture: Markup
    graphs: tuple[DrawnGraph, ...]
    other_graphs: str


@dataclass(frozen=True, slots=True)
class TopologySection:
    """The section of a page."""

    differences: tuple[str, ...]
    groups: tuple[DrawnGroup, ...]


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


def _group(group: TopologyGroup, number: int, unequal: frozenset[str]) -> DrawnGroup:
    nodes = group.nodes
    title = f"{len(nodes)} nodes: {nodeset.fold(nodes)}" if len(nodes) > 1 else nodes[0]
    drawn = group.domains is not None
    return DrawnGroup(
        title,
        _SOURCES[group.source],
        topology_picture.draw(group, f"topology-{number}", title, unequal) if drawn else Markup(""),
        tuple(_graph(graph) for graph in group.graphs or ()),
        nodeset.fold(group.other_graphs) if group.other_graphs else "",
    )


def _graph(graph: GraphOfNode) -> DrawnGraph:
    name, channels, orders = graph.name, graph.channels, graph.orders
    words = [f"{counted(channels, 'channel')}", _rate(graph.intra_gbps, graph.intra_path, "inside the node")]
    if any(order.enters for order in orders):
        words.append(_rate(graph.inter_gbps, graph.inter_path, "between nodes"))
    title = f"{name[:1].upper()}{name[1:]}: {', '.join(word for word in words if word)}"
    if all(len(order.gpus) == 1 for order in orders):
        return DrawnGraph(title, _heads(orders), 0)
    drawn = []
    for order in orders[:_MOST_ORDERS]:
        ring = name == "ring" and not order.enters
        drawn.append((_caption(order, channels), topology_picture.chain(order.gpus, ring=ring)))
    return DrawnGraph(title, tuple(drawn), len(orders) - len(drawn))


def _rate(rate: float | None, path: str, where: str) -> str:
    return "" if rate is None else f"{rate:g} GB/s each {where}{f' ({path})' if path else ''}"


def _heads(orders: Sequence[ChannelOrder]) -> tuple[tuple[str, Markup], ...]:
    """Return the one row of a graph whose channels name a single GPU, such as NVLS."""
    gpus = list(dict.fromkeys(gpu for order in orders for gpu in order.gpus))
    return (("GPUs at the head of the channels", topology_picture.chain(gpus, linked=False)),)


def _caption(order: ChannelOrder, channels: int) -> str:
    words = [f"{order.channels} of {channels} channels"]
    if order.enters == order.leaves != "":
        words.append(f"in and out by {order.enters}")
    elif order.enters:
        words.append(f"in by {order.enters}, out by {order.leaves}")
    return ", ".join(words)
