"""Attention: from a decoder's state to weights over the source, and the weighted mean of what stands there.

Axes     B batch, N queries of a row, S source positions, Q query, M memory, A width of the additive scores:
         query (B, N, Q), memory (B, S, M) → context (B, N, M), weights (B, N, S).
Source   additive: Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, appendix A.1.2: e = v · tanh(q W + m U).
         dot and general: Luong, Pham & Manning (2015), arXiv:1508.04025, eq. (8): e = q · m and e = q W · m.
Variant  Weights at padding are exactly 0, whatever stands there, NaN included, and no gradient reaches it. A row
         without source positions has the context 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.models.parts import valid_steps, widened

__all__ = ["ATTENTIONS", "AdditiveScores", "DotScores", "GeneralScores", "Memory", "SourceAttention", "masked_weights"]


def masked_weights(scores: Tensor, valid: Tensor) -> Tensor:
    """Softmax over the last axis among the valid positions: exactly 0 elsewhere, and everywhere where none is valid.

    Half precision is summed in float32, and comes back so.
    """
    scores = widened(scores)
    # The lowest finite number, not -inf: a row that is all padding would be 0/0.
    return scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1) * valid


class AdditiveScores(nn.Module):
    """e = v · tanh(q W + m U + b)."""

    def __init__(self, query: int, memory: int, size: int | None = None) -> None:
        super().__init__()
        size = size or query
        self.query = nn.Linear(query, size, bias=False)
        self.memory = nn.Linear(memory, size)
        self.output = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.output, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, A): what does not depend on the query, computed once a source."""
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, N, Q), keys (B, S, A) → (B, N, S)."""
        return torch.tanh(self.query(query)[:, :, None] + keys[:, None]) @ self.output


class DotScores(nn.Module):
    """e = q · m; query and memory must be equally wide."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        if query != memory:
            way_out = "Use general or additive, or make the sizes equal: decoder's = encoder's × its directions."
            raise ShapeError(expected("attention", f"a memory as wide as the query ({query}) for dot", memory, way_out))

    def keys(self, memory: Tensor) -> Tensor:
        """The memory as it is."""
        return memory

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, N, M), keys (B, S, M) → (B, N, S)."""
        return query @ keys.mT


class GeneralScores(nn.Module):
    """e = q W · m."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        self.weight = nn.Linear(memory, query, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, Q): the memory in the query's space."""
        return self.weight(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, N, Q), keys (B, S, Q) → (B, N, S)."""
        return query @ keys.mT


ATTENTIONS: dict[str, Any] = {"additive": AdditiveScores, "dot": DotScores, "general": GeneralScores}


class Memory(NamedTuple):
    """A source that can be looked at again and again."""

    values: Tensor  # (B, S, M), 0 at padding
    keys: Tensor  # (B, S, …)
    valid: Tensor  # (B, S) boolean


class SourceAttention(nn.Module):
    """Scores of one kind, their weights, and the weighted mean of the memory."""

    def __init__(self, kind: str, query: int, memory: int) -> None:
        super().__init__()
        if kind not in ATTENTIONS:
            raise ValueError(expected("attention", "one of " + ", ".join(ATTENTIONS), repr(kind)))
        self.scores = ATTENTIONS[kind](query, memory)

    def remember(self, memory: Tensor, lengths: Tensor) -> Memory:
        """Prepare a source (B, S, M) with its lengths (B,)."""
        valid = valid_steps(lengths, memory)
        values = memory.masked_fill(~valid[..., None], 0)
        return Memory(values, self.scores.keys(values), valid)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """query (B, N, Q) → context (B, N, M) and weights (B, N, S)."""
        weights = masked_weights(self.scores(query, memory.keys), memory.valid[:, None])
        return weights @ memory.values, weights
