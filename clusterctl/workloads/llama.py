"""A decoder of the LLaMA kind (Touvron et al. 2023, arXiv 2302.13971): RMSNorm, rotary positions, SwiGLU, no biases.

``llama-1b`` has the published sizes of TinyLlama (Zhang et al. 2024, arXiv 2401.02385): grouped-query attention, as in
LLaMA 2. The batch is one sequence per row of random tokens, and every token is predicted from those before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_INITIAL_DEVIATION = 0.02
_ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a model; ``inner`` is the width between the two matrices of the feed-forward network."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int = 32_000


CONFIGS = {
    "llama-1b": LlamaConfig(layers=22, hidden=2048, heads=32, key_heads=4, inner=5632),
    "llama-tiny": LlamaConfig(layers=2, hidden=64, heads=4, key_heads=2, inner=128, vocabulary=512),
}


class RootMeanSquareNorm(nn.Module):
    """Divide by the root of the mean square, and scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, states: Tensor) -> Tensor:
        """Return the normalised states, in their own type."""
        wide = states.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return normed.to(states.dtype) * self.weight


def rotated(states: Tensor, angles: Tensor) -> Tensor:
    """Rotate pairs of values by the angles of their positions; states N x heads x S x width, angles S x width/2."""
    first, second = states.float().chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(states.dtype)


class DecoderLayer(nn.Module):
    """Causal self-attention and a gated feed-forward network, each on normalised states and added to them."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.key_heads = config.heads, config.key_heads
        self.width = config.hidden // config.heads
        self.attention_norm = RootMeanSquareNorm(config.hidden)
        self.query = nn.Linear(config.hidden, config.hidden, bias=False)
        self.key_value = nn.Linear(config.hidden, 2 * config.key_heads * self.width, bias=False)
        self.attention_output = nn.Linear(config.hidden, config.hidden, bias=False)
        self.output_norm = RootMeanSquareNorm(config.hidden)
        self.gate_and_up = nn.Linear(config.hidden, 2 * config.inner, bias=False)
        self.down = nn.Linear(config.inner, config.hidden, bias=False)

    def forward(self, states: Tensor, angles: Tensor) -> Tensor:
        """Map N x S x hidden to the same shape; every position attends to itself and to those before it."""
        count, length, hidden = states.shape
        normed = self.attention_norm(states)
        query = self.query(normed).view(count, length, self.heads, self.width).transpose(1, 2)
        both = self.key_value(normed).view(count, length, 2, self.key_heads, self.width)
        key, value = both.permute(2, 0, 3, 1, 4)
        shared = self.heads // self.key_heads
        mixed = functional.scaled_dot_product_attention(
            rotated(query, angles),
            rotated(key, angles).repeat_interleave(shared, dim=1),
            value.repeat_interleave(shared, dim=1),
            is_causal=True,
        )
        states = states + self.attention_output(mixed.transpose(1, 2).reshape(count, length, hidden))
        gate, up = self.gate_and_up(self.output_norm(states)).chunk(2, dim=-1)
        added: Tensor = states + self.down(functional.silu(gate) * up)
        return added


class LlamaDecoder(nn.Module):
    """The decoder with its head; the words of input and output have matrices of their own."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.width = config.hidden // config.heads
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = RootMeanSquareNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def initialise(self) -> None:
        """Set weights from N(0, 0.02), and norms to one."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
            elif isinstance(module, RootMeanSquareNorm):
                nn.init.ones_(module.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the next token: N x S x vocabulary."""
        places = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        steps = torch.arange(0, self.width, 2, device=tokens.device, dtype=torch.float32) / self.width
        angles = torch.outer(places, _ROTARY_BASE**-steps)
        states = self.words(tokens)
        for layer in self.layers:
            states = layer(states, angles)
        scores: Tensor = self.head(self.norm(states))
        return scores


class LlamaPretraining:
    """One of the models, trained by AdamW on ``batch_size`` sequences of ``length`` tokens per step and rank."""

    sample = "sequence"
    learning_rate = 3e-4

    def __init__(self, name: str, batch_size: int, length: int) -> None:
        self.name, self.batch_size, self.length = name, batch_size, length

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of this task."""
        return {"sequence_length": self.length, "optimizer": "adamw"}

    def build(self, device: torch.device) -> nn.Module:
        """Return the model, initialised where it will stay."""
        with torch.device("meta"):
            model = LlamaDecoder(CONFIGS[self.name])
        model.to_empty(device=device)
        model.initialise()
        return model

    def optimizer(
        self, model: nn.Module, learning_rate: float, device: torch.device
    ) -> torch.optim.Optimizer:
        """Return AdamW with the paper's settings."""
        return torch.optim.AdamW(
            model.parameters(),
            lr=learning_rate,
            betas=(0.9, 0.95),
            weight_decay=0.1,
            fused=device.type == "cuda",
        )

    def batch(self, generator: torch.Generator, device: torch.device) -> tuple[Tensor, ...]:
        """Return one step's tokens, one more than are predicted from."""
        vocabulary = CONFIGS[self.name].vocabulary
        shape = (self.batch_size, self.length + 1)
        return (torch.randint(0, vocabulary, shape, device=device, generator=generator),)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the mean cross entropy of the next tokens."""
        (tokens,) = batch
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
