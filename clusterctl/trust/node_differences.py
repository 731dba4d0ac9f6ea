"""The facts in which one node differs from its peers: reasons to look at, beside the name of a slow node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from clusterctl.documents.evidence import FactDifference
from clusterctl.facts import drift
from clusterctl.facts.comparable import Comparable, comparable
from clusterctl.facts.model.devices import Link
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node


def find(
    facts: Mapping[str, NodeFacts],
    nodes: Sequence[Node],
    named: Collection[str],
    interfaces: Collection[str] = (),
) -> tuple[FactDifference, ...]:
    """Return what differs on each named node, its links first.

    ``interfaces`` are those that the ranks use: they are compared even if they are virtual.
    """
    links = {name: dict(_links(of, interfaces)) for name, of in facts.items()}
    compared = {name: _with(comparable(of), links[name]) for name, of in facts.items()}
    found = [
        FactDifference(name, one.fact, one.value, one.others)
        for one in drift.drift(facts, nodes, compared)
        for name in one.nodes
        if name in named and not one.tie
    ]
    return tuple(sorted(found, key=lambda one: one.fact not in links[one.node]))


def _with(found: Comparable, links: Mapping[str, str]) -> Comparable:
    return replace(found, values={**links, **found.values}, hardware=found.hardware | set(links))


def _links(facts: NodeFacts, interfaces: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the links of a node's NICs and GPUs: rates that were negotiated below those of the peers."""
    for device in facts.rdma.devices.or_else(()):
        if device.is_virtual:
            continue
        for port in device.ports:
            rate = f", {port.rate_gbps:g} Gb/s" if port.rate_gbps is not None else ""
            yield f"port {port.number} of {device.name}", f"{port.state}{rate}"
        yield from _pcie(facts, device.name, device.pci_address)
    for interface in facts.network.interfaces.or_else(()):
        if interface.name in interfaces:
            yield f"state of {interface.name}", interface.operstate
            yield f"MTU of {interface.name}", str(interface.mtu)
            if interface.speed_mbps is not None:
                yield f"speed of {interface.name}", f"{interface.speed_mbps} Mb/s"
            yield from _pcie(facts, interface.name, interface.pci_address)
    for gpu in facts.gpu.devices.or_else(()):
        # An idle GPU lowers the speed of its link to save power, but not the width.
        if gpu.link.width is not None:
            yield f"PCIe width of GPU {gpu.index}", f"x{gpu.link.width}"


def _pcie(facts: NodeFacts, name: str, address: str | None) -> Iterator[tuple[str, str]]:
    device = facts.pci.device(address) if address is not None else None
    if device is not None and _is_known(device.link):
        yield f"PCIe link of {name}", f"{device.link.speed_gtps:g} GT/s x{device.link.width}"


def _is_known(link: Link) -> bool:
    return link.speed_gtps is not None and link.width is not None
