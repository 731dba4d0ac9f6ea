"""Make ``proof.topology`` of a run: what NCCL's dumps show, and what only the facts of the nodes show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterctl import log
from clusterctl.documents.evidence import NvLinkBundle
from clusterctl.documents.proof import Topology
from clusterctl.facts.model.devices import GpuFacts, PciDevice
from clusterctl.facts.model.node import NodeFacts
from clusterctl.launch.nccl_dumps import NcclDump
from clusterctl.requirements.rdma.ports import networking
from clusterctl.text.foreign import NotUnderstood
from clusterctl.trust.topology import groups, nccl_dump
from clusterctl.trust.topology.model import NVSWITCH, Attached, NodeTopology, NumaDomain, pcie

_LOG = log.get(__name__)


def of_facts(facts: NodeFacts) -> NodeTopology | None:
    """Return the topology of a node with GPUs; None without GPUs, or if the PCI bus could not be read."""
    gpus = facts.gpu.devices.or_else(())
    if not gpus or facts.pci.devices.value is None:
        return None
    leaves = [(gpu.pci_address, Attached("gpu", f"GPU {gpu.index}", gpu.pci_address, "")) for gpu in gpus]
    domains: dict[int | None, list[tuple[tuple[str, ...], Attached]]] = {}
    for address, leaf in (*leaves, *_cards(facts)):
        device = facts.pci.device(address)
        if device is None or device.physical_function is not None:
            continue
        domains.setdefault(device.numa_node, []).append((_switches(device), _linked(facts, device, leaf)))
    ordered = sorted(domains.items(), key=lambda item: -1 if item[0] is None else item[0])
    return NodeTopology(
        "facts",
        tuple(
            NumaDomain("CPU" if numa is None else f"NUMA node {numa}", _tree(facts, found)) for numa, found in ordered
        ),
        _nvlinks(facts.gpu, [gpu.index for gpu in gpus]),
    )  # fmt: skip


def with_lanes(topology: NodeTopology, facts: NodeFacts) -> NodeTopology:
    """Return the topology of a dump, marked where a link has fewer lanes than the possible ones, which NCCL reads."""

    def marked(part: Attached) -> Attached:
        device = facts.pci.device(part.address) if part.address else None
        lanes = None if device is None else device.link.width
        degraded = "" if part.kind == "switch" else _degraded(lanes, part.width)
        return replace(part, degraded=degraded, below=tuple(map(marked, part.below)))

    domains = (replace(domain, below=tuple(map(marked, domain.below))) for domain in topology.domains)
    return replace(topology, domains=tuple(domains))


def _cards(facts: NodeFacts) -> list[tuple[str, Attached]]:
    """Return the RDMA devices with their addresses; without any, the network interfaces."""
    found = []
    for device in networking(facts.rdma.devices.or_else(())):
        rates = [
            f"{port.rate_gbps:g} Gb/s"
            if port.state == "ACTIVE" and port.rate_gbps
            else port.state or "unknown state"
            for port in device.ports
        ]
        if device.pci_address is not None:
            found.append(
                (
                    device.pci_address,
                    Attached("nic", device.name, device.pci_address, "", rate=", ".join(rates)),
                )
            )
    if found:
        return found
    return [
        (card.pci_address, Attached("nic", card.name, card.pci_address, "", rate=_speed(card.speed_mbps)))
        for card in facts.network.interfaces.or_else(())
        if card.pci_address is not None
    ]  # fmt: skip


def _speed(speed_mbps: int | None) -> str:
    return f"{speed_mbps / 1000:g} Gb/s" if speed_mbps and speed_mbps > 0 else ""


def _switches(device: PciDevice) -> tuple[str, ...]:
    """Return the addresses of the switches above a device, the topmost first: each has an up and a downstream port."""
    return tuple(device.path[index] for index in range(len(device.path) - 3, 0, -2))[::-1]


def _linked(facts: NodeFacts, device: PciDevice, leaf: Attached) -> Attached:
    link, width = _link(facts, device)
    return replace(leaf, link=link, width=width, degraded=_degraded(device.link.width, width))


def _link(facts: NodeFacts, device: PciDevice) -> tuple[str, int | None]:
    """Return the link that a device and the port above it are capable of."""
    above = facts.pci.device(device.path[-2]) if len(device.path) > 1 else None
    ends = [device.link, *([above.link] if above is not None else [])]
    width = min((end.max_width for end in ends if end.max_width), default=None)
    return pcie(min((end.max_speed_gtps for end in ends if end.max_speed_gtps), default=None), width), width


def _degraded(lanes: int | None, width: int | None) -> str:
    return f"only x{lanes}" if lanes and width and lanes < width else ""


def _tree(facts: NodeFacts, leaves: Sequence[tuple[tuple[str, ...], Attached]]) -> tuple[Attached, ...]:
    """Put leaves below their switches, in the order of the PCI bus."""
    below: dict[str, list[tuple[tuple[str, ...], Attached]]] = {}
    found: list[tuple[str, Attached]] = []
    for switches, leaf in leaves:
        if switches:
            below.setdefault(switches[0], []).append((switches[1:], leaf))
        else:
            found.append((leaf.address, leaf))
    for address, inside in below.items():
        device = facts.pci.device(address)
        link, width = ("", None) if device is None else _link(facts, device)
        found.append((address, Attached("switch", "", address, link, width, below=_tree(facts, inside))))
    return tuple(part for _, part in sorted(found, key=lambda item: item[0]))


def _nvlinks(gpu: GpuFacts, indices: Sequence[int]) -> tuple[NvLinkBundle, ...]:
    """Return the NVLinks between GPUs; where every GPU reaches every other one with all its links, to NVSwitches."""
    rows = gpu.topology.value.rows if gpu.topology.value is not None else ()
    columns = gpu.topology.value.columns if gpu.topology.value is not None else ()
    pairs: dict[str, dict[str, int]] = {}
    for name, cells in rows:
        for column, cell in zip(columns, cells, strict=False):
            match = re.fullmatch(r"NV(\d{1,4})", cell)
            if match and name.startswith("GPU") and column.startswith("GPU"):
                pairs.setdefault(_spaced(name), {})[_spaced(column)] = int(match[1])
    counts = {count for row in pairs.values() for count in row.values()}
    if len(indices) > 2 and len(counts) == 1 and all(len(row) == len(indices) - 1 for row in pairs.values()):
        return tuple(NvLinkBundle(name, NVSWITCH, counts.copy().pop()) for name in pairs)
    return tuple(
        NvLinkBundle(name, other, count)
        for name, row in pairs.items()
        for other, count in row.items()
        if name < other
    )


def _spaced(name: str) -> str:
    return f"GPU {name.removeprefix('GPU')}"


def part(
    nodes: Sequence[str], dumps: Mapping[str, NcclDump], facts: Mapping[str, NodeFacts]
) -> Topology | None:
    """Return ``proof.topology`` of these nodes; None if no node has a GPU or a dump."""
    found: dict[str, NodeTopology] = {}
    for name in nodes:
        topology = _of_dump(name, dumps.get(name))
        of = facts.get(name)
        if topology is not None:
            found[name] = topology if of is None else with_lanes(topology, of)
        elif of is not None and (seen := of_facts(of)) is not None:
            found[name] = seen
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
