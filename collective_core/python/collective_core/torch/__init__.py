"""What the backend `ccore` of torch.distributed is made of; `collective_core.torch_backend` puts it together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collective_core.usage import UsageRecorder

BACKEND_NAME = "ccore"


def describe(group: Any = None) -> dict[str, str]:
    """Return how a process group of this backend moves data; without an argument, the default group.

    `library` is name and version, `transport` the links between the CPUs ("shm", "tcp"). `cuda_path` is "stream",
    "kernel" or "host" (of libcollective_core_cuda.so), "staged" without that library, or "" before the first CUDA
    tensor; `cuda` is the reason in one line, with the link of each pair of ranks. `between_nodes` is what reduces CUDA
    tensors on several nodes: their GPUs or their CPUs, with the reason. Raises TypeError for another backend.
    """
    described: dict[str, str] = _own(group).describe()
    return described


def usage_recorder(group: Any = None) -> UsageRecorder:
    """Return a recorder of the algorithms and settings that a group uses; without an argument, the default group.

    Raises TypeError for another backend.
    """
    recorder: UsageRecorder = _own(group).usage_recorder()
    return recorder


def _own(group: Any) -> Any:
    if group is None:
        import torch.distributed as dist

        group = dist.group.WORLD
    if not hasattr(group, "describe"):
        raise TypeError(f"expected a process group of backend {BACKEND_NAME}, not {type(group).__name__}")
    return group
