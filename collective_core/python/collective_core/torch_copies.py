"""torch's calls that move data without arithmetic: broadcast, gathers, scatter, all_to_all, barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from collective_core.torch_operations import Operations, check_blocks, check_one_per_rank, joined
from collective_core.torch_tensors import only_one
from collective_core.torch_work import CcoreBackendError, CcoreWork


class Copies(Operations):
    """Mixed into the process group."""

    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> CcoreWork:
        """Copy the root's tensor to all."""
        tensor = only_one(tensors)
        return self._submit("broadcast", opts, lambda limit: [self._broadcast(tensor, opts.rootRank, limit)])

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Collect one tensor per rank into a list on every rank."""
        listed, tensor = list(outputs[0]), only_one(inputs)
        check_one_per_rank(listed, tensor, self._communicator.size)
        return self._submit("all_gather", opts, lambda limit: [self._gather_list(listed, tensor, limit)])

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
        )

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CcoreWork:
        """Collect one block per rank into one tensor."""
        check_blocks(output, input, self._communicator.size)
        return self._submit("all_gather", opts, lambda limit: [self._gather(output, input, limit)])

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
        )

    def gather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> CcoreWork:
        """Collect one tensor per rank on the root. Costs an all_gather."""
        tensor = only_one(inputs)
        listed = (
            list(outputs[0])
            if outputs
            else [torch.empty_like(tensor) for _ in range(self._communicator.size)]
        )
        check_one_per_rank(listed, tensor, self._communicator.size)
        return self._submit("gather", opts, lambda limit: [self._gather_list(listed, tensor, limit)])

    def scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any
    ) -> CcoreWork:
        """Give each rank one tensor of the root's list. Costs a broadcast of the whole list."""
        output = only_one(outputs)
        blocks = (
            list(inputs[0])
            if self._communicator.rank == opts.rootRank
            else [output] * self._communicator.size
        )
        check_one_per_rank(blocks, output, self._communicator.size)

        def run(limit: float | None) -> list[torch.Tensor]:
            everything = self._broadcast(joined(blocks), opts.rootRank, limit)
            output.detach().copy_(everything[self._communicator.rank].view(output.shape))
            return [output]

        return self._submit("scatter", opts, run)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> CcoreWork:
        """Exchange equal blocks between all ranks. Costs an all_gather; uneven splits are refused."""
        if len(set(output_split_sizes)) > 1 or len(set(input_split_sizes)) > 1:
            raise CcoreBackendError("the ccore backend has no all_to_all with uneven splits")
        if input.numel() != output.numel() or input.numel() % self._communicator.size:
            raise CcoreBackendError("all_to_all needs equal tensors that the number of ranks divides")

        def run(limit: float | None) -> list[torch.Tensor]:
            everything = torch.empty(
                (self._communicator.size, self._communicator.size, input.numel() // self._communicator.size),
                dtype=input.dtype,
            )
            self._gather(everything, input, limit)
            output.detach().copy_(everything[:, self._communicator.rank].reshape(output.shape))
            return [output]

        return self._submit("all_to_all", opts, run)

    def alltoall(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Exchange lists of equal tensors between all ranks. Costs an all_gather."""
        targets, blocks = list(outputs), list(inputs)
        check_one_per_rank(blocks, targets[0], self._communicator.size)
        check_one_per_rank(targets, blocks[0], self._communicator.size)

        def run(limit: float | None) -> list[torch.Tensor]:
            mine = joined(blocks)
            everything = torch.empty((self._communicator.size, *mine.shape), dtype=mine.dtype)
            self._gather(everything, mine, limit)
            for source, target in enumerate(targets):
                target.detach().copy_(everything[source, self._communicator.rank].view(target.shape))
            return targets

        return self._submit("all_to_all", opts, run)

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
