"""The rows of the GPUs of a node, measured by ``device_perf``, which needs torch and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from clusterctl.acceptance.model import AcceptRow, NodeProgram, RowCommand, RowPlace, Tier
from clusterctl.acceptance.outputs import records
from clusterctl.facts.model.node import NodeFacts
from clusterctl.requirements.gpus import unsupported

# The exit status 1 of device_perf: a row of a GPU failed, and a record tells which one.
_STATUSES = frozenset({0, 1})
_START_S = 120.0
"""For the start of Python, of torch and of CUDA on a node with many GPUs."""


def without_gpu(facts: NodeFacts) -> str:
    """Return why a row of GPUs does not apply to a node."""
    return "" if facts.gpu.devices.or_else(()) else unsupported(facts) or "the node has no GPU"


def _one_gpu(facts: NodeFacts) -> str:
    return without_gpu(facts) or ("" if len(facts.gpu.devices.or_else(())) > 1 else "the node has one GPU")


def gpu_name(facts: NodeFacts) -> str:
    """Return the model of the node's GPUs."""
    return next((gpu.name for gpu in facts.gpu.devices.or_else(())), "")


def device_row(
    name: str,
    title: str,
    tier: Tier,
    rows: str,
    seconds: float,
    *options: str,
    applies: Callable[[NodeFacts], str] = without_gpu,
) -> AcceptRow:
    """Return a row that runs ``device_perf``; ``seconds``: its own deadline, in which every GPU is measured."""

    def command(place: RowPlace) -> RowCommand:
        limit = ("--timeout-s", f"{seconds + _START_S:g}")
        return RowCommand(
            (place.python, place.archive, "device_perf", "--device", "cuda", "--rows", rows, *options, *limit)
        )

    # The program ends before the deadline of the row, and then names the GPU that did not answer.
    work = NodeProgram(command, records.parse, seconds + _START_S + 30.0, torch=True, statuses=_STATUSES)
    return AcceptRow(name, title, tier, work, applies, gpu_name)


ROWS = (
    device_row(
        "gpu-repeat", "the same computation repeated, results equal bit by bit", Tier.VALIDATION, "sdc", 60.0,
        "--sdc-s", "30",
    ),
    device_row("gpu-patterns", "patterns in all free GPU memory, read back", Tier.VALIDATION, "pattern", 120.0),
    device_row("gpu-gemm", "matrix products by data type", Tier.PERFORMANCE, "gemm", 120.0),
    device_row("gpu-memory", "copy in GPU memory, read and written", Tier.PERFORMANCE, "hbm", 60.0),
    device_row("gpu-host-link", "copies between host and GPU", Tier.PERFORMANCE, "host-link", 120.0),
    device_row(
        "gpu-pairs", "copies between each pair of GPUs", Tier.PERFORMANCE, "nvlink", 120.0, applies=_one_gpu
    ),
    device_row(
        "gpu-overlap", "all_reduce between the GPUs hidden behind matrix products", Tier.PERFORMANCE, "overlap",
        120.0, applies=_one_gpu,
    ),
    device_row(
        "gpu-training", "training of small models: LLaMA, BERT, ResNet50, each GPU alone", Tier.PERFORMANCE,
        "training", 180.0,
    ),
    device_row(
        "gpu-load", "full load for 30 s: rate, clocks, temperatures, throttling", Tier.PERFORMANCE, "sustained",
        90.0, "--sustained-s", "30",
    ),
    device_row(
        "gpu-heat", "full load for 20 min: rate, clocks, temperatures, throttling", Tier.STRESS, "sustained",
        1500.0, "--sustained-s", "1200",
    ),
)  # fmt: skip
