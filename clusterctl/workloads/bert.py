"""BERT for pretraining (Devlin et al. 2018, arXiv 1810.04805): encoder, masked-language and next-sentence heads.

The configurations are the published ones (github.com/google-research/bert, ``bert_config.json`` of the uncased models;
bert-tiny: Turc et al. 2019, arXiv 1908.08962). The vocabulary is not padded, the decoder shares the word embeddings,
and only masked positions reach it, as in Google's ``run_pretraining.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_INITIAL_DEVIATION = 0.02
_EPSILON = 1e-12


@dataclass(frozen=True)
class BertConfig:
    """The sizes of one published model; the inner width of a layer is four times ``hidden``."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 30522
    positions: int = 512
    segments: int = 2
    dropout: float = 0.1


CONFIGS = {
    "bert-large": BertConfig(layers=24, hidden=1024, heads=16),
    "bert-base": BertConfig(layers=12, hidden=768, heads=12),
    "bert-tiny": BertConfig(layers=2, hidden=128, heads=2),
}


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each added to its input and normalised afterwards."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.dropout
        self.query_key_value = nn.Linear(config.hidden, 3 * config.hidden)
        self.attention_output = nn.Linear(config.hidden, config.hidden)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=_EPSILON)
        self.inner = nn.Linear(config.hidden, 4 * config.hidden)
        self.outer = nn.Linear(4 * config.hidden, config.hidden)
        self.output_norm = nn.LayerNorm(config.hidden, eps=_EPSILON)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        """Map N x S x hidden to the same shape; every position attends to every other."""
        count, length, hidden = states.shape
        split = self.query_key_value(states).view(count, length, 3, self.heads, hidden // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=self.attention_dropout if self.training else 0.0
        )
        mixed = mixed.transpose(1, 2).reshape(count, length, hidden)
        states = self.attention_norm(states + self.dropout(self.attention_output(mixed)))
        wide = functional.gelu(self.inner(states))
        normed: Tensor = self.output_norm(states + self.dropout(self.outer(wide)))
        return normed


class BertForPreTraining(nn.Module):
    """BERT with both heads; sequences are full, so that there is no padding to mask."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocabulary, config.hidden)
        self.position_embeddings = nn.Embedding(config.positions, config.hidden)
        self.segment_embeddings = nn.Embedding(config.segments, config.hidden)
        self.embedding_norm = nn.LayerNorm(config.hidden, eps=_EPSILON)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.hidden, config.hidden)
        self.next_sentence = nn.Linear(config.hidden, 2)
        self.transform = nn.Linear(config.hidden, config.hidden)
        self.transform_norm = nn.LayerNorm(config.hidden, eps=_EPSILON)
        self.decoder_bias = nn.Parameter(torch.empty(config.vocabulary))

    def initialise(self) -> None:
        """Set every parameter as the paper's code does: weights from N(0, 0.02), biases zero, norms one."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
            elif isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
            if isinstance(module, (nn.Linear, nn.LayerNorm)):
                nn.init.zeros_(module.bias)
        nn.init.zeros_(self.decoder_bias)

    def forward(self, tokens: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of the masked tokens (N*P x vocabulary) and of the sentence pairs (N x 2).

        ``tokens`` and ``segments`` are N x S, ``masked`` (N x P) the positions whose tokens are to be predicted.
        """
        places = torch.arange(tokens.shape[1], device=tokens.device)
        states = self.word_embeddings(tokens) + self.position_embeddings(places)
        states = self.dropout(self.embedding_norm(states + self.segment_embeddings(segments)))
        for layer in self.layers:
            states = layer(states)
        pair_scores: Tensor = self.next_sentence(torch.tanh(self.pooler(states[:, 0])))
        chosen = states.gather(1, masked.unsqueeze(-1).expand(-1, -1, states.shape[-1])).flatten(0, 1)
        chosen = self.transform_norm(functional.gelu(self.transform(chosen)))
        token_scores = functional.linear(chosen, self.word_embeddings.weight, self.decoder_bias)
        return token_scores, pair_scores


def build(name: str, device: torch.device) -> BertForPreTraining:
    """Return a published model by its name, initialised where it will stay (no copy of it in host memory)."""
    with torch.device("meta"):
        model = BertForPreTraining(CONFIGS[name])
    model.to_empty(device=device)
    model.initialise()
    return model
