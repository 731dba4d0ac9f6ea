"""torch's reductions: all_reduce, reduce, reduce_scatter, each in all its forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from collective_core.topk import Residual, Topk
from collective_core.torch.cuda_library import (
    ALL_REDUCE,
    REDUCE_SCATTER,
    Batch,
    call,
    collective,
    collectives,
)
from collective_core.torch.exchange import combined, combiner
from collective_core.torch.operations import (
    Operations,
    check_blocks,
    check_one_per_rank,
    check_own_block,
    joined,
    reduction_of,
)
from collective_core.torch.plain_forms import with_plain_form
from collective_core.torch.tensors import (
    copy_back,
    dtype_of,
    for_reduction,
    only_one,
    op_code,
    plain_reduction,
    scaled,
)
from collective_core.torch.ways import HostWay, Way
from collective_core.torch.work import WorkBase


class Reductions(Operations):
    """Mixed into the process group."""

    @with_plain_form(dist.AllreduceOptions, (1,), "op")
    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> WorkBase:
        """Reduce one tensor over all ranks, in place."""
        tensor = only_one(tensors)
        if (batch := self._reduction(ALL_REDUCE, tensor, tensor, opts)) is not None:
            return self._run("all_reduce", opts, batch, [], [tensor])
        return self._submit(
            "all_reduce",
            opts,
            lambda way: [self._reduce(way, tensor, reduction_of(opts))],
            tensors,
            needs_host=_is_sparse(tensors),
        )

    def topk_allreduce(
        self, tensor: torch.Tensor, residual: Residual | None, topk: Topk, *, average: bool, opts: Any = None
    ) -> WorkBase:
        """Reduce one tensor over all ranks, in place, by Communicator.topk_all_reduce."""
        op = dist.ReduceOp.AVG if average else dist.ReduceOp.SUM
        count = tensor.numel()
        if tensor.is_cuda and not self._communicator.topk_plan(count, dtype_of(tensor), topk).compressed:
            return self._submit("all_reduce", opts, lambda way: [self._reduce(way, tensor, op)], [tensor])

        def run(way: Way) -> list[torch.Tensor]:
            assert isinstance(way, HostWay)
            nodes_way = self._between_nodes(way)
            dense = nodes_way.dense(tensor)
            nodes_way.topk_all_reduce(*for_reduction(dense, op), residual, topk)
            copy_back(tensor, dense)
            return [tensor]

        return self._submit("topk_all_reduce", opts, run, [tensor], needs_host=True)

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WorkBase:
        """Reduce several tensors as one operation."""
        listed = list(tensors)
        if (batch := self._reductions(ALL_REDUCE, listed, listed, opts)) is not None:
            return self._run("all_reduce of several", opts, batch, [], listed)
        return self._submit(
            "all_reduce of several",
            opts,
            lambda way: [self._reduce(way, one, reduction_of(opts)) for one in listed],
            listed,
            needs_host=_is_sparse(listed),
        )

    @with_plain_form(dist.ReduceOptions, (1,), "root", "op")
    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> WorkBase:
        """Reduce to the root; the tensors of the others stay as they are."""
        tensor = only_one(tensors)

        def run(way: Way) -> list[torch.Tensor]:
            dense, op = scaled(way.dense(tensor), opts.reduceOp)
            if (combine := combiner(dense.dtype, op)) is not None:
                dense = combined(way, dense, combine)
            else:
                buffer, redop = for_reduction(dense, op)
                way.reduce(buffer, opts.rootRank, redop)
            if way.rank == opts.rootRank:
                copy_back(tensor, dense)
            return [tensor]

        return self._submit("reduce", opts, run, tensors)

    @with_plain_form(dist.ReduceScatterOptions, (1, 2), "op")
    def reduce_scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any
    ) -> WorkBase:
        """Reduce a list with one tensor per rank; each rank keeps its own. The tensors may differ in size."""
        output, blocks = only_one(outputs), list(inputs[0])
        if len({block.numel() for block in blocks}) > 1:
            rank = self._communicator.rank
            check_own_block(blocks, output, rank, self._communicator.size)
            return self._submit(
                "reduce_scatter",
                opts,
                lambda way: [self._reduce_scatter_uneven(way, output, blocks, reduction_of(opts))],
                blocks,
            )
        check_one_per_rank(blocks, output, self._communicator.size)
        return self._submit(
            "reduce_scatter",
            opts,
            lambda way: [self._reduce_scatter(way, output, joined(blocks), reduction_of(opts))],
            blocks,
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> WorkBase:
        """Reduce a tensor of one block per rank; each rank keeps its block."""
        check_blocks(input, output, self._communicator.size)
        if (batch := self._reduction(REDUCE_SCATTER, input, output, opts)) is not None:
            return self._run("reduce_scatter", opts, batch, [input], [output])
        return self._submit(
            "reduce_scatter",
            opts,
            lambda way: [self._reduce_scatter(way, output, input, reduction_of(opts))],
            [input],
        )

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WorkBase:
        """Run several reduce_scatter_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            check_blocks(source, output, self._communicator.size)
        if (batch := self._reductions(REDUCE_SCATTER, inputs, outputs, opts)) is not None:
            return self._run("reduce_scatter of several", opts, batch, inputs, list(outputs))
        return self._submit(
            "reduce_scatter of several",
            opts,
            lambda way: [
                self._reduce_scatter(way, output, source, reduction_of(opts)) for output, source in pairs
            ],
            inputs,
        )

    def _reduction(self, number: int, source: torch.Tensor, target: torch.Tensor, opts: Any) -> Batch | None:
        """Return the library's reduction of tensors on a device; None if it does not take them as they are."""
        if not self._cuda.takes(target) or not (source is target or self._cuda.takes(source)):
            return None
        kind = plain_reduction(target.dtype, op_code(reduction_of(opts)))
        if kind is None:
            return None
        output = target.data_ptr()
        return collective(
            call(number, output if source is target else source.data_ptr(), output, target.numel(), *kind)
        )

    def _reductions(
        self, number: int, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], opts: Any
    ) -> Batch | None:
        """Return several, as above."""
        if not self._cuda.takes(*targets, *sources):
            return None
        code = op_code(reduction_of(opts))
        calls = []
        for source, target in zip(sources, targets, strict=True):
            if (kind := plain_reduction(target.dtype, code)) is None:
                return None
            calls.append(call(number, source.data_ptr(), target.data_ptr(), target.numel(), *kind))
        return collectives(*calls)

    def _reduce_scatter_uneven(
        self, way: Way, output: torch.Tensor, blocks: Sequence[torch.Tensor], op: object
    ) -> torch.Tensor:
        # Reduced whole: the library scatters blocks of one size.
        whole = torch.cat([block.detach().flatten() for block in blocks])
        begin = sum(block.numel() for block in blocks[: way.rank])
        own = self._reduce(way, whole, op)[begin : begin + output.numel()]
        copy_back(output, own.view(output.shape))
        return output

    # Their names in torch before 2.13.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _is_sparse(tensors: Sequence[torch.Tensor]) -> bool:
    return any(tensor.layout != torch.strided for tensor in tensors)
