"""The networks are those whose figures were published: their parameter counts are torchvision's."""

import pytest
import torch

from clusterctl.workloads.models import MODELS, parameter_count

# torchvision 0.19's counts.
COUNTS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "vgg16": 138_357_544,
}


@pytest.mark.parametrize("name", MODELS)
def test_parameter_count(name):
    with torch.device("meta"):
        model = MODELS[name]()
    assert parameter_count(model) == COUNTS[name]


def test_resnet50_has_torchvisions_shapes():
    """The multiset of weight shapes, not only their sum."""
    with torch.device("meta"):
        model = MODELS["resnet50"]()
    convolutions = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 53
    assert convolutions[0] == (64, 3, 7, 7)
    assert convolutions.count((512, 512, 3, 3)) == 3
    strided = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d) and m.stride == (2, 2)]
    # "v1.5": the 3x3 convolution of a bottleneck has the stride, beside the stem and the three shortcuts.
    assert sorted(m.kernel_size[0] for m in strided) == [1, 1, 1, 3, 3, 3, 7]


def test_an_image_becomes_scores():
    model = MODELS["resnet18"]().eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)
