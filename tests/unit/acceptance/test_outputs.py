"""What the programs of rows print, recorded or built from their sources: values, findings, or the reason for none."""

import re
from pathlib import Path

import pytest

from clusterctl.acceptance.model import RowStatus
from clusterctl.acceptance.outputs import (
    dcgm,
    fio,
    hpl,
    iperf3,
    nccl_tests,
    nvbandwidth,
    perftest,
    records,
    stress_ng,
)
from clusterctl.text.foreign import NotUnderstood

CASES = Path(__file__).parent / "cases"
PARSERS = {
    "dcgm": dcgm.parse, "fio": fio.parse, "hpl": hpl.parse, "iperf3": iperf3.parse,
    "nccl_tests": nccl_tests.parse,
    "nvbandwidth": nvbandwidth.parse, "perftest": perftest.parse, "records": records.parse,
}  # fmt: skip


def parse(case):
    tool = case.partition("/")[0]
    parser = PARSERS.get(tool) or (stress_ng.verified if "/verified" in case else stress_ng.memory_rate)
    return parser((CASES / f"{case}.txt").read_text())


VALUES = {
    "fio/3_33": {
        ("", "write_mb_per_s"): 2080.895007, ("", "read_mb_per_s"): 1059.030396, ("", "randread_iops"): 49101.189881,
    },
    "stress_ng/memory_0_15": {("", "read_mb_per_s"): 2391.840489, ("", "write_mb_per_s"): 1594.560326},
    "stress_ng/verified_0_15": {},
    "perftest/bandwidth_two_rails": {("mlx5_0", "write_gbit_per_s"): 392.41, ("mlx5_1", "write_gbit_per_s"): 391.87},
    "perftest/tried_again": {("rxe0", "write_gbit_per_s"): 392.41},
    "perftest/latency": {("mlx5_0", "latency_us"): 1.98},
    "iperf3/one_and_many": {
        ("", "one_stream_gbit_per_s"): 6.617707415, ("", "many_streams_gbit_per_s"): 4.766219707,
        ("", "one_stream_share"): 1.388460420,
    },
    "nvbandwidth/two_gpus": {
        ("GPU 0", "local_copy_gb_per_s"): 1990.46, ("GPU 1", "local_copy_gb_per_s"): 1987.12,
        ("GPU 0", "h2d_gb_per_s"): 55.31, ("GPU 1", "h2d_gb_per_s"): 55.28,
        ("GPU 0", "d2h_gb_per_s"): 55.02, ("GPU 1", "d2h_gb_per_s"): 54.97,
        ("GPU 0-1", "pair_read_gb_per_s"): 393.06, ("GPU 1-0", "pair_read_gb_per_s"): 392.98,
        ("GPU 0-1", "pair_write_gb_per_s"): 394.11, ("GPU 1-0", "pair_write_gb_per_s"): 393.87,
    },
    "nvbandwidth/one_gpu_waived": {
        ("GPU 0", "local_copy_gb_per_s"): 1990.46, ("GPU 0", "h2d_gb_per_s"): 55.31, ("GPU 0", "d2h_gb_per_s"): 55.02,
    },
    "dcgm/passed_4_2": {},
    "hpl/2_3": {("", "gflops"): 116.89},
    "nccl_tests/two_gpus": {("", "busbw_gb_per_s"): 360.86},
    "records/training": {
        ("GPU 0", "llama_tokens_per_s"): 60_000.0, ("GPU 0", "llama_mfu"): 0.4, ("GPU 0", "bert_tokens_per_s"): 9e5,
        ("GPU 0", "bert_mfu"): 0.3,
    },
    "records/gemm_two_gpus": {("GPU 0", "bf16_tflops"): 781.2, ("GPU 1", "bf16_tflops"): 512.9},
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values(case):
    found = parse(case)
    assert {(one.device, one.field): one.value for one in found.measurements} == pytest.approx(VALUES[case])
    assert (found.findings, found.not_run) == ((), "")


FINDINGS = {
    "stress_ng/verified_bit_errors": [("fail", "", "vm: detected 2 bit errors while stressing memory (and 1 more")],
    "nvbandwidth/passed_beside_error": [("fail", "", "device_local_copy: CUDA_ERROR_ILLEGAL_ADDRESS")],
    "nvbandwidth/error_of_program": [("fail", "", "NVML_ERROR_DRIVER_NOT_LOADED")],
    "dcgm/pass_beside_error": [("warn", "GPU 1", "memory: Error using CUDA API cuMemAlloc_v2: out of memory")],
    "dcgm/failed": [("fail", "GPU 1", "memory: GPU 1 had uncorrectable memory errors")],
    "dcgm/failed_3_1": [("fail", "GPU 3", "PCIe: Detected 12 pcie_replays on GPU 3")],
    "hpl/wrong_result": [("fail", "", "the result of HPL is wrong")],
    "nccl_tests/wrong_values": [("fail", "", "3 elements are wrong")],
    "records/gpu_vanished": [("fail", "GPU 1", "gemm: CUDA error: unspecified launch failure")],
    "records/wrong_bits": [("fail", "GPU 0", "2 of 400 equal computations (gemm) had another result")],
    "records/memory_changed": [("fail", "GPU 0", "3 values in its memory changed")],
    "records/throttled": [
        ("warn", "GPU 0", "1 other process(es) use this GPU"),
        ("fail", "GPU 0", "the clock was lowered (hw-thermal) in 25% of the samples"),
    ],
    "stress_ng/memory_too_short": [("fail", "", "stress-ng ended no round of memory copies")],
    "records/links": [("warn", "GPU 1-0", "these GPUs cannot access each other's memory")],
}  # fmt: skip


@pytest.mark.parametrize("case", FINDINGS)
def test_findings(case):
    found = parse(case).findings
    assert [(one.status.value, one.device) for one in found] == [wanted[:2] for wanted in FINDINGS[case]]
    assert all(one.text.startswith(text) for one, (_, _, text) in zip(found, FINDINGS[case], strict=True)), (
        found
    )


NOT_RUN = {
    "fio/no_room": "120 MiB are free, and the row needs 256 MiB",
    "dcgm/runtime_error": "The Diagnostic is already running",
    "records/one_gpu_without_pairs": "it needs several GPUs",
    "perftest/clock_unread": "rxe0 not measured: perftest could not read the clock (Correlation coefficient r^2: "
    "0.74815 < 0.9), because other programs used the CPU; run the row again on an idle node",
}


@pytest.mark.parametrize("case", NOT_RUN)
def test_reasons_not_to_run(case):
    found = parse(case)
    assert NOT_RUN[case] in found.not_run
    assert found.measurements == ()


def test_a_clock_that_perftest_could_not_read_explains_only_the_rail_without_a_value():
    text = (CASES / "perftest/clock_unread_on_one_rail.txt").read_text()
    found = perftest.parse(text)
    assert found.not_run.startswith("mlx5_0 not measured: perftest could not read the clock")
    assert [(one.device, one.value) for one in found.measurements] == [("mlx5_1", 391.87)]
    # The message counts for its own rail, and only beside a value that cannot be one.
    with pytest.raises(NotUnderstood, match="measured 0 Gb/s on mlx5_1"):
        perftest.parse(text.replace("46714.56", "0.00"))
    assert not perftest.parse(
        text.replace("85               0.00               0.00", "85   0.00   9.00")
    ).not_run
    latency = (CASES / "perftest/latency.txt").read_text().replace("1.98", "inf")
    with pytest.raises(NotUnderstood, match="finite"):
        perftest.parse(latency)
    rail, _, table = latency.partition("\n")
    assert perftest.parse(f"{rail}\nCorrelation coefficient r^2: 0.5 < 0.9\n{table}").not_run


REFUSED = {
    "fio/disk_full": "fio's job write reports the error 28",
    "fio/measured_nothing": "fio's job randread measured nothing",
    "fio/job_missing": "fio did not run the job randread",
    "fio/truncated": "not JSON",
    "fio/rubbish": "not JSON",
    "stress_ng/memory_truncated": "missing or was cut off",
    "stress_ng/memory_before_0_15": "versions before 0.15",
    "stress_ng/verified_cut_off": "missing or was cut off",
    "perftest/second_rail_without_result": "no result for mlx5_1",
    "perftest/measured_nothing": "measured 0 Gb/s on mlx5_0",
    "perftest/rubbish": "no result for any rail",
    "iperf3/only_one_stream": "did not measure both 1 stream and 8 streams",
    "iperf3/measured_nothing": "measured nothing with 8 stream(s)",
    "iperf3/truncated": "not JSON",
    "iperf3/rubbish": "did not measure both",
    "nvbandwidth/zero": "device_local_copy measured 0 GB/s",
    "nvbandwidth/truncated": "not JSON",
    "nvbandwidth/before_json": "not JSON",
    "dcgm/all_skipped": "ran none of its tests",
    "dcgm/truncated": "not JSON",
    "dcgm/no_engine": "not JSON",
    "hpl/cut_off": "did not check its result",
    "hpl/rubbish": "printed no rate",
    "nccl_tests/crashed": "the run crashed",
    "records/cut_off": "not JSON",
    "records/cut_between_records": "it was cut off",
    "records/value_that_is_text": "expected a number",
}


@pytest.mark.parametrize("case", REFUSED)
def test_output_that_proves_nothing_is_refused(case):
    with pytest.raises(NotUnderstood, match=re.escape(REFUSED[case])):
        parse(case)


def test_values_around_findings_are_kept():
    vanished = parse("records/gpu_vanished")
    assert [(one.device, one.value) for one in vanished.measurements] == [("GPU 0", 781.2)]
    # A disk that is slow beside a warning of fio is still measured.
    assert parse("fio/warning_before_document") == parse("fio/3_33")
    links = parse("records/links")
    assert [(one.device, one.hardware) for one in links.measurements] == [
        ("GPU 0", "PCIe 5 x16"), ("GPU 0-1", "NVIDIA H200"), ("GPU 1-0", "NVIDIA H200"),
    ]  # fmt: skip
    (computed,) = parse("records/wrong_bits").fingerprints
    assert (computed.field, computed.text, computed.hardware) == (
        "gemm_sha256", "a" * 64, "NVIDIA H200, torch 2.7.1",
    )  # fmt: skip


def test_every_recorded_case_is_read_by_a_test():
    named = {*VALUES, *FINDINGS, *NOT_RUN, *REFUSED, "fio/warning_before_document"}
    named.add("perftest/clock_unread_on_one_rail")
    assert {path.relative_to(CASES).with_suffix("").as_posix() for path in CASES.glob("*/*.txt")} == named


def test_the_programs_between_two_nodes_name_the_hardware_between_them():
    assert {one.hardware for one in parse("perftest/bandwidth_two_rails").measurements} == {"RDMA 400 Gb/s"}
    assert {one.hardware for one in parse("iperf3/one_and_many").measurements} == {"TCP 25 Gb/s"}
    assert {one.status for one in parse("dcgm/failed").findings} == {RowStatus.FAIL}
