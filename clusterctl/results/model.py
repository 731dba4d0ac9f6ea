"""Make the result of a benchmark, and its exit code, from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from clusterctl import __version__
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.perf_output import Row
from clusterctl.benchmarks.scaling import between_nodes, efficiencies
from clusterctl.documents import bench
from clusterctl.documents.bench import BenchResult, BenchStatus, ResultHalf, ResultPoint, ResultRow
from clusterctl.errors import LaunchError, NodeConnectionError, ResultError
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.results import proofs
from clusterctl.results.keys import keys_of

# The benchmark completed with bad findings; this is not a failure to launch.
_FOUND = (FaultKind.WRONG_RESULTS, FaultKind.NAN_LOSS, FaultKind.REPLICAS_DIFFER, FaultKind.SLOW_PATH)
_UNREADABLE = (FaultKind.UNPARSABLE, FaultKind.CRASHED)


def _row(row: Row) -> ResultRow:
    both = row.out_of_place.time_us is not None and row.in_place.time_us is not None
    half = row.out_of_place if row.out_of_place.time_us is not None else row.in_place
    wrongs = [half.wrong for half in (row.out_of_place, row.in_place) if half.wrong is not None]
    return ResultRow(
        size_bytes=row.size_bytes,
        time_us=half.time_us,
        algbw_gbps=half.algbw_gbps,
        busbw_gbps=half.busbw_gbps,
        wrong=sum(wrongs) if wrongs else None,
        in_place=ResultHalf(
            time_us=row.in_place.time_us,
            algbw_gbps=row.in_place.algbw_gbps,
            busbw_gbps=row.in_place.busbw_gbps,
        )
        if both
        else None,
    )


def average_busbw(rows: Sequence[ResultRow]) -> float | None:
    """Return the average bus bandwidth as nccl-tests computes it: over all rows and both halves; None without rows."""
    found = [value for row in rows for value in row.bandwidths]
    return round(statistics.fmean(found), 6) if found else None


def _point(entry: TrainingPoint, efficiency: float | None) -> ResultPoint:
    point = entry.point
    counted = {
        f"{entry.run.sample}s_per_s": point.samples_per_s,
        f"{entry.run.sample}s_per_s_per_rank": point.samples_per_s_per_rank,
    }
    return ResultPoint(
        np=point.np,
        nodes=point.nodes,
        efficiency=efficiency,
        loss_first=_rounded(entry.run.loss_first),
        loss=_rounded(entry.run.loss),
        **counted,
    )


def _rounded(loss: float | None) -> float | None:
    return None if loss is None else round(loss, 6)


def _rates(entry: TrainingPoint) -> list[dict[str, Any]]:
    """Return every rank's images or sequences per second, with 1.96 sigma of its windows."""
    hosts = {rank.rank: rank.host for rank in entry.run.ranks}
    return [
        {
            "rank": rate.rank,
            "host": hosts.get(rate.rank),
            "samples_per_s": round(rate.samples_per_s, 3),
            "spread": round(rate.spread, 3),
        }
        for rate in entry.run.rates
    ]


def fault_part(fault: Fault) -> bench.Fault:
    """Return a fault as a part of documents."""
    return bench.Fault(**asdict(fault))


def fault_document(fault: Fault) -> dict[str, Any]:
    """Return a fault as an entry of ``proof.failures``."""
    return fault_part(fault).model_dump(mode="json")


def from_measured(measured: Measured, run: str) -> BenchResult:
    """Return the result of one measured request; ``run`` is the run folder's id."""
    points = [entry.point for entry in measured.points]
    proof: dict[str, Any] = {
        "clusterctl_version": __version__,
        "ranks": [{"rank": r.rank, "host": r.host, "pid": r.pid, "device": r.device} for r in measured.ranks],
    }
    if measured.sweep is not None:
        proof["library"] = list(measured.sweep.libraries)
        proof["transports"] = list(measured.sweep.transports)
    elif measured.points:
        last = measured.points[-1].run
        proof["library"] = list(last.libraries)
        proof["spread"] = {str(entry.point.np): round(entry.point.spread, 3) for entry in measured.points}
        proof["rates"] = {str(entry.point.np): _rates(entry) for entry in measured.points}
        losses = {str(entry.point.np): [*map(_rounded, entry.run.losses)] for entry in measured.points}
        if any(losses.values()):
            proof["losses"] = losses
        proof["between_nodes"] = [
            {"np": figure.np, "nodes": figure.nodes, "efficiency": round(figure.efficiency, 6)}
            for figure in between_nodes(points)
        ]
    if measured.settings:
        proof["settings"] = {name: v for name, v in measured.settings.items() if v is not None}
        proof["hardware"] = measured.hardware
        proof["keys"] = keys_of(measured)
    proof |= proofs.of_measured(measured)
    if measured.faults:
        proof["failures"] = [fault_document(fault) for fault in measured.faults]
    rows = tuple(_row(row) for row in measured.sweep.rows) if measured.sweep else ()
    return BenchResult(
        run=run,
        benchmark=measured.request.benchmark,
        library=measured.library,
        launcher=measured.launcher,
        status=status_of(measured.faults, proof),
        rows=rows,
        avg_busbw_gbps=average_busbw(rows),
        points=tuple(
            _point(entry, figure) for entry, figure in zip(measured.points, efficiencies(points), strict=True)
        ),
        proof=proof,
    )


def status_of(faults: Sequence[Fault], proof: Mapping[str, Any]) -> BenchStatus:
    """Return the status of a run before its figures are compared with a baseline."""
    if faults:
        return BenchStatus.FAILED
    doubtful = proof.get("health", {}).get("doubtful") or proof.get("slow")
    return BenchStatus.DOUBTFUL if doubtful else BenchStatus.OK


def exit_code(faults: tuple[Fault, ...]) -> int:
    """Return 0 without a fault, 1 for bad findings of a completed run, 5 unreachable, 11 unreadable, else 10."""
    kinds = {fault.kind for fault in faults}
    if not kinds:
        return 0
    if kinds <= {FaultKind.NODE_UNREACHABLE}:
        return NodeConnectionError.exit_code
    if kinds & set(_FOUND):
        return 1
    return ResultError.exit_code if kinds <= set(_UNREADABLE) else LaunchError.exit_code
