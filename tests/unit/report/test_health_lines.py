"""What the hardware reported during a run: in the result, in its status, and in every format."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import bench_views
import pytest
import result_documents

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.bench import BenchStatus
from clusterctl.documents.kinds import Effect
from clusterctl.launch.measured import Interleaved, Repeated
from clusterctl.launch.variants import Variant
from clusterctl.report.text import health as health_lines
from clusterctl.results import model
from clusterctl.results.model import from_interleaved
from clusterctl.trust.health import FleetHealth, HealthEvent

REPLAYS = HealthEvent(
    "GPU 3",
    "pcie_replays",
    "PCIe packets sent again: 12 more",
    Effect.DOUBTFUL,
    12,
    "reseat the card",
    "NVML",
)
CAP = HealthEvent(
    "GPU 0", "slowed_us_sw_power_cap", "power limit for 9.0 s of 60 s", Effect.NOTE, 9, "usual", "NVML"
)
DOUBTFUL = FleetHealth(
    {"gpu17": (REPLAYS, CAP), "gpu18": (CAP,)}, {"gpu20": ("kernel log not read: not root",)}
)
FAULT = Fault(FaultKind.RANK_DIED, "rank 1 died of signal 9", node="gpu17")
CLEAN = FleetHealth({}, {})


def _measured(health, faults=()):
    found = result_documents.measured_collective(faults=faults)
    return replace(found, health=health)


def test_growth_makes_a_clean_figure_doubtful_and_a_failed_run_stays_failed():
    assert model.from_measured(_measured(CLEAN), "r").status is BenchStatus.OK
    assert model.from_measured(_measured(None), "r").status is BenchStatus.OK
    result = model.from_measured(_measured(DOUBTFUL), "r")
    assert result.status is BenchStatus.DOUBTFUL
    assert [event.node for event in result.health.events] == ["gpu17", "gpu17", "gpu18"]
    failed = model.from_measured(_measured(DOUBTFUL, (FAULT,)), "r")
    assert failed.status is BenchStatus.FAILED


def test_notes_alone_leave_the_status():
    assert model.from_measured(_measured(FleetHealth({"a": (CAP,)}, {})), "r").status is BenchStatus.OK


def test_the_lines_name_the_place_first_and_fold_what_many_report():
    lines = health_lines.lines(DOUBTFUL.part())
    assert lines == [
        "DOUBTFUL: the hardware reported faults during the run, on gpu17:",
        "  gpu17 GPU 3: PCIe packets sent again: 12 more (reseat the card)",
        "note: gpu17 GPU 0: power limit for 9.0 s of 60 s; less at 1 other place of gpu18 (usual)",
        "note: gpu20: kernel log not read: not root",
    ]
    assert health_lines.lines(CLEAN.part()) == []
    text = bench_views.text(model.from_measured(_measured(DOUBTFUL), "r"))
    assert text.splitlines()[-4:] == lines


def test_one_doubtful_repeat_makes_a_comparison_doubtful():
    runs = (_measured(CLEAN), _measured(DOUBTFUL))
    variants = (
        Repeated(Variant("nccl"), (_measured(CLEAN), _measured(CLEAN))),
        Repeated(Variant("ccore"), runs),
    )
    result = from_interleaved(Interleaved(runs[0].request, variants, 2, ()), "r")
    assert result.status is BenchStatus.DOUBTFUL
    first, second = result.variants
    assert not first.proof.health.doubtful
    assert {event.repeat for event in second.proof.health.events} == {2}
    assert len(result.health.events) == 3
    said = bench_views.text(result)
    assert "ccore:   gpu17 GPU 3: PCIe packets sent again: 12 more" in said and "nccl: DOUBTFUL" not in said


@pytest.fixture
def record():
    return result_documents.recorded(_measured(DOUBTFUL), "20261120T091500Z-bench-c0de")


def test_the_page_the_junit_and_the_metrics_hold_the_events(record):
    page = bench_views.page(record)
    assert "What the hardware reported during the run" in page
    assert "PCIe packets sent again: 12 more" in page and "Not compared on gpu20:" in page
    junit = ElementTree.fromstring(bench_views.junit(record))
    (failure,) = junit.iter("failure")
    assert failure.get("type") == "doubtful" and "gpu17 GPU 3" in (failure.text or failure.get("message"))
    metrics = bench_views.prometheus(record)
    assert 'node="gpu17",effect="doubtful"} 1' in metrics and 'node="gpu18",effect="note"} 1' in metrics
    ok = next(line for line in metrics.splitlines() if line.startswith("clusterctl_bench_ok{"))
    assert ok.endswith(" 0")
    assert "clusterctl_bench_busbw_bytes_per_second{" in metrics
