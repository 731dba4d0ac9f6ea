"""A rank whose tensors lie in torch's expandable segments, or in memory of cuMemCreate that cannot be exported.

usage: cuda_segments.py sums | switched-off | refused; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is set
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import time
from typing import Any

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

MIB = 1 << 20
# In float32: below and above what goes in packets and slots, odd, around a segment of 2 and of 20 MiB, and large.
SIZES = (1, 1000, 262_143, 262_145, 524_288, 1_000_003, 5 * MIB - 1, 5 * MIB + 5, 9_999_999, 40_000_001)

logging.basicConfig(level=logging.WARNING)
mode = sys.argv[1]
if mode == "switched-off" and os.environ["RANK"] == "1":
    os.environ["CCORE_CUDA_DESCRIPTORS"] = "0"
dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", 0)
torch.cuda.set_device(gpu)
driver = ctypes.CDLL("libcuda.so.1")


def memory_at(address: int) -> int | None:
    """Return the handle of the physical memory at an address; None if it is not memory of cuMemCreate."""
    handle = ctypes.c_ulonglong()
    if driver.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(address)):
        return None
    driver.cuMemRelease(handle)
    return handle.value


def segments_of(tensor: torch.Tensor) -> set[int | None]:
    begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return {memory_at(address) for address in [*range(begin, end, MIB), end - 1]}


def values(of: int, count: int, salt: int = 0) -> torch.Tensor:
    """Small whole numbers that differ by rank, place and salt, so that sums are exact and old data is noticed."""
    return ((torch.arange(count, device=gpu) * 7 + of * 13 + salt * 29) % 31).float()


def total(count: int, salt: int = 0) -> torch.Tensor:
    return sum((values(one, count, salt) for one in range(1, size)), values(0, count, salt))


def check(name: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
    wrong = int((got != wanted).sum())
    assert wrong == 0, (
        f"rank {rank}: {name}: {wrong} of {got.numel()} are wrong, the first {got[:4].tolist()}"
    )


def reduce_and_check(name: str, tensor: torch.Tensor, salt: int = 0) -> None:
    dist.all_reduce(tensor)
    check(name, tensor, total(tensor.numel(), salt))


def many_sizes() -> None:
    for round_ in range(3):
        for count in SIZES:
            reduce_and_check(f"all_reduce of {count}", values(rank, count, round_), round_)
    whole = values(rank, 12_000_000)
    reduce_and_check("a part", whole[4_000_000:9_000_000].copy_(values(rank, 5_000_000)))
    reduce_and_check("not aligned", whole[1:3_000_000].copy_(values(rank, 2_999_999)))
    works = []
    for salt in range(6):
        tensor = values(rank, 3_000_000, salt)
        works.append((salt, tensor, dist.all_reduce(tensor, async_op=True)))
    for salt, tensor, work in works:
        work.wait()
        check("several at once", tensor, total(3_000_000, salt))


def across_segments() -> None:
    for count in (6 * MIB, 12_345_678, 30 * MIB):
        tensor = values(rank, count)
        segments = segments_of(tensor)
        assert None not in segments and len(segments) > 1, (count, segments)
        reduce_and_check("across segments", tensor)
        gathered = torch.empty(size * count, device=gpu)
        dist.all_gather_into_tensor(gathered, values(rank, count, 1))
        check("all_gather", gathered, torch.cat([values(one, count, 1) for one in range(size)]))
        scattered = torch.empty(count // size, device=gpu)
        dist.reduce_scatter_tensor(scattered, values(rank, count // size * size, 2))
        check("reduce_scatter", scattered, total(count // size * size, 2).chunk(size)[rank])
        tensor = values(rank, count, 3)
        dist.broadcast(tensor, size - 1)
        check("broadcast", tensor, values(size - 1, count, 3))
        received = torch.empty(count, device=gpu)
        for request in dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, values(rank, count, 4), (rank + 1) % size),
                dist.P2POp(dist.irecv, received, (rank - 1) % size),
            ]
        ):
            request.wait()
        check("send and recv", received, values((rank - 1) % size, count, 4))


def freed_and_reused() -> None:
    """Other memory at an address that a peer has mapped before."""
    anchor = torch.empty(MIB, device=gpu)  # so that torch keeps the reserved range
    before: dict[int, int | None] = {}
    reused = 0
    for step in range(24):
        tensor = values(rank, (8 + 5 * (step % 3)) * MIB, step)
        torch.cuda.empty_cache()  # what computed it
        address = tensor.data_ptr()
        reused += address in before and before[address] != memory_at(address)
        before[address] = memory_at(address)
        reduce_and_check(f"reused memory, step {step}", tensor, step)
        del tensor
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        if step % 8 == 7:
            time.sleep(1.1)  # the next operation forgets what was freed
    assert reused > 0, f"no address got other memory: {before}"
    del anchor


def memory_without_descriptor(count: int) -> torch.Tensor:
    """Return a tensor in memory of cuMemCreate without a handle type."""

    class Location(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

    class Properties(ctypes.Structure):
        _fields_ = [
            ("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
            ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
        ]  # fmt: skip

    class Access(ctypes.Structure):
        _fields_ = [("location", Location), ("flags", ctypes.c_int)]

    class Array:
        __cuda_array_interface__: dict[str, Any]

    def call(name: str, *arguments: Any) -> None:
        code = getattr(driver, name)(*arguments)
        assert code == 0, f"{name} failed with {code}"

    pinned, on_device, read_and_write = 1, 1, 3
    place = Location(on_device, 0)
    wanted = ctypes.c_size_t(-(-4 * count // (2 * MIB)) * 2 * MIB)
    handle, address = ctypes.c_ulonglong(), ctypes.c_ulonglong()
    nothing = ctypes.c_ulonglong(0)
    call("cuMemCreate", ctypes.byref(handle), wanted, ctypes.byref(Properties(pinned, 0, place)), nothing)
    call("cuMemAddressReserve", ctypes.byref(address), wanted, ctypes.c_size_t(0), nothing, nothing)
    call("cuMemMap", address, wanted, ctypes.c_size_t(0), handle, nothing)
    access = Access(place, read_and_write)
    call("cuMemSetAccess", address, wanted, ctypes.byref(access), ctypes.c_size_t(1))
    array = Array()
    array.__cuda_array_interface__ = {
        "shape": (count,), "typestr": "<f4", "data": (address.value, False), "version": 3,
    }  # fmt: skip
    tensor = torch.as_tensor(array, device=gpu)
    assert tensor.data_ptr() == address.value
    return tensor


def refused() -> None:
    """One rank has memory that it cannot export, the others have memory that they can."""
    count = 3_000_000
    for step in range(3):
        tensor = memory_without_descriptor(count) if rank == 0 else torch.empty(count, device=gpu)
        reduce_and_check("memory that cannot be exported", tensor.copy_(values(rank, count, step)), step)
    time.sleep(0.2)  # for the watchdog, which logs it


if mode == "sums":
    many_sizes()
    across_segments()
    freed_and_reused()
    many_sizes()
elif mode == "switched-off":
    many_sizes()
else:
    refused()
dist.barrier()
print(collective_core.torch.describe()["cuda"])
dist.destroy_process_group()
print("done")
