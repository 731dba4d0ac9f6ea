"""Make the result of a benchmark, and its exit code, from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.bench import BenchResult, BenchStatus, VariantRow
from clusterctl.documents.evidence import SlowPart
from clusterctl.documents.proof import HardwareHealth, health_of_all
from clusterctl.errors import LaunchError, NodeConnectionError, ResultError
from clusterctl.launch.measured import Interleaved, Measured, Repeated
from clusterctl.launch.variants import DEFAULT, Variant
from clusterctl.results import proofs
from clusterctl.results.variants import variants_of

# The benchmark completed with bad findings; this is not a failure to launch.
_FOUND = (FaultKind.WRONG_RESULTS, FaultKind.NAN_LOSS, FaultKind.REPLICAS_DIFFER, FaultKind.SLOW_PATH)
_UNREADABLE = (FaultKind.UNPARSABLE, FaultKind.CRASHED)


def average_busbw(rows: Sequence[VariantRow]) -> float | None:
    """Return the average bus bandwidth as nccl-tests computes it: over all rows and both halves; None without rows."""
    found = [value for row in rows for value in row.bandwidths]
    return round(statistics.fmean(found), 6) if found else None


def from_measured(measured: Measured, run: str) -> BenchResult:
    """Return the result of one measured request: that of one variant with one repeat."""
    only = Repeated(Variant(DEFAULT), (measured,))
    return from_interleaved(Interleaved(measured.request, (only,), 1, measured.faults), run)


def from_interleaved(found: Interleaved, run: str) -> BenchResult:
    """Return the result of one run; ``run`` is the run folder's id.

    Its proof is that of the first variant's first repeat, with the failures of all.
    """
    first = found.variants[0].runs[0]
    variants = variants_of(found)
    proof = proofs.of_measured(first).model_copy(update={"failures": found.faults or None})
    health = health_of_all(one.proof.health for one in variants)
    return BenchResult(
        run=run,
        benchmark=first.request.benchmark,
        launcher=first.launcher,
        status=status_of(found.faults, health, proof.slow),
        avg_busbw_gbps=average_busbw(variants[0].rows),
        proof=proof,
        variants=variants,
    )


def status_of(
    faults: Sequence[Fault], health: HardwareHealth | None, slow: Sequence[SlowPart] | None
) -> BenchStatus:
    """Return the status of a run before its figures are compared with a baseline."""
    if faults:
        return BenchStatus.FAILED
    doubtful = health is not None and health.doubtful
    return BenchStatus.DOUBTFUL if doubtful or slow else BenchStatus.OK


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
