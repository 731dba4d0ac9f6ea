"""The document that ``bench --json`` prints, and the exit code that goes with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import Training, TrainingRun
from clusterctl.launch.measure import Measured, TrainingPoint
from clusterctl.launch.plan import default_points
from clusterctl.launch.request import Request
from clusterctl.report.text import bench as table
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
        "schema", "run", "benchmark", "library", "launcher", "status", "rows", "points", "proof"
    ]  # fmt: skip
    assert (document["schema"], document["status"], document["points"]) == ("clusterctl.bench/1", "ok", [])
    assert document["rows"][-1] == {
        "size_bytes": 1073741824, "time_us": 3258.54, "algbw_gbps": 329.52, "busbw_gbps": 329.52, "wrong": 0
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
    keys = model.from_measured(curve, "r").proof["keys"]
    assert {np: key["map_by"] for np, key in keys.items()} == {"1": "-", "4": "node"}


def test_in_place_stands_in_where_there_is_nothing_else():
    rows = model.from_measured(collective("torch-in-place-only"), "r").rows
    assert (rows[0].time_us, rows[0].wrong) == (755.08, 0)
    assert model.from_measured(collective("validation-off"), "r").rows[0].wrong is None


def test_wrong_elements_of_both_halves_are_shown():
    rows = model.from_measured(collective("wrong-values"), "r").rows
    assert rows[8].wrong == 24


def test_the_shape_of_a_scaling_curve():
    result = model.from_measured(
        training_of(Point(1, 1, 819.0, 2.0), Point(8, 1, 6469.0, 3.0), Point(16, 2, 12299.0, 4.0)), "run-2"
    )
    document = result.document()
    assert document["rows"] == []
    assert document["points"][1] == {
        "np": 8, "nodes": 1, "images_per_s": 6469.0, "images_per_s_per_rank": 808.625,
        "efficiency": pytest.approx(0.98733, abs=1e-5),
    }  # fmt: skip
    assert document["proof"]["between_nodes"] == [
        {"np": 16, "nodes": 2, "efficiency": pytest.approx(0.950611)}
    ]
    assert [rank["host"] for rank in document["proof"]["ranks"]] == ["gpu1", "gpu2"]
    assert table.render(result).splitlines() == [
        "resnet50, library nccl, launcher openmpi",
        "ranks on: gpu1 (1), gpu2 (1)",
        "ranks  nodes  images/s  images/s per rank  efficiency",
        "    1      1     819.0        819.0 +-2.0     100.00%",
        "    8      1    6469.0        808.6 +-3.0      98.73%",
        "   16      2   12299.0        768.7 +-4.0      93.85%",
        "between nodes, 2 against 1: 95.06%",
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
    text = table.render(model.from_measured(collective("validation-off"), "r"))
    lines = text.splitlines()
    assert lines[2].split() == ["size", "time", "us", "algbw", "GB/s", "busbw", "GB/s", "wrong"]
    assert lines[3].split() == ["1", "KiB", "6.47", "0.16", "0.16", "-"]
    assert lines[-1].split()[:2] == ["1", "GiB"]


def test_points_of_a_curve_when_none_are_named():
    assert default_points(16, [8, 8]) == (1, 8, 16)
    assert default_points(2, [1, 1]) == (1, 2)
    assert default_points(2, [4]) == (1, 2)
    assert default_points(1, [4]) == (1,)
