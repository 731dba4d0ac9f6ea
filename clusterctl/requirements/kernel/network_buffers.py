"""``network-buffers``: the kernel's socket buffers, queues and ports suffice for many TCP streams.

NCCL's bootstrap, launchers and rendezvous open thousands of TCP connections at once. Without RDMA, TCP carries the
data as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.kernel import sysctl
from clusterctl.requirements.kernel.sysctl import Wanted
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "network-buffers"
TITLE = "Socket buffers and queues suffice for many TCP streams"
READS = frozenset({"configuration", "network", "system"})
ABOUT = About(
    checks="socket buffers and queues are large enough for many TCP streams",
    why=(
        "NCCL's bootstrap, mpirun, torchrun and SSH open thousands of TCP connections at once; with the "
        "kernel's defaults connections are refused, or one stream never fills a fast link"
    ),
    bootstrap="sets sysctls, now and at boot",
    undo="writes the former values back, and removes the file",
    settings=("requirements.network_buffers",),
)

PATH = "/etc/sysctl.d/90-clusterctl-network.conf"

BRIDGES = ("virbr", "cni", "br-", "lxcbr", "flannel")
"""Bridges of virtual machines and containers: each node has the same addresses there, so they reach no other node."""

# Buffers: 64 MiB holds the data in flight at 400 Gb/s for 1 ms; ESnet's guide (fasterdata.es.net, Linux host
# tuning) has the same value for 10 Gb/s over 100 ms. Backlog: NVIDIA's and ESnet's value for 100 Gb/s.
# somaxconn: NCCL listens with a backlog of 16384 (src/misc/socket.cc), and the kernel cuts it to somaxconn.
# mtu_probing 1 acts only after the kernel detects an MTU black hole, which jumbo frames can cause (ESnet).
# Ports: a wide range, with the ports reserved on which jobs listen (torchrun's 29400 and 29500, NCCL's RAS) and
# those of Kubernetes (its "Ports and Protocols"; 10248 and 10249 are kubelet's health and kube-proxy's metrics).
# Each node reserves Kubernetes' ports: kubelet comes in many forms (k3s, rke2, snaps), and may be installed later.
DEFAULTS = (
    Wanted("net.core.rmem_max", "67108864"),
    Wanted("net.core.wmem_max", "67108864"),
    Wanted("net.ipv4.tcp_rmem", "4096 87380 67108864"),
    Wanted("net.ipv4.tcp_wmem", "4096 16384 67108864"),
    Wanted("net.core.netdev_max_backlog", "250000"),
    Wanted("net.core.somaxconn", "16384"),
    Wanted("net.ipv4.tcp_mtu_probing", "1"),
    Wanted("net.ipv4.ip_local_reserved_ports", "10248-10259,28028,29400,29500,30000-32767", "ports"),
    Wanted("net.ipv4.ip_local_port_range", "10240 65535", "range"),
)


def wanted(node: Node) -> tuple[Wanted, ...]:
    """Return clusterctl's parameters with the inventory's changes; values that are not numbers must be equal."""
    given = node.requirements.network_buffers.sysctls
    own = {item.name: item for item in DEFAULTS}
    found = [Wanted(item.name, given.get(item.name, item.value), item.kind) for item in DEFAULTS]
    for name, value in given.items():
        if name not in own:
            numbers = all(sysctl.is_number(word) for word in value.split())
            found.append(Wanted(name, value, "least" if numbers else "exact"))
    return tuple(found)


def _bridges(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Warn that NCCL may choose a bridge for its sockets: by default it skips only lo and docker*."""
    if node.socket_ifname is not None or "NCCL_SOCKET_IFNAME" in node.env:
        return ()
    found = [
        interface.name
        for interface in facts.network.interfaces.or_else(())
        if interface.operstate == "up" and interface.name.startswith(BRIDGES) and interface.addresses
    ]
    if not found:
        return ()
    return (f"NCCL does not skip {some(found)} when it chooses an interface: set socket_ifname",)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when each parameter is at least the required value, now and in clusterctl's own sysctl file."""
    if not node.requirements.network_buffers.require:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require network buffers")
    if facts.in_container:
        reason = "this is a container: buffers and queues are set on its host"
        return Decision(NAME, Status.NOT_APPLICABLE, reason)
    why = sysctl.unreadable(facts)
    if why is not None:
        return Decision(NAME, Status.UNKNOWN, why)
    items = wanted(node)
    evidence: dict[str, Json] = {item.name: facts.sysctl(item.name) for item in items}
    if all(value is None for value in evidence.values()):
        return Decision(NAME, Status.UNKNOWN, "none of the kernel parameters could be read", evidence)
    unread = [name for name in node.requirements.network_buffers.sysctls if evidence[name] is None]
    warnings = (
        *_bridges(facts, node),
        *sysctl.overriding(facts, PATH, items),
        *(
            f"{name} is not checked: the probe does not read it, or the kernel does not have it"
            for name in unread
        ),
    )
    less = sysctl.lacking(facts, items)
    if less:
        said = some([f"{item.name} is {now or 'empty'}, below {item.value}" for item, now in less], 3)
        if sysctl.read_only(facts):
            reason = f"{said}; /proc/sys is read-only here, so they must be set on the host"
            return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
        steps = sysctl.steps(facts, NAME, PATH, items)
        return Decision(NAME, Status.UNMET, said, evidence, warnings, steps)
    stale = sysctl.not_kept(facts, PATH, items)
    if stale:
        reason = f"{PATH} will set too low a value at the next boot: {some([item.name for item in stale])}"
        steps = sysctl.steps(facts, NAME, PATH, items)
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, steps)
    return Decision(
        NAME, Status.MET, f"all {len(items) - len(unread)} parameters suffice", evidence, warnings
    )
