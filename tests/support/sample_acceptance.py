"""The acceptance of eight nodes with eight GPUs each, judged without contacting a node: for pages and tests."""

from __future__ import annotations

import random

from clusterctl.acceptance import document as documents
from clusterctl.acceptance.catalog import ROWS
from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import limits
from clusterctl.acceptance.model import Parsed, RowFinding, RowMeasurement, RowOutcome, RowStatus, Tier
from clusterctl.documents.accept import Accept, AcceptRequest
from clusterctl.transport.base import Failure, FailureKind

RUN = "20261124T120000Z-accept-5a17"
_H200 = "NVIDIA H200"


def sample_acceptance() -> Accept:
    """Return the document: a slow GPU, a slow disk, a missing tool, an Xid and an unreachable node."""
    rng = random.Random(7)
    outcomes: list[RowOutcome] = []
    for number in range(1, 8):
        node = f"gpu{number:02}"
        outcomes.append(RowOutcome(node, "requirements", "AMD EPYC"))
        xid = (RowFinding(RowStatus.FAIL, "GPU 6: Xid 79: fell off the bus"),) if number == 5 else ()
        outcomes.append(RowOutcome(node, "kernel-log", "AMD EPYC", parsed=Parsed(findings=xid)))
        values = tuple(
            RowMeasurement(
                "bf16_tflops",
                780 * (1 + 0.004 * rng.gauss(0, 1)) * (0.71 if (number, gpu) == (3, 2) else 1),
                "TFLOP/s", True, f"GPU {gpu}", _H200,
            )
            for gpu in range(8)
        )  # fmt: skip
        outcomes.append(
            RowOutcome(
                node,
                "gpu-gemm",
                _H200,
                parsed=Parsed(values),
                tool="torch 2.11.0",
                log=f"logs/gpu-gemm/{node}.log",
            )
        )
        rate = 5200 * (1 + 0.01 * rng.gauss(0, 1)) * (0.78 if number == 2 else 1)
        disk = RowMeasurement("read_mb_per_s", rate, "MB/s", True, hardware="disk with xfs")
        missing = "fio not found: install the package fio" if number == 4 else ""
        parsed = Parsed(() if missing else (disk,))
        tool = "" if missing else "fio-3.36"
        outcomes.append(RowOutcome(node, "disk", "local disk", parsed=parsed, not_run=missing, tool=tool))
    names = [f"gpu{number:02}" for number in range(1, 9)]
    request = AcceptRequest(
        tier=Tier.PERFORMANCE,
        rows=("requirements", "kernel-log", "gpu-gemm", "disk"),
        site_thresholds=None,
        repeat_for_s=0,
        repeat_until=None,
    )
    rows = [row for row in ROWS if row.name in request.rows]
    failures = {"gpu08": Failure(FailureKind.TIMEOUT, "gpu08 (10.0.0.8:22): no answer within 10 s")}
    return documents.document(RUN, request, rows, names, judge(outcomes, limits()), failures, 312.4)
