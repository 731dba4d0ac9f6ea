"""Read the table of nccl-tests for the GPUs of one node."""

from __future__ import annotations

from dataclasses import replace

from clusterctl.acceptance.model import Parsed, RowFinding, RowMeasurement, RowStatus
from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import FaultKind
from clusterctl.text.foreign import NotUnderstood

BETWEEN_GROUPS = "# clusterctl: the next GPUs"
"""The line between the outputs of a node whose GPUs are too many for one process."""


def parse(text: str) -> Parsed:
    """Return the bus bandwidth of the largest size, that of the slowest group of GPUs.

    Raise NotUnderstood without a row, or without its check.
    """
    found = [_group(part) for part in text.split(f"{BETWEEN_GROUPS}\n")]
    slowest = min(found, key=lambda one: one.measurements[0].value)
    return replace(slowest, findings=tuple(finding for one in found for finding in one.findings))


def _group(text: str) -> Parsed:
    sweep = perf_output.parse(text)
    wrong = [fault.message for fault in sweep.faults if fault.kind is FaultKind.WRONG_RESULTS]
    others = [fault.message for fault in sweep.faults if fault.kind is not FaultKind.WRONG_RESULTS]
    if others:
        raise NotUnderstood(others[0])
    if not sweep.rows:
        raise NotUnderstood("nccl-tests printed no row")
    row = max(sweep.rows, key=lambda one: one.size_bytes)
    half = row.out_of_place
    if half.busbw_gbps is None or half.wrong is None:
        raise NotUnderstood("nccl-tests did not measure or did not check its largest size")
    findings = tuple(RowFinding(RowStatus.FAIL, message) for message in wrong)
    measured = RowMeasurement("busbw_gb_per_s", half.busbw_gbps, "GB/s", True)
    return Parsed((measured,), findings=findings, version=next(iter(sweep.libraries), "")[:80])
