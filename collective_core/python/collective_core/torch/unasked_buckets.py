"""Tune the bucket size of DistributedDataParallel while a script trains that knows nothing of it.

`bucket_tuning.tuned_ddp` does the same for a script that calls it. Here the steps are those of the script: between two
steps of the optimizer, its DDP gets the Reducer of a DDP that was made with another bucket size.
"""

from __future__ import annotations

import inspect
import logging
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook

from collective_core import environment
from collective_core.bucket_tuning import CANDIDATES, BucketTuner, Cap, distinct, slowest

WARMUP, SAMPLES = 3, 10
"""Steps with each bucket size: DDP arranges its buckets in the first two, and the median of the others counts."""
_SIMPLE = frozenset(
    {"self", "module", "device_ids", "output_device", "dim", "broadcast_buffers", "forward_sync_buffers",
     "process_group", "find_unused_parameters", "gradient_as_bucket_view"}
)  # fmt: skip
"""Arguments of a DDP whose buckets may change; with any other the script has its own idea of them."""
_OF_BUCKETS = frozenset(
    {"reducer", "logger", "bucket_bytes_cap", "bucket_bytes_cap_list", "bucket_bytes_cap_default", "_bucket_config",
     "_has_rebuilt_buckets"}
)  # fmt: skip
"""Attributes of a DDP that belong to its buckets, in the releases of torch that have them."""
_logger = logging.getLogger("collective_core")
_tunings: list[Tuning] = []


class Tuning:
    """The search for the bucket size of one DDP. All ranks count the same steps, so they change it together."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        renew: Callable[[DistributedDataParallel, Cap], DistributedDataParallel],
        candidates: Sequence[Cap],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take a DDP with torch's default, and what makes another one like it around its module."""
        self._ddp = weakref.ref(ddp)
        self._renew = renew
        self._clock = clock
        self._tuner = BucketTuner(candidates)
        self._trained = _trained_by(ddp)
        self._cap: Cap = self._tuner.pending()[0]
        self._steps = 0
        self._began = clock()
        self._taken: list[float] = []

    def has_ended(self) -> bool:
        """Return whether the script has dropped its DDP."""
        return self._ddp() is None

    def is_stepped_by(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether the optimizer has all that this DDP trains: then its step ends a training step."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return self._trained <= held

    def end_step(self) -> bool:
        """Take the time of a step, and change the buckets if it was the last with them. Returns whether to go on."""
        ddp = self._ddp()
        if ddp is None:
            return False
        if reason := _unfit(ddp, self._trained):
            self._log(ddp, f"stays {self._cap or 'the default'}: {reason}")
            return False
        device = next(ddp.parameters()).device
        if device.type == "cuda":  # the host is ahead of the GPU
            torch.cuda.synchronize(device)
        now = self._clock()
        if self._steps >= WARMUP:
            self._taken.append(now - self._began)
        self._began = now
        self._steps += 1
        if len(self._taken) < SAMPLES:
            return True
        self._tuner.record(self._cap, slowest(sorted(self._taken)[SAMPLES // 2], ddp))
        pending = self._tuner.pending()
        wanted = pending[0] if pending else self._tuner.best
        if wanted != self._cap and not self._give(ddp, wanted):
            return False
        self._cap, self._steps, self._taken = wanted, 0, []
        self._began = self._clock()
        if not pending:
            times = ", ".join(
                f"{cap or 'default'}: {1e3 * s:.2f} ms" for cap, s in self._tuner.times_s.items()
            )
            self._log(ddp, f"is {wanted or 'the default'}; a step takes {times}")
        return bool(pending)

    def _give(self, ddp: DistributedDataParallel, cap: Cap) -> bool:
        """Put the buckets of another DDP into this one, on all ranks or none; returns whether it has them.

        The old Reducer takes its hooks off the parameters as it goes.
        """
        fresh: DistributedDataParallel | None = None
        missing = ""
        try:
            fresh = self._renew(ddp, cap)
        except RuntimeError as error:
            # Such as torch.OutOfMemoryError: for a moment there are two sets of buckets.
            missing = str(error).partition("\n")[0]
        if fresh is None:
            _logger.warning("collective_core: bucket_cap_mb of DDP cannot become %s: %s", cap, missing)
        if slowest(float(fresh is None), ddp) or fresh is None:
            self._log(ddp, f"stays {self._cap or 'the default'}: a rank could not make other buckets")
            return False
        vars(ddp).update({name: value for name, value in vars(fresh).items() if name in _OF_BUCKETS})
        return True

    def _log(self, ddp: DistributedDataParallel, text: str) -> None:
        if ddp.process_group.rank() == 0:
            _logger.info("collective_core: bucket_cap_mb of DDP %s", text)


def serve() -> None:
    """Tune every DDP that is made with torch's default buckets; called once."""
    original: Any = DistributedDataParallel.__init__
    signature = inspect.signature(original)
    if "init_sync" not in signature.parameters:
        return  # torch 2.4: rank 0's parameters and buffers would replace those of others with each change

    def init(self: DistributedDataParallel, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        options = signature.bind(self, *given, **named).arguments
        if type(self) is not DistributedDataParallel or not options.keys() <= _SIMPLE:
            return
        del options["self"], options["module"]
        options["init_sync"] = False  # rank 0's parameters and buffers must not replace those of others

        def renew(ddp: DistributedDataParallel, cap: Cap) -> DistributedDataParallel:
            fresh = DistributedDataParallel.__new__(DistributedDataParallel)
            original(fresh, ddp.module, **options, **({} if cap is None else {"bucket_cap_mb": cap}))
            return fresh

        _consider(self, renew)

    init.__wrapped__ = original  # type: ignore[attr-defined]  # for inspect, which shows torch's own arguments
    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
    register_optimizer_step_post_hook(_after_step)


def _consider(
    ddp: DistributedDataParallel, renew: Callable[[DistributedDataParallel, Cap], DistributedDataParallel]
) -> None:
    _tunings[:] = [one for one in _tunings if not one.has_ended()]
    candidates = distinct(CANDIDATES, ddp.module)
    trained = sum(parameter.requires_grad for parameter in ddp.module.parameters())
    # A rank of an optimizer that is spread over the ranks may hold a single parameter, but not two.
    alone = ddp.process_group.size() < 2 or trained < 2
    if not (alone or len(candidates) < 2 or environment.flag("CCORE_BUCKET_TUNE_DISABLE", fallback=False)):
        _tunings.append(Tuning(ddp, renew, candidates))


def _trained_by(ddp: DistributedDataParallel) -> set[int]:
    return {id(parameter) for parameter in ddp.module.parameters() if parameter.requires_grad}


def _unfit(ddp: Any, trained: set[int]) -> str:
    """Return why another Reducer would lose what the script has asked for since, or ""; equal on all ranks."""
    reasons = {
        "it has a communication hook": ddp._comm_hooks or ddp._get_ddp_logging_data().get("comm_hook"),
        "its graph is static": ddp.static_graph,
        "it is inside join()": ddp._join_config.enable,
        "it reduces in Python": getattr(ddp, "_use_python_reducer", False),
        "other parameters are trained now": _trained_by(ddp) != trained,
        "results are to be reproducible": torch.are_deterministic_algorithms_enabled()
        or torch.backends.cudnn.deterministic,
        "a CUDA graph is captured": torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        and torch.cuda.is_current_stream_capturing(),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


def _after_step(optimizer: torch.optim.Optimizer, _given: Any, _named: Any) -> None:
    for tuning in [one for one in _tunings if one.is_stepped_by(optimizer)]:
        if not tuning.end_step():
            _tunings.remove(tuning)
