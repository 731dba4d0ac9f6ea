"""A script as torch's DDP tutorial has it, for CPUs: ranks of spawn, DDP, a checkpoint. Nothing is of collective_core.

Prints of each rank the sum of the trained parameters and the backend.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12355")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 600)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(600, 600)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo(rank, world_size):
    setup(rank, world_size)
    torch.manual_seed(rank)
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.01)
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        loss_fn(outputs, torch.randn(20, 600)).backward()
        optimizer.step()
    path = Path(tempfile.gettempdir()) / f"{os.environ['MASTER_PORT']}.checkpoint"
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    dist.monitored_barrier()
    ddp_model.load_state_dict(torch.load(path, map_location="cpu"))
    dist.barrier()
    if rank == 0:
        path.unlink()
    total = sum(parameter.double().sum().item() for parameter in ddp_model.parameters())
    print(f"rank {rank} {dist.get_backend()} {total:.9f}\n", end="")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(demo, args=(2,), nprocs=2, join=True)
