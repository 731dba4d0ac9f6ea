"""The image classifiers that need torch alone: ResNet (He 2015) and VGG-16 (Simonyan 2014); others are torchvision's.

Layer for layer the networks of torchvision, so that parameter counts and arithmetic are those that published
ResNet50 figures were measured with (stride in the 3x3 convolution of a bottleneck, "ResNet v1.5").
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clusterctl.workloads import torchvision_models
from clusterctl.workloads.places import RankError

_STAGE_WIDTHS = (64, 128, 256, 512)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


class Residual(nn.Module):
    """One residual block: a body of convolutions beside a shortcut, added, then ReLU."""

    def __init__(self, inputs: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * (4 if bottleneck else 1)
        layers: list[nn.Module]
        if bottleneck:
            layers = [
                _conv(inputs, width, 1),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                _conv(width, width, 3, stride),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                _conv(width, outputs, 1),
                nn.BatchNorm2d(outputs),
            ]
        else:
            layers = [
                _conv(inputs, width, 3, stride),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                _conv(width, outputs, 3),
                nn.BatchNorm2d(outputs),
            ]
        self.body = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Map N x inputs x H x W to N x outputs x H/stride x W/stride."""
        return torch.relu(self.body(images) + self.shortcut(images))


class ResNet(nn.Module):
    """A residual network for 3-channel images: stem, four stages of blocks, average, one linear layer."""

    def __init__(self, blocks: tuple[int, int, int, int], *, bottleneck: bool, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, 64, 7, 2),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages: list[nn.Module] = []
        channels = 64
        for stage, (width, count) in enumerate(zip(_STAGE_WIDTHS, blocks, strict=True)):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                stages.append(Residual(channels, width, stride, bottleneck=bottleneck))
                channels = width * (4 if bottleneck else 1)
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Map N x 3 x H x W to N x classes scores; H and W must be 32 or more."""
        features: Tensor = self.stages(self.stem(images)).mean(dim=(2, 3))
        scores: Tensor = self.classifier(features)
        return scores


class VGG16(nn.Module):
    """Configuration D of Simonyan and Zisserman, without batch normalisation."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )
        for module in self.features.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Map N x 3 x H x W to N x classes scores; H and W must be 32 or more."""
        scores: Tensor = self.classifier(self.features(images).flatten(1))
        return scores


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: ResNet((2, 2, 2, 2), bottleneck=False),
    "resnet34": lambda: ResNet((3, 4, 6, 3), bottleneck=False),
    "resnet50": lambda: ResNet((3, 4, 6, 3), bottleneck=True),
    "resnet101": lambda: ResNet((3, 4, 23, 3), bottleneck=True),
    "resnet152": lambda: ResNet((3, 8, 36, 3), bottleneck=True),
    "vgg16": VGG16,
}


def classifier(name: str) -> nn.Module:
    """Return a network by its name, this module's or torchvision's; RankError when neither has it."""
    if name in MODELS:
        return MODELS[name]()
    built_in = ", ".join(MODELS)
    try:
        model: nn.Module = torchvision_models.build(name)
    except ImportError as error:
        raise RankError(
            f"{name} needs torchvision ({error}); models without torchvision: {built_in}"
        ) from None
    except ValueError as error:
        raise RankError(
            f"the installed torchvision has no {name} ({error}); built-in models: {built_in}"
        ) from None
    return model


def parameter_count(model: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
