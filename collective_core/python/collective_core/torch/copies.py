"""torch's calls that move data without arithmetic: broadcast, gathers, scatter, all_to_all, barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from collective_core.torch.operations import Operations, check_blocks, check_one_per_rank, joined, spread
from collective_core.torch.tensors import (
    as_dense,
    copy_back,
    count_of_one,
    empty_on_host,
    for_copy,
    landing,
    only_one,
    refuse,
)
from collective_core.torch.work import CcoreWork


class Copies(Operations):
    """Mixed into the process group."""

    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> CcoreWork:
        """Copy the root's tensor to all."""
        tensor = only_one(tensors)
        return self._submit(
            "broadcast", opts, lambda limit: [self._broadcast(tensor, opts.rootRank, limit)], tensors
        )

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Collect one tensor per rank into a list on every rank."""
        listed, tensor = list(outputs[0]), only_one(inputs)
        if len({output.numel() for output in listed}) > 1:
            return self._submit(
                "all_gather", opts, lambda limit: [self._gather_uneven(listed, tensor, limit)], inputs
            )
        check_one_per_rank(listed, tensor, self._communicator.size)
        return self._submit(
            "all_gather", opts, lambda limit: [self._gather_list(listed, tensor, limit)], inputs
        )

    def _gather_uneven(
        self, outputs: list[torch.Tensor], source: torch.Tensor, limit: float | None
    ) -> list[torch.Tensor]:
        joined = empty_on_host(source, (sum(output.numel() for output in outputs),))
        counts = [count_of_one(joined) * output.numel() for output in outputs]
        self._communicator.all_gatherv(for_copy(as_dense(source)), for_copy(joined), counts, limit)
        spread(joined, outputs)
        return outputs

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Collect several tensors per rank; outputs[r] is what rank r gave."""
        by_input = [[row[i] for row in outputs] for i in range(len(inputs))]
        listed = list(inputs)
        return self._submit(
            "all_gather of several",
            opts,
            lambda limit: [self._gather_list(by_input[i], one, limit) for i, one in enumerate(listed)],
            listed,
        )

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CcoreWork:
        """Collect one block per rank into one tensor."""
        check_blocks(output, input, self._communicator.size)
        return self._submit("all_gather", opts, lambda limit: [self._gather(output, input, limit)], [input])

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Run several all_gather_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            check_blocks(output, source, self._communicator.size)
        return self._submit(
            "all_gather of several",
            opts,
            lambda limit: [self._gather(output, source, limit) for output, source in pairs],
            inputs,
        )

    def gather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> CcoreWork:
        """Collect one tensor per rank on the root."""
        tensor = only_one(inputs)
        listed = list(outputs[0]) if outputs and self._communicator.rank == opts.rootRank else []
        if self._communicator.rank == opts.rootRank:
            check_one_per_rank(listed, tensor, self._communicator.size)

        def run(limit: float | None) -> list[torch.Tensor]:
            joined = empty_on_host(tensor, (len(listed), *tensor.shape))
            self._communicator.gather(for_copy(as_dense(tensor)), for_copy(joined), opts.rootRank, limit)
            spread(joined, listed)
            return listed

        return self._submit("gather", opts, run, inputs)

    def scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any
    ) -> CcoreWork:
        """Give each rank one tensor of the root's list."""
        output = only_one(outputs)
        blocks = list(inputs[0]) if inputs and self._communicator.rank == opts.rootRank else []
        if self._communicator.rank == opts.rootRank:
            check_one_per_rank(blocks, output, self._communicator.size)

        def run(limit: float | None) -> list[torch.Tensor]:
            target = landing(output)
            source = as_dense(joined(blocks)) if blocks else target
            self._communicator.scatter(for_copy(source), for_copy(target), opts.rootRank, limit)
            copy_back(output, target)
            return [output]

        return self._submit("scatter", opts, run, blocks or outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> CcoreWork:
        """Exchange blocks between all ranks; split sizes are in rows, none means equal blocks."""
        sent = self._split(input, input_split_sizes)
        received = self._split(output, output_split_sizes)
        even = not input_split_sizes and not output_split_sizes

        def run(limit: float | None) -> list[torch.Tensor]:
            target, source = landing(output), as_dense(input)
            unit = count_of_one(source)
            self._communicator.all_to_all(
                for_copy(source),
                for_copy(target),
                None if even else [unit * count for count in sent],
                None if even else [unit * count for count in received],
                limit,
            )
            copy_back(output, target)
            return [output]

        return self._submit("all_to_all", opts, run, [input])

    def _split(self, tensor: torch.Tensor, rows: Sequence[int]) -> list[int]:
        """Elements of each rank's block."""
        size = self._communicator.size
        if not rows:
            if tensor.numel() % size:
                raise refuse(f"all_to_all without split sizes needs tensors that {size} ranks divide")
            return [tensor.numel() // size] * size
        first = tensor.shape[0] if tensor.dim() else 1
        if len(rows) != size or sum(rows) != first or min(rows) < 0:
            raise refuse(f"the split sizes {list(rows)} do not cut {first} rows into {size} blocks")
        return [count * (tensor.numel() // max(1, first)) for count in rows]

    def alltoall(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Exchange lists of tensors between all ranks; each pair of ranks has its own size."""
        targets, blocks = list(outputs), list(inputs)
        if len(targets) != self._communicator.size or len(blocks) != self._communicator.size:
            raise refuse(f"expected one tensor per rank ({self._communicator.size}) in both lists")
        if len({tensor.dtype for tensor in (*targets, *blocks)}) != 1:
            raise refuse("the tensors must agree in type")

        def run(limit: float | None) -> list[torch.Tensor]:
            mine = as_dense(torch.cat([block.detach().flatten() for block in blocks]))
            others = empty_on_host(targets[0], (sum(target.numel() for target in targets),))
            source, target = for_copy(mine), for_copy(others)
            unit = count_of_one(mine)
            self._communicator.all_to_all(
                source,
                target,
                [unit * block.numel() for block in blocks],
                [unit * one.numel() for one in targets],
                limit,
            )
            spread(others, targets)
            return targets

        return self._submit("all_to_all", opts, run, blocks)

    def barrier(self, opts: Any = None) -> CcoreWork:
        """Complete when all ranks have called it."""

        def run(limit: float | None) -> list[torch.Tensor]:
            self._communicator.barrier(limit)
            return []

        return self._submit("barrier", opts, run)

    # Their names in torch before 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single
