"""Parse what NCCL writes to NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE (src/graph/xml.cc, src/graph/search.cc)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from clusterctl.documents.evidence import ChannelOrder, GraphOfNode, NvLinkBundle
from clusterctl.text.foreign import NotUnderstood, decimal, whole
from clusterctl.trust.topology.model import (
    NVSWITCH,
    Attached,
    NodeTopology,
    NumaDomain,
    pcie,
)

LARGEST_BYTES = 1 << 20
"""NCCL's own limits (NCCL_TOPO_XML_MAX_NODES, NCCL_GRAPH_XML_MAX_NODES) allow less."""
_DEEPEST = 16
_MOST_PARTS = 1024
_NAME_CHARACTERS = 64
_NVSWITCH_CLASS = "0x068000"
# The device number; NCCL keeps the system of a GPU or card in the bits above it (NCCL_TOPO_ID).
_LOCAL_ID = (1 << 56) - 1
_GRAPHS = {0: "ring", 1: "tree", 2: "CollNet chain", 3: "NVLS", 4: "CollNet direct"}
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) GT/s")


def parse_topology(text: str, rank: int | None = None) -> NodeTopology:
    """Return the topology in a dump; of several hosts (NVLink between nodes) the one that has the GPU of ``rank``.

    Raise NotUnderstood for any other text.
    """
    cpus = _root(text, "system").findall("cpu")
    hosts = {cpu.get("host_hash") for cpu in cpus if _has_rank(cpu, rank)}
    if hosts:
        cpus = [cpu for cpu in cpus if cpu.get("host_hash") in hosts]
    targets = {pci.get("busid"): f"GPU {_number(gpu, 'dev')}" for cpu in cpus for pci, gpu in _gpus(cpu)}
    nvlinks = [one for cpu in cpus for _, gpu in _gpus(cpu) for one in _nvlinks(gpu, targets)]
    if len(nvlinks) > _MOST_PARTS:
        raise NotUnderstood(f"more than {_MOST_PARTS} NVLinks")
    domains = tuple(NumaDomain(_numa(cpu), _below(cpu)) for cpu in cpus)
    return NodeTopology("nccl", tuple(domain for domain in domains if domain.below), tuple(nvlinks))


def parse_graphs(text: str, topology: str) -> tuple[GraphOfNode, ...]:
    """Return the graphs with channels; ``topology`` is the dump of the same process, which names the cards.

    Raise NotUnderstood for any other text.
    """
    cards = {_number(net, "dev"): _name(net) for net in _root(topology, "system").iter("net")}
    found = []
    for graph in _root(text, "graphs").findall("graph"):
        orders = Counter(_order(channel, cards) for channel in graph.findall("channel"))
        if orders:
            found.append(
                GraphOfNode(
                    name=_GRAPHS.get(_number(graph, "id"), f"graph {_number(graph, 'id')}"),
                    channels=orders.total(),
                    intra_gbps=_rate(graph, "speedintra"),
                    inter_gbps=_rate(graph, "speedinter"),
                    intra_path=_word(graph, "typeintra"),
                    inter_path=_word(graph, "typeinter"),
                    orders=tuple(ChannelOrder(*order, channels) for order, channels in orders.items()),
                )
            )
    return tuple(found)


def _root(text: str, tag: str) -> Element:
    # NCCL writes no declarations and no comments; without them, a document cannot define entities.
    if len(text) > LARGEST_BYTES or not text.startswith(f"<{tag}") or "<!" in text or "<?" in text:
        raise NotUnderstood(f"not a dump of NCCL that begins with <{tag}")
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace"))
    except ElementTree.ParseError as error:
        raise NotUnderstood(f"not a dump of NCCL: {error}") from None
    if root.tag != tag or _depth(root) > _DEEPEST or sum(1 for _ in root.iter("pci")) > _MOST_PARTS:
        raise NotUnderstood(f"not a dump of NCCL with <{tag}> at its root, and of its size")
    return root


def _depth(root: Element) -> int:
    level, depth = [root], 0
    while level and depth <= _DEEPEST:
        level, depth = [child for element in level for child in element], depth + 1
    return depth


def _word(element: Element, name: str) -> str:
    return (element.get(name) or "")[:_NAME_CHARACTERS]


def _name(net: Element) -> str:
    return _word(net, "name") or "network"


def _number(element: Element, name: str) -> int:
    # NCCL 2.28 writes the devices of a graph in base 16.
    text = element.get(name) or ""
    return whole(text, 16 if text.startswith("0x") else 10) & _LOCAL_ID


def _rate(element: Element, name: str) -> float | None:
    return decimal(element.get(name) or "") if element.get(name) else None


def _has_rank(cpu: Element, rank: int | None) -> bool:
    return rank is not None and any(gpu.get("rank") == str(rank) for gpu in cpu.iter("gpu"))


def _gpus(cpu: Element) -> list[tuple[Element, Element]]:
    return [(pci, gpu) for pci in cpu.iter("pci") for gpu in pci.findall("gpu")]


def _numa(cpu: Element) -> str:
    numa = cpu.get("numaid") or ""
    return f"NUMA node {numa}" if re.fullmatch(r"\d{1,4}", numa) else "CPU"


def _below(element: Element) -> tuple[Attached, ...]:
    cards = [card for nic in element.findall("nic") for card in _cards(nic, element)]
    return (*(part for pci in element.findall("pci") for part in _attached(pci)), *cards)


def _attached(pci: Element) -> tuple[Attached, ...]:
    """Return what a PCI device is for NCCL: a GPU, the ports of a card, or a switch."""
    found = tuple(
        Attached("gpu", f"GPU {_number(gpu, 'dev')}", _word(pci, "busid"), _gpu_link(pci, gpu), _width(pci))
        for gpu in pci.findall("gpu")
    )
    if found or pci.find("nic") is not None:
        return (*found, *_below(pci))
    below = _below(pci)
    if not below and not _word(pci, "class").startswith("0x0604"):
        return ()
    return (Attached("switch", "", _word(pci, "busid"), _link(pci), _width(pci), below=below),)


def _cards(nic: Element, above: Element) -> tuple[Attached, ...]:
    # A card without a PCI device, such as the interface of a bond, belongs to the CPU itself.
    pci = above if above.tag == "pci" else None
    return tuple(
        Attached(
            "nic", _name(net), "" if pci is None else _word(pci, "busid"), "" if pci is None else _link(pci),
            None if pci is None else _width(pci), _line_rate(net),
        )
        for net in nic.findall("net")
    )  # fmt: skip


def _line_rate(net: Element) -> str:
    speed = whole(net.get("speed") or "0")
    return f"{speed / 1000:g} Gb/s" if speed > 0 else ""


def _width(pci: Element) -> int | None:
    width = whole(pci.get("link_width") or "0")
    return width if 0 < width < 63 else None


def _link(pci: Element) -> str:
    speed = _SPEED.match(pci.get("link_speed") or "")
    return pcie(float(speed[1]) if speed else None, _width(pci))


def _gpu_link(pci: Element, gpu: Element) -> str:
    c2c = sum(whole(link.get("count") or "0") for link in gpu.findall("c2c"))
    return f"NVLink-C2C x{c2c}" if c2c else _link(pci)


def _nvlinks(gpu: Element, targets: Mapping[str | None, str]) -> list[NvLinkBundle]:
    found: Counter[str] = Counter()
    for link in gpu.findall("nvlink"):
        to = NVSWITCH if link.get("tclass") == _NVSWITCH_CLASS else targets.get(link.get("target"), "CPU")
        found[to] += whole(link.get("count") or "0")
    name = f"GPU {_number(gpu, 'dev')}"
    # NVLinks between two GPUs are listed at both.
    return [
        NvLinkBundle(name, to, count) for to, count in found.items() if not to.startswith("GPU") or name < to
    ]


def _order(channel: Element, cards: Mapping[int, str]) -> tuple[tuple[str, ...], str, str]:
    gpus = tuple(f"GPU {_number(gpu, 'dev')}" for gpu in channel.findall("gpu"))
    nets = [
        cards.get(_number(net, "dev"), f"network {_number(net, 'dev')}") for net in channel.findall("net")
    ]
    return gpus, nets[0] if nets else "", nets[-1] if nets else ""
