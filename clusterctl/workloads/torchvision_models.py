"""The classifiers of torchvision by name, where torchvision is installed; the list is that of torchvision 0.29.

The list lets clusterctl reject a mistyped name before it contacts a node; the networks come from the node.
"""

from __future__ import annotations

from typing import Any

NAMES = (
    "alexnet",
    *("convnext_base", "convnext_large", "convnext_small", "convnext_tiny"),
    *("densenet121", "densenet161", "densenet169", "densenet201"),
    *(f"efficientnet_b{size}" for size in range(8)),
    *("efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s"),
    *("googlenet", "inception_v3", "maxvit_t"),
    *("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"),
    *("mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
    *(f"regnet_x_{size}" for size in ("400mf", "800mf", "1_6gf", "3_2gf", "8gf", "16gf", "32gf")),
    *(f"regnet_y_{size}" for size in ("400mf", "800mf", "1_6gf", "3_2gf", "8gf", "16gf", "32gf", "128gf")),
    *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
    *("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0"),
    *("squeezenet1_0", "squeezenet1_1"),
    *("swin_b", "swin_s", "swin_t", "swin_v2_b", "swin_v2_s", "swin_v2_t"),
    *("vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16_bn", "vgg19", "vgg19_bn"),
    *("vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"),
    *("wide_resnet50_2", "wide_resnet101_2"),
)
"""Those that are not built in (models.py): the ResNets and VGG-16 need no torchvision."""
# Their training output is otherwise a tuple with the scores of auxiliary heads.
_WITH_AUXILIARY_HEADS = ("googlenet", "inception_v3")


def image_size(name: str) -> int:
    """Return the pixels per side that a network is made for; vision transformers take no others."""
    return 299 if name == "inception_v3" else 224


def torch_version() -> str:
    """Return the version of torch."""
    import torch

    return str(torch.__version__)


def build(name: str) -> Any:
    """Return torchvision's network with fresh weights.

    ImportError without a torchvision that loads, ValueError for a name that it does not know.
    """
    try:
        from torchvision.models import get_model  # type: ignore[import-not-found, unused-ignore]
    except RuntimeError as error:
        # Built for another torch: its operators are missing ("operator torchvision::nms does not exist").
        raise ImportError(
            f"the installed torchvision does not match torch {torch_version()}: {error}"
        ) from error
    options = {"aux_logits": False, "init_weights": True} if name in _WITH_AUXILIARY_HEADS else {}
    return get_model(name, weights=None, **options)
