"""Find the addresses at which nodes reach each other, from the inventory and the facts (pure)."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model.fabric import Interface
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

# Loopback, bridges and host ends of containers and virtual machines: many nodes have the same addresses on them.
_INNER = re.compile(r"(lo|docker\d+|br-[0-9a-f]{12}|virbr|veth|cni|flannel|cali|lxc|lxd|podman|tunl|kube)\S*")


def literal(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse a numeric IP address, without brackets and zone; return None for a host name."""
    try:
        return ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None


def means_itself(address: str) -> bool:
    """Whether an address is a loopback address (localhost, 127.0.0.1, ::1)."""
    number = literal(address)
    return address.lower().partition(".")[0] == "localhost" if number is None else number.is_loopback


def _of(interface: Interface) -> list[str]:
    if _INNER.fullmatch(interface.name):
        return []
    found = (literal(text.partition("/")[0]) for text in interface.addresses)
    return [str(a) for a in found if a is not None and not (a.is_loopback or a.is_link_local)]


def own_addresses(facts: NodeFacts | None) -> tuple[str, ...]:
    """Return the addresses of a node's interfaces, those of the default route's interface first.

    Loopback, link-local and container or bridge addresses are left out.
    """
    if facts is None:
        return ()
    route = facts.network.default_route.value
    interfaces = sorted(facts.network.interfaces.or_else(()), key=lambda interface: interface.name != route)
    return tuple(dict.fromkeys(address for interface in interfaces for address in _of(interface)))


def reachable_address(node: Node, facts: NodeFacts | None) -> str | None:
    """Return the address at which other nodes reach a node: the inventory's, unless it is a loopback address.

    A loopback address in the inventory means a node behind a forwarded port. The result is then an address of the
    interface that the inventory's ``socket_ifname`` selects, because behind NAT all nodes may share one outside
    address. Return None if no address is known.
    """
    address = literal(node.address)
    if not means_itself(node.address):
        return node.address.strip("[]") if address is None else str(address)
    if facts is not None and node.interfaces is not None:
        for interface in facts.network.interfaces.or_else(()):
            if node.interfaces.selects(interface.name) and (among := _of(interface)):
                return among[0]
    return next(iter(own_addresses(facts)), None)


def source_addresses(node: Node, facts: NodeFacts | None) -> tuple[str, ...]:
    """Return the numeric source addresses of connections that a node opens."""
    address = literal(node.address)
    written = () if address is None or address.is_loopback else (str(address),)
    return tuple(dict.fromkeys((*written, *own_addresses(facts))))
