"""Makes programs that expect a GPU per rank use device 0 in every rank, whatever device they name."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.nn.parallel._functions
from torch.overrides import TorchFunctionMode

# Methods whose integer argument is a device.
_TAKES_A_DEVICE = {torch.Tensor.cuda, torch.Tensor.to}


def _mapped(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cuda", 0)
    if isinstance(value, str) and value.startswith("cuda:"):
        return "cuda:0"
    return value


class _DeviceZero(TorchFunctionMode):
    """Replaces devices in the arguments of torch's functions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        new = [_mapped(one) for one in args]
        if func in _TAKES_A_DEVICE:
            new = [0 if type(one) is int else one for one in new]
        named = {
            name: 0 if name == "device" and type(one) is int else _mapped(one)
            for name, one in (kwargs or {}).items()
        }
        return func(*new, **named)


def use_device_zero(ranks: int) -> None:
    """Pretend that there are as many devices as ranks, all of which are device 0."""
    torch.cuda.init()  # with the true number of devices
    torch.cuda.device_count = lambda: ranks
    set_device, current_stream = torch.cuda.set_device, torch.cuda.current_stream
    synchronize = torch.cuda.synchronize
    torch.cuda.set_device = lambda _: set_device(0)
    torch.cuda.current_stream = lambda device=None: current_stream(0)
    torch.cuda.synchronize = lambda device=None: synchronize(0)
    properties, stream_of = torch.cuda.get_device_properties, torch.nn.parallel._functions._get_stream
    torch.cuda.get_device_properties = lambda device=None: properties(0)
    torch.nn.parallel._functions._get_stream = lambda device: stream_of(_mapped(device))
    _enter_device_zero(torch.cuda.device)
    # Older releases of torch do not have it.
    if (context := getattr(getattr(torch, "accelerator", None), "device_index", None)) is not None:
        _enter_device_zero(context)
    _DeviceZero().__enter__()


def _enter_device_zero(context: Any) -> None:
    """Let a context manager that makes a device the current one make device 0 the current one."""
    construct = context.__init__

    def constructed(self: Any, device: Any) -> None:
        construct(self, 0 if device is not None else None)

    context.__init__ = constructed


def use_a_host_per_rank(rank: int) -> None:
    """Let NCCL take each rank for a node of its own: it refuses ranks of one node that share a GPU."""
    os.environ.update({"NCCL_HOSTID": f"rank{rank}", "NCCL_NVLS_ENABLE": "0"})
