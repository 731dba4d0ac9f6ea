"""A selection of torch's own tests of a distributed backend, on ccore. `make core-torch-suite` runs all of them.

The names are those of torch 2.13, which `make test` installs: there a missing one fails. Older releases lack some.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parent / "programs" / "torch_suite.py"

# Those that gloo passes.
SELECTED = (
    "test_Backend_enum_class",
    "test_DistributedDataParallelCPU",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_DistributedDataParallel_requires_grad",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_accumulate_gradients_no_sync_grad_is_view",
    "test_all_gather",
    "test_all_gather_coalesced_simple",
    "test_all_gather_coalesced_with_empty",
    "test_all_gather_complex",
    "test_all_gather_object_default_pg",
    "test_all_gather_object_subgroup",
    "test_all_reduce_coalesced_full_group_sum",
    "test_all_reduce_coalesced_max",
    "test_all_reduce_coalesced_max_complex_unsupported",
    "test_all_reduce_coalesced_product",
    "test_all_reduce_complex_unsupported_ops",
    "test_all_reduce_full_group_min",
    "test_all_reduce_max",
    "test_all_reduce_product",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_barrier",
    "test_barrier_timeout_full_group",
    "test_barrier_timeout_global",
    "test_batch_isend_irecv_gloo",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast",
    "test_ddp_create_graph",
    "test_ddp_logging_data_cpu",
    "test_destroy_full_group",
    "test_destroy_group",
    "test_gather",
    "test_gather_checks",
    "test_get_backend",
    "test_get_future",
    "test_grads_same_across_ranks_with_no_sync",
    "test_irecv",
    "test_isend_autograd_profiler",
    "test_monitored_barrier_gloo",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_gloo_subgroup",
    "test_reduce_full_group_max",
    "test_reduce_min",
    "test_reduce_sum_twice",
    "test_scatter",
    "test_scatter_checks",
    "test_scatter_complex",
    "test_scatter_object_list",
    "test_send_recv_any_source",
    "test_send_recv_any_source_torch_profiler",
    "test_send_recv_with_tag",
    "test_sparse_all_reduce_sum",
    "test_static_graph_api_cpu",
)
# Those that torch keeps for MPI.
OF_MPI = (
    "test_all_to_all",
    "test_all_to_all_single_equal_split_complex",
    "test_all_to_all_single_unequal_split",
)


@pytest.fixture(scope="module")
def outcomes(library: Path) -> dict[str, dict[str, Any]]:
    """What became of each test, all run by one process."""
    environment = {**os.environ, "CCORE_LIBRARY": str(library)}
    ended: dict[str, dict[str, Any]] = {}
    for arguments in (SELECTED, ("--as", "mpi", *OF_MPI)):
        done = subprocess.run(
            (sys.executable, str(RUNNER), "ccore", *arguments),
            env=environment, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        ended |= {line["test"]: line for line in lines}
    return ended


@pytest.mark.parametrize("test", SELECTED + OF_MPI)
def test_of_torch(outcomes: dict[str, dict[str, Any]], test: str) -> None:
    release = metadata.version("torch")
    if outcomes[test]["outcome"] == "absent" and tuple(map(int, release.split(".")[:2])) < (2, 13):
        pytest.skip(f"torch {release} has no such test")
    assert outcomes[test]["outcome"] == "passed", outcomes[test]["text"]
