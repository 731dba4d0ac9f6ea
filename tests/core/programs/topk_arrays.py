"""A rank that reduces numpy arrays by top-k for three steps, then prints its results and residual as JSON."""

from __future__ import annotations

import json

import numpy
from collective_core.communicator import Communicator
from collective_core.topk import Residual, Topk

from collective_core import CollectiveCoreError

how = Topk(ratio=0.05, threshold_bytes=1, half_values=True)
with Communicator.from_environment() as comm:
    rank = comm.rank
    residual = Residual()
    results = []
    for step in range(3):
        # Eighths: sums are exact, and half precision rounds the larger ones.
        gradient = (numpy.random.default_rng(10 * step + rank).integers(-40000, 40000, 401) / 8).astype("f4")
        out = numpy.empty_like(gradient)
        comm.topk_all_reduce(gradient, out, residual, how)
        results.append(out.tolist())
    state = residual.state()
    residual.reset()
    assert not any(residual.state().values)
    try:
        Topk(ratio=1.5)
    except CollectiveCoreError as error:
        assert "at most 1" in str(error)
    else:
        raise AssertionError("a ratio above 1 was accepted")
    print(
        json.dumps(
            {"results": results, "begin": state.shard_begin, "steps": state.steps, "held": state.values}
        )
    )
