"""Find the bucket size of DistributedDataParallel with which a training step takes least time.

torch fixes buckets when DDP is made and has no public way to change them, so each candidate gets a DDP of its own
around the same model, and is timed over some training steps. These are real steps: nothing is computed in vain, and
the optimizer, which holds the model's parameters, does not notice. What changes with the bucket size is the order in
which gradients are added up, hence the last bits of results; and state that hooks keep by bucket starts again.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from collective_core import environment

_logger = logging.getLogger("collective_core")

# MiB; None is what torch does unasked: 25, and a first bucket of 1.
Cap = float | None
CANDIDATES: tuple[Cap, ...] = (None, 1, 4, 10, 25, 50, 100, 200)


@dataclass(slots=True)
class BucketTuner:
    """Choose which candidate is measured next, and which has won. Pure: the caller passes the times.

    The first candidate is the default. Another wins only if it is faster by `margin`, and is so again when both are
    measured a second time, so that noise does not choose.
    """

    candidates: Sequence[Cap]
    margin: float = 0.02
    times_s: dict[Cap, float] = field(default_factory=dict)
    _again: list[Cap] = field(default_factory=list)
    _second_s: dict[Cap, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an empty or repeated list."""
        if not self.candidates or len(set(self.candidates)) != len(self.candidates):
            raise ValueError(f"expected different bucket sizes, at least one, got {list(self.candidates)}")

    def pending(self) -> list[Cap]:
        """Return what is to be measured; empty when `best` is known."""
        first = [cap for cap in self.candidates if cap not in self.times_s]
        if first or len(self.candidates) == 1:
            return first
        return [cap for cap in self._again if cap not in self._second_s]

    def record(self, cap: Cap, seconds: float) -> None:
        """Take the time of a step with a candidate, the slowest rank's."""
        if cap in self.times_s:
            self._second_s[cap] = seconds
            return
        self.times_s[cap] = seconds
        default = self.candidates[0]
        if len(self.times_s) == len(self.candidates):
            fastest = min(self.candidates, key=lambda one: self.times_s[one])
            if self._is_faster(fastest, self.times_s):
                self._again = [default, fastest]

    def _is_faster(self, cap: Cap, times_s: dict[Cap, float]) -> bool:
        return times_s[cap] < (1 - self.margin) * times_s[self.candidates[0]]

    @property
    def best(self) -> Cap:
        """The winner; of use when nothing is pending."""
        if self._again and self._is_faster(self._again[1], self._second_s):
            return self._again[1]
        return self.candidates[0]


@dataclass(frozen=True, slots=True)
class Tuned:
    """A model in the DDP that was found best, and what was measured: seconds per step of the slowest rank."""

    ddp: DistributedDataParallel
    bucket_cap_mb: Cap
    step_s: dict[Cap, float]


def tuned_ddp(
    model: torch.nn.Module,
    step: Callable[[DistributedDataParallel], object],
    *,
    candidates: Sequence[Cap] = CANDIDATES,
    warmup: int = 3,
    samples: int = 10,
    clock: Callable[[], float] = time.perf_counter,
    **ddp_options: Any,
) -> Tuned:
    """Train the first steps with several bucket sizes and return the model in a DDP of the best; on all ranks.

    `step` does one whole training step with the DDP that it is given: it takes a batch, runs forward and backward, and
    steps the optimizer. It is called (`warmup` + `samples`) times for each candidate, the default first, and for the
    default and the winner once more; candidates that would put all gradients into one bucket are measured once. The
    median counts, of the slowest rank, and rank 0 decides. Gradients are cleared between candidates.

    `ddp_options` are those of DistributedDataParallel, without bucket_cap_mb. CCORE_BUCKET_TUNE_DISABLE=1
    (AIACC_BUCKET_TUNE_DISABLE) returns torch's default at once. Raises ValueError for options that do not fit.
    """
    if "bucket_cap_mb" in ddp_options or "bucket_cap_mb_list" in ddp_options:
        raise ValueError(
            "tuned_ddp chooses the bucket size: leave bucket_cap_mb out, or use DistributedDataParallel"
        )
    if warmup < 1 or samples < 1:
        raise ValueError(
            f"warmup={warmup}, samples={samples}: expected at least 1 of each; DDP rebuilds its buckets once"
        )
    if environment.flag("CCORE_BUCKET_TUNE_DISABLE", fallback=False):
        return Tuned(_wrapped(model, None, ddp_options), None, {})
    tuner = BucketTuner(distinct(candidates, model))
    while pending := tuner.pending():
        cap = pending[0]
        ddp = _wrapped(model, cap, ddp_options)
        seconds = _median_of_steps(ddp, step, warmup, samples, clock)
        tuner.record(cap, slowest(seconds, ddp))
        del ddp
        _forget_wrapper(model)
    best = tuner.best
    _logger.info(
        "bucket_cap_mb %s of %s", best or "default", {cap: f"{s:.6f} s" for cap, s in tuner.times_s.items()}
    )
    return Tuned(_wrapped(model, best, ddp_options), best, tuner.times_s)


def _wrapped(model: torch.nn.Module, cap: Cap, options: dict[str, Any]) -> DistributedDataParallel:
    given = options if cap is None else {**options, "bucket_cap_mb": cap}
    return DistributedDataParallel(model, **given)


def distinct(candidates: Sequence[Cap], model: torch.nn.Module) -> list[Cap]:
    """Leave out all but the first candidate that hold all gradients in one bucket."""
    sizes = [one.numel() * one.element_size() for one in model.parameters() if one.requires_grad]
    whole = sum(sizes) / (1 << 20)
    large = [cap for cap in candidates if cap is not None and cap >= whole]
    return [cap for cap in candidates if cap not in large[1:]]


def _median_of_steps(
    ddp: DistributedDataParallel,
    step: Callable[[DistributedDataParallel], object],
    warmup: int,
    samples: int,
    clock: Callable[[], float],
) -> float:
    device = next(ddp.parameters()).device
    taken = []
    for number in range(warmup + samples):
        began = clock()
        step(ddp)
        if device.type == "cuda":  # the host is ahead of the GPU
            torch.cuda.synchronize(device)
        if number >= warmup:
            taken.append(clock() - began)
    return statistics.median(taken)


def slowest(seconds: float, ddp: DistributedDataParallel) -> float:
    """Return the largest of all ranks' times, as rank 0 has it: equal to the last bit, whatever the backend does."""
    value = torch.tensor([seconds], dtype=torch.float64, device=next(ddp.parameters()).device)
    group = ddp.process_group
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
    dist.broadcast(value, src=dist.get_global_rank(group, 0), group=group)
    return float(value)


def _forget_wrapper(model: torch.nn.Module) -> None:
    """Let a DDP that has no other reference take its hooks off the parameters, before the next puts its own there."""
    for parameter in model.parameters():
        parameter.grad = None  # may be a view into its buckets
    gc.collect()
