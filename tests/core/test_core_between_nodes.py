"""Which all_reduce of CUDA tensors takes the GPUs inside nodes: the rule, and that all ranks agree on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from collective_core.communicator import Communicator, Operation
from collective_core.enums import CudaPath
from collective_core.observation import Limits
from collective_core.topk import Residual, Topk
from collective_core.unique_id import get_unique_id

torch = pytest.importorskip("torch")
from collective_core.torch.between_nodes import (  # noqa: E402  # needs torch
    LEAST_BYTES,
    is_chosen,
    is_possible,
)
from collective_core.torch.cuda_nodes import CudaNodes  # noqa: E402
from collective_core.torch.nodes_way import NodesWay  # noqa: E402
from collective_core.torch.tensors import for_reduction  # noqa: E402

NO_LIMIT = 2**63 - 1
ANY = Limits(60, 0, NO_LIMIT)
KERNEL, STREAM, HOST, ALONE = CudaPath.KERNEL, CudaPath.STREAM, CudaPath.HOST, CudaPath.AUTO
LARGE = 1 << 30


@pytest.mark.parametrize(
    ("size", "ranks", "limits", "paths", "chosen"),
    [
        (LARGE, (4,), ANY, (KERNEL,) * 4, False),  # one node has nothing between nodes
        (LARGE, (1, 1), ANY, (ALONE, ALONE), False),  # nothing to add inside: chunks through the host
        (LARGE, (2, 2), ANY, (KERNEL,) * 4, True),
        (LARGE, (2, 1), ANY, (KERNEL, KERNEL, ALONE), True),
        (LARGE, (2, 2), Limits(60, 0, LARGE - 1), (KERNEL,) * 4, False),
        (LARGE, (2, 2), Limits(60, 0, LARGE), (KERNEL,) * 4, True),
        (LARGE, (2, 2), Limits(60, 1, 0), (KERNEL,) * 4, False),
        (LEAST_BYTES[STREAM], (2, 2), ANY, (KERNEL, KERNEL, STREAM, STREAM), True),
        # The node that waits for time slices decides.
        (LEAST_BYTES[STREAM] - 1, (2, 2), ANY, (KERNEL, KERNEL, STREAM, STREAM), False),
        (LARGE, (2, 2), ANY, (KERNEL, KERNEL, HOST, HOST), False),  # a path without a row
        (LEAST_BYTES[KERNEL], (2, 2), ANY, (KERNEL,) * 4, True),
        (LEAST_BYTES[KERNEL] - 1, (2, 2), ANY, (KERNEL,) * 4, False),
    ],
)
def test_the_choice(
    size: int, ranks: tuple[int, ...], limits: Limits, paths: tuple[CudaPath, ...], chosen: bool
) -> None:
    assert is_chosen(size, ranks, limits, paths) is chosen


def test_what_is_chosen_was_possible_before_the_ranks_met() -> None:
    sizes = [0, 1, 65535, 65536, *(size + d for size in LEAST_BYTES.values() for d in (-1, 0)), LARGE]
    limits = [ANY, Limits(60, 65536, NO_LIMIT), Limits(60, 0, 1 << 20), Limits(60, 1, 0)]
    for size, ranks, limit, path in product(sizes, [(1,), (2,), (1, 1), (2, 2), (1, 3)], limits, CudaPath):
        if is_chosen(size, ranks, limit, [path] * sum(ranks)):
            assert is_possible(size, ranks, limit), (size, ranks, limit, path)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, Limits(60, 65536, NO_LIMIT)),
        ({"CCORE_HIERARCHICAL_THRESHOLD": "1"}, Limits(60, 1, NO_LIMIT)),
        ({"LIGHT_HIERARCHICAL_THRESHOLD": "1048576"}, Limits(60, 65536, 1048576)),
        ({"LIGHT_2D_ALLREDUCE": "0"}, Limits(60, 1, 0)),
        ({"CCORE_ALGO": "broadcast:tree,all_reduce:ring"}, Limits(60, 1, 0)),
        ({"CCORE_ALGO": "all_reduce:2d"}, Limits(60, 65536, NO_LIMIT)),
        ({"CCORE_ALGO": "broadcast:tree"}, Limits(60, 65536, NO_LIMIT)),
    ],
)
def test_limits_are_the_settings_of_the_library(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], limits: Limits
) -> None:
    for name, value in {**given, "CCORE_TIMEOUT_S": "60"}.items():
        monkeypatch.setenv(name, value)
    with Communicator(0, 1, get_unique_id()) as communicator:
        assert communicator.limits() == limits


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
