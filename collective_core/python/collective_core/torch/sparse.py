"""The sum of sparse tensors: every rank collects the entries of all and adds up what shares an index."""

from __future__ import annotations

import torch
import torch.distributed as dist

from collective_core.communicator import Communicator
from collective_core.torch.tensors import check_device, count_of_one, for_copy, op_name, refuse


def sparse_all_reduce(
    communicator: Communicator, tensor: torch.Tensor, op: object, limit: float | None
) -> torch.Tensor:
    """Replace a sparse COO tensor by the sum over all ranks, which all see with the same bits.

    The shapes must agree; the number of entries may differ. Each rank receives the entries of all others.
    """
    check_device(tensor)
    if tensor.layout != torch.sparse_coo:
        raise refuse(f"only dense and sparse COO tensors can be reduced, this one is {tensor.layout}")
    if op != dist.ReduceOp.SUM:
        raise refuse(f"sparse tensors can only be summed, not reduced with {op_name(op)}")
    # torch works on tensors of inference mode in that mode alone, and the thread that runs this is in no mode of the
    # caller's.
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        total = _total(communicator, tensor.detach().cpu().coalesce(), limit)
        # A detached view would get the new entries for itself.
        tensor.copy_(total.to(tensor.device))
    return tensor


def _total(communicator: Communicator, own: torch.Tensor, limit: float | None) -> torch.Tensor:
    entries = _entries_of_all(communicator, own, limit)
    indices = _collected(communicator, own.indices().t().contiguous(), entries, limit)
    values = _collected(communicator, own.values().contiguous(), entries, limit)
    total = torch.sparse_coo_tensor(
        indices.t(), values, own.shape, device=values.device, check_invariants=False
    )
    return total.coalesce()


def _entries_of_all(communicator: Communicator, own: torch.Tensor, limit: float | None) -> list[int]:
    """Number of entries on each rank; raises if the shapes differ."""
    form = [own.sparse_dim(), *own.shape]
    mine = torch.tensor([own._nnz(), *form], dtype=torch.int64, device=own.device)
    told = mine.new_empty((communicator.size, mine.numel()))
    communicator.all_gather(for_copy(mine), for_copy(told), limit)
    rows: list[list[int]] = told.tolist()
    for rank, row in enumerate(rows):
        if row[1:] != form:
            raise refuse(
                f"sparse tensors must agree in shape: rank {rank} has {row[2:]} with {row[1]} sparse dimensions, "
                f"this rank has {form[1:]} with {form[0]}"
            )
    return [row[0] for row in rows]


def _collected(
    communicator: Communicator, rows: torch.Tensor, entries: list[int], limit: float | None
) -> torch.Tensor:
    """The rows of all ranks, one below the other."""
    width = rows.shape[1:].numel()
    together = rows.new_empty((sum(entries), *rows.shape[1:]))
    unit = width * count_of_one(rows)
    communicator.all_gatherv(for_copy(rows), for_copy(together), [unit * count for count in entries], limit)
    return together
