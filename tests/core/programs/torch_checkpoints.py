"""A rank that loads and saves state with torch.distributed.checkpoint. argv: a directory that all ranks see."""

from __future__ import annotations

import sys
from pathlib import Path

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

folder = Path(sys.argv[1])
dist.init_process_group("ccore")
rank = dist.get_rank()

model = torch.nn.Linear(3, 2)
loaded = {"weight": torch.full((2, 3), 5.0), "bias": torch.arange(2.0)} if rank == 0 else {}
set_model_state_dict(model, loaded, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
assert model.weight.tolist() == [[5.0] * 3] * 2
assert model.bias.tolist() == [0.0, 1.0]

state = {"model": model.state_dict(), f"own{rank}": torch.tensor([rank + 1.0])}
dcp.async_save(state, checkpoint_id=folder / "asynchronous").result()
dcp.save(state, checkpoint_id=folder / "at-once")
for name in ("asynchronous", "at-once"):
    dist.barrier()
    found = {"model": {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, f"own{rank}": torch.zeros(1)}
    dcp.load(found, checkpoint_id=folder / name)
    assert found["model"]["weight"].tolist() == [[5.0] * 3] * 2
    assert found[f"own{rank}"].item() == rank + 1
dist.destroy_process_group()
print("done")
