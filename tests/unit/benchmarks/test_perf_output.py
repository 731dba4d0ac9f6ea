"""nccl-tests' output: one recorded or hand-made log per file in cases/, with what it says beside it."""

import json
import re
from pathlib import Path

import pytest

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.collective import CollectiveSweep, sibling

CASES = Path(__file__).parent / "cases"
LOGS = sorted(CASES.glob("*.txt"))


def cells(half):
    return [half.time_us, half.algbw_gbps, half.busbw_gbps, half.wrong]


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_recorded_output(log):
    expected = json.loads(log.with_suffix(".json").read_text())
    sweep = perf_output.parse(log.read_text())
    assert [
        [row.size_bytes, row.count, *cells(row.out_of_place), *cells(row.in_place)] for row in sweep.rows
    ] == expected["rows"]
    assert [[rank.rank, rank.host, rank.pid, rank.device] for rank in sweep.ranks] == expected["ranks"]
    assert sweep.out_of_bounds == expected["out_of_bounds"]
    assert [fault.kind.value for fault in sweep.faults] == expected["faults"]


def test_every_expectation_has_its_log():
    assert len(LOGS) >= 15
    assert {path.stem for path in CASES.glob("*.json")} == {log.stem for log in LOGS}


def test_columns_follow_the_header_even_when_it_is_shuffled():
    text = (CASES / "layout-with-root-only.txt").read_text()
    old = text.replace("time   algbw   busbw  #wrong", "time   busbw   algbw  #wrong").replace(
        "5.32    5.32", "1.00    2.00"
    )
    half = perf_output.parse(old).rows[0].in_place
    assert (half.busbw_gbps, half.algbw_gbps) == (1.0, 2.0)


def test_columns_between_rank_and_library_lines_are_kept_as_proof():
    sweep = perf_output.parse((CASES / "nccl-info-between-rows.txt").read_text())
    assert "P2P/CUMEM" in sweep.transports
    assert any("nccl-tests version 2.19.6" in line for line in sweep.libraries)


def test_a_row_that_is_cut_in_two_is_not_half_read():
    text = (
        (CASES / "layout-with-root-only.txt").read_text().replace("    12.31    5.32    5.32       0\n", "\n")
    )
    assert perf_output.parse(text).rows == ()


@pytest.mark.parametrize("figure", ["nan", "-nan", "inf"])
def test_a_figure_that_is_no_finite_number_is_a_fault(figure):
    text = (CASES / "layout-with-root-only.txt").read_text().replace("5.32    5.32", f"5.32    {figure}")
    sweep = perf_output.parse(text)
    assert sweep.rows == ()
    assert [fault.kind.value for fault in sweep.faults] == ["unparsable"]
    assert "bytes has a figure that is not a finite number" in sweep.faults[0].message


def test_endless_counts_and_headers_cut_short_are_no_rows():
    text = (CASES / "layout-with-root-only.txt").read_text()
    assert perf_output.parse(text.replace("5.32       0\n", "5.32     inf\n")).rows == ()
    assert perf_output.parse(text.replace("algbw", "-----")).rows == ()


@pytest.mark.parametrize("said", ["1.5e+02", "97.25 OK", "-nan", "n1:4:4 [0] NCCL INFO x"])
def test_the_average_of_a_sweep_changes_nothing(said):
    text = re.sub(r"# Avg bus bandwidth.*\n", "", (CASES / "layout-with-root-only.txt").read_text())
    average = f"# Avg bus bandwidth    : {said}\n"
    assert average not in text
    assert perf_output.parse(text + average) == perf_output.parse(text)


def test_argv_is_one_device_per_rank_with_sizes_in_bytes():
    sweep = CollectiveSweep(
        min_bytes=8, max_bytes=1 << 20, step_factor=4, iters=7, warmup_iters=3, check=False
    )
    assert sweep.argv(("/opt/all_reduce_perf",)) == (
        "/opt/all_reduce_perf", "-b", "8", "-e", "1048576", "-f", "4", "-n", "7", "-w", "3", "-c", "0", "-g", "1"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("", "alltoall_perf"),
        ("all_reduce_perf", "alltoall_perf"),
        ("/opt/nccl-tests/build/all_reduce_perf", "/opt/nccl-tests/build/alltoall_perf"),
        ("/usr/bin/all_reduce_perf_mpi", "/usr/bin/alltoall_perf_mpi"),
        ("/opt/my-reduce", "/opt/alltoall_perf"),
    ],
)
def test_the_siblings_of_a_named_program_are_beside_it(named, found):
    assert sibling(named, "alltoall_perf") == found


def test_a_named_program_is_taken_as_it_is():
    assert sibling("/opt/my-reduce", "all_reduce_perf") == "/opt/my-reduce"


@pytest.mark.parametrize(
    "line",
    [
        f"#  Rank {'9' * 5000} Group 0 Pid 7 on a device 0 [0000:00:06] NVIDIA H200",
        f"#  Rank 0 Group 0 Pid {'9' * 5000} on a device 0 [0000:00:06] NVIDIA H200",
        f"# Out of bounds values : {'9' * 5000} OK",
        "# Avg bus bandwidth    : 1.2.3",
        "# Avg bus bandwidth    : 1e999",
        f"{'9' * 400} 1 float sum -1 1 1 1 0 1 1 1 0",
    ],
    ids=lambda line: line[:30],
)
def test_a_number_that_no_program_prints_is_not_read(line):
    text = (Path(__file__).parent / "cases" / "average-below-minimum.txt").read_text()
    assert perf_output.parse(f"{text}{line}\n") == perf_output.parse(text)


def test_blanks_behind_a_transport_cost_no_more_than_their_number():
    """Doubling the blanks must double the time, not quadruple it: in 20 lines of 60,000 that is a minute or more."""
    line = f"a:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via {' ' * 30000}x{' ' * 30000}y"
    assert perf_output.parse(f"{line}\n" * 20).transports == (f"x{' ' * 30000}y",)


def test_a_line_longer_than_any_program_writes_is_left_out():
    assert perf_output.parse(f"# Transport: {'P2P ' * 20000}\n").transports == ()
