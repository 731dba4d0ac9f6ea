"""torch's calls that move data without arithmetic: broadcast, gathers, scatter, all_to_all, barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import distributed_c10d

from collective_core.torch.cuda_library import ALL_GATHER, BROADCAST, call, collective, collectives, transfers
from collective_core.torch.operations import Operations, check_blocks, check_one_per_rank, joined, spread
from collective_core.torch.plain_forms import with_plain_form
from collective_core.torch.tensors import copy_back, count_of_one, for_copy, only_one, refuse
from collective_core.torch.ways import HostWay, Way, moves_of_all_to_all
from collective_core.torch.work import WorkBase

# Any: torch exports some of these options only in this module, and its stubs lack them.
_c10d: Any = distributed_c10d


class Copies(Operations):
    """Mixed into the process group."""

    @with_plain_form(_c10d.BroadcastOptions, (1,), "root")
    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> WorkBase:
        """Copy the root's tensor to all."""
        tensor = only_one(tensors)
        if self._cuda.takes(tensor):
            return self._run(
                "broadcast",
                opts,
                collective(_copy_call(BROADCAST, tensor, tensor, opts.rootRank)),
                [],
                [tensor],
            )
        return self._submit(
            "broadcast", opts, lambda way: [self._broadcast(way, tensor, opts.rootRank)], tensors
        )

    @with_plain_form(_c10d.AllgatherOptions, (2, 1))
    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> WorkBase:
        """Collect one tensor per rank into a list on every rank."""
        listed, tensor = list(outputs[0]), only_one(inputs)
        if len({output.numel() for output in listed}) > 1:
            return self._submit("all_gather", opts, lambda way: [_gather_uneven(way, listed, tensor)], inputs)
        check_one_per_rank(listed, tensor, self._communicator.size)
        return self._submit("all_gather", opts, lambda way: [self._gather_list(way, listed, tensor)], inputs)

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WorkBase:
        """Collect several tensors per rank; outputs[r] is what rank r gave."""
        by_input = [[row[i] for row in outputs] for i in range(len(inputs))]
        listed = list(inputs)
        return self._submit(
            "all_gather of several",
            opts,
            lambda way: [self._gather_list(way, by_input[i], one) for i, one in enumerate(listed)],
            listed,
        )

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> WorkBase:
        """Collect one block per rank into one tensor."""
        check_blocks(output, input, self._communicator.size)
        if self._cuda.takes(output, input):
            batch = collective(_copy_call(ALL_GATHER, input, output))
            return self._run("all_gather", opts, batch, [input], [output])
        return self._submit("all_gather", opts, lambda way: [self._gather(way, output, input)], [input])

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WorkBase:
        """Run several all_gather_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            check_blocks(output, source, self._communicator.size)
        if self._cuda.takes(*outputs, *inputs):
            batch = collectives(*(_copy_call(ALL_GATHER, source, output) for output, source in pairs))
            return self._run("all_gather of several", opts, batch, inputs, list(outputs))
        return self._submit(
            "all_gather of several",
            opts,
            lambda way: [self._gather(way, output, source) for output, source in pairs],
            inputs,
        )

    @with_plain_form(_c10d.GatherOptions, (2, 1), "root")
    def gather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> WorkBase:
        """Collect one tensor per rank on the root."""
        tensor = only_one(inputs)
        listed = list(outputs[0]) if outputs and self._communicator.rank == opts.rootRank else []
        if self._communicator.rank == opts.rootRank:
            check_one_per_rank(listed, tensor, self._communicator.size)

        def run(way: Way) -> list[torch.Tensor]:
            joined = way.empty(tensor, (len(listed), *tensor.shape))
            way.gather(for_copy(way.dense(tensor)), for_copy(joined), opts.rootRank)
            spread(joined, listed)
            return listed

        return self._submit("gather", opts, run, inputs)

    @with_plain_form(_c10d.ScatterOptions, (1, 2), "root")
    def scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any
    ) -> WorkBase:
        """Give each rank one tensor of the root's list."""
        output = only_one(outputs)
        blocks = list(inputs[0]) if inputs and self._communicator.rank == opts.rootRank else []
        if self._communicator.rank == opts.rootRank:
            check_one_per_rank(blocks, output, self._communicator.size)

        def run(way: Way) -> list[torch.Tensor]:
            target = way.landing(output)
            source = way.dense(joined(blocks)) if blocks else target
            way.scatter(for_copy(source), for_copy(target), opts.rootRank)
            copy_back(output, target)
            return [output]

        return self._submit("scatter", opts, run, blocks or outputs)

    @with_plain_form(_c10d.AllToAllOptions, (0, 0, 0, 0))
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any,
    ) -> WorkBase:
        """Exchange blocks between all ranks; split sizes are in rows, none means equal blocks."""
        sent = self._split(input, input_split_sizes)
        received = self._split(output, output_split_sizes)
        even = not input_split_sizes and not output_split_sizes
        if self._cuda.takes(output, input):
            moves = moves_of_all_to_all(
                self._communicator.size,
                for_copy(input),
                for_copy(output),
                [count_of_one(input) * count for count in sent],
                [count_of_one(output) * count for count in received],
            )
            return self._run("all_to_all", opts, transfers(moves), [input], [output])

        def run(way: Way) -> list[torch.Tensor]:
            target, source = way.landing(output), way.dense(input)
            unit = count_of_one(source)
            way.all_to_all(
                for_copy(source),
                for_copy(target),
                None if even else [unit * count for count in sent],
                None if even else [unit * count for count in received],
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

    @with_plain_form(_c10d.AllToAllOptions, (1, 1))
    def alltoall(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any
    ) -> WorkBase:
        """Exchange lists of tensors between all ranks; each pair of ranks has its own size."""
        targets, blocks = list(outputs), list(inputs)
        if len(targets) != self._communicator.size or len(blocks) != self._communicator.size:
            raise refuse(f"expected one tensor per rank ({self._communicator.size}) in both lists")
        if len({tensor.dtype for tensor in (*targets, *blocks)}) != 1:
            raise refuse("the tensors must agree in type")

        def run(way: Way) -> list[torch.Tensor]:
            mine = way.dense(torch.cat([block.detach().flatten() for block in blocks]))
            others = way.empty(targets[0], (sum(target.numel() for target in targets),))
            unit = count_of_one(mine)
            way.all_to_all(
                for_copy(mine),
                for_copy(others),
                [unit * block.numel() for block in blocks],
                [unit * one.numel() for one in targets],
            )
            spread(others, targets)
            return targets

        return self._submit("all_to_all", opts, run, blocks)

    @with_plain_form(_c10d.BarrierOptions, ())
    def barrier(self, opts: Any) -> WorkBase:
        """Complete when all ranks have called it, and what they had called and queued before on CUDA has ended."""
        marker = self._cuda.marker() if self._cuda.is_used else None

        def run(way: Way) -> list[torch.Tensor]:
            limit = way.limit if isinstance(way, HostWay) else None
            if marker is not None:
                self._cuda.settle(marker, limit)
            self._communicator.barrier(limit)
            return []

        return self._submit("barrier", opts, run)

    # Their names in torch before 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single


def _copy_call(number: int, source: torch.Tensor, target: torch.Tensor, root: int = 0) -> bytes:
    """Return the cc_cuda_call of the library's copy of a contiguous tensor on a device."""
    buffer = for_copy(source)
    return call(number, buffer.address, target.data_ptr(), buffer.count, int(buffer.dtype), root=root)


def _gather_uneven(way: Way, outputs: list[torch.Tensor], source: torch.Tensor) -> list[torch.Tensor]:
    joined = way.empty(source, (sum(output.numel() for output in outputs),))
    counts = [count_of_one(joined) * output.numel() for output in outputs]
    way.all_gatherv(for_copy(way.dense(source)), for_copy(joined), counts)
    spread(joined, outputs)
    return outputs
