"""Select the RDMA ports that a node uses: by NCCL_IB_HCA's syntax, without management ports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables
from clusterctl.requirements.gpus import GIVEN_AWAY
from clusterctl.requirements.rdma import data_direct
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.fabric import RdmaDevice, RdmaPort
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

Port = tuple["RdmaDevice", "RdmaPort"]

_INFINIBAND = "0207"
"""The PCI class of InfiniBand cards, which are useful only as RDMA devices."""
_NUMBERED = re.compile(r".*_\d+")


def chosen(device: str, port: int, selector: str | None) -> bool:
    """Return whether a selector in NCCL_IB_HCA's syntax matches a port: ``mlx5``, ``=mlx5_0:1``, ``^mlx5_2``.

    Names are prefixes unless ``=`` precedes them (NCCL user guide, NCCL_IB_HCA; src/misc/socket.cc parses it).
    """
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
    """Warn of names in a selector without ``=`` that are the name of one device and a prefix of others.

    NCCL compares prefixes: mlx5_1 also matches mlx5_10 to mlx5_19.
    """
    rest = (selector or "").removeprefix("^")
    if not rest or rest.startswith("="):
        return ()
    names = [device.name for device in devices]
    found = []
    for item in filter(None, (part.strip().partition(":")[0] for part in rest.split(","))):
        more = [name for name in names if name != item and name.startswith(item)]
        if item in names and more:
            found.append(f"{item} also matches {', '.join(more)}: write ={item} for that device alone")
    return tuple(found)


def named_but_missing(selector: str | None, devices: tuple[RdmaDevice, ...]) -> tuple[str, ...]:
    """Return the names in a selector that match no device: NCCL silently runs with one card less.

    Without ``=`` only full names (mlx5_3) are checked: mlx5,irdma may be meant for several kinds of nodes.
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
    """Return the InfiniBand cards without an RDMA device, and other such cards whose model has one elsewhere.

    Functions of guests and of Data Direct are left out. Of the other cards those are left out whose slot has a device,
    because a bond of two ports has a single device.
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
        and not data_direct.is_function(d)
    ]
    # In some clouds the only such cards manage NVLink switches, for the fabric manager (``facts.subjects.rdma``).
    at = facts.system.virtualization.value
    cards = not tables.machine_has(None if at is None else at.vm, "", "infiniband-only-for-nvlink")
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
    """Return the ports that match the inventory's selector; without one, all except those of management and guests.

    Devices that manage NVLink switches are left out as well.
    """
    found = facts.rdma.devices.or_else(())
    if node.rdma_devices is not None:
        return tuple((d, p) for d in found for p in d.ports if chosen(d.name, p.number, node.rdma_devices))
    devices = networking(found)
    own = [device for device in devices if not _is_to_be_given_away(facts, device)] or devices
    kept = [device for device in own if not serves_management(facts, device)]
    management = {card(device) for device in own if device not in kept}
    # Ports that are down on the management card are not a training network: then the management port is used.
    idle = all(card(d) in management and all(p.state != "ACTIVE" for p in d.ports) for d in kept)
    return tuple((d, p) for d in (own if idle else kept) for p in d.ports)


def devices(facts: NodeFacts, node: Node) -> tuple[RdmaDevice, ...]:
    """Return the devices of the chosen ports; without chosen ports, all devices that lead to a network."""
    names = {device.name for device, _ in ports(facts, node)}
    found = facts.rdma.devices.or_else(())
    return tuple(device for device in found if device.name in names) or networking(found)


def networking(devices: tuple[RdmaDevice, ...]) -> tuple[RdmaDevice, ...]:
    """Return the devices that lead to a network, not to this machine's own NVLink switches."""
    return tuple(device for device in devices if not device.manages_nvlink)


def bridge_warnings(facts: NodeFacts, selector: str | None, *, has_plugin: bool) -> tuple[str, ...]:
    """Warn of functions that manage NVLink switches where NCCL would use them as network cards.

    ``has_plugin``: NCCL reaches the node's network only through a plugin, and looks for other networks without it.
    """
    bridges = [device for device in facts.rdma.devices.or_else(()) if device.manages_nvlink]
    taken = [
        device.name
        for device in bridges
        if any(port.state == "ACTIVE" and chosen(device.name, port.number, selector) for port in device.ports)
    ]
    if not taken:
        return ()
    # All of them are named: those that are down now come up with the fabric manager.
    names = ",".join(device.name for device in bridges)
    hint = f"exclude them from {selector}" if selector else f"set rdma_devices: ^={names}"
    where = f"{'manage' if len(taken) > 1 else 'manages'} this machine's NVLink switches"
    what = "them as network cards" if len(taken) > 1 else "it as a network card"
    unless = " where its network plugin is missing" if has_plugin else ""
    return (f"{some(taken)} {where}, and NCCL uses {what}{unless}: {hint}",)


def _is_to_be_given_away(facts: NodeFacts, device: RdmaDevice) -> bool:
    """Return whether a device is a virtual function of this machine's card, made for a guest or pod.

    Such a function is down until it is assigned. Inside a guest it has no visible physical function.
    """
    function = facts.pci.device(device.pci_address) if device.pci_address is not None else None
    return function is not None and function.physical_function is not None


def card(device: RdmaDevice) -> tuple[str, str | None]:
    """Return the identity of a device's card: its PCI slot (the address without the function) and its board.

    A ConnectX with two ports has two functions in one slot (41:00.0, 41:00.1), each a separate RDMA device.
    A device without an address is treated as a separate card.
    """
    if device.pci_address is None:
        return device.name, device.board_id
    return device.pci_address.rpartition(".")[0] or device.pci_address, device.board_id


def serves_management(facts: NodeFacts, device: RdmaDevice) -> bool:
    """Return whether an Ethernet device carries the default route, and so serves management, not training.

    DGX systems have such a device (mlx5_bond_0). A node with no other device uses it for training as well.
    """
    route = facts.network.default_route.value
    if route is None or not all(port.link_layer == "Ethernet" for port in device.ports):
        return False
    # The route may use a VLAN or bridge with another name; only the GID table shows that it is on this device.
    on = {gid.netdev for port in device.ports for gid in port.gids}
    return not (netdevs(facts, device) | on).isdisjoint((route, route.partition(".")[0]))


def netdevs(facts: NodeFacts, device: RdmaDevice) -> frozenset[str]:
    """Return a device's network interfaces, and the bonds and bridges that contain them directly or indirectly."""
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
