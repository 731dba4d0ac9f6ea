"""The CPU-reduce pipeline from Python: right results on memory, its environment, and clear refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Program = Callable[..., Any]


@pytest.mark.parametrize(("size", "nodes"), [(1, 1), (3, 1), (4, 2)])
def test_it_reduces_as_all_reduce_does(program: Program, size: int, nodes: int) -> None:
    numpy = pytest.importorskip("numpy")
    ended = program(
        "cpu_reduce.py",
        size=size,
        per_rank=lambda rank: {
            "CCORE_NODE_ID": f"node{rank % nodes}",
            "CCORE_CPU_REDUCE_CHUNK_BYTES": "2",
        },
    ).finish()
    assert [one.returncode for one in ended] == [0] * size, ended
    inputs = [numpy.random.default_rng(rank).integers(-1000, 1000, 100003) for rank in range(size)]
    for one in ended:
        report = json.loads(one.output.splitlines()[-1])
        assert (numpy.array(report["sum"]) == numpy.sum(inputs, axis=0)).all()
        assert (numpy.array(report["max"]) == numpy.max(inputs, axis=0)).all()
        assert report["calls"] == 2
        environment, lengths, negative, destroyed = report["refusals"]
        assert environment.startswith("invalid_argument: ") and "chunk_bytes is 2, " in environment
        assert lengths.endswith("send is 100003 of FLOAT32, recv is 100002 of FLOAT32")
        assert "chunk_bytes is -1" in negative
        assert destroyed.startswith("invalid_usage: ") and "was destroyed" in destroyed
