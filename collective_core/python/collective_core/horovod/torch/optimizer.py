"""The optimizer whose steps use the gradients of all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from collective_core import environment
from collective_core.horovod.common.exceptions import not_supported
from collective_core.horovod.common.process_sets import ProcessSet, global_process_set
from collective_core.horovod.reduce_ops import Adasum, Average, ReduceOp
from collective_core.horovod.requests import Kind
from collective_core.horovod.torch.buckets import Bucket, Named, by_groups, by_size
from collective_core.horovod.torch.calls import submit, synchronize
from collective_core.horovod.torch.compression import Compression, Compressor
from collective_core.horovod.torch.mpi_ops import sparse_allreduce_async
from collective_core.topk import Residual

FUSION_BYTES = 25 << 20


class _Pending:
    """A bucket under way."""

    def __init__(self, handle: int, parts: list[tuple[torch.Tensor, torch.Tensor, torch.dtype]]) -> None:
        self.handle = handle
        self.parts = parts  # gradient, what travels for it, its own type


class Reducer:
    """Reduces gradients bucket by bucket, as backward passes make them.

    The buckets are fixed at construction and start in one order on all ranks, whatever the order of the gradients.
    """

    def __init__(
        self,
        buckets: list[Bucket],
        *,
        compression: type[Compressor],
        passes: int,
        op: ReduceOp,
        predivide: float,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        topk: bool,
    ) -> None:
        """Watch the parameters of the buckets. With `topk`, most of each gradient is sent in a later step."""
        self._buckets = buckets
        self._compression, self._op, self._predivide = compression, op, predivide
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        self._passes = passes
        # Of each bucket, by type; they live as long as the buckets, which never change.
        self._residuals: list[dict[torch.dtype, Residual]] | None = [{} for _ in buckets] if topk else None
        self._left: dict[int, int] = {}
        self._unready: list[int] = []
        self._next = 0
        self._pending: list[_Pending] = []
        self._sparse: list[tuple[torch.nn.Parameter, Callable[[], torch.Tensor]]] = []
        self._densified: list[tuple[torch.nn.Parameter, int]] = []  # with the number of sparse dimensions
        self.reset()
        for place, bucket in enumerate(buckets):
            for _, parameter in bucket:
                watched: Any = parameter  # torch does not type the method
                watched.register_post_accumulate_grad_hook(self._hook(place))

    def reset(self) -> None:
        """Expect a new set of gradients."""
        self._left = {id(parameter): self._passes for bucket in self._buckets for _, parameter in bucket}
        self._unready = [len(bucket) for bucket in self._buckets]
        self._next = 0
        self._pending, self._sparse, self._densified = [], [], []

    def set_passes(self, passes: int) -> None:
        """Change how many backward passes add up to a gradient."""
        if passes < 1:
            raise ValueError(f"backward_passes_per_step={passes}: expected a number of at least 1")
        self._passes = passes
        self.reset()

    def is_under_way(self) -> bool:
        """Tell whether a bucket was started and not waited for."""
        return self._next > 0

    def _hook(self, place: int) -> Callable[[torch.Tensor], None]:
        def made(parameter: torch.Tensor) -> None:
            left = self._left[id(parameter)]
            if left == 0:
                raise AssertionError(
                    "gradients were computed more than backward_passes_per_step times before step(): "
                    "raise backward_passes_per_step to add gradients up on this rank"
                )
            self._left[id(parameter)] = left - 1
            if left == 1:
                self._unready[place] -= 1
                while self._next < len(self._buckets) and self._unready[self._next] == 0:
                    self._start()

        return made

    def _start(self) -> None:
        """Start the next bucket. A parameter that had no gradient on this rank takes part with zeros."""
        place, self._next = self._next, self._next + 1
        parts = []
        for name, parameter in self._buckets[place]:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse and self._sparse_as_dense:
                self._densified.append((parameter, parameter.grad.sparse_dim()))
                parameter.grad = parameter.grad.to_dense()
            if parameter.grad.is_sparse:
                call = sparse_allreduce_async(parameter.grad, f"gradient.{name}", self._op, self._process_set)
                self._sparse.append((parameter, call))
                continue
            parts.append((parameter.grad, *self._compression.compress(parameter.grad)))
        if parts:
            smalls = [small for _, small, _ in parts]
            # By a parameter and not by a number, since one backward pass may be for several optimizers.
            name = f"gradients.{self._buckets[place][0][0]}"
            handle = submit(
                Kind.ALLREDUCE, smalls, self._process_set, name, outputs=list(smalls), one=False,
                op=self._op, prescale=1.0 / self._predivide, postscale=self._predivide,
                residuals=None if self._residuals is None else self._residuals[place],
            )  # fmt: skip
            self._pending.append(_Pending(handle, parts))

    def finish(self) -> None:
        """Start what was not started, wait for all, and leave the reduced gradients in `.grad`."""
        while self._next < len(self._buckets):
            self._start()
        for pending in self._pending:
            synchronize(pending.handle)
            for gradient, small, ctx in pending.parts:
                if small is not gradient:
                    gradient.copy_(self._compression.decompress(small, ctx))
        for parameter, dimensions in self._densified:  # optimizers such as SparseAdam take nothing else
            assert parameter.grad is not None
            parameter.grad = parameter.grad.to_sparse(dimensions)
        for parameter, reduced in self._sparse:
            parameter.grad = reduced()
        self.reset()


class _DistributedMixin:
    """Put before the class of the optimizer that is made distributed."""

    # Any: the methods of the optimizer behind this class in the order of resolution.
    param_groups: list[dict[str, Any]]
    state: dict[torch.Tensor, Any]
    _reducer: Reducer | None
    _should_synchronize: bool
    _synchronized: bool

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change how many backward passes add up to a gradient."""
        if self._reducer is not None:
            self._reducer.set_passes(passes)

    def synchronize(self) -> None:
        """Wait until `.grad` of all parameters holds the reduced gradients, e.g. to clip them before `step`."""
        if self._reducer is not None:
            self._reducer.finish()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let `step` inside of the block not synchronize, because `synchronize` was called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Synchronize, then step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(): the gradients are reduced twice",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        parent: Any = super()
        return parent.step(closure) if closure is not None else parent.step()

    def zero_grad(self, *arguments: Any, **named: Any) -> None:
        """Clear the gradients; raises AssertionError while they are being reduced."""
        if self._reducer is not None and self._reducer.is_under_way():
            raise AssertionError(
                "zero_grad() between backward() and step() or synchronize() would race with them"
            )
        parent: Any = super()
        parent.zero_grad(*arguments, **named)

    def load_state_dict(self, *arguments: Any, **named: Any) -> None:
        """Load, and expect new gradients."""
        if self._reducer is not None:
            self._reducer.reset()
        self._synchronized = False
        parent: Any = super()
        groups, state = self.param_groups, self.state
        parent.load_state_dict(*arguments, **named)
        # torch puts others in their place, which the optimizer that this one was made of, and a schedule of its
        # learning rate, would not see.
        for group, loaded in zip(groups, [dict(one) for one in self.param_groups], strict=True):
            group.clear()
            group.update(loaded)
        loaded_state = dict(self.state)
        state.clear()
        state.update(loaded_state)
        self.param_groups, self.state = groups, state


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the optimizer, of a class derived from its own, that reduces gradients over the ranks before each step.

    It shares parameters, options and state with the one given, so that learning rate schedules of either work.
    Gradients are reduced while backward passes go on, in buckets of at most CCORE_FUSION_BYTES; `groups` chooses
    other buckets. With CCORE_TOPK_ALLREDUCE=1 (LIGHT_TOPK_ALLREDUCE) each bucket is reduced by top-k with error
    feedback where that sends less (docs/algorithms.md). Raises ValueError when names or parameters do not fit,
    NotSupportedError for Adasum.
    """
    reduction = ReduceOp(op)
    if reduction is Adasum:
        raise not_supported("DistributedOptimizer(op=Adasum)", "use op=Average")
    if gradient_predivide_factor != 1.0 and reduction is not Average:
        raise ValueError("gradient_predivide_factor is of use only with op=Average")
    if num_groups:
        warnings.warn("num_groups is Horovod's older name of groups", DeprecationWarning, stacklevel=2)
        groups = groups if groups is not None else num_groups
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step={backward_passes_per_step}: expected at least 1")
    parameters = _named(optimizer, named_parameters)
    limit = environment.integer("CCORE_FUSION_BYTES", FUSION_BYTES, 0, 1 << 40)
    buckets = by_groups(parameters, groups, limit) if groups else by_size(parameters, limit)
    base = type(optimizer)
    made: Any = type(base.__name__, (_DistributedMixin, base), {"__module__": __name__})
    distributed: Any = made.__new__(made)
    # A schedule that was made before has put its own `step` into the optimizer; ours must not be hidden by it.
    distributed.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    distributed._should_synchronize, distributed._synchronized = True, False
    distributed._parameter_names = {parameter: name for name, parameter in parameters}
    distributed._reducer = None
    if process_set.included() and process_set.size() > 1:
        distributed._reducer = Reducer(
            buckets,
            compression=compression,
            passes=backward_passes_per_step,
            op=reduction,
            predivide=gradient_predivide_factor,
            sparse_as_dense=sparse_as_dense,
            process_set=process_set,
            topk=environment.flag("CCORE_TOPK_ALLREDUCE", fallback=False),
        )
    return distributed


def _named(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None
) -> list[Named]:
    """Return the parameters of the optimizer that need gradients, in the model's order, with their names."""
    of_optimizer = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        given = [(f"noname.{place}", parameter) for place, parameter in enumerate(of_optimizer)]
    else:
        given = list(named_parameters)
    if any(not isinstance(entry, tuple) for entry in given):
        raise ValueError(
            "named_parameters must be pairs of a name and a parameter, as model.named_parameters()"
        )
    names = [name for name, _ in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of named_parameters must differ: {', '.join(twice)}")
    known = {id(parameter) for _, parameter in given}
    missing = sum(id(parameter) not in known for parameter in of_optimizer)
    if missing:
        raise ValueError(
            f"named_parameters lacks {missing} of the optimizer's {len(of_optimizer)} parameters"
        )
    in_optimizer = {id(parameter) for parameter in of_optimizer}
    return [(name, one) for name, one in given if one.requires_grad and id(one) in in_optimizer]
