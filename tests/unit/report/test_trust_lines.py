"""What a result proves, as the user reads it below the table; and how it gets into the result."""

from dataclasses import replace
from pathlib import Path

import bench_views
import pytest

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import RankRate, TrainingRun
from clusterctl.documents.evidence import GpuDirectNode
from clusterctl.documents.proof import BaselineVerdict, FigureBelow, Proof, VariantProof
from clusterctl.launch.fast_path import Trust
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.launch.request import Request
from clusterctl.report.text import trust as trust_lines
from clusterctl.results.model import from_measured
from clusterctl.trust import gpudirect
from clusterctl.trust.links import NodeLinks, NvLink

CASES = Path(__file__).parents[1] / "benchmarks" / "cases"


def request(**changed):
    return Request(training=None, sweep={}, np=4, points=None, library="nccl", launcher=None, map_by=None,
                   timeout_s=60.0, **changed)  # fmt: skip


def measured(np, trust, library="nccl"):
    sweep = perf_output.parse((CASES / f"h200-x4-all_reduce_perf-mpirun-np{np}-g1.txt").read_text())
    return Measured(request(), library, "openmpi", sweep, (), sweep.ranks, (), (), trust=trust)


H200 = NodeLinks(4, NvLink(4, 18, 25.0))


def test_the_recorded_run_of_four_h200_has_its_share():
    result = from_measured(measured(4, Trust(4, 1, H200)), "r")
    assert result.evidence.expected.share == pytest.approx(355.97 / 366.975, abs=0.001)
    line = "expected busbw: 367 GB/s (ring: 18 NVLinks x 25 GB/s x 0.8155); measured 356 GB/s, 97 %: fine"
    assert line in bench_views.text(result).splitlines()


@pytest.mark.parametrize(
    ("trust", "line"),
    [
        (Trust(4, 1, None), "expected busbw: unknown (the nodes' links are not known)"),
        (Trust(4, 1, NodeLinks(4, None, "no NVLink")), "expected busbw: unknown (no NVLink)"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_said(trust, line):
    assert line in bench_views.text(from_measured(measured(4, trust), "r")).splitlines()


def test_other_libraries_have_no_bound():
    assert from_measured(measured(4, Trust(4, 1, H200), "gloo"), "r").evidence.expected is None


def test_a_figure_above_all_links_is_marked():
    weak = NodeLinks(4, NvLink(3, 12, 25.0))
    lines = trust_lines.lines(from_measured(measured(4, Trust(4, 1, weak)), "r").evidence)
    assert "IMPOSSIBLE: 356.0 GB/s is more than the links can carry (300 GB/s)" in lines[0]


def node(name, status, way, cause=None):
    return GpuDirectNode(name, status, {way: 2}, {way: 2}, cause=cause)


def test_nodes_that_are_alike_take_one_line_and_others_one_each():
    fast = node("a", "proven", "NET/IB/GDRDMA")
    alike = gpudirect.of_nodes((fast, replace(fast, name="b")))
    assert trust_lines.lines(VariantProof(gpudirect=alike)) == [
        "GPUDirect RDMA: proven (NET/IB/GDRDMA), on all 2 nodes"
    ]
    apart = gpudirect.of_nodes((fast, node("b", "sockets", "NET/Socket", "why")))
    assert trust_lines.lines(VariantProof(gpudirect=apart)) == [
        "GPUDirect RDMA:",
        "  a: proven (NET/IB/GDRDMA)",
        "  b: SOCKETS (NET/Socket): why",
    ]


def test_a_slow_rank_is_named_below_the_scaling_curve():
    rates = tuple(RankRate(rank, rate, 0.1, 2.0, 1.0) for rank, rate in enumerate((100.0, 100.5, 99.5, 80.0)))
    run = TrainingRun((), rates, {}, (), ())
    point = TrainingPoint(Point(4, 1, 380.0, 0.1), run)
    one = Measured(request(), "nccl", "openmpi", None, (point,), (), (), ())
    result = from_measured(one, "r")
    assert result.evidence.stragglers["4"][0].rank == 3
    assert "straggler with 4 ranks: rank 3 on ?, 20 % below the median of all ranks" in bench_views.text(
        result
    )


def test_rows_below_a_baseline_are_listed():
    below = FigureBelow(
        np=4, size_bytes=1 << 30, value=300.0, unit="GB/s", baseline=355.0, loss=0.155, allowed=0.05
    )
    found = BaselineVerdict(
        name="night", verdict="below-baseline", reason=None, hint=None, judged=1, figures=1, too_noisy=(),
        below=(below,),
    )  # fmt: skip
    assert trust_lines.lines(Proof(baseline=found)) == [
        "baseline night: below-baseline",
        "  1 GiB, 4 ranks: 300.00 GB/s, 16 % below 355.00 (allowed 5 %)",
    ]
