"""Which all_reduce of CUDA tensors takes the GPUs for its stages inside the nodes. Pure: facts in, decision out.

The decision depends only on what is equal on all ranks: where they are, the settings of rank 0, the size of the data,
and, once the ranks have met, how the ranks of each node reach each other's GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collective_core.enums import CudaPath

# By the path between the ranks of a node: from how many bytes on its GPUs are used; never on a path without a row. On
# `stream` an operation waits for time slices of the GPU, 0.4 ms, as long as all of it takes on the CPUs at 256 KiB.
# `benchmarks/gpu_torch_nodes.py` measures these sizes. `host`, where the data crosses the bus twice, was not measured.
LEAST_BYTES = {CudaPath.KERNEL: 256 << 10, CudaPath.STREAM: 4 << 20}

_SETTING = re.compile(r"^(CCORE_\w+)=(.*) \([^()]*\)$", re.MULTILINE)
_FORCED = re.compile(r"\ball_reduce:(?!2d\b)")


@dataclass(frozen=True, slots=True)
class Limits2d:
    """For which sizes, in bytes, the settings of rank 0 allow 2D; `least` above `most`: for none."""

    least: int
    most: int | None

    def allow(self, size_bytes: int) -> bool:
        """Return whether data of this size may be reduced by 2D."""
        return self.least <= size_bytes and (self.most is None or size_bytes <= self.most)


def limits_of(dump: str) -> Limits2d:
    """Return the limits in the text of `Communicator.dump_config`."""
    settings = dict(_SETTING.findall(dump))
    if settings["CCORE_2D"] == "0" or _FORCED.search(settings["CCORE_ALGO"]):
        return Limits2d(1, 0)
    most = settings["CCORE_2D_LIMIT"]
    return Limits2d(int(settings["CCORE_HIERARCHICAL_THRESHOLD"]), None if most == "none" else int(most))


def is_possible(size_bytes: int, ranks_of_nodes: Sequence[int], limits: Limits2d) -> bool:
    """Return whether the ranks should find out if their GPUs can be used: several nodes, one of several ranks."""
    return (
        len(ranks_of_nodes) > 1
        and max(ranks_of_nodes) > 1
        and limits.allow(size_bytes)
        and size_bytes >= min(LEAST_BYTES.values())
    )


def is_chosen(
    size_bytes: int, ranks_of_nodes: Sequence[int], limits: Limits2d, paths: Sequence[CudaPath]
) -> bool:
    """Return whether all_reduce goes over the GPUs inside the nodes. `paths`: of each rank's node, AUTO for one rank.

    The node with the slowest path decides, for all wait for it.
    """
    inside = {path for path in paths if path is not CudaPath.AUTO}
    return is_possible(size_bytes, ranks_of_nodes, limits) and all(
        path in LEAST_BYTES and size_bytes >= LEAST_BYTES[path] for path in inside
    )
