"""Pretraining BERT on synthetic sequences: the batch, the loss and the optimiser of one step.

The phases are those of the paper: sequences of 128 tokens with at most 20 predictions, then 512 with 80
(``max_predictions_per_seq`` of Google's run_pretraining.py). Every sequence has as many as it may, so that all
steps compute the same. The optimiser is AdamW at the paper's settings, which is what it calls "Adam with weight decay".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterctl.workloads import bert

# Below stand the special tokens of the uncased vocabulary ([PAD], [CLS], [SEP], [MASK], unused ones).
_FIRST_WORD = 1000
_CLS, _SEP, _MASK = 101, 102, 103
_NO_DECAY = ("bias", "norm.weight")


@dataclass(frozen=True)
class Phase:
    """One phase of pretraining: tokens per sequence, and how many of them are predicted."""

    sequence_length: int
    predictions: int


PHASES = {1: Phase(128, 20), 2: Phase(512, 80)}


class BertPretraining:
    """One of the published models, trained on ``batch_size`` sequences per step and rank."""

    sample = "sequence"
    learning_rate = 1e-4

    def __init__(self, name: str, phase: int, batch_size: int) -> None:
        self.name = name
        self.phase = phase
        self.batch_size = batch_size
        self.shape = PHASES[phase]
        self.vocabulary = bert.CONFIGS[name].vocabulary

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of this task."""
        return {
            "phase": self.phase,
            "sequence_length": self.shape.sequence_length,
            "predictions": self.shape.predictions,
            "optimizer": "adamw",
        }

    def build(self, device: torch.device) -> nn.Module:
        """Return the model on its device."""
        return bert.build(self.name, device)

    def optimizer(
        self, model: nn.Module, learning_rate: float, device: torch.device
    ) -> torch.optim.Optimizer:
        """Return AdamW; biases and norms do not decay."""
        named = list(model.named_parameters())
        decaying = [p for name, p in named if not name.endswith(_NO_DECAY)]
        others = [p for name, p in named if name.endswith(_NO_DECAY)]
        groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, eps=1e-6, fused=device.type == "cuda")

    def batch(self, generator: torch.Generator, device: torch.device) -> tuple[Tensor, ...]:
        """Return tokens, segments, masked positions, their true tokens, and whether sentences follow each other."""
        count, length, predictions = self.batch_size, self.shape.sequence_length, self.shape.predictions
        tokens = torch.randint(
            _FIRST_WORD, self.vocabulary, (count, length), device=device, generator=generator
        )
        tokens[:, 0] = _CLS
        middle = length // 2
        tokens[:, middle] = _SEP
        tokens[:, -1] = _SEP
        segments = (torch.arange(length, device=device) > middle).long().expand(count, length).contiguous()
        # The first of the numbers 1, 2, ... in a random order: distinct positions, never [CLS].
        order = torch.rand(count, length - 1, device=device, generator=generator).argsort(dim=1) + 1
        masked = order[:, :predictions].contiguous()
        labels = tokens.gather(1, masked).flatten()
        tokens.scatter_(1, masked, _MASK)
        follows = torch.randint(0, 2, (count,), device=device, generator=generator)
        return tokens, segments, masked, labels, follows

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the sum of both heads' losses, as the paper does."""
        tokens, segments, masked, labels, follows = batch
        token_scores, pair_scores = model(tokens, segments, masked)
        masked_loss = functional.cross_entropy(token_scores, labels)
        return masked_loss + functional.cross_entropy(pair_scores, follows)
