"""A rank waits while another runs a kernel that ends only if all of its blocks run at once, which fill the GPU.

Some kernels of cuDNN do that. Where a rank waited in a kernel on the same GPU, the other could not come.
"""

from __future__ import annotations

import time
from typing import Any

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

LIMIT_MS = 2000
THREADS = 1024
SOURCE = """
extern "C" __global__ void meet(unsigned* arrived, unsigned* met, unsigned blocks, unsigned limit_ms) {
  if (threadIdx.x == 0) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    atomicAdd(arrived, 1u);
    do {
      if (atomicAdd(arrived, 0u) >= blocks) {
        atomicAdd(met, 1u);
        break;
      }
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < limit_ms * 1000000ull);
  }
  __syncthreads();
}
"""

gpu = torch.device("cuda", 0)
torch.cuda.set_device(gpu)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.new_group(backend="ccore")
properties = torch.cuda.get_device_properties(gpu)
blocks = properties.multi_processor_count * (properties.max_threads_per_multi_processor // THREADS)
compiled: Any = torch.cuda._compile_kernel(SOURCE, "meet")  # type: ignore[attr-defined]
words = torch.zeros(2, dtype=torch.int32, device=gpu)


def fill_the_gpu() -> None:
    """Run the kernel once."""
    words.zero_()
    compiled(grid=(blocks, 1, 1), block=(THREADS, 1, 1), args=[words[:1], words[1:], blocks, LIMIT_MS])


def come_late(tensor: torch.Tensor, *, async_op: bool) -> int:
    """Let rank 0 wait for rank 1, which runs the kernel first; return how many of its blocks met."""
    dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        fill_the_gpu()
    work = dist.all_reduce(tensor, group=group, async_op=async_op)
    if work is not None:
        work.wait()
    torch.cuda.synchronize()
    return int(words[1])


if rank == 1:
    fill_the_gpu()
    assert int(words[1]) == blocks, f"{int(words[1])} of {blocks} blocks met without a rank that waits"
for count in (100, 53_120, 2_000_000):
    for async_op in (False, True):
        met = come_late(torch.ones(count, device=gpu), async_op=async_op)
        assert rank != 1 or met == blocks, (
            f"{met} of {blocks} blocks met beside {count} elements, {async_op=}"
        )
print(f"path {collective_core.torch.describe(group)['cuda']}")
print("done")
dist.destroy_process_group()
