"""The collectives of Horovod on tensors, by those of the communicator. Runs on the thread of a process set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from collective_core.horovod.devices import Devices
from collective_core.horovod.reduce_ops import ReduceOp
from collective_core.horovod.requests import Kind, Request
from collective_core.topk import Residual, Topk
from collective_core.torch.tensors import count_of_one, for_copy, for_reduction
from collective_core.torch.ways import HostWay, Way

Tensors = list[torch.Tensor]
_OPS = {
    ReduceOp.AVERAGE: dist.ReduceOp.AVG,
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
    ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
}


def run(devices: Devices, request: Request, extents: list[list[int]]) -> Tensors:
    """Run it and return the results, which are the request's outputs if it has any.

    `extents`: for each rank, what `Request.extents` is there.
    """

    def body(way: Way) -> Tensors:
        results = _RUN[request.kind](way, request, extents)
        if request.outputs is not None:
            for output, result in zip(request.outputs, results, strict=True):
                if output.data_ptr() != result.data_ptr() or output.device != result.device:
                    output.detach().copy_(result.view(output.shape))
            return request.outputs
        return [
            result.to(tensor.device) if tensor.device.type != "cpu" else result
            for result, tensor in zip(results, request.tensors, strict=True)
        ]

    return devices.run(request, body)


def _scale(tensor: torch.Tensor, factor: float) -> None:
    if factor == 1.0:
        return
    # torch has no arithmetic on 8-bit floats.
    if tensor.element_size() > 1 and (tensor.is_floating_point() or tensor.is_complex()):
        tensor.mul_(factor)
    else:
        tensor.copy_(tensor.to(torch.float64).mul_(factor))


def _all_reduce(way: Way, request: Request, _: list[list[int]]) -> Tensors:
    results: list[torch.Tensor | None] = [None] * len(request.tensors)
    for places in _by_type(request.tensors):
        members = [way.dense(request.tensors[place]) for place in places]
        if len(members) > 1:
            flat = torch.cat([member.reshape(-1) for member in members])
        elif request.outputs is None and members[0].data_ptr() == request.tensors[places[0]].data_ptr():
            flat = members[0].clone()
        else:
            flat = members[0]
        _scale(flat, request.prescale)
        buffer, redop = for_reduction(flat, _OPS[request.op])
        if request.residuals is not None and isinstance(way, HostWay) and _is_compressible(flat, request.op):
            residual = request.residuals.setdefault(flat.dtype, Residual())
            way.topk_all_reduce(buffer, redop, residual, Topk())
        else:
            way.all_reduce(buffer, redop)
        _scale(flat, request.postscale)
        if len(members) == 1:
            results[places[0]] = flat
            continue
        parts = torch.split(flat, [member.numel() for member in members])
        for place, member, part in zip(places, members, parts, strict=True):
            result = part.view(member.shape)
            # Who gets a new tensor may change it in place, which autograd refuses for parts of another.
            results[place] = result.clone() if request.outputs is None else result
    return [result for result in results if result is not None]


def _is_compressible(flat: torch.Tensor, op: ReduceOp) -> bool:
    """Tell whether top-k is defined for it; the rest is reduced densely. The same on all ranks."""
    types = {torch.float32, torch.float16, torch.bfloat16}
    return flat.dtype in types and op in {ReduceOp.SUM, ReduceOp.AVERAGE} and flat.numel() > 0


def _by_type(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the places of the tensors of each type; one collective reduces them together."""
    places: dict[torch.dtype, list[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(tensor.dtype, []).append(place)
    return list(places.values())


def _all_gather(way: Way, request: Request, extents: list[list[int]]) -> Tensors:
    results = []
    for place, tensor in enumerate(request.tensors):
        dense = way.dense(tensor)
        rows = [of_rank[place] for of_rank in extents]
        result = dense.new_empty((sum(rows), *dense.shape[1:]))
        per_row = _elements_per_row(dense)
        way.all_gatherv(for_copy(dense), for_copy(result), [count * per_row for count in rows])
        results.append(result)
    return results


def _elements_per_row(dense: torch.Tensor) -> int:
    """Return how many elements of the library one row is."""
    return dense.shape[1:].numel() * count_of_one(dense)


def _broadcast(way: Way, request: Request, _: list[list[int]]) -> Tensors:
    results = []
    for tensor in request.tensors:
        dense = way.dense(tensor)
        if request.outputs is None and dense.data_ptr() == tensor.data_ptr():
            dense = dense.clone()
        way.broadcast(for_copy(dense), request.root)
        results.append(dense)
    return results


def _all_to_all(way: Way, request: Request, extents: list[list[int]]) -> Tensors:
    dense = way.dense(request.tensors[0])
    coming = [of_rank[way.rank] for of_rank in extents]
    leaving = extents[way.rank]
    result = dense.new_empty((sum(coming), *dense.shape[1:]))
    per_row = _elements_per_row(dense)
    way.all_to_all(
        for_copy(dense), for_copy(result), [n * per_row for n in leaving], [n * per_row for n in coming]
    )
    return [result]


def _reduce_scatter(way: Way, request: Request, _: list[list[int]]) -> Tensors:
    return [_reduce_scatter_one(way, tensor, request) for tensor in request.tensors]


def _reduce_scatter_one(way: Way, tensor: torch.Tensor, request: Request) -> torch.Tensor:
    """The first ranks get a row more where the rows cannot be shared out evenly, as Horovod has it."""
    dense, size = way.dense(tensor), way.size
    least, more = divmod(dense.shape[0], size)
    rows = [least + (rank < more) for rank in range(size)]
    # The library's blocks are equal, so shorter ones are filled up.
    blocks = dense.new_empty((size, rows[0], *dense.shape[1:]))
    blocks.view(torch.uint8).zero_()  # torch 2.4 cannot fill 8-bit floats
    for block, part in zip(blocks, torch.split(dense, rows), strict=True):
        block[: part.shape[0]] = part
    _scale(blocks, request.prescale)
    result = dense.new_empty(blocks.shape[1:])
    buffer, redop = for_reduction(blocks, _OPS[request.op])
    way.reduce_scatter(buffer, for_reduction(result, _OPS[request.op])[0], redop)
    _scale(result, request.postscale)
    own = rows[way.rank]
    return result if own == rows[0] else result[:own].clone()


def _barrier(way: Way, _: Request, __: list[list[int]]) -> Tensors:
    if isinstance(way, HostWay):  # it has no tensors
        way.communicator.barrier()
    return []


_RUN: dict[Kind, Callable[[Way, Request, list[list[int]]], Tensors]] = {
    Kind.ALLREDUCE: _all_reduce,
    Kind.ALLGATHER: _all_gather,
    Kind.BROADCAST: _broadcast,
    Kind.ALLTOALL: _all_to_all,
    Kind.REDUCESCATTER: _reduce_scatter,
    Kind.BARRIER: _barrier,
}
