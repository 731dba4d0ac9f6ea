"""Bring parameters, optimizer state and objects from one rank to all."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from collective_core.horovod.common.process_sets import ProcessSet, global_process_set
from collective_core.horovod.torch import plain_state
from collective_core.horovod.torch.mpi_ops import allgather, broadcast_, broadcast_async_, synchronize

Parameters = Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]] | Iterable[torch.Tensor]


def broadcast_parameters(
    params: Parameters,
    root_rank: int,
    prefix: str = "Parameter.",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Copy tensors of the root into those of all ranks: a state_dict, named_parameters or a list of tensors."""
    pairs: list[tuple[str | None, Any]] = []
    for entry in sorted(params.items()) if isinstance(params, Mapping) else params:
        pairs.append(entry if isinstance(entry, tuple) else (None, entry))
    strange = [name for name, value in pairs if not isinstance(value, torch.Tensor)]
    if strange:
        raise ValueError(f"only tensors can be broadcast, which {strange[:5]} are not: use broadcast_object")
    handles = [
        broadcast_async_(value.data, root_rank, None if name is None else f"{prefix}{name}", process_set)
        for name, value in pairs
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Copy the root's optimizer state, options such as the learning rate included, to all ranks.

    The state travels as data, not as a pickle: raise ValueError on all ranks if the root's holds anything else than
    numbers, texts, tensors and containers of these.

    If this rank's optimizer has no state yet, each of its parameters without a gradient gets one of zeros, as with
    Horovod: a sparse one for SparseAdam and for the sparse embeddings of `model`.
    """
    if not optimizer.state_dict()["state"]:
        _fill_gradients(optimizer, model)
    is_root = _is_root(root_rank, process_set)
    failed: plain_state.StateError | None = None
    data = b""
    if is_root:
        try:
            data = plain_state.packed(optimizer.state_dict())
        except plain_state.StateError as error:
            failed = error  # raised when the others know it, which would wait otherwise
    data = _broadcast_bytes(data, root_rank, "optimizer_state", process_set)
    if failed is not None:
        raise failed
    if not data:
        raise plain_state.StateError(
            f"rank {root_rank} could not send the state of its optimizer: its own error names the value"
        )
    if not is_root:
        optimizer.load_state_dict(plain_state.unpacked(data))


def _is_root(root_rank: int, process_set: ProcessSet) -> bool:
    return process_set.ranks is not None and process_set.ranks[process_set.rank()] == root_rank


def _broadcast_bytes(own: bytes, root_rank: int, name: str | None, process_set: ProcessSet) -> bytes:
    """Return the root's bytes on all ranks; ``own`` counts on the root only."""
    is_root = _is_root(root_rank, process_set)
    length = torch.tensor([len(own) if is_root else 0], device="cpu")
    broadcast_(length, root_rank, name and f"{name}.length", process_set)
    if not int(length):
        return b""
    if is_root:
        data = torch.frombuffer(bytearray(own), dtype=torch.uint8)
    else:
        data = torch.empty(int(length), dtype=torch.uint8, device="cpu")
    broadcast_(data, root_rank, name and f"{name}.data", process_set)
    # torch returns bytes only with numpy, which it does not need otherwise.
    return own if is_root else ctypes.string_at(data.data_ptr(), data.numel())


def _fill_gradients(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> None:
    sparse = {
        id(module.weight)
        for module in (model.modules() if model is not None else ())
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse
    }
    for parameter in (one for group in optimizer.param_groups for one in group["params"]):
        if parameter.requires_grad and parameter.grad is None:
            zeros = torch.zeros_like(parameter)
            is_sparse = isinstance(optimizer, torch.optim.SparseAdam) or id(parameter) in sparse
            parameter.grad = zeros.to_sparse(1) if is_sparse else zeros


def _packed(obj: object) -> bytes:
    stream = io.BytesIO()
    torch.save(obj, stream)
    return stream.getvalue()


def _unpacked(packed: bytes) -> Any:
    # Horovod's objects are pickles: a program that calls these functions trusts the code of all ranks.
    return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=False)


def broadcast_object(
    obj: object,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on all ranks; anything that pickle can take, tensors on the CPU."""
    is_root = _is_root(root_rank, process_set)
    data = _broadcast_bytes(_packed(obj) if is_root else b"", root_rank, name, process_set)
    return obj if is_root else _unpacked(data)


def broadcast_object_fn(
    root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[object], Any]:
    """Return broadcast_object as a function of the object."""
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: object, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all ranks, in rank order."""
    data = torch.frombuffer(bytearray(_packed(obj)), dtype=torch.uint8)
    lengths = allgather(torch.tensor([data.numel()], device="cpu"), name and f"{name}.length", process_set)
    joined = allgather(data, name and f"{name}.data", process_set)
    parts = torch.split(joined, lengths.tolist())
    return [_unpacked(ctypes.string_at(part.data_ptr(), part.numel())) for part in parts]
