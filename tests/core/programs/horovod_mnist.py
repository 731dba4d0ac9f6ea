# ruff: noqa: I001  # torch first, as CCORE_RUN needs it and as most scripts have it
"""A script as Horovod's users have it: nothing here is of collective_core. Prints its last loss and accuracy.

It learns to tell ten noisy patterns of 8 x 8 pixels apart.
"""

import argparse

import torch
import torch.nn.functional as F
import torch.utils.data.distributed
from torch import nn, optim
import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--use-adasum", action="store_true")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def patterns(count, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(0, 10, (count,), generator=generator)
    return torch.utils.data.TensorDataset(
        shapes[labels] + 0.5 * torch.randn(count, 1, 8, 8, generator=generator), labels
    )


def metric_average(val, name):
    tensor = torch.tensor(val)
    avg_tensor = hvd.allreduce(tensor, name=name)
    return avg_tensor.item()


hvd.init()
torch.manual_seed(42 + hvd.rank())

train_set, test_set = patterns(320, 2), patterns(96, 3)
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_set, num_replicas=hvd.size(), rank=hvd.rank()
)
test_sampler = torch.utils.data.distributed.DistributedSampler(
    test_set, num_replicas=hvd.size(), rank=hvd.rank()
)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
test_loader = torch.utils.data.DataLoader(test_set, batch_size=32, sampler=test_sampler)

model = Net()
lr_scaler = hvd.size() if not args.use_adasum else 1
if args.use_adasum and hvd.nccl_built():
    lr_scaler = hvd.local_size()
optimizer = optim.SGD(model.parameters(), lr=args.lr * lr_scaler, momentum=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Adasum if args.use_adasum else hvd.Average,
)

for epoch in range(1, args.epochs + 1):
    model.train()
    train_sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()

model.eval()
test_loss, test_accuracy = 0.0, 0.0
with torch.no_grad():
    for data, target in test_loader:
        output = model(data)
        test_loss += F.nll_loss(output, target, reduction="sum").item()
        test_accuracy += output.argmax(1).eq(target).float().sum().item()
test_loss = metric_average(test_loss / len(test_sampler), "avg_loss")
test_accuracy = metric_average(test_accuracy / len(test_sampler), "avg_accuracy")
if hvd.rank() == 0:
    print(f"size {hvd.size()} loss {test_loss:.4f} accuracy {100 * test_accuracy:.1f}%")
