"""Values of rank 0 of the tuning program, on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

from collective_core import nccl_tune

dist.init_process_group("gloo")
mine = dist.get_rank()
for value in ([], [[0, 1, 2], [6, 2, 16]], 0.1 + mine, "a text", "ff" * 128, [3, 1 << 40, 1.5, 2.5]):
    found = nccl_tune.from_rank_0(torch, value)
    assert found == (value if not isinstance(value, float) else 0.1), (mine, found)
dist.destroy_process_group()
print("shared")
