"""Check RoCE GID tables: the entry that traffic must use, its interface, and NCCL_IB_GID_INDEX.

Rules (NCCL user guide, NCCL_IB_GID_INDEX): skip zero and link-local entries, the type must be RoCE v2, an IPv4
address is preferred. NCCL 2.21 and later follow these rules without a setting, among the entries of one address
family (NCCL_IB_ADDR_FAMILY; ncclIbGetGidIndex in NCCL's src/transport/net_ib/connect.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.rdma import nccl_settings
from clusterctl.requirements.rdma.ports import netdevs
from clusterctl.text.foreign import is_whole, whole
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.fabric import Gid, RdmaDevice, RdmaPort
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.rdma.ports import Port

VARIABLE = "NCCL_IB_GID_INDEX"
FAMILY = "NCCL_IB_ADDR_FAMILY"

_IPV4 = "0000:0000:0000:0000:0000:ffff:"


def usable(port: RdmaPort) -> tuple[Gid, ...]:
    """Return the RoCE v2 entries with a routable address, IPv4 first."""
    found = [
        gid
        for gid in port.gids
        if gid.type == "RoCE v2" and not gid.gid.startswith("fe80") and gid.gid.strip("0:")
    ]
    return tuple(sorted(found, key=lambda gid: (not gid.gid.startswith(_IPV4), gid.index)))


def index_of(facts: NodeFacts, device: RdmaDevice, port: RdmaPort) -> int | None:
    """Return the GID index that a port's traffic should use: 0 on InfiniBand; None if RoCE has no usable entry."""
    if port.link_layer == "InfiniBand":
        return 0
    entries = usable(port)
    own = netdevs(facts, device)
    return next((gid.index for gid in entries if gid.netdev in own), entries[0].index if entries else None)


def speaks_iwarp(device: RdmaDevice) -> bool:
    """Return whether a device uses iWARP, whose entries have no type (Chelsio, Intel X722, E810 if configured)."""
    return device.node_type == "RNIC"


def family_warnings(facts: NodeFacts, node: Node, ports: tuple[Port, ...]) -> tuple[str, ...]:
    """Warn of ports without an address of the family that NCCL uses: IPv4 unless NCCL_IB_ADDR_FAMILY is set.

    Without such an address NCCL uses the first entry of the table, which has a link-local address.
    """
    if setting(facts, node) is not None:
        return ()
    family = next((text for _, text in nccl_settings.given(facts, node, FAMILY)), "AF_INET")
    without = []
    for device, port in ports:
        entries = usable(port) if port.link_layer == "Ethernet" and port.state == "ACTIVE" else ()
        if entries and not any(gid.gid.startswith(_IPV4) is (family != "AF_INET6") for gid in entries):
            without.append(f"{device.name} port {port.number}")
    if not without:
        return ()
    has, needs = ("IPv4", "AF_INET") if family == "AF_INET6" else ("IPv6", "AF_INET6")
    said = f"NCCL looks for an {family} address, but {some(without)} has only {has}: set {FAMILY}={needs}"
    return (said,)


def _is_index(text: str) -> bool:
    return is_whole(text.strip()) and len(text) <= 9


def setting(facts: NodeFacts, node: Node) -> tuple[str, int] | None:
    """Return the place and value of NCCL_IB_GID_INDEX, the environment before files; None when it is unset."""
    for place, text in nccl_settings.given(facts, node, VARIABLE):
        if _is_index(text):
            return place, whole(text)
    return None


def faults(facts: NodeFacts, device: RdmaDevice, port: RdmaPort) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the faults of a RoCE port's GID table, and warnings."""
    if port.link_layer != "Ethernet" or port.state != "ACTIVE":
        return (), ()
    name = f"{device.name} port {port.number}"
    if speaks_iwarp(device):
        # NCCL connects queue pairs without rdma_cm(7), which iWARP requires. NCCL also ends its messages with writes
        # with immediate data, which iWARP lacks (RFC 5040).
        return (), (f"{name} uses iWARP, which NCCL does not support: exclude it with rdma_devices",)
    entries = usable(port)
    if not entries:
        only_v1 = any(gid.type not in (None, "RoCE v2") for gid in port.gids)
        where = f" ({', '.join(device.netdevs)})" if device.netdevs else ""
        why = f"check that its interface{where} has an IP address"
        if only_v1 and not any(gid.type == "RoCE v2" for gid in port.gids):
            why = "all its entries are RoCE v1, which switches do not route"
        return (f"{name} has no RoCE v2 GID with an address: {why}",), ()
    if all(gid.netdev is None for gid in entries):
        why = "a container needs the host's network (ibv_modify_qp fails with Invalid argument)"
        return (f"{name}: its GIDs do not belong to an interface of this node; {why}",), ()
    own = netdevs(facts, device)
    on = sorted({gid.netdev for gid in entries if gid.netdev is not None})
    if not own or any(netdev in own or netdev.partition(".")[0] in own for netdev in on):
        return (), ()
    devices = facts.rdma.devices.or_else(())
    theirs = {netdev for other in devices if other.name != device.name for netdev in other.netdevs}
    said = (
        f"{name}: its RoCE v2 GIDs are on {', '.join(on)}, not on its own interface {', '.join(sorted(own))}"
    )
    return ((said,), ()) if theirs.intersection(on) else ((), (said,))


def index_faults(
    facts: NodeFacts, node: Node, ports: tuple[Port, ...], elsewhere: frozenset[int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the faults of a fixed NCCL_IB_GID_INDEX, and warnings.

    ``elsewhere`` holds the right indices of the fleet's ports; where they differ, one value cannot fit all.
    The variable has no effect on InfiniBand, where NCCL uses the LID (ncclIbRtrQp, ncclIbGetGidIndex).
    """
    found = setting(facts, node)
    if found is None:
        return (), ()
    place, index = found
    wrong = []
    for device, port in ports:
        right = index_of(facts, device, port)
        if port.state != "ACTIVE" or right is None or port.link_layer != "Ethernet":
            continue
        if index not in {gid.index for gid in usable(port)}:
            wrong.append(f"{device.name} port {port.number} needs {right}")
    if all(port.link_layer == "InfiniBand" for _, port in ports):
        return (), (f"{place} sets {VARIABLE}={index}, which has no effect on InfiniBand: unset it",)
    if wrong:
        return (
            f"{place} sets {VARIABLE}={index}, but {', '.join(wrong)}: unset it (NCCL 2.21 and later choose the index)",
        ), ()
    if len(elsewhere) > 1:
        numbers = ", ".join(map(str, sorted(elsewhere)))
        said = f"{place} sets {VARIABLE}={index}, but the fleet's ports need {numbers}: unset it"
        return (), (said,)
    return (), (f"{place} sets {VARIABLE}={index}; NCCL 2.21 and later choose the index: unset it",)
