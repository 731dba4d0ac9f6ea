"""Communication hooks for DistributedDataParallel: top-k with error feedback, and float16.

state = TopkState(ratio=0.01, warmup_steps=100)
model.register_comm_hook(state, topk_hook)
"""

# DDP compares the annotations of a hook with its own types, so they cannot be postponed to texts here.
import logging
from typing import Any

import torch
import torch.distributed as dist

from collective_core import environment
from collective_core.errors import CollectiveCoreError, Result
from collective_core.topk import Method, Residual, Topk
from collective_core.torch.reductions import Reductions

__all__ = ["TopkState", "fp16_hook", "from_environment", "topk_hook"]

_logger = logging.getLogger("collective_core")
_COMPRESSIBLE = frozenset({torch.float32, torch.float16, torch.bfloat16})

# First parameter, elements and type of a bucket: they change when DDP rebuilds its buckets.
_Key = tuple[int, int, torch.dtype]


class TopkState:
    """What `topk_hook` keeps from step to step; one per model, the same on all ranks.

    None takes CCORE_TOPK_RATIO and so on, else the defaults. During the first `warmup_steps` steps gradients are
    reduced densely: compressing from the first step on costs accuracy.
    """

    def __init__(
        self,
        process_group: Any = None,
        *,
        ratio: float | None = None,
        threshold_bytes: int | None = None,
        method: Method = Method.EXACT,
        half_values: bool | None = None,
        warmup_steps: int = 0,
        error_feedback: bool = True,
    ) -> None:
        """Take the group, which must be of backend ccore; None is the default one.

        Without `error_feedback` what is not sent is lost; it exists to show what the residual is good for.
        """
        self.process_group = process_group
        self.topk = Topk(ratio, threshold_bytes, method, half_values)
        self.warmup_steps = warmup_steps
        self.error_feedback = error_feedback
        self.steps = 0
        self.residuals: dict[_Key, Residual] = {}
        self._bucket_of: dict[int, _Key] = {}  # by parameter

    def residual(self, bucket: Any) -> Residual:
        """Return the residual of a bucket; one with another make-up starts again from zero."""
        members = [id(parameter) for parameter in bucket.parameters()]
        buffer = bucket.buffer()
        key = (members[0], buffer.numel(), buffer.dtype)
        if key not in self.residuals:
            for gone in {self._bucket_of[one] for one in members if one in self._bucket_of}:
                if self.residuals.pop(gone, None) is not None:
                    _logger.warning(
                        "DDP has rebuilt its buckets: the residual of one with %d elements is dropped",
                        gone[1],
                    )
            self.residuals[key] = Residual()
        self._bucket_of.update(dict.fromkeys(members, key))
        return self.residuals[key]


def topk_hook(state: TopkState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Average a bucket by top-k all_reduce; what has no top-k (float64, integers) is averaged densely."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    if not isinstance(group, Reductions):
        raise CollectiveCoreError(
            Result.INVALID_USAGE,
            "topk_hook needs a process group of backend ccore: init_process_group('ccore')",
        )
    buffer = bucket.buffer()
    dense = state.steps < state.warmup_steps
    if bucket.is_last():
        state.steps += 1
    if dense or buffer.dtype not in _COMPRESSIBLE:
        buffer.div_(dist.get_world_size(state.process_group))
        return _first(group.allreduce([buffer]))
    residual = state.residual(bucket) if state.error_feedback else None
    return _first(group.topk_allreduce(buffer, residual, state.topk, average=True))


def fp16_hook(process_group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Average a bucket in float16. Divides before the cast, so that the sum of many ranks does not overflow."""
    group = process_group if process_group is not None else dist.group.WORLD
    buffer: torch.Tensor = bucket.buffer()
    halves = buffer.div(dist.get_world_size(group)).to(torch.float16)
    future = dist.all_reduce(halves, group=group, async_op=True).get_future()

    def widen(done: torch.futures.Future[Any]) -> torch.Tensor:
        buffer.copy_(done.value()[0])
        return buffer

    widened: torch.futures.Future[torch.Tensor] = future.then(widen)
    return widened


def from_environment(model: Any, process_group: Any = None) -> TopkState | None:
    """Register `topk_hook` on a DistributedDataParallel if CCORE_TOPK_ALLREDUCE (LIGHT_TOPK_ALLREDUCE) is 1.

    It reduces over the model's own group, or the one given. Returns its state, or None if nothing was registered.
    """
    if not environment.flag("CCORE_TOPK_ALLREDUCE", fallback=False):
        return None
    state = TopkState(model.process_group if process_group is None else process_group)
    model.register_comm_hook(state, topk_hook)
    return state


def _first(work: Any) -> torch.futures.Future[torch.Tensor]:
    first: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: done.value()[0])
    return first
