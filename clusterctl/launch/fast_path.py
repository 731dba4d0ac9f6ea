"""Check what one launch proves about its fast path: NCCL's log, GPUDirect RDMA, and the links that limit its rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.perf_output import Sweep
from clusterctl.documents.proof import GpuDirect
from clusterctl.launch import node_links
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.environment import Library, backend
from clusterctl.launch.failure import Outcome
from clusterctl.launch.preflight import Readiness
from clusterctl.trust import gpudirect
from clusterctl.trust.links import NodeLinks
from clusterctl.trust.nccl_log import LogReader
from clusterctl.trust.nccl_log_model import NcclLog, ProcessLog

# The log must hold these subsystems for the proof. TUNING is omitted: it writes a line for every timed call.
SUBSYSTEMS = "INIT,ENV,NET,GRAPH"
# On one node these are enough to prove which variables NCCL read.
SETTINGS_SUBSYSTEMS = "INIT,ENV"
_LOG_FILE = "/dev/stderr"
# These launchers redirect ranks' streams to files, which opening /dev/stderr again would truncate.
_STREAMS_IN_FILES = ("torchrun",)


# Variables that a variant (--compare gdr=0,gdr=2) sets to choose another path on purpose.
_PATHS = ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_DMABUF_ENABLE")


@dataclass(frozen=True, slots=True)
class Trust:
    """Hold the proof of one launch.

    ``log``: None unless NCCL logged what it read; ``gpudirect``: None if NCCL did not connect nodes; ``links``: None
    if a node's links are unknown.
    """

    np: int
    nodes: int
    links: NodeLinks | None = None
    log: NcclLog | None = None
    gpudirect: GpuDirect | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def in_network(self) -> bool | None:
        """Tell whether switches reduce (SHARP), by the log's channels; None without a log."""
        if self.log is None:
            return None
        return any(way.kind == "collnet" for process in self.log.processes for _, way in process.channels)

    @property
    def nvlink_between_nodes(self) -> bool | None:
        """Tell whether NVLink connects the nodes (MNNVL); None if the log does not report it."""
        said = [p.mnnvl for p in self.log.processes if p.mnnvl is not None] if self.log else []
        return any(said) if said else None


def log_file(launcher_name: str) -> str | None:
    """Return the file for NCCL's log, which must not mix with the rows of results on stdout.

    None: NCCL's default, stdout, for launchers where it cannot use the file.
    """
    return None if launcher_name in _STREAMS_IN_FILES else _LOG_FILE


def asked_for(environment: Sequence[tuple[str, str]]) -> bool:
    """Tell whether a request's own variables choose the path, so that a slow path is intended."""
    return any(name in _PATHS for name, _ in environment)


def named(sweep: Sweep, trust: Trust) -> Sweep:
    """Return the sweep with the library versions and transports from NCCL's log, which is separate from the rows.

    Versions come from rank 0 alone, as the rows do; transports come from all ranks.
    """
    if trust.log is None:
        return sweep
    own = (process for process in trust.log.processes if process.source == 0)
    versions = dict.fromkeys(f"NCCL version {version}" for process in own for version in process.versions)
    ways = sorted({way.label for process in trust.log.processes for _, way in process.channels})
    return replace(
        sweep,
        libraries=tuple(dict.fromkeys([*sweep.libraries, *versions])),
        transports=tuple(dict.fromkeys([*sweep.transports, *ways])),
    )


def of_launch(
    plan: LaunchPlan,
    outcome: Outcome,
    answers: Sequence[Readiness],
    library: Library,
    *,
    allow_slow_path: bool,
) -> Trust:
    """Check one launch. Slow paths are faults unless they are allowed; the proof lists them in both cases."""
    by_node = {answer.node.name: answer for answer in answers}
    used = [by_node[placement.node] for placement in plan.placements]
    selector = dict(plan.env).get("NCCL_IB_HCA")
    links = node_links.weakest([node_links.selected(answer.links, selector) for answer in used])
    nodes = [placement.node for placement in plan.placements]
    logged = len(nodes) > 1 or dict(plan.env).get("NCCL_DEBUG") in ("INFO", "TRACE")
    log = read(outcome) if backend(library) == "nccl" and logged else None
    if log is None or len(nodes) < 2:
        return Trust(plan.np, len(nodes), links, log)
    of_rank = plan.node_of_rank

    def node_of(process: ProcessLog) -> str | None:
        source = process.source
        return of_rank[source] if source is not None and source < len(of_rank) else None

    proof = gpudirect.judge(log, nodes, node_of, {answer.node.name: answer.evidence for answer in used})
    faults = () if allow_slow_path or outcome.returncode != 0 else gpudirect.faults(proof)
    return Trust(plan.np, len(nodes), links, log, proof, faults)


def read(outcome: Outcome) -> NcclLog:
    """Parse the NCCL log from the output of all ranks."""
    reader = LogReader()
    for texts in (outcome.stderr_by_rank, outcome.stdout_by_rank):
        for rank, text in texts.items():
            reader.read_text(text, source=rank)
    return reader.result()
