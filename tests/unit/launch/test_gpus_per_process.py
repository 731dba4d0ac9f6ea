"""``bench -g``: several GPUs per process, as nccl-tests' -g, where the program can."""

from pathlib import Path

import pytest

from clusterctl.benchmarks.collective import CollectiveSweep
from clusterctl.errors import LaunchError
from clusterctl.inventory.model import Node
from clusterctl.launch import failure
from clusterctl.launch.failure import Outcome
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.plan import plan
from clusterctl.launch.readiness import assumed
from clusterctl.launch.request import Request

# Real output of nccl-tests: one process with four H200.
FOUR = (Path(__file__).parents[1] / "benchmarks/cases/h200-x4-all_reduce_perf-np1-g4.txt").read_text()


def planned(gpus, nodes=(8, 8), np=None, **fields):
    request = Request(None, {"gpus": gpus}, np, None, None, "openmpi", None, 60.0, **fields)
    answers = [
        assumed(Node(name=f"n{index}", address=f"n{index}", gpus=count)) for index, count in enumerate(nodes)
    ]
    return plan(request, answers, SHOWN)


@pytest.mark.parametrize(
    ("gpus", "np", "nodes", "placed"),
    [
        (8, None, (8, 8), [1, 1]), (4, None, (8, 8), [2, 2]), (4, 1, (8, 8), [1]), (3, None, (8, 8), [2, 2]),
        (4, None, (8, 4), [2, 1]), (1, None, (2, 2), [2, 2]),
    ],
)  # fmt: skip
def test_a_process_takes_as_many_slots(gpus, np, nodes, placed):
    (launch,) = planned(gpus, nodes, np).launches()
    assert [place.ranks for place in launch.placements] == placed
    assert launch.program[-2:] == ("-g", str(gpus))
    assert launch.np == sum(placed)


@pytest.mark.parametrize(
    ("gpus", "nodes", "fields", "reason"),
    [
        (4, (0, 0), {}, "needs GPUs on every node and nccl-tests"),
        (4, (8, 8), {"same_program": True}, "what runs here has one GPU per process"),
        (4, (8, 8), {"oversubscribe": True}, "one GPU per process"),
        (4, (8, 2), {}, "-g 4: n1 has fewer slots than that"),
    ],
)
def test_what_cannot_have_several_gpus_per_process_is_refused(gpus, nodes, fields, reason):
    nodes = nodes if any(nodes) else (None, None)
    request = Request(None, {"gpus": gpus}, 2, None, None, "openmpi", None, 60.0, **fields)
    answers = [
        assumed(Node(name=f"n{index}", address=f"n{index}", gpus=count, slots=None if count else 8))
        for index, count in enumerate(nodes)
    ]
    with pytest.raises(LaunchError) as refused:
        plan(request, answers, SHOWN)
    assert reason in refused.value.message
    assert refused.value.hint


def test_each_gpu_of_a_process_is_a_rank_of_the_table():
    sweep = CollectiveSweep(gpus=4).parse(FOUR)
    outcome = Outcome(0, {0: FOUR}, {}, "", 1.0)
    assert failure.check_table(sweep.ranks, outcome, 1 * 4) == ()
    (fault,) = failure.check_table(sweep.ranks, outcome, 2 * 4)
    assert "4 of 8 ranks reported" in fault.message
