"""The document that ``bench --json`` prints, and the exit code that goes with it."""

from dataclasses import replace
from pathlib import Path

import bench_views
import pytest
from bench_documents import spread

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import Training, TrainingRun
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.launch.plan import default_points
from clusterctl.launch.request import Request
from clusterctl.results import model

CASES = Path(__file__).parents[1] / "benchmarks" / "cases"


def request(training=None):
    return Request(training, {}, None, None, None, None, None, 600.0)


def collective(case, *faults):
    sweep = perf_output.parse((CASES / f"{case}.txt").read_text())
    return Measured(request(), "nccl", "openmpi", sweep, (), sweep.ranks, (), faults)


def training_of(*points):
    run = TrainingRun((), (), {"batch_size": 64}, ("nccl 2.28.3",), ())
    proof = (RankProof(0, "gpu1", 7, "cuda:0 H200"), RankProof(1, "gpu2", 8, "cuda:0 H200"))
    entries = tuple(TrainingPoint(point, run) for point in points)
    return Measured(request(Training()), "nccl", "openmpi", None, entries, proof, (), ())


def test_the_shape_of_a_collective():
    document = model.from_measured(collective("h200-x4-all_reduce_perf-mpirun-np2-g1"), "run-1").document()
    assert list(document) == [
        "schema", "run", "benchmark", "launcher", "status", "avg_busbw_gbps", "proof", "variants",
    ]  # fmt: skip
    assert (document["schema"], document["status"]) == ("clusterctl.bench/1", "ok")
    (only,) = document["variants"]
    assert (only["name"], only["repeats"], only["points"]) == ("default", 1, [])
    assert only["rows"][-1] == {
        "size_bytes": 1073741824, "time_us": spread(3258.54), "algbw_gbps": spread(329.52),
        "busbw_gbps": spread(329.52), "wrong": 0, "ratio": 1.0, "noise": None, "word": None,
        "in_place": {
            "time_us": spread(3245.54), "algbw_gbps": spread(330.84), "busbw_gbps": spread(330.84)
        },
    }  # fmt: skip
    assert document["proof"]["ranks"][1] == {
        "rank": 1, "host": "vm", "pid": 1768, "device": "1 [0000:00:07] NVIDIA H200"
    }  # fmt: skip


def test_the_key_says_how_the_ranks_were_placed():
    launches = (
        {"np": 1, "placements": [{}], "node_of_rank": ["a"]},
        {"np": 4, "placements": [{}, {}], "node_of_rank": ["a", "b", "a", "b"]},
    )
    curve = replace(
        training_of(Point(1, 1, 8.0), Point(4, 2, 30.0)), launches=launches, settings={"torch": "2.9"}
    )
    keys = model.from_measured(curve, "r").variants[0].keys
    assert {np: key["map_by"] for np, key in keys.items()} == {"1": "-", "4": "node"}


def test_in_place_stands_in_where_there_is_nothing_else():
    rows = model.from_measured(collective("torch-in-place-only"), "r").rows
    assert (rows[0].time_us.median, rows[0].wrong) == (755.08, 0)
    assert model.from_measured(collective("validation-off"), "r").rows[0].wrong is None


def test_wrong_elements_of_both_halves_are_shown():
    rows = model.from_measured(collective("wrong-values"), "r").rows
    assert rows[8].wrong == 24


def test_rows_of_processes_that_did_not_connect_are_not_repeats():
    measured = collective("built-without-mpi")
    first, second = (
        [row for at, row in enumerate(measured.sweep.rows) if at // 11 == half] for half in (0, 1)
    )
    slower = [replace(row, out_of_place=replace(row.out_of_place, time_us=99.0, wrong=3)) for row in second]
    both = replace(measured, sweep=replace(measured.sweep, rows=(*first, *slower)))
    rows = model.from_measured(both, "r").rows
    assert [row.size_bytes for row in rows] == [row.size_bytes for row in both.sweep.rows]
    assert [row.time_us.values for row in rows[:11]] == [(row.out_of_place.time_us,) for row in first]
    assert {(row.time_us.values, row.time_us.cv, row.wrong) for row in rows[11:]} == {((99.0,), None, 3)}


def test_the_shape_of_a_scaling_curve():
    result = model.from_measured(
        training_of(Point(1, 1, 819.0, 2.0), Point(8, 1, 6469.0, 3.0), Point(16, 2, 12299.0, 4.0)), "run-2"
    )
    document = result.document()
    (only,) = document["variants"]
    assert only["rows"] == []
    assert only["points"][1] == {
        "np": 8, "nodes": 1, "sample": "image", "samples_per_s": spread(6469.0), "loss_first": None, "loss": None,
        "efficiency": pytest.approx(0.98733, abs=1e-5), "efficiency_between_nodes": None, "ratio": 1.0,
        "noise": None, "word": None,
    }  # fmt: skip
    assert only["points"][2]["efficiency_between_nodes"] == pytest.approx(0.950611)
    assert [rank["host"] for rank in document["proof"]["ranks"]] == ["gpu1", "gpu2"]
    no_ranks = result.model_copy(update={"proof": result.proof.model_copy(update={"ranks": ()})})
    assert bench_views.text(no_ranks).splitlines()[2] == "no rank reported its host"
    not_started = no_ranks.model_copy(update={"library": None, "launcher": None, "variants": ()})
    assert bench_views.text(not_started).splitlines()[1] == "resnet50: no rank was started"
    assert bench_views.text(result).splitlines()[1:] == [
        "resnet50, library nccl, launcher openmpi",
        "ranks on: gpu[1-2] (1 each)",
        "ranks  nodes  images/s  images/s per rank  efficiency  between nodes",
        "    1      1     819.0        819.0 +-2.0     100.00%              -",
        "    8      1    6469.0        808.6 +-3.0      98.73%              -",
        "   16      2   12299.0        768.7 +-4.0      93.85%         95.06%",
    ]


def test_a_failed_run_says_what_and_where():
    fault = Fault(FaultKind.RANK_DIED, "rank 1 on gpu2 died of signal 9", 1, "gpu2", "look there")
    document = model.from_measured(collective("crashed-without-summary", fault), "r").document()
    assert document["status"] == "failed"
    assert document["proof"]["failures"] == [
        {"kind": "rank-died", "message": "rank 1 on gpu2 died of signal 9", "rank": 1, "node": "gpu2",
         "hint": "look there"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ((), 0),
        (("wrong-results",), 1),
        (("nan-loss", "fewer-ranks"), 1),
        (("node-unreachable",), 5),
        (("rank-died",), 10),
        (("deadline",), 10),
        (("fewer-ranks",), 10),
        (("duplicate-ranks",), 10),
        (("missing-program", "node-unreachable"), 10),
        (("crashed", "unparsable"), 11),
    ],
)
def test_exit_codes(kinds, code):
    assert model.exit_code(tuple(Fault(FaultKind(kind), "x") for kind in kinds)) == code


def test_a_table_of_sizes_reads_well():
    text = bench_views.text(model.from_measured(collective("validation-off"), "r"))
    lines = text.splitlines()
    assert lines[3].split() == ["out-of-place,", "GB/s", "in-place,", "GB/s"]
    assert lines[4].split() == ["size", *(2 * ["time", "us", "algbw", "busbw"]), "wrong"]
    assert lines[5].split() == ["1", "KiB", "6.47", "0.16", "0.16", "7.21", "0.14", "0.14", "-"]
    assert lines[-2].split()[:2] == ["1", "GiB"]


def test_points_of_a_curve_when_none_are_named():
    assert default_points(16, [8, 8]) == (1, 8, 16)
    assert default_points(2, [1, 1]) == (1, 2)
    assert default_points(2, [4]) == (1, 2)
    assert default_points(1, [4]) == (1,)


@pytest.mark.parametrize(
    "case", ["h200-x4-all_reduce_perf-mpirun-np2-g1", "h200-x4-alltoall_perf-mpirun-np4-g1"]
)
def test_the_average_is_that_of_the_program(case):
    text = (CASES / f"{case}.txt").read_text()
    printed = next(line.split(":")[1] for line in text.splitlines() if "Avg bus bandwidth" in line)
    result = model.from_measured(collective(case), "run-1")
    assert result.avg_busbw_gbps == pytest.approx(float(printed), abs=0.006)
    assert f"Avg bus bandwidth: {result.avg_busbw_gbps:g} GB/s" in bench_views.text(result)


def test_both_halves_have_their_columns():
    text = bench_views.text(model.from_measured(collective("h200-x4-all_reduce_perf-mpirun-np2-g1"), "run-1"))
    _, _, _, titles, heads, *_, last, _ = text.splitlines()
    assert titles.split() == ["out-of-place,", "GB/s", "in-place,", "GB/s"]
    assert heads.split() == ["size", *(2 * ["time", "us", "algbw", "busbw"]), "wrong"]
    assert last.split() == ["1", "GiB", "3258.54", "329.52", "329.52", "3245.54", "330.84", "330.84", "0"]
    alone = bench_views.text(model.from_measured(collective("torch-in-place-only"), "run-1"))
    assert "in-place" not in alone and "busbw GB/s" in alone
