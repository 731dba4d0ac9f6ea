"""RoCE GID tables: the entry that traffic must use, on the right interface, and NCCL_IB_GID_INDEX against it.

Rules (NCCL user guide, NCCL_IB_GID_INDEX): skip zero and link-local entries, the type must
be RoCE v2, an IPv4 address is preferred. NCCL 2.21 and later choose so by themselves, among those of one address
family (NCCL_IB_ADDR_FAMILY; ncclIbGetGidIndex in NCCL's src/transport/net_ib/connect.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.foreign import is_whole, whole
from clusterctl.requirements import nccl_settings
from clusterctl.requirements.rdma_ports import netdevs
from clusterctl.requirements.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model import Gid, NodeFacts, RdmaDevice, RdmaPort
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.rdma_ports import Port

VARIABLE = "NCCL_IB_GID_INDEX"
FAMILY = "NCCL_IB_ADDR_FAMILY"

_IPV4 = "0000:0000:0000:0000:0000:ffff:"


def usable(port: RdmaPort) -> tuple[Gid, ...]:
    """Return the RoCE v2 entries with a routable address, those of IPv4 first."""
    found = [
        gid
        for gid in port.gids
        if gid.type == "RoCE v2" and not gid.gid.startswith("fe80") and gid.gid.strip("0:")
    ]
    return tuple(sorted(found, key=lambda gid: (not gid.gid.startswith(_IPV4), gid.index)))


def index_of(facts: NodeFacts, device: RdmaDevice, port: RdmaPort) -> int | None:
    """Return the index that traffic of a port should use: 0 on InfiniBand; None where RoCE has none."""
    if port.link_layer == "InfiniBand":
        return 0
    entries = usable(port)
    own = netdevs(facts, device)
    return next((gid.index for gid in entries if gid.netdev in own), entries[0].index if entries else None)


def speaks_iwarp(device: RdmaDevice) -> bool:
    """Whether a device speaks iWARP (Chelsio's, Intel's X722, E810 when told so), whose entries have no type."""
    return device.node_type == "RNIC"


def family_warnings(facts: NodeFacts, node: Node, ports: tuple[Port, ...]) -> tuple[str, ...]:
    """Say which ports have no address of the family of which NCCL takes one: IPv4 unless it is told otherwise.

    Where there is none it stays with the first entry of the table, of a link-local address.
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
    said = f"NCCL looks for an address of {family}, and {some(without)} has {has} only: set {FAMILY}={needs}"
    return (said,)


def _is_index(text: str) -> bool:
    return is_whole(text.strip()) and len(text) <= 9


def setting(facts: NodeFacts, node: Node) -> tuple[str, int] | None:
    """Return where NCCL_IB_GID_INDEX is set, and to what; the environment beats the file."""
    for place, text in nccl_settings.given(facts, node, VARIABLE):
        if _is_index(text):
            return place, whole(text)
    return None


def faults(facts: NodeFacts, device: RdmaDevice, port: RdmaPort) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is wrong with a RoCE port's table, and what is only odd."""
    if port.link_layer != "Ethernet" or port.state != "ACTIVE":
        return (), ()
    name = f"{device.name} port {port.number}"
    if speaks_iwarp(device):
        # NCCL connects queue pairs by itself, and iWARP is connected by way of rdma_cm(7) only; nor has it writes with
        # immediate data (RFC 5040), with which NCCL ends its messages.
        return (), (f"{name} speaks iWARP, which NCCL does not: leave it out with rdma_devices",)
    entries = usable(port)
    if not entries:
        only_v1 = any(gid.type not in (None, "RoCE v2") for gid in port.gids)
        where = f" ({', '.join(device.netdevs)})" if device.netdevs else ""
        why = f"does its interface{where} have an IP address?"
        if only_v1 and not any(gid.type == "RoCE v2" for gid in port.gids):
            why = "its entries are all of RoCE v1, which switches do not route"
        return (f"{name} has no RoCE v2 GID with an address: {why}",), ()
    if all(gid.netdev is None for gid in entries):
        why = "a container needs the host's network (ibv_modify_qp fails with Invalid argument)"
        return (f"{name}: its GIDs belong to no interface here; {why}",), ()
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
    """Return what is wrong with a fixed NCCL_IB_GID_INDEX, and what is only odd.

    ``elsewhere``: the right indices of the fleet's ports; one number for all cannot be right where they differ.
    It says nothing of InfiniBand, where NCCL goes by LID (ncclIbRtrQp, ncclIbGetGidIndex).
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
        return (), (f"{place} sets {VARIABLE}={index}, which says nothing of InfiniBand: unset it",)
    if wrong:
        return (f"{place} sets {VARIABLE}={index}, but {', '.join(wrong)}: unset it (NCCL 2.21 chooses)",), ()
    if len(elsewhere) > 1:
        numbers = ", ".join(map(str, sorted(elsewhere)))
        said = f"{place} sets {VARIABLE}={index}, but the fleet's ports need {numbers}: unset it"
        return (), (said,)
    return (), (f"{place} sets {VARIABLE}={index}; NCCL 2.21 and later choose by themselves: unset it",)
