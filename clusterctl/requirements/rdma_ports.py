"""Which RDMA ports a node is to use: NCCL_IB_HCA's syntax, its trap, and ports that serve management."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, RdmaDevice, RdmaPort
    from clusterctl.inventory.model import Node

Port = tuple["RdmaDevice", "RdmaPort"]


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


def ports(facts: NodeFacts, node: Node) -> tuple[Port, ...]:
    """Return the ports that the inventory's selector means; without one, all but those of management."""
    devices = facts.rdma.devices.or_else(())
    if node.rdma_devices is not None:
        return tuple((d, p) for d in devices for p in d.ports if chosen(d.name, p.number, node.rdma_devices))
    kept = [device for device in devices if not serves_management(facts, device)]
    return tuple((d, p) for d in kept or devices for p in d.ports)


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
    ethernet = all(port.link_layer == "Ethernet" for port in device.ports)
    return route is not None and ethernet and route in netdevs(facts, device)


def netdevs(facts: NodeFacts, device: RdmaDevice) -> frozenset[str]:
    """Return a device's network interfaces, and the bonds or bridges that they are part of."""
    own = set(device.netdevs)
    found = (facts.network.interface(name) for name in device.netdevs)
    return frozenset(own | {i.master for i in found if i is not None and i.master is not None})
