"""The small decoder: sizes, causality, rotary positions, and that it learns."""

import torch

from clusterctl.workloads import llama, places
from clusterctl.workloads.models import parameter_count
from clusterctl.workloads.trainer import Trainer, Ways

CPU = torch.device("cpu")


def tiny():
    torch.manual_seed(1)
    return llama.LlamaPretraining("llama-tiny", 2, 8).build(CPU)


def test_the_large_model_has_the_published_number_of_parameters():
    with torch.device("meta"):
        assert parameter_count(llama.LlamaDecoder(llama.CONFIGS["llama-1b"])) == 1_100_048_384


def test_a_token_changes_no_score_before_it():
    model, tokens = tiny(), torch.arange(16).view(2, 8)
    changed = tokens.clone()
    changed[:, 5] = 300
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_rotation_keeps_lengths_and_depends_on_the_distance_alone():
    torch.manual_seed(2)
    one, other = torch.randn(2, 1, 1, 1, 8).expand(2, 1, 1, 6, 8)
    angles = torch.outer(torch.arange(6.0), torch.tensor([1.0, 0.1, 0.01, 0.001]))
    turned, others = llama.rotated(one, angles), llama.rotated(other, angles)
    assert torch.allclose(turned.norm(dim=-1), one.norm(dim=-1), atol=1e-5)
    products = turned[0, 0] @ others[0, 0].T
    assert torch.allclose(products[2, 0], products[5, 3], atol=1e-4)


def test_the_loss_of_one_batch_falls():
    place = places.Place("none", 0, 1, 0, 1)
    task = llama.LlamaPretraining("llama-tiny", 2, 8)
    training = Trainer(task, Ways("fp32", learning_rate=3e-3), place, CPU)
    losses = [float(training.step()) for _ in range(12)]
    assert losses[-1] < losses[0] - 0.5
