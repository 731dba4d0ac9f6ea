"""Training an image classifier on synthetic images: the batch, the loss and the optimiser of one step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterctl.workloads import models

_CLASSES = 1000


class ImageClassification:
    """A classifier trained by SGD on ``batch_size`` square images per step and rank."""

    sample = "image"
    learning_rate = 0.01

    def __init__(self, name: str, batch_size: int, image_size: int, *, channels_last: bool) -> None:
        self.name = name
        self.batch_size = batch_size
        self.image_size = image_size
        self.channels_last = channels_last
        self.memory = torch.channels_last if channels_last else torch.contiguous_format

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of this task."""
        return {"image_size": self.image_size, "channels_last": self.channels_last, "optimizer": "sgd"}

    def build(self, device: torch.device) -> nn.Module:
        """Return the model on its device, in the chosen memory format."""
        model = models.classifier(self.name).to(device)
        return model.to(memory_format=self.memory)  # type: ignore[call-overload, no-any-return]

    def optimizer(
        self, model: nn.Module, learning_rate: float, _device: torch.device
    ) -> torch.optim.Optimizer:
        """Return plain SGD, as Horovod's synthetic benchmark has it."""
        return torch.optim.SGD(model.parameters(), lr=learning_rate)

    def batch(self, generator: torch.Generator, device: torch.device) -> tuple[Tensor, ...]:
        """Return images and their classes."""
        side, count = self.image_size, self.batch_size
        images = torch.randn(count, 3, side, side, device=device, generator=generator)
        labels = torch.randint(0, _CLASSES, (count,), device=device, generator=generator)
        return images.contiguous(memory_format=self.memory), labels

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the cross entropy of the classes."""
        images, labels = batch
        return functional.cross_entropy(model(images), labels)
