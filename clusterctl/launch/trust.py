"""What one launch proves of its fast path: NCCL's log read, GPUDirect judged, and the links that bound its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.benchmarks import gpudirect
from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.gpudirect import Proof
from clusterctl.benchmarks.links import NodeLinks
from clusterctl.benchmarks.nccl_log import LogReader
from clusterctl.benchmarks.nccl_log_model import NcclLog, ProcessLog
from clusterctl.benchmarks.perf_output import Sweep
from clusterctl.launch import link_answers
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.preflight import Readiness

# What the log must hold for the proof; TUNING is left out, because it writes a line for every call that is timed.
SUBSYSTEMS = "INIT,ENV,NET,GRAPH"
_LOG_FILE = "/dev/stderr"
# These keep ranks' streams in files, which opening once more would empty.
_STREAMS_IN_FILES = ("torchrun",)


# What a variant (--compare gdr=0,gdr=2) sets to take another path on purpose.
_PATHS = ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_DMABUF_ENABLE")


@dataclass(frozen=True, slots=True)
class Trust:
    """``log`` and ``gpudirect`` are None where NCCL did not join nodes; ``links`` None where they are not known."""

    np: int
    nodes: int
    links: NodeLinks | None = None
    log: NcclLog | None = None
    gpudirect: Proof | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def in_network(self) -> bool | None:
        """Whether switches reduce (SHARP), by the log's channels; None without a log."""
        if self.log is None:
            return None
        return any(way.kind == "collnet" for process in self.log.processes for _, way in process.channels)

    @property
    def nvlink_between_nodes(self) -> bool | None:
        """Whether NVLink joins the nodes (MNNVL); None where the log does not say."""
        said = [p.mnnvl for p in self.log.processes if p.mnnvl is not None] if self.log else []
        return any(said) if said else None


def log_file(launcher_name: str) -> str | None:
    """Return where NCCL shall log: away from the results, into whose rows its lines would be mixed.

    None: to stdout, as it does by itself, and where it cannot open the file.
    """
    return None if launcher_name in _STREAMS_IN_FILES else _LOG_FILE


def asked_for(environment: Sequence[tuple[str, str]]) -> bool:
    """Tell whether a request's own variables choose the path, so that a slow one is what was to be measured."""
    return any(name in _PATHS for name, _ in environment)


def named(sweep: Sweep, trust: Trust) -> Sweep:
    """Return a sweep with the versions and ways that only NCCL's log has, which went another way than its rows.

    Versions are rank 0's alone, as the rows are; each rank's ways are its own.
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
    library: str,
    *,
    allow_slow_path: bool,
) -> Trust:
    """Judge one launch. Slow paths are faults unless they are allowed; the proof says them either way."""
    by_node = {answer.node.name: answer for answer in answers}
    used = [by_node[placement.node] for placement in plan.placements]
    selector = dict(plan.env).get("NCCL_IB_HCA")
    links = link_answers.weakest([link_answers.selected(answer.links, selector) for answer in used])
    nodes = [placement.node for placement in plan.placements]
    if library != "nccl" or len(nodes) < 2:
        return Trust(plan.np, len(nodes), links)
    log = read(outcome)
    of_rank = plan.node_of_rank

    def node_of(process: ProcessLog) -> str | None:
        source = process.source
        return of_rank[source] if source is not None and source < len(of_rank) else None

    proof = gpudirect.judge(log, nodes, node_of, {answer.node.name: answer.evidence for answer in used})
    faults = () if allow_slow_path or outcome.returncode != 0 else proof.faults()
    return Trust(plan.np, len(nodes), links, log, proof, faults)


def read(outcome: Outcome) -> NcclLog:
    """Read the NCCL log out of what every rank wrote."""
    reader = LogReader()
    for texts in (outcome.stderr_by_rank, outcome.stdout_by_rank):
        for rank, text in texts.items():
            reader.read_text(text, source=rank)
    return reader.result()
