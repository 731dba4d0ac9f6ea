"""The names of the models that can be trained, and what may be asked of each."""

from __future__ import annotations

import difflib

from clusterctl.errors import UsageError
from clusterctl.workloads.torchvision_models import NAMES as OF_TORCHVISION

BUILT_IN = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16")
OF_BERT = ("bert-large", "bert-base", "bert-tiny")
MODELS = (*BUILT_IN, *OF_BERT, *OF_TORCHVISION)


def require_model(name: str, *, phase: int | None, channels_last: bool, image_size: int | None) -> None:
    """Raise UsageError for a model that there is not, or for what is asked of one that has no such thing."""
    if name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, n=3)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        raise UsageError(
            f"there is no model {name!r}",
            hint=f"{meant}built in are {', '.join((*BUILT_IN, *OF_BERT))}; the other classifiers of torchvision "
            "need it on the nodes",
        )
    if name in OF_BERT and (channels_last or image_size is not None):
        flag = "--channels-last" if channels_last else "--image-size"
        raise UsageError(f"{flag} is for images, and {name} reads text", hint="leave it out")
    if name not in OF_BERT and phase is not None:
        raise UsageError("--phase is of BERT's pretraining", hint="leave it out, or train bert-large")
