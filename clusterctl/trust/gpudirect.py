"""Prove GPUDirect RDMA from NCCL's log of the run, for every node and both directions.

Checks before a run show what should work; the channels of the run show what did. A node fell back silently if its
channels to other nodes use sockets although it has an RDMA device, or use RDMA through host memory: the run succeeds,
but many times slower. If the GPU is too far from the NIC, NCCL disables GPUDirect by design; this is reported, but not
as a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.evidence import GpuDirectNode, GpuDirectStatus
from clusterctl.documents.proof import GpuDirect
from clusterctl.trust import gpudirect_causes
from clusterctl.trust.nccl_log_model import NcclLog, ProcessLog
from clusterctl.trust.nccl_transport import ChannelTransport


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold what is known about a node besides the log; None: not probed.

    ``rdma_ports`` are its active RDMA ports, ``peer_memory`` the loaded modules that let NICs access GPU memory.
    """

    rdma_ports: tuple[str, ...] | None = None
    peer_memory: tuple[str, ...] | None = None
    memlock_kib: int | None = None
    """``ulimit -l`` in KiB; None also for unlimited."""
    gpu: str | None = None
    """The name of the node's first GPU."""
    ec2_machine: str | None = None
    """The EC2 instance type (g6e.48xlarge); None for machines of other vendors."""
    rdma_named: str | None = None
    """The node's RDMA devices by the inventory, in the syntax of NCCL_IB_HCA; None: the inventory lists no device."""


def of_nodes(nodes: tuple[GpuDirectNode, ...]) -> GpuDirect:
    """Return the verdicts of all nodes of one launch, and that of the worst: not-used is for a legitimate reason."""
    kinds = {node.status for node in nodes}
    unknown = not kinds or "unknown" in kinds
    status: Literal["proven", "not-used"] = "proven" if kinds == {"proven"} else "not-used"
    fallen_back = any(node.fallen_back for node in nodes)
    return GpuDirect(status="fallen-back" if fallen_back else "unknown" if unknown else status, nodes=nodes)


def faults(found: GpuDirect) -> tuple[Fault, ...]:
    """Return one fault for every node that fell back."""
    return tuple(_fault(node) for node in found.nodes if node.fallen_back)


def _fault(node: GpuDirectNode) -> Fault:
    ways = ", ".join(dict.fromkeys([*node.send, *node.receive]))
    what = "fell back to sockets" if node.status == "sockets" else "does not use GPUDirect RDMA"
    return Fault(
        FaultKind.SLOW_PATH, f"{node.name} {what} ({ways}): {node.cause}", node=node.name, hint=node.hint
    )


def judge(
    log: NcclLog,
    nodes: Sequence[str],
    node_of: Callable[[ProcessLog], str | None],
    evidence: Mapping[str, Evidence] | None = None,
) -> GpuDirect:
    """Return the verdict on each of ``nodes``; ``node_of`` returns the node of a process (None: not of this launch)."""
    evidence = evidence or {}
    members: dict[str, list[ProcessLog]] = {name: [] for name in nodes}
    for process in log.processes:
        name = node_of(process)
        if name in members:
            members[name].append(process)
    fleet_rdma = any(entry.rdma_ports or entry.rdma_named for entry in evidence.values()) or any(
        process.hca_gdr or any(way.kind == "net" and not way.socket for _, way in process.channels)
        for process in log.processes
    )
    works_elsewhere = {
        name
        for name, found in members.items()
        if any(p.hca_gdr for p in found) and all(all(p.hca_gdr.values()) for p in found)
    }
    return of_nodes(
        tuple(
            _node(
                name,
                members[name],
                evidence.get(name, Evidence()),
                fleet_rdma=fleet_rdma,
                works_elsewhere=bool(works_elsewhere - {name}),
            )
            for name in nodes
        )
    )


def _between(processes: Sequence[ProcessLog], direction: str) -> Counter[ChannelTransport]:
    found: Counter[ChannelTransport] = Counter()
    for process in processes:
        for (way_of, way), count in process.channels.items():
            if way_of == direction and way.kind in ("net", "collnet"):
                found[way] += count
    return found


def _labels(ways: Counter[ChannelTransport]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for way, count in ways.items():
        found[way.label] += count
    return dict(sorted(found.items()))


def _node(
    name: str,
    processes: Sequence[ProcessLog],
    evidence: Evidence,
    *,
    fleet_rdma: bool,
    works_elsewhere: bool,
) -> GpuDirectNode:
    if not processes:
        return GpuDirectNode(name, "unknown", cause="its ranks wrote no NCCL log", hint="set NCCL_DEBUG=INFO")
    send, receive = _between(processes, "send"), _between(processes, "receive")
    ways = [*send, *receive]
    mechanisms = tuple(dict.fromkeys(entry for process in processes for entry in process.mechanisms))

    def verdict(status: GpuDirectStatus, cause: str | None = None, hint: str | None = None) -> GpuDirectNode:
        return GpuDirectNode(name, status, _labels(send), _labels(receive), mechanisms, cause, hint)

    if not ways and any(process.mnnvl for process in processes):
        return verdict("nvlink", "NVLink connects the nodes (MNNVL)")
    if not send or not receive:
        absent = "sends nothing to" if receive else "receives nothing from" if send else "has no channel to"
        return verdict(
            "unknown", f"according to its log it {absent} other nodes", "set NCCL_DEBUG_SUBSYS=INIT,NET"
        )
    if any(way.socket for way in ways):
        if evidence.rdma_ports == () and not fleet_rdma:
            return verdict("no-rdma", "no node has an active RDMA port, so sockets are expected")
        cause, hint = gpudirect_causes.of_sockets(
            processes, evidence.rdma_ports, evidence.memlock_kib, evidence.rdma_named
        )
        return verdict("sockets", cause, hint)
    if all(way.gdr for way in ways):
        return verdict("proven")
    unsupported = gpudirect_causes.unsupported(evidence.gpu, evidence.ec2_machine)
    if unsupported is not None:
        return verdict("unsupported", unsupported)
    far = gpudirect_causes.too_far(processes)
    if far is not None:
        return verdict("too-far", far)
    cause, hint = gpudirect_causes.of_host_memory(
        processes,
        peer_memory=evidence.peer_memory,
        works_elsewhere=works_elsewhere,
        sends_only=all(way.gdr for way in receive),
    )
    return verdict("no-gpudirect", cause, hint)
