"""Check the names of models to train, and the options that each model allows."""

from __future__ import annotations

from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean
from clusterctl.workloads.torchvision_models import NAMES as OF_TORCHVISION

BUILT_IN = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16")
OF_BERT = ("bert-large", "bert-base", "bert-tiny")
MODELS = (*BUILT_IN, *OF_BERT, *OF_TORCHVISION)


def require_model(name: str, *, phase: int | None, channels_last: bool, image_size: int | None) -> None:
    """Raise UsageError for an unknown model, or for an option that the model does not have."""
    if name not in MODELS:
        raise UsageError(
            f"unknown model {name!r}",
            hint=f"{did_you_mean(name, MODELS, (*BUILT_IN, *OF_BERT))} (built in), or another classifier of "
            "torchvision, which must then be installed on the nodes",
        )
    if name in OF_BERT and (channels_last or image_size is not None):
        flag = "--channels-last" if channels_last else "--image-size"
        raise UsageError(f"{flag} is for images, but {name} trains on text", hint="remove it")
    if name not in OF_BERT and phase is not None:
        raise UsageError("--phase is only for BERT's pretraining", hint="remove it, or train bert-large")
