"""Which RDMA ports a node is to use: NCCL_IB_HCA's syntax, its trap, and ports that serve management."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.requirements import data_direct
from clusterctl.requirements.gpus import GIVEN_AWAY
from clusterctl.requirements.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, PciDevice, RdmaDevice, RdmaPort
    from clusterctl.inventory.model import Node

Port = tuple["RdmaDevice", "RdmaPort"]

_INFINIBAND = "0207"
"""The PCI class of InfiniBand cards, which are of no use but as RDMA devices."""
_NUMBERED = re.compile(r".*_\d+")


def chosen(device: str, port: int, selector: str | None) -> bool:
    """Whether NCCL_IB_HCA's syntax means a port: ``mlx5``, ``=mlx5_0:1``, ``^mlx5_2``, ``^=mlx5_2``."""
    if not selector:
        return True
    exclude = selector.startswith("^")
    rest = selector[1:] if exclude else selector
    exact = rest.startswith("=")
    rest = rest[1:] if exact else rest
    found = False
    for item in filter(None, (part.strip() for part in rest.split(","))):
        name, _, wanted_port = item.partition(":")
        same = device == name if exact else device.startswith(name)
        found = found or (same and (not wanted_port or wanted_port == str(port)))
    return found != exclude


def means_more(selector: str | None, devices: tuple[RdmaDevice, ...]) -> tuple[str, ...]:
    """Say which names of a selector without ``=`` are whole names of devices and beginnings of others.

    NCCL compares prefixes: mlx5_1 is also mlx5_10 to mlx5_19.
    """
    rest = (selector or "").removeprefix("^")
    if not rest or rest.startswith("="):
        return ()
    names = [device.name for device in devices]
    found = []
    for item in filter(None, (part.strip().partition(":")[0] for part in rest.split(","))):
        more = [name for name in names if name != item and name.startswith(item)]
        if item in names and more:
            found.append(f"{item} also means {', '.join(more)}: write ={item} for that one alone")
    return tuple(found)


def named_but_missing(selector: str | None, devices: tuple[RdmaDevice, ...]) -> tuple[str, ...]:
    """Return what a selector names of which there is nothing: one card less, with which NCCL runs all the same.

    Without ``=`` only what looks like a whole name (mlx5_3) counts: mlx5,irdma may be meant for several kinds of nodes.
    """
    selector = selector or ""
    if selector.startswith("^"):
        return ()
    exact = selector.startswith("=")
    found = []
    for item in filter(None, (part.strip() for part in selector.removeprefix("=").split(","))):
        there = any(chosen(d.name, p.number, f"={item}" if exact else item) for d in devices for p in d.ports)
        if not there and (exact or _NUMBERED.fullmatch(item.partition(":")[0])):
            found.append(item)
    return tuple(found)


def without_device(facts: NodeFacts) -> tuple[tuple[PciDevice, ...], tuple[PciDevice, ...]]:
    """Return InfiniBand cards on the bus without an RDMA device; and others like those that have one.

    Functions of guests and of Data Direct are left out, and of the others those whose slot has a device: a bond of two
    ports has one.
    """
    if facts.in_container:
        return (), ()
    devices = facts.pci.devices.or_else(())
    serving = {device.pci_address for device in facts.rdma.devices.or_else(())}
    slots = {address.rpartition(".")[0] for address in serving if address is not None}
    alike = {(d.vendor, d.device) for d in devices if d.address in serving}
    bare = [
        d
        for d in devices
        if d.address not in serving
        and d.physical_function is None
        and d.driver not in GIVEN_AWAY
        and (d.vendor, d.device) != data_direct.FUNCTION
    ]
    # Amazon's have none but for NVLink switches (clusterctl.facts.rdma), and these are the fabric manager's.
    at = facts.system.virtualization.value
    cards = not (at is not None and at.vm == "amazon")
    infiniband = [d for d in bare if cards and d.class_code.startswith(_INFINIBAND)]
    others = [
        d
        for d in bare
        if not d.class_code.startswith(_INFINIBAND)
        and (d.vendor, d.device) in alike
        and d.address.rpartition(".")[0] not in slots
    ]
    return tuple(infiniband), tuple(others)


def ports(facts: NodeFacts, node: Node) -> tuple[Port, ...]:
    """Return the ports that the inventory's selector means; without one, all but those of management and of guests.

    Those that manage NVLink switches are no network either.
    """
    found = facts.rdma.devices.or_else(())
    if node.rdma_devices is not None:
        return tuple((d, p) for d in found for p in d.ports if chosen(d.name, p.number, node.rdma_devices))
    devices = networking(found)
    own = [device for device in devices if not _is_to_be_given_away(facts, device)] or devices
    kept = [device for device in own if not serves_management(facts, device)]
    management = {card(device) for device in own if device not in kept}
    # Another port of that very card without a cable is no training network beside it.
    idle = all(card(d) in management and all(p.state != "ACTIVE" for p in d.ports) for d in kept)
    return tuple((d, p) for d in (own if idle else kept) for p in d.ports)


def devices(facts: NodeFacts, node: Node) -> tuple[RdmaDevice, ...]:
    """Return the devices that have such ports; all that lead to a network where none has."""
    names = {device.name for device, _ in ports(facts, node)}
    found = facts.rdma.devices.or_else(())
    return tuple(device for device in found if device.name in names) or networking(found)


def networking(devices: tuple[RdmaDevice, ...]) -> tuple[RdmaDevice, ...]:
    """Return the devices that lead to a network, and not to the NVLink switches of this very machine."""
    return tuple(device for device in devices if not device.manages_nvlink)


def bridge_warnings(facts: NodeFacts, selector: str | None, *, has_plugin: bool) -> tuple[str, ...]:
    """Name the functions that manage NVLink switches where NCCL would take them for network cards.

    ``has_plugin``: the node's network is one that NCCL reaches by a plugin alone, and looks for others without it.
    """
    bridges = [device for device in facts.rdma.devices.or_else(()) if device.manages_nvlink]
    taken = [
        device.name
        for device in bridges
        if any(port.state == "ACTIVE" and chosen(device.name, port.number, selector) for port in device.ports)
    ]
    if not taken:
        return ()
    # Those that are not up yet are once the fabric manager runs.
    names = ",".join(device.name for device in bridges)
    hint = f"leave them out of {selector}" if selector else f"set rdma_devices: ^={names}"
    where = f"{'lead' if len(taken) > 1 else 'leads'} to this machine's NVLink switches"
    what = "them for network cards" if len(taken) > 1 else "it for a network card"
    unless = " where its network plugin is missing" if has_plugin else ""
    return (f"{some(taken)} {where}, and NCCL takes {what}{unless}: {hint}",)


def _is_to_be_given_away(facts: NodeFacts, device: RdmaDevice) -> bool:
    """Whether it is a virtual function of a card of this very machine, made for guests or pods, and down until then.

    A guest does not see whose function it was given: there it is a device like others.
    """
    function = facts.pci.device(device.pci_address) if device.pci_address is not None else None
    return function is not None and function.physical_function is not None


def card(device: RdmaDevice) -> tuple[str, str | None]:
    """Return what names a device's card: its PCI slot (the address without the function) and its board.

    A ConnectX with two ports is two functions of one slot (41:00.0, 41:00.1), each an RDMA device of its own.
    A device without an address is a card of its own.
    """
    if device.pci_address is None:
        return device.name, device.board_id
    return device.pci_address.rpartition(".")[0] or device.pci_address, device.board_id


def serves_management(facts: NodeFacts, device: RdmaDevice) -> bool:
    """Whether an Ethernet device carries the default route: the way to the node, not the training network.

    DGX systems have such ports as mlx5_bond_0; where it is all that a node has, it is used all the same.
    """
    route = facts.network.default_route.value
    if route is None or not all(port.link_layer == "Ethernet" for port in device.ports):
        return False
    # Of a VLAN or bridge by another name only the device's table knows that it stands on it.
    on = {gid.netdev for port in device.ports for gid in port.gids}
    return not (netdevs(facts, device) | on).isdisjoint((route, route.partition(".")[0]))


def netdevs(facts: NodeFacts, device: RdmaDevice) -> frozenset[str]:
    """Return a device's network interfaces, and the bonds and bridges that they are part of, directly or not."""
    found: set[str] = set()
    left = list(device.netdevs)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        interface = facts.network.interface(name)
        if interface is not None and interface.master is not None:
            left.append(interface.master)
    return frozenset(found)
