"""torch's reductions: all_reduce, reduce, reduce_scatter, each in all its forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from collective_core.topk import Residual, Topk
from collective_core.torch.exchange import combined, combiner
from collective_core.torch.operations import (
    Operations,
    check_blocks,
    check_one_per_rank,
    joined,
    reduction_of,
)
from collective_core.torch.tensors import as_dense, as_it_reads, copy_back, for_reduction, only_one
from collective_core.torch.work import CcoreWork


class Reductions(Operations):
    """Mixed into the process group."""

    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> CcoreWork:
        """Reduce one tensor over all ranks, in place."""
        tensor = only_one(tensors)
        return self._submit(
            "all_reduce", opts, lambda limit: [self._reduce(tensor, reduction_of(opts), limit)], tensors
        )

    def topk_allreduce(
        self, tensor: torch.Tensor, residual: Residual | None, topk: Topk, *, average: bool, opts: Any = None
    ) -> CcoreWork:
        """Reduce one tensor over all ranks, in place, by Communicator.topk_all_reduce."""
        op = dist.ReduceOp.AVG if average else dist.ReduceOp.SUM

        def run(limit: float | None) -> list[torch.Tensor]:
            if tensor.is_cuda and self._topk_on_device(tensor, residual, topk, op, limit):
                return [tensor]
            dense = as_dense(tensor)
            buffer, redop = for_reduction(dense, op)
            self._communicator.topk_all_reduce(buffer, buffer, residual, topk, redop, limit)
            copy_back(tensor, dense)
            return [tensor]

        return self._submit("topk_all_reduce", opts, run, [tensor])

    def _topk_on_device(
        self, tensor: torch.Tensor, residual: Residual | None, topk: Topk, op: object, limit: float | None
    ) -> bool:
        """Reduce a CUDA tensor without a copy of all of it on the host; False, on every rank, if that is impossible."""
        dense = as_it_reads(tensor).contiguous()
        buffer, redop = for_reduction(dense, op)
        if not self._communicator.topk_plan(buffer.count, buffer.dtype, topk).compressed:
            self._reduce(tensor, op, limit)
            return True
        if not self._cuda_nodes.topk_all_reduce(dense, buffer, residual, topk, redop, limit):
            return False
        copy_back(tensor, dense)
        return True

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> CcoreWork:
        """Reduce several tensors as one operation."""
        listed = list(tensors)
        return self._submit(
            "all_reduce of several",
            opts,
            lambda limit: [self._reduce(one, reduction_of(opts), limit) for one in listed],
            listed,
        )

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> CcoreWork:
        """Reduce to the root; the tensors of the others stay as they are."""
        tensor = only_one(tensors)

        def run(limit: float | None) -> list[torch.Tensor]:
            dense = as_dense(tensor)
            if (combine := combiner(dense.dtype, opts.reduceOp)) is not None:
                result = combined(self._communicator, dense, combine, limit)
                dense = result if self._communicator.rank == opts.rootRank else dense
            else:
                buffer, redop = for_reduction(dense, opts.reduceOp)
                self._communicator.reduce(buffer, buffer, opts.rootRank, redop, limit)
            copy_back(tensor, dense)
            return [tensor]

        return self._submit("reduce", opts, run, tensors)

    def reduce_scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any = None
    ) -> CcoreWork:
        """Reduce a list with one tensor per rank; each rank keeps its own."""
        output, blocks = only_one(outputs), list(inputs[0])
        check_one_per_rank(blocks, output, self._communicator.size)
        return self._submit(
            "reduce_scatter",
            opts,
            lambda limit: [self._reduce_scatter(output, joined(blocks), reduction_of(opts), limit)],
            blocks,
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CcoreWork:
        """Reduce a tensor of one block per rank; each rank keeps its block."""
        check_blocks(input, output, self._communicator.size)
        return self._submit(
            "reduce_scatter",
            opts,
            lambda limit: [self._reduce_scatter(output, input, reduction_of(opts), limit)],
            [input],
        )

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Run several reduce_scatter_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            check_blocks(source, output, self._communicator.size)
        return self._submit(
            "reduce_scatter of several",
            opts,
            lambda limit: [
                self._reduce_scatter(output, source, reduction_of(opts), limit) for output, source in pairs
            ],
            inputs,
        )

    # Their names in torch before 2.13.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
