"""The proof of GPUDirect RDMA: what NCCL's log of the run itself says of every node, in both directions.

Checks before a run say what should work; the channels of the run say what did. A node whose channels to others go
over sockets although it has an RDMA device, or over RDMA through host memory, fell back in silence: the run ends
well, many times slower. Where the GPU is too far from the NIC, NCCL turns GPUDirect off by design, and that is said
and not held against the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clusterctl.benchmarks import gpudirect_causes
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.nccl_log_model import NcclLog, ProcessLog
from clusterctl.benchmarks.nccl_transport import Transport

Status = Literal[
    "proven", "sockets", "no-gpudirect", "too-far", "unsupported", "no-rdma", "nvlink", "unknown"
]
_FALLEN_BACK: tuple[Status, ...] = ("sockets", "no-gpudirect")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a node beside the log; None where nobody looked.

    ``rdma_ports`` are its active RDMA ports, ``peer_memory`` the modules loaded there that let NICs reach GPUs.
    """

    rdma_ports: tuple[str, ...] | None = None
    peer_memory: tuple[str, ...] | None = None
    memlock_kib: int | None = None
    """``ulimit -l``; None also for unlimited."""
    gpu: str | None = None
    """The name of its first GPU."""
    ec2_machine: str | None = None
    """What Amazon calls the machine (g6e.48xlarge); None for any that is not Amazon's."""
    rdma_named: str | None = None
    """The RDMA devices that the inventory says it has, as NCCL_IB_HCA is written; None: it names none."""


@dataclass(frozen=True, slots=True)
class NodeProof:
    """One node's verdict: the ways of its channels to other nodes with their number, and why it is so."""

    node: str
    status: Status
    send: Mapping[str, int] = field(default_factory=dict)
    receive: Mapping[str, int] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    cause: str | None = None
    hint: str | None = None

    @property
    def fallen_back(self) -> bool:
        """Whether the run was slow here for a reason that can be mended."""
        return self.status in _FALLEN_BACK

    def fault(self) -> Fault:
        """Return it as what went wrong with the run."""
        ways = ", ".join(dict.fromkeys([*self.send, *self.receive]))
        what = "fell back to sockets" if self.status == "sockets" else "does not use GPUDirect RDMA"
        return Fault(
            FaultKind.SLOW_PATH,
            f"{self.node} {what} ({ways}): {self.cause}",
            node=self.node,
            hint=self.hint,
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdicts of all nodes of one launch, in the launch's order."""

    nodes: tuple[NodeProof, ...]

    @property
    def status(self) -> str:
        """proven, fallen-back, not-used (for a legitimate reason) or unknown: that of the worst node."""
        kinds = {node.status for node in self.nodes}
        if kinds & set(_FALLEN_BACK):
            return "fallen-back"
        if not kinds or "unknown" in kinds:
            return "unknown"
        return "proven" if kinds == {"proven"} else "not-used"

    def faults(self) -> tuple[Fault, ...]:
        """Return one fault for every node that fell back."""
        return tuple(node.fault() for node in self.nodes if node.fallen_back)

    def document(self) -> dict[str, Any]:
        """Return ``proof.gpudirect`` of a result."""
        return {
            "status": self.status,
            "nodes": [
                {
                    "name": node.node,
                    "status": node.status,
                    "send": dict(node.send),
                    "receive": dict(node.receive),
                    "mechanisms": list(node.mechanisms),
                    "cause": node.cause,
                    "hint": node.hint,
                }
                for node in self.nodes
            ],
        }


def judge(
    log: NcclLog,
    nodes: Sequence[str],
    node_of: Callable[[ProcessLog], str | None],
    evidence: Mapping[str, Evidence] | None = None,
) -> Proof:
    """Return the verdict on every node of ``nodes``; ``node_of`` names the node of a process (None: not ours)."""
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
    return Proof(
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


def _between(processes: Sequence[ProcessLog], direction: str) -> Counter[Transport]:
    found: Counter[Transport] = Counter()
    for process in processes:
        for (way_of, way), count in process.channels.items():
            if way_of == direction and way.kind in ("net", "collnet"):
                found[way] += count
    return found


def _labels(ways: Counter[Transport]) -> dict[str, int]:
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
) -> NodeProof:
    if not processes:
        return NodeProof(name, "unknown", cause="its ranks wrote no NCCL log", hint="NCCL_DEBUG must be INFO")
    send, receive = _between(processes, "send"), _between(processes, "receive")
    ways = [*send, *receive]
    mechanisms = tuple(dict.fromkeys(entry for process in processes for entry in process.mechanisms))

    def verdict(status: Status, cause: str | None = None, hint: str | None = None) -> NodeProof:
        return NodeProof(name, status, _labels(send), _labels(receive), mechanisms, cause, hint)

    if not ways and any(process.mnnvl for process in processes):
        return verdict("nvlink", "NVLink joins the nodes (MNNVL)")
    if not send or not receive:
        absent = "sends nothing to" if receive else "receives nothing from" if send else "has no channel to"
        return verdict(
            "unknown", f"by its log it {absent} other nodes", "NCCL_DEBUG_SUBSYS must hold INIT and NET"
        )
    if any(way.socket for way in ways):
        if evidence.rdma_ports == () and not fleet_rdma:
            return verdict("no-rdma", "no node has an active RDMA port: there was nothing to fall back from")
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
