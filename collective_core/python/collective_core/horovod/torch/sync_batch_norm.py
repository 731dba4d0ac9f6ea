"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from collective_core.horovod.reduce_ops import Sum
from collective_core.horovod.torch.basics import size
from collective_core.horovod.torch.mpi_ops import allreduce


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d, with the mean and variance of what all ranks have in a step.

    All ranks must call it in training, in one order; batches may differ in size. In evaluation nothing is exchanged.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise; differentiable, by the gradients of the reductions."""
        self._check_input_dim(input)
        use_batch = self.training or self.running_mean is None
        if not use_batch or size() == 1:
            result: torch.Tensor = super().forward(input)
            return result
        wide = input.to(torch.float64) if input.dtype == torch.float64 else input.to(torch.float32)
        others = [dimension for dimension in range(input.dim()) if dimension != 1]
        count = wide.new_tensor([input.numel() / input.shape[1]])
        # In two passes: the squares of differences lose nothing where the mean is large.
        sums = allreduce(torch.cat([wide.sum(others), count]), op=Sum)
        total = sums[-1].detach()
        mean = sums[:-1] / total
        shape = [1, -1] + [1] * (input.dim() - 2)
        centred = wide - mean.view(shape)
        variance = allreduce(centred.square().sum(others), op=Sum) / total
        self._remember(mean.detach(), variance.detach(), float(total))
        normal = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        if not self.training or not self.track_running_stats or self.running_mean is None:
            return
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
