"""Compare RDMA ports with most ports of the fleet: rate, PCIe link, firmware, MTU and GID index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from clusterctl.requirements.fleet.votes import OncePerFleet, majority
from clusterctl.requirements.rdma import nccl_settings
from clusterctl.requirements.rdma.gids import index_of
from clusterctl.requirements.rdma.ports import ports
from clusterctl.text.foreign import NotUnderstood, decimal

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import Link
    from clusterctl.facts.model.fabric import RdmaDevice, RdmaPort
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.requirements.rdma.ports import Port


V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Usual:
    """Counts over all ports that the fleet uses; rate, link and firmware by the kind of card.

    MTUs are counted by link layer and kind: IPoIB has 2044 or 4092 where Ethernet of the same node has 9000.
    """

    rates: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    links: defaultdict[str, Counter[tuple[float, int]]] = field(default_factory=lambda: defaultdict(Counter))
    firmware: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    mtus: defaultdict[tuple[str, str | None], Counter[int]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    active: defaultdict[tuple[str, int], Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    """By device and port: the number of nodes on which it is up (True) or down (False)."""
    gid_indices: Counter[int] = field(default_factory=Counter)
    nccl_files: Mapping[str, Counter[tuple[str, ...]]] = field(
        default_factory=lambda: {file: Counter() for file in nccl_settings.FILES}
    )


def _kind(device: RdmaDevice) -> str | None:
    """Return the kind of card, which is its board; None for virtual devices, which cannot be compared."""
    return device.board_id


def _link(facts: NodeFacts, device: RdmaDevice) -> Link | None:
    pci = facts.pci.device(device.pci_address) if device.pci_address is not None else None
    return None if pci is None else pci.link


def _pair(link: Link | None) -> tuple[float, int] | None:
    if link is None or link.speed_gtps is None or not link.width:
        return None
    return link.speed_gtps, link.width


def _mtu(facts: NodeFacts, device: RdmaDevice) -> int | None:
    found = [facts.network.interface(name) for name in device.netdevs]
    return min((interface.mtu for interface in found if interface is not None), default=None)


def _settings(facts: NodeFacts, file: str) -> tuple[str, ...]:
    return tuple(sorted(nccl_settings.lines(facts, file)))


def _count(fleet: Fleet) -> Usual:
    usual = Usual()
    for node in fleet.nodes:
        facts = fleet.facts.get(node.name)
        if facts is None:
            continue
        for file, votes in usual.nccl_files.items():
            votes[_settings(facts, file)] += 1
        seen: set[str] = set()
        for device, port in ports(facts, node):
            kind = _kind(device)
            usual.active[device.name, port.number][port.state == "ACTIVE"] += 1
            if port.state != "ACTIVE":
                continue
            index = index_of(facts, device, port)
            if index is not None and port.link_layer != "InfiniBand":
                usual.gid_indices[index] += 1
            if kind is not None:
                usual.rates[kind][port.rate] += 1
            if device.name in seen:
                continue
            seen.add(device.name)
            link, mtu = _pair(_link(facts, device)), _mtu(facts, device)
            if kind is not None and link is not None:
                usual.links[kind][link] += 1
            if kind is not None and device.fw_ver is not None:
                usual.firmware[kind][device.fw_ver] += 1
            if mtu is not None:
                usual.mtus[port.link_layer, kind][mtu] += 1
    return usual


usual = OncePerFleet(_count)


def up_elsewhere(fleet: Fleet, device: RdmaDevice, port: RdmaPort) -> bool:
    """Return whether the same port is up on most nodes; then it should be cabled here too."""
    return majority(usual(fleet).active.get((device.name, port.number), Counter())) is True


def unlike(
    facts: NodeFacts, found: tuple[Port, ...], fleet: Fleet
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return faults, where this node's ports are worse than or differ from most others, and warnings."""
    most = usual(fleet)
    faults: list[str] = []
    odd: list[str] = []
    seen: set[str] = set()
    for device, port in found:
        if port.state != "ACTIVE":
            continue
        kind = _kind(device)
        rate = majority(_votes(most.rates, kind))
        if rate is not None and port.rate != rate and (port.rate_gbps or 0.0) < _gbps(rate):
            faults.append(f"{device.name} port {port.number} runs at {port.rate}, most others at {rate}")
        elif rate is None and port.link_layer == "InfiniBand" and ("(1X" in port.rate or "(2X" in port.rate):
            odd.append(f"{device.name} port {port.number} runs at {port.rate}: fewer than four lanes")
        if device.name in seen:
            continue
        seen.add(device.name)
        _pcie(facts, device, most, faults, odd)
        _firmware(device, most, faults, odd)
        mtus = most.mtus.get((port.link_layer, kind), Counter())
        mtu, usual_mtu = _mtu(facts, device), majority(mtus)
        if mtu is not None and usual_mtu is not None and mtu != usual_mtu:
            faults.append(f"the MTU of {device.name}'s interface is {mtu}, most others have {usual_mtu}")
        elif mtu is not None and usual_mtu is None and len(mtus) > 1:
            odd.append(f"MTUs differ: {mtu} on this node, {', '.join(map(str, sorted(mtus)))} in the fleet")
    for file, votes in most.nccl_files.items():
        lines, own = majority(votes), _settings(facts, file)
        if lines is not None and lines != own:
            odd.append(f"{file} differs from that of most nodes: {'; '.join(own) or 'it is empty'}")
    return tuple(faults), tuple(dict.fromkeys(odd))


def _votes(of_kinds: Mapping[str, Counter[V]], kind: str | None) -> Counter[V]:
    return Counter() if kind is None else of_kinds.get(kind, Counter())


def _gbps(rate: str) -> float:
    first = rate.split(" ", 1)[0]
    try:
        return decimal(first)
    except NotUnderstood:
        return 0.0


def _pcie(facts: NodeFacts, device: RdmaDevice, most: Usual, faults: list[str], odd: list[str]) -> None:
    link, kind = _link(facts, device), _kind(device)
    pair = _pair(link)
    if link is None or pair is None:
        return
    said = f"the PCIe link of {device.name} is {pair[0]:g} GT/s x{pair[1]}"
    common = majority(_votes(most.links, kind))
    if common is not None and common[0] * common[1] > pair[0] * pair[1]:
        faults.append(f"{said}, most others have {common[0]:g} GT/s x{common[1]}")
    elif common is None and (pair[1] < (link.max_width or 0) or pair[0] < (link.max_speed_gtps or 0.0)):
        odd.append(f"{said}; the card supports {link.max_speed_gtps or 0:g} GT/s x{link.max_width}")


def _firmware(device: RdmaDevice, most: Usual, faults: list[str], odd: list[str]) -> None:
    kind = _kind(device)
    votes = _votes(most.firmware, kind)
    common = majority(votes)
    if device.fw_ver is None or len(votes) < 2:
        return
    if common is None:
        odd.append(f"firmware differs among {kind} cards: {', '.join(sorted(votes))}")
    elif device.fw_ver != common:
        faults.append(f"{device.name} has firmware {device.fw_ver}, most {kind} cards have {common}")
