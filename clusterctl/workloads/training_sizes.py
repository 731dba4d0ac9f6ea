"""Choose default sizes of a training run: enough to measure on a GPU, about a minute on two cores."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.workloads import torchvision_models

# As in Horovod's synthetic benchmark: ten windows of ten steps after ten warm-up steps.
_GPU_WINDOWS = (10, 10, 10)


@dataclass(frozen=True)
class Sizes:
    """Hold samples per rank and step, pixels per side (images only), and the number of timed steps."""

    batch_size: int
    image_size: int
    warmup: int
    windows: int
    steps_per_window: int


def default_sizes(model: str, phase: int, *, gpu: bool) -> Sizes:
    """Return the sizes for a model on a kind of device; a network keeps the image size of its design."""
    if model.startswith("bert-"):
        if gpu:
            # 8192 tokens per step in both phases: fits 40 GB in fp32.
            return Sizes(64 if phase == 1 else 16, 0, *_GPU_WINDOWS)
        # On a CPU the batch is reduced, not the published model.
        return Sizes(8, 0, 1, 4, 2) if model == "bert-tiny" else Sizes(1, 0, 1, 2, 1)
    if model in torchvision_models.NAMES:
        side = torchvision_models.image_size(model)
        return Sizes(64, side, *_GPU_WINDOWS) if gpu else Sizes(2, side, 1, 2, 1)
    return Sizes(64, 224, *_GPU_WINDOWS) if gpu else Sizes(8, 64, 1, 4, 2)
