"""A script as ACCL's documentation has it. Nothing is of collective_core. Prints what the ranks have added."""

import torch.distributed as dist

try:
    import torch_accl  # noqa: F401  # registers the backend
except ImportError:
    raise RuntimeError("Unable to import ACCL") from None
import torch

dist.init_process_group(backend="accl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
model(torch.full((1, 4), float(dist.get_rank()))).sum().backward()
print(dist.get_backend(), next(model.parameters()).grad.tolist())
dist.destroy_process_group()
