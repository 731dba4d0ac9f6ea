"""The way of an all_reduce of CUDA tensors between nodes: their GPUs take part where the ranks can, else their CPUs."""

from __future__ import annotations

import torch

from collective_core.communicator import Buffer, Communicator, Redop
from collective_core.topk import Residual, Topk
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.tensors import as_dense, as_it_reads, check_dense, copy_back
from collective_core.torch.ways import HostWay


class NodesWay(HostWay):
    """As HostWay, but buffers are where their tensors are. The owner of a buffer is its tensor."""

    def __init__(self, communicator: Communicator, limit: float | None, nodes: CudaNodes) -> None:
        """Take the communicator, the deadline and the GPUs' part, which it shares with the group's other ways."""
        super().__init__(communicator, limit)
        self._nodes = nodes

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Way.dense; on the device that the group works on, if the tensor is on another one."""
        check_dense(tensor)
        read = as_it_reads(tensor)
        if read.is_cuda and self._nodes.device is not None:
            read = read.to(self._nodes.device)
        return read.contiguous()

    def all_reduce(self, buffer: Buffer, redop: Redop) -> None:
        """As Way.all_reduce."""
        tensor = _tensor_of(buffer)
        if tensor.is_cuda and self._nodes.takes(tensor):
            self._nodes.all_reduce(tensor, buffer, redop, self.limit)
            return
        host = as_dense(tensor)
        super().all_reduce(_at(buffer, host), redop)
        copy_back(tensor, host)

    def topk_all_reduce(self, buffer: Buffer, redop: Redop, residual: Residual | None, topk: Topk) -> None:
        """As HostWay.topk_all_reduce; selected on the GPU where the ranks can."""
        tensor = _tensor_of(buffer)
        if tensor.is_cuda and not self.communicator.topk_plan(buffer.count, buffer.dtype, topk).compressed:
            self.all_reduce(buffer, redop)
            return
        if tensor.is_cuda and self._nodes.topk_all_reduce(tensor, buffer, residual, topk, redop, self.limit):
            return
        host = as_dense(tensor)
        super().topk_all_reduce(_at(buffer, host), redop, residual, topk)
        copy_back(tensor, host)


def _tensor_of(buffer: Buffer) -> torch.Tensor:
    assert isinstance(buffer.owner, torch.Tensor)
    return buffer.owner


def _at(buffer: Buffer, host: torch.Tensor) -> Buffer:
    """Return the buffer as it is in a copy of its tensor."""
    return Buffer(host.data_ptr(), buffer.count, buffer.dtype, host)
