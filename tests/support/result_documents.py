"""Results as runs make them: the captured output of 4 H200 through the real parser, and trainings of given rates."""

from __future__ import annotations

from pathlib import Path

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import RankProof
from clusterctl.benchmarks.key import hardware_name
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import RankRate, Training, TrainingRun
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.launch.request import Request
from clusterctl.results import model, record

CASES = Path(__file__).parents[1] / "unit" / "benchmarks" / "cases"
H200_NP2 = "h200-x4-all_reduce_perf-mpirun-np2-g1"
H200_NP4 = "h200-x4-all_reduce_perf-mpirun-np4-g1"
COMMAND = "mpirun -np 4 -hostfile hosts -x NCCL_DEBUG=INFO all_reduce_perf -b 1K -e 1G -f 4 -g 1"


def request(training=None):
    return Request(training, {}, None, None, None, None, None, 600.0)


def collective(case=H200_NP4, *, run="20261120T091500Z-bench-c0de", faults=(), library="nccl", **settings):
    """Return the record of a sweep whose output is one of the benchmarks' cases."""
    return recorded(measured_collective(case, faults=faults, library=library, **settings), run)


def measured_collective(case=H200_NP4, *, faults=(), library="nccl", **settings):
    """Return the sweep as it was measured."""
    sweep = perf_output.parse((CASES / f"{case}.txt").read_text())
    return Measured(
        request(), library, "openmpi", sweep, (), sweep.ranks, (), tuple(faults),
        {"program": "nccl-tests", "datatype": "float", "redop": "sum", "cuda_graph": False, **settings},
        hardware_name(rank.device for rank in sweep.ranks),
    )  # fmt: skip


def training(
    points,
    *,
    run="20261120T093000Z-bench-beef",
    ranks_per_node=8,
    faults=(),
    node="gpu{:02d}",
    joules=0,
    **settings,
):
    """Return the record of a training; ``points`` are its points, each the images per second of its ranks.

    ``joules``: the energy that each GPU used for a step; 0: the GPUs have no energy counter.
    """
    entries = []
    for rates in points:
        np = len(rates)
        proof = tuple(
            RankProof(r, node.format(r // ranks_per_node + 1), 4000 + r, "cuda:0 NVIDIA H200")
            for r in range(np)
        )
        found = tuple(RankRate(r, rate, rate * 0.004, 7.0, 0.1) for r, rate in enumerate(rates))
        used = {
            "model": "resnet50",
            "precision": "amp-bf16",
            "channels_last": True,
            "batch_size": 256,
            **settings,
        }
        used |= {"image_size": 224, "device": "cuda:0", "torch": "2.13.0+cu130"}
        libraries = ("nccl 2.28.3 /usr/lib/libnccl.so.2",) if np > 1 else ()
        spent = {"before_mj": 0, "after_mj": joules * 100 * 1000, "elapsed_s": 9.0, "work": 100}
        usage = tuple(
            (
                r,
                {
                    "energy": {"gpu": f"GPU-{r}", **spent}
                    if joules
                    else {"reason": "this GPU has no energy counter"}
                },
            )
            for r in range(np)
        )
        outcome = TrainingRun(proof, found, used, libraries, (), usage=usage)
        nodes = len({rank.host for rank in proof})
        entries.append(TrainingPoint(Point(np, nodes, sum(rates), max(rates) * 0.004), outcome))
    last = entries[-1].run
    measured = Measured(
        request(Training()), "nccl", "openmpi", None, tuple(entries), last.ranks, (), tuple(faults), last.settings,
        "NVIDIA H200",
    )  # fmt: skip
    return recorded(measured, run)


def slow_rank_training(**more):
    """Return the record of a training on 4 nodes with 8 ranks each, in which one rank of gpu03 is slow."""
    full = [2480.0 + 13 * ((r * 7) % 11) - (410 if r == 21 else 60 if r // 8 == 1 else 0) for r in range(32)]
    return training([[2561.0], full[:8], full[:16], full], **more)


def recorded(measured, run):
    """Return the record of what was measured, as ``bench`` stores it."""
    return record.from_document(
        model.from_measured(measured, run).document(),
        commands=[COMMAND], folder=f"/home/me/runs/{run}",
    )  # fmt: skip
