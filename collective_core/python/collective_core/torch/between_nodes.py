"""Which all_reduce of CUDA tensors takes the GPUs for its stages inside the nodes. Pure: facts in, decision out.

The decision depends only on what is equal on all ranks: where they are, the settings of rank 0, the size of the data,
and, once the ranks have met, how the ranks of each node reach each other's GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

from collective_core.enums import CudaPath
from collective_core.observation import Limits

# By the path between the ranks of a node: from how many bytes on its GPUs are used; never on a path without a row. On
# `stream` an operation waits for time slices of the GPU, 0.4 ms, as long as all of it takes on the CPUs at 256 KiB.
# `benchmarks/gpu_torch_nodes.py` measures these sizes. `host`, where the data crosses the bus twice, was not measured.
LEAST_BYTES = {CudaPath.KERNEL: 256 << 10, CudaPath.STREAM: 4 << 20}


def is_possible(size_bytes: int, ranks_of_nodes: Sequence[int], limits: Limits) -> bool:
    """Return whether the ranks should find out if their GPUs can be used: several nodes, one of several ranks."""
    return (
        len(ranks_of_nodes) > 1
        and max(ranks_of_nodes) > 1
        and limits.allow_2d(size_bytes)
        and size_bytes >= min(LEAST_BYTES.values())
    )


def is_chosen(
    size_bytes: int, ranks_of_nodes: Sequence[int], limits: Limits, paths: Sequence[CudaPath]
) -> bool:
    """Return whether all_reduce goes over the GPUs inside the nodes. `paths`: of each rank's node, AUTO for one rank.

    The node with the slowest path decides, for all wait for it.
    """
    inside = {path for path in paths if path is not CudaPath.AUTO}
    return is_possible(size_bytes, ranks_of_nodes, limits) and all(
        path in LEAST_BYTES and size_bytes >= LEAST_BYTES[path] for path in inside
    )
