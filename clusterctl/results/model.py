"""Make the result of a benchmark, and its exit code, from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.perf_output import Row
from clusterctl.benchmarks.scaling import efficiencies
from clusterctl.documents.bench import BenchResult, BenchStatus, ResultHalf, ResultPoint, ResultRow
from clusterctl.documents.proof import Proof
from clusterctl.errors import LaunchError, NodeConnectionError, ResultError
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.results import proofs

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
        loss_first=proofs.rounded(entry.run.loss_first),
        loss=proofs.rounded(entry.run.loss),
        **counted,
    )


def from_measured(measured: Measured, run: str) -> BenchResult:
    """Return the result of one measured request; ``run`` is the run folder's id."""
    points = [entry.point for entry in measured.points]
    proof = proofs.of_measured(measured)
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


def status_of(faults: Sequence[Fault], proof: Proof) -> BenchStatus:
    """Return the status of a run before its figures are compared with a baseline."""
    if faults:
        return BenchStatus.FAILED
    doubtful = proof.health is not None and proof.health.doubtful
    return BenchStatus.DOUBTFUL if doubtful or proof.slow else BenchStatus.OK


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
