"""Train small models on one device: samples per second, arithmetic per second, and a loss curve to compare.

The curve comes from a few steps with deterministic algorithms, so that equal devices with equal libraries have equal
losses bit by bit. The rates come from other steps, with the algorithms that training uses.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from clusterctl.workloads import bert, llama, places, trainer
from clusterctl.workloads.bert_task import PHASES, BertPretraining
from clusterctl.workloads.device.measured import DeviceMeasured, short
from clusterctl.workloads.device.twice import comparable
from clusterctl.workloads.image_task import ImageClassification
from clusterctl.workloads.trainer import Task, Trainer, Ways, Windows

_ALONE = places.Place("none", 0, 1, 0, 1)
_CURVE_STEPS = 6
# He et al. 2015, table 1: 3.8e9 multiply-adds of an image of 224 x 224; 4.1e9 with the stride in the 3x3 convolution.
_RESNET50_FLOPS = 2 * 4.1e9
# The decoder of 1.1e9 parameters with AdamW takes 18 GB, and a sequence of 2048 tokens 8 GB more in fp32.
_LEAST_BYTES, _LARGE_BYTES = 30e9, 70e9
_BACKWARD = 3
"""A backward pass has twice the arithmetic of a forward pass."""


@dataclass(frozen=True)
class Proxy:
    """A model to train: its task, the steps that are timed, the arithmetic of a sample, and its tokens."""

    name: str
    task: Callable[[], Task]
    windows: Windows
    flops: float
    tokens: int = 0
    has_curve: bool = True


def _decoder_flops(parameters: float, layers: int, hidden: int, length: int) -> float:
    """Return the arithmetic of training on one sequence: Chowdhery et al. 2022 (PaLM, arXiv 2204.02311), appendix B."""
    return length * (6.0 * parameters + 12.0 * layers * hidden * length)


def proxies(device: torch.device) -> tuple[Proxy, ...]:
    """Return the models for a kind of device; those of a CPU are only large enough to run all code."""
    gpu = device.type == "cuda"
    memory = torch.cuda.get_device_properties(device).total_memory if gpu else 0
    decoder, length, batch = (
        ("llama-1b", 2048, 4 if memory > _LARGE_BYTES else 1) if gpu else ("llama-tiny", 16, 2)
    )
    encoder, sequences = ("bert-base", 64) if gpu else ("bert-tiny", 1)
    images, side = (128, 224) if gpu else (2, 32)
    windows = Windows(5, 5, 10) if gpu else Windows(1, 2, 1)
    large, small = llama.CONFIGS[decoder], bert.CONFIGS[encoder]
    group = large.key_heads / large.heads
    of_layer = large.hidden**2 * (2 + 2 * group) + 3 * large.hidden * large.inner
    parameters = large.layers * of_layer + large.hidden * large.vocabulary
    phase = PHASES[1]
    return (
        Proxy(
            "llama", lambda: llama.LlamaPretraining(decoder, batch, length), windows,
            _decoder_flops(parameters, large.layers, large.hidden, length), length,
        ),
        Proxy(
            "bert", lambda: BertPretraining(encoder, 1, sequences), windows,
            # Without the head, which only the predicted positions reach.
            _decoder_flops(
                12.0 * small.layers * small.hidden**2, small.layers, small.hidden, phase.sequence_length
            ),
            phase.sequence_length,
        ),
        Proxy(
            "resnet50", lambda: ImageClassification("resnet50", images, side, channels_last=True), windows,
            _BACKWARD * _RESNET50_FLOPS * (side / 224) ** 2,
            # CUDA has no deterministic gradient of its pooling.
            has_curve=False,
        ),
    )  # fmt: skip


def measure(device: torch.device) -> Iterator[DeviceMeasured]:
    """Yield of each model its rate and its curve."""
    for proxy in proxies(device):
        if device.type == "cuda" and proxy.name == "llama":
            memory = torch.cuda.get_device_properties(device).total_memory
            if memory < _LEAST_BYTES:
                reason = f"needs {_LEAST_BYTES / 1e9:g} GB of GPU memory, and this GPU has {memory / 1e9:.0f}"
                yield DeviceMeasured(proxy.name, None, "tokens/s", reason)
                continue
        if proxy.has_curve:
            yield _curve(proxy, device)
        yield _rate(proxy, device)


def _curve(proxy: Proxy, device: torch.device) -> DeviceMeasured:
    torch.use_deterministic_algorithms(True)
    try:
        training = Trainer(proxy.task(), Ways("fp32", fresh=True), _ALONE, device)
        torch.backends.cudnn.benchmark = False
        losses = [float(training.step()) for _ in range(_CURVE_STEPS)]
    finally:
        torch.use_deterministic_algorithms(False)
    text = " ".join(loss.hex() for loss in losses)
    return DeviceMeasured(
        f"{proxy.name}-loss", losses[-1], "",
        detail={"losses": [short(loss) for loss in losses], "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "comparable": comparable(device)},
    )  # fmt: skip


def _rate(proxy: Proxy, device: torch.device) -> DeviceMeasured:
    training = Trainer(proxy.task(), Ways("amp-bf16"), _ALONE, device)
    found = trainer.measure(training, proxy.windows)
    rate = statistics.median(found.rates)
    detail = {
        "tflops": short(rate * proxy.flops / 1e12), "loss": found.losses[-1], "parameters": training.parameters,
    }  # fmt: skip
    unit = "tokens/s" if proxy.tokens else "images/s"
    return DeviceMeasured(proxy.name, short(rate * max(1, proxy.tokens)), unit, detail=detail)
