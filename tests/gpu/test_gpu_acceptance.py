"""The GPU rows of ``accept`` on one GPU, and a process that competes for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import AcceptLimits, ThresholdFile, ThresholdRow
from clusterctl.acceptance.model import Parsed, RowOutcome, RowStatus
from clusterctl.acceptance.outputs import records
from clusterctl.workloads.archive import build

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("workloads") / "workloads.pyz"
    path.write_bytes(build())
    return path


def measured(archive: Path, *options: str) -> Parsed:
    """Run device_perf on the first GPU, show what it measured, and return what the rows read of it."""
    command = (sys.executable, str(archive), "device_perf", "--device", "cuda", "--gpus", "0", *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=420, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    return records.parse(done.stdout)


def values(parsed: Parsed) -> dict[str, float]:
    return {one.field: one.value for one in parsed.measurements}


def test_every_row_measures_the_gpu_and_equal_work_gives_equal_bits(archive: Path) -> None:
    first = measured(archive, "--sdc-s", "10", "--sustained-s", "12")
    found = values(first)
    assert {"fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops", "copy_gb_per_s"} <= set(found)
    assert {"h2d_gb_per_s", "d2h_gb_per_s", "sustained_tflops"} <= set(found)
    assert {"llama_tokens_per_s", "bert_tokens_per_s", "resnet50_images_per_s"} <= set(found)
    # What the library of the driver reports.
    assert {"clock_mhz", "power_w", "temperature_c", "throttled_share"} <= set(found)
    assert found["bf16_tflops"] > found["fp32_tflops"]
    assert found["wrong_values"] == 0
    assert all(value == 0 for field, value in found.items() if field.endswith("_differing"))
    assert all(one.status is not RowStatus.FAIL for one in first.findings), first.findings
    again = measured(archive, "--rows", "sdc,training", "--sdc-s", "3")
    assert {(one.field, one.text) for one in again.fingerprints} == {
        (one.field, one.text) for one in first.fingerprints
    }
    assert len(first.fingerprints) == 5


def test_a_competing_process_is_named_and_lowers_the_rate(
    archive: Path, start_competitor: Callable[[], object]
) -> None:
    options = ("--rows", "gemm,sustained", "--types", "bf16", "--sustained-s", "8")
    alone = measured(archive, *options)
    start_competitor()
    shared = measured(archive, *options)
    for field in ("bf16_tflops", "sustained_tflops"):
        # The least threshold of any GPU is 90 % of what it should reach.
        assert values(shared)[field] < 0.9 * values(alone)[field]
    assert any("use this GPU" in one.text for one in shared.findings)
    least = 0.9 * values(alone)["bf16_tflops"]
    rule = ThresholdRow(when=f"gpu-gemm.bf16_tflops < {least:.1f}", verdict="fail", source="the GPU alone")
    site = ThresholdFile(rules=(rule,))
    outcomes = [RowOutcome("node1", "gpu-gemm", parsed=one) for one in (alone, shared)]
    verdicts = [judge([one], AcceptLimits((), site))[0].status for one in outcomes]
    assert verdicts == [RowStatus.OK, RowStatus.FAIL]
