"""From torch tensors to memory that the library can work on, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collective_core.communicator import Buffer, Dtype, Redop
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda import pinned, to_host

_DTYPES = {
    torch.float64: Dtype.FLOAT64,
    torch.float32: Dtype.FLOAT32,
    torch.float16: Dtype.FLOAT16,
    torch.bfloat16: Dtype.BFLOAT16,
    torch.int8: Dtype.INT8,
    torch.uint8: Dtype.UINT8,
    torch.int32: Dtype.INT32,
    torch.uint32: Dtype.UINT32,
    torch.int64: Dtype.INT64,
    torch.uint64: Dtype.UINT64,
    torch.float8_e4m3fn: Dtype.FLOAT8_E4M3,
    torch.float8_e5m2: Dtype.FLOAT8_E5M2,
}


def op_code(op: object) -> int:
    """Return the number of torch's operator, by which both of its types are hashed; their attributes are slow."""
    return hash(op)


_REDOPS = {
    op_code(dist.ReduceOp.SUM): Redop.SUM,
    op_code(dist.ReduceOp.PRODUCT): Redop.PROD,
    op_code(dist.ReduceOp.MIN): Redop.MIN,
    op_code(dist.ReduceOp.MAX): Redop.MAX,
    op_code(dist.ReduceOp.AVG): Redop.AVG,
}
_PREMUL_SUM = op_code(dist.ReduceOp.PREMUL_SUM)
# By type and number of the operator: what the library reduces without a change of the tensor.
_PLAIN = {
    (dtype, code): (int(ours), int(redop))
    for dtype, ours in _DTYPES.items()
    for code, redop in _REDOPS.items()
}
# The sum of truth values is "or", their product "and", as other backends have it.
_BOOL_REDOPS = {Redop.SUM: Redop.MAX, Redop.PROD: Redop.MIN, Redop.MIN: Redop.MIN, Redop.MAX: Redop.MAX}


def refuse(text: str) -> CollectiveCoreError:
    """Make the error of a call that can never work."""
    return CollectiveCoreError(Result.INVALID_ARGUMENT, text)


def op_name(op: object) -> str:
    """Name of torch's operator, for messages; its own text is an address in memory."""
    return str(getattr(getattr(op, "op", op), "name", op))


def only_one(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Take the tensor out of a list of one, which is how torch passes it."""
    if len(tensors) != 1:
        raise refuse(f"expected one tensor, got {len(tensors)}")
    return tensors[0]


def check_device(tensor: torch.Tensor) -> None:
    """Refuse memory that the backend cannot reach."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise refuse(f"the ccore backend works on CPU and CUDA tensors, this one is on {tensor.device}")


def check_dense(tensor: torch.Tensor) -> None:
    """Refuse what is not dense memory that the backend can reach."""
    check_device(tensor)
    if tensor.layout != torch.strided:
        raise refuse(f"this call works on dense tensors only, this one is {tensor.layout}")


def as_dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory with the tensor's elements: the tensor itself if it is that, else a copy."""
    check_dense(tensor)
    read = as_it_reads(tensor)
    return to_host(read) if read.is_cuda else read.contiguous()


def landing(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory for a result: the tensor itself if it is that, else new memory."""
    check_dense(tensor)
    return pinned(tensor) if tensor.is_cuda else as_dense(tensor)


def empty_on_host(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return contiguous host memory of a tensor's type; pinned, if that tensor is on a CUDA device."""
    return pinned(like, shape) if like.is_cuda else like.new_empty(shape)


def as_it_reads(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor detached; a copy where its memory has the conjugate, or the negative, of what it is."""
    if tensor.is_conj() or tensor.is_neg():
        return tensor.detach().resolve_conj().resolve_neg()
    return tensor.detach()


def dtype_of(tensor: torch.Tensor) -> Dtype:
    """Return the library's type of a tensor that has one."""
    if (dtype := _DTYPES.get(tensor.dtype)) is None:
        raise refuse(f"the ccore backend has no {tensor.dtype}")
    return dtype


def copy_back(tensor: torch.Tensor, dense: torch.Tensor) -> None:
    """Copy the result to the tensor if `dense` was a copy; to a CUDA device on the current stream, without a wait."""
    if dense.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(dense.view(tensor.shape), non_blocking=tensor.is_cuda)


def multiplied(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return a floating tensor by a factor; torch has no arithmetic on 8-bit floats, which go by float32."""
    wide = tensor.float() if tensor.element_size() == 1 else tensor
    return wide.mul(factor).to(tensor.dtype)


def scaled(dense: torch.Tensor, op: object) -> tuple[torch.Tensor, object]:
    """Return what is to be summed, if the operator is PREMUL_SUM (each rank's tensor by its factor), and SUM.

    Any other operator is returned as it is.
    """
    if op_code(op) != _PREMUL_SUM:
        return dense, op
    _, factor = op.__getstate__()  # type: ignore[attr-defined]  # torch shows the factor only to pickle
    return multiplied(dense, factor), dist.ReduceOp.SUM


def for_copy(dense: torch.Tensor) -> Buffer:
    """Memory that is only moved: types without arithmetic in the library go as bytes."""
    dtype = _DTYPES.get(dense.dtype)
    if dtype is None:
        return Buffer(dense.data_ptr(), dense.numel() * dense.element_size(), Dtype.UINT8, dense)
    return Buffer(dense.data_ptr(), dense.numel(), dtype, dense)


def count_of_one(dense: torch.Tensor) -> int:
    """Elements of the library that one element of the tensor is in `for_copy`."""
    return 1 if dense.dtype in _DTYPES else dense.element_size()


def plain_reduction(dtype: torch.dtype, code: int) -> tuple[int, int] | None:
    """Return the library's numbers of a type and an `op_code`, if it reduces such tensors as they are."""
    return _PLAIN.get((dtype, code))


def for_reduction(dense: torch.Tensor, op: object) -> tuple[Buffer, Redop]:
    """Memory and operator of a reduction."""
    redop = _REDOPS.get(op_code(op))
    if redop is None:
        raise refuse(f"the ccore backend has no {op_name(op)} of {dense.dtype}")
    if dense.dtype == torch.bool:
        if redop not in _BOOL_REDOPS:
            raise refuse("bool tensors cannot be averaged")
        return Buffer(dense.data_ptr(), dense.numel(), Dtype.UINT8, dense), _BOOL_REDOPS[redop]
    if dense.dtype.is_complex and redop in {Redop.SUM, Redop.AVG}:
        dense = torch.view_as_real(dense)
    dtype = _DTYPES.get(dense.dtype)
    if dtype is None:
        raise refuse(f"the ccore backend has no {redop.name} of {dense.dtype}")
    return Buffer(dense.data_ptr(), dense.numel(), dtype, dense), redop
