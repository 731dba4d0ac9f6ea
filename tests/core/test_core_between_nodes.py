"""Which all_reduce of CUDA tensors takes the GPUs inside nodes: the rule, and that all ranks agree on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from collective_core.communicator import Communicator, Operation
from collective_core.enums import CudaPath
from collective_core.observation import Limits
from collective_core.topk import Residual, Topk
from collective_core.unique_id import get_unique_id

torch = pytest.importorskip("torch")
from collective_core.torch.cuda_nodes import CudaNodes  # noqa: E402  # needs torch
from collective_core.torch.nodes_way import NodesWay  # noqa: E402
from collective_core.torch.tensors import for_reduction  # noqa: E402

NO_LIMIT = 2**63 - 1
KERNEL, STREAM, HOST, ALONE = CudaPath.KERNEL, CudaPath.STREAM, CudaPath.HOST, CudaPath.AUTO
LEAST = {ALONE: 256 << 10, STREAM: 4 << 20, KERNEL: 256 << 10, HOST: NO_LIMIT}
LARGE = 1 << 30


def limits_up_to(most_bytes: int) -> Limits:
    """Those of several nodes, one of which has several ranks."""
    return Limits(60, 65536, most_bytes, tuple(LEAST[path] for path in CudaPath))


@pytest.mark.parametrize(
    ("size", "most", "paths", "chosen"),
    [
        (LARGE, NO_LIMIT, (KERNEL,) * 4, True),
        (LARGE, NO_LIMIT, (KERNEL, KERNEL, ALONE), True),
        (LARGE, LARGE - 1, (KERNEL,) * 4, False),
        (LARGE, LARGE, (KERNEL,) * 4, True),
        (LEAST[STREAM], NO_LIMIT, (KERNEL, KERNEL, STREAM, STREAM), True),
        # The node that waits for time slices decides.
        (LEAST[STREAM] - 1, NO_LIMIT, (KERNEL, KERNEL, STREAM, STREAM), False),
        (LARGE, NO_LIMIT, (KERNEL, KERNEL, HOST, HOST), False),
        (LEAST[KERNEL], NO_LIMIT, (KERNEL,) * 4, True),
        (LEAST[KERNEL] - 1, NO_LIMIT, (KERNEL,) * 4, False),
        (LEAST[KERNEL], NO_LIMIT, (), True),
        (LEAST[KERNEL] - 1, NO_LIMIT, (), False),
    ],
)
def test_the_choice(size: int, most: int, paths: tuple[CudaPath, ...], chosen: bool) -> None:
    limits = limits_up_to(most)
    assert limits.allow_device_2d(size, paths) is chosen
    if chosen:
        assert limits.allow_device_2d(size), "possible before the ranks met"


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, (65536, NO_LIMIT)),
        ({"CCORE_HIERARCHICAL_THRESHOLD": "1"}, (1, NO_LIMIT)),
        ({"LIGHT_HIERARCHICAL_THRESHOLD": "1048576"}, (65536, 1048576)),
        ({"LIGHT_2D_ALLREDUCE": "0"}, (1, 0)),
        ({"CCORE_ALGO": "broadcast:tree,all_reduce:ring"}, (1, 0)),
        ({"CCORE_ALGO": "all_reduce:2d"}, (65536, NO_LIMIT)),
        ({"CCORE_ALGO": "broadcast:tree"}, (65536, NO_LIMIT)),
    ],
)
def test_limits_are_the_settings_of_the_library(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], limits: tuple[int, int]
) -> None:
    for name, value in {**given, "CCORE_TIMEOUT_S": "60"}.items():
        monkeypatch.setenv(name, value)
    with Communicator(0, 1, get_unique_id()) as communicator:
        assert communicator.limits() == Limits(60, *limits, (NO_LIMIT,) * 4)  # one node


@pytest.mark.parametrize(
    ("case", "way"),
    [
        ("small", ["no operation that the GPUs could take part in so far"] * 4),
        ("large", ["on the CPUs: "] * 3 + ["on the CPUs: CCORE_CUDA_PATH is staged"]),
        ("unset", ["on the CPUs: CCORE_CUDA_PATH is not set on all ranks"] * 4),
        (
            "broken",
            ["on the CPUs: another rank cannot use"] * 2 + ["on the CPUs: system: no memory on this GPU"] * 2,
        ),
    ],
)
def test_all_ranks_agree_and_go_on(program: Callable[..., Any], case: str, way: list[str]) -> None:
    paths = ("auto", "auto", "auto", {"large": "staged", "unset": ""}.get(case, "auto"))
    ended = program(
        "between_nodes.py", case, size=4,
        per_rank=lambda rank: {"CCORE_NODE_ID": "aabb"[rank], "CCORE_CUDA_PATH": paths[rank]},
    )  # fmt: skip
    for rank, one in enumerate(ended.finish()):
        assert one.returncode == 0, one.output
        report = json.loads(one.output.splitlines()[-1])
        assert report["way"].startswith(way[rank]), report
        assert report["takes"] == [False, False]
        assert report["total"] == 4.0


def test_the_way_between_nodes_reduces_host_memory_as_the_communicator_does() -> None:
    with Communicator(0, 1, get_unique_id()) as communicator:
        nodes = CudaNodes(communicator)
        way = NodesWay(communicator, 10, nodes)
        tensor = torch.arange(12.0).view(3, 4)
        dense = way.dense(tensor.t())
        assert torch.equal(dense, tensor.t())
        buffer, redop = for_reduction(dense, torch.distributed.ReduceOp.AVG)
        way.all_reduce(buffer, redop)
        way.topk_all_reduce(buffer, redop, Residual(), Topk())
        assert torch.equal(dense, tensor.t())
        # One node: there is nothing that top-k could leave out.
        assert communicator.stats()[Operation.ALL_REDUCE].calls == 2
    assert nodes.describe() == "one node"
