"""BERT is the published model, its batch the published shape, and its pretraining learns."""

import json
import math
import subprocess
import sys

import pytest
import torch

from clusterctl.workloads import bert
from clusterctl.workloads.bert_task import BertPretraining
from clusterctl.workloads.models import parameter_count

# transformers 4.44: BertForPreTraining of bert-large-uncased, bert-base-uncased and google/bert_uncased_L-2_H-128_A-2.
# The paper (arXiv 1810.04805, section 3) rounds the first two to 340 M and 110 M.
COUNTS = {"bert-large": 336_226_108, "bert-base": 110_106_428, "bert-tiny": 4_433_468}


@pytest.mark.parametrize("name", bert.CONFIGS)
def test_parameter_count(name):
    with torch.device("meta"):
        model = bert.BertForPreTraining(bert.CONFIGS[name])
    assert parameter_count(model) == COUNTS[name]


def test_the_count_of_bert_large_follows_from_the_published_configuration():
    """By hand, from bert_config.json: 24 layers, 1024 wide, 4096 inside, 30522 words, 512 positions."""
    hidden, inner, words = 1024, 4096, 30522
    norm = 2 * hidden
    embeddings = (words + 512 + 2) * hidden + norm
    attention = 4 * (hidden * hidden + hidden) + norm
    feed_forward = hidden * inner + inner + inner * hidden + hidden + norm
    heads = 2 * (hidden * hidden + hidden) + norm + words + 2 * hidden + 2  # pooler, transform, biases, pairs
    assert embeddings + 24 * (attention + feed_forward) + heads == COUNTS["bert-large"]


def test_every_parameter_is_set():
    """The model is made without memory and filled in afterwards: nothing may stay as the allocator left it."""
    torch.manual_seed(1)
    model = bert.build("bert-tiny", torch.device("cpu"))
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        elif name.endswith("bias"):
            assert torch.equal(parameter, torch.zeros_like(parameter)), name
        else:
            assert float(parameter.detach().std()) == pytest.approx(0.02, rel=0.2), name


@pytest.mark.parametrize(("phase", "length", "predictions"), [(1, 128, 20), (2, 512, 80)])
def test_a_phase_has_its_length_and_its_predictions(phase, length, predictions):
    task = BertPretraining("bert-tiny", phase, batch_size=3)
    tokens, segments, masked, labels, follows = task.batch(
        torch.Generator().manual_seed(1), torch.device("cpu")
    )
    assert tokens.shape == segments.shape == (3, length)
    assert masked.shape == (3, predictions)
    assert labels.shape == (3 * predictions,)
    assert follows.shape == (3,)
    assert all(len(set(row.tolist())) == predictions for row in masked), "positions repeat"
    assert (tokens == 103).sum() == 3 * predictions  # [MASK] stands there and nowhere else
    assert torch.equal(tokens[:, 0], torch.full((3,), 101))
    assert set(segments.unique().tolist()) == {0, 1}
    settings = task.settings()
    assert (settings["sequence_length"], settings["predictions"], settings["optimizer"]) == (
        length, predictions, "adamw"
    )  # fmt: skip


def test_untrained_it_guesses_and_then_it_learns():
    """The first loss is that of guessing: ln(30522) for a word and ln(2) for a pair."""
    torch.manual_seed(1)
    task = BertPretraining("bert-tiny", 1, batch_size=2)
    model = task.build(torch.device("cpu"))
    optimizer = task.optimizer(model, 2e-3, torch.device("cpu"))
    batch = task.batch(torch.Generator().manual_seed(1), torch.device("cpu"))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(30522) + math.log(2), rel=0.05)
    assert losses[-1] < losses[0] - 1.0


def test_norms_and_biases_do_not_decay():
    task = BertPretraining("bert-tiny", 1, batch_size=1)
    model = task.build(torch.device("cpu"))
    decaying, others = task.optimizer(model, 1e-4, torch.device("cpu")).param_groups
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    # In every matrix, and in the tables of the embeddings, and in nothing else.
    assert all(p.dim() == 2 for p in decaying["params"])
    assert all(p.dim() == 1 for p in others["params"])


def records(text):
    """The ranks' final records: torchrun's ranks share one stdout."""
    found = [
        json.loads(line.partition("clusterctl-record ")[2])
        for line in text.splitlines()
        if "clusterctl-record " in line
    ]
    return sorted((r for r in found if r["kind"] == "rank"), key=lambda record: record["rank"])


def torchrun(*arguments, environment):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *arguments, "-m", "clusterctl.workloads", "training",
         "--model", "bert-tiny", "--batch-size", "2", "--warmup", "1", "--windows", "1", "--steps", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def finish(process):
    try:
        return process.communicate(timeout=180)
    finally:
        process.kill()
        process.wait()


def test_two_nodes_by_master_addr_rank_and_world_size(free_port, bare_environment):
    """As ACCL's guide starts it: one container per node, RANK and WORLD_SIZE counting nodes, torchrun inside."""
    nodes = [
        torchrun(
            "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1",
            f"--master-port={free_port}",
            environment={**bare_environment, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [finish(node) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    found = records("\n".join(out for out, _ in outputs))
    assert [(r["rank"], r["world_size"], r["sample"]) for r in found] == [
        (0, 2, "sequence"),
        (1, 2, "sequence"),
    ]
    assert len({r["parameters_digest"] for r in found}) == 1
    assert found[0]["sequence_length"] == 128
    assert all(r["samples_per_s_mean"] > 0 for r in found)
