"""torchvision's classifiers by name: taken from the node's torchvision, and a plain word where there is none."""

import json
import subprocess
import sys

import pytest

from clusterctl.benchmarks import model_names
from clusterctl.workloads import bert, models, torchvision_models

# A stand-in with torchvision's own entry point (torchvision.models.get_model), since its wheels need CUDA's torch.
STAND_IN = """
from torch import nn


def get_model(name, weights=None, **options):
    if name != "alexnet":
        raise ValueError(f"Unknown model {name}")
    assert weights is None
    return nn.Sequential(nn.Conv2d(3, 4, 11, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4, 1000))
"""


@pytest.fixture
def train(tmp_path, bare_environment):
    """A function that trains a model for one step with a directory in front of everything else that is imported."""

    def run(model, text=None):
        if text is not None:
            package = tmp_path / "torchvision"
            package.mkdir()
            (package / "__init__.py").write_text("")
            (package / "models.py").write_text(text)
        path = f"{tmp_path}:{bare_environment['PYTHONPATH']}"
        return subprocess.run(
            [sys.executable, "-m", "clusterctl.workloads", "training", "--model", model, "--batch-size", "1",
             "--windows", "1", "--steps", "1"],
            capture_output=True, text=True, timeout=120, check=False, env={**bare_environment, "PYTHONPATH": path},
        )  # fmt: skip

    return run


def test_a_network_of_torchvision_is_trained_at_its_own_image_size(train):
    done = train("alexnet", STAND_IN)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if '"kind": "rank"' in line]
    record = json.loads(line.partition(" ")[2])
    assert (record["model"], record["image_size"], record["parameters"]) == ("alexnet", 224, 6456)


@pytest.mark.parametrize(
    ("text", "model", "words"),
    [
        ("raise ImportError('not here')", "alexnet", "alexnet needs torchvision (not here); models without"),
        ("raise RuntimeError('operator torchvision::nms does not exist')", "alexnet", "does not match torch"),
        (STAND_IN, "vit_h_14", "the installed torchvision has no vit_h_14"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_in_one_line(train, text, model, words):
    done = train(model, text)
    assert done.returncode == 4
    assert words in done.stderr.splitlines()[-1]


def test_the_controllers_names_are_the_workloads():
    assert set(model_names.BUILT_IN) == set(models.MODELS)
    assert set(model_names.OF_BERT) == set(bert.CONFIGS)
    assert not set(models.MODELS) & set(torchvision_models.NAMES)
    # torchvision 0.29 lists 80 classifiers, six of which are built in here.
    assert len(set(torchvision_models.NAMES)) == 80 - len(models.MODELS)
