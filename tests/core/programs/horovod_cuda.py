"""The Horovod API on tensors of a GPU, which both ranks share, with work queued on a stream that is not the default."""

from __future__ import annotations

import collective_core.horovod.torch as hvd
import torch
from collective_core.affinity import node_of_gpu

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
stream = torch.cuda.Stream(device)
with torch.cuda.stream(stream):
    for _ in range(5):
        # The product takes long, so a copy that does not wait for it brings something else.
        large = torch.ones(4096, 4096, device=device) * (RANK + 1)
        product = (large @ large)[:1000] / 4096
        expected = sum((rank + 1) ** 2 for rank in range(SIZE))
        total = hvd.allreduce(product, op=hvd.Sum)
        assert total.device == product.device
        assert torch.all(total == expected), total
        hvd.allreduce_(product, op=hvd.Max)
        assert torch.all(product == SIZE**2)
    rows = torch.full((RANK + 1, 3), float(RANK), device=device)
    gathered = hvd.allgather(rows)
    assert gathered.device == rows.device
    assert gathered[:, 0].tolist() == [float(rank) for rank in range(SIZE) for _ in range(rank + 1)]
    hvd.broadcast_(rows[:1], root_rank=SIZE - 1)
    assert rows[0].tolist() == [SIZE - 1.0] * 3
    exchanged = hvd.alltoall(torch.arange(SIZE, device=device))
    assert exchanged.tolist() == [RANK] * SIZE
    assert exchanged.device == rows.device
    model = torch.nn.Linear(8, 2).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.1),
        model.named_parameters(),
        compression=hvd.Compression.fp16,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((4, 8), 1.0 + RANK + step, device=device)).square().mean().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    states = hvd.allgather_object([parameter.detach().cpu() for parameter in model.parameters()])
    assert all(torch.equal(one, first) for one, first in zip(states[-1], states[0], strict=True))
    assert all(value["exp_avg"].device == device for value in optimizer.state_dict()["state"].values())
print(f"cuda node {node_of_gpu(hvd.local_rank())}")
