"""Pooling: one vector a row out of a whole sequence, and never out of its padding.

Axes     B batch, T time, H features: (B, T, H) → (B, H). A row of length 0 pools to 0.
Source   attention: Yang et al. (2016), "Hierarchical Attention Networks for Document Classification":
         u_t = tanh(h_t W + b), a = softmax over the valid steps of u_t · v, and Σ a_t h_t.
Variant  "last" is the state after the row's own last step in both directions, forward beside backward; the output at
         the last step holds a backward half that has seen one step only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unrolled.layers import final_state
from unrolled.models.attention import masked_weights
from unrolled.models.parts import valid_steps

__all__ = ["POOLINGS", "Attention", "max_pool", "mean_pool"]

POOLINGS = ("last", "mean", "max", "attention")


def last_pool(state: Any, lengths: Tensor, *, bidirectional: bool) -> Tensor:
    """(B, H) from the state a layer returned."""
    return final_state(state, bidirectional=bidirectional).masked_fill((lengths == 0)[:, None], 0)


def mean_pool(out: Tensor, lengths: Tensor) -> Tensor:
    """Mean over each row's own steps."""
    padding = ~valid_steps(lengths, out)[..., None]
    return out.masked_fill(padding, 0).sum(1) / lengths.clamp(min=1)[:, None]


def max_pool(out: Tensor, lengths: Tensor) -> Tensor:
    """Largest value over each row's own steps, feature by feature; negative if they all are."""
    if out.shape[1] == 0:
        return out.new_zeros(out.shape[0], out.shape[2])
    padding = ~valid_steps(lengths, out)[..., None]
    largest = out.masked_fill(padding, float("-inf")).amax(1)
    return largest.masked_fill((lengths == 0)[:, None], 0)


class Attention(nn.Module):
    """A weighted mean whose weights are learned. Weights at padding are exactly 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.query = nn.Linear(width, 1, bias=False)

    def weights(self, out: Tensor, lengths: Tensor) -> Tensor:
        """(B, T): they sum to 1 over a row's own steps, to 0 in a row without steps."""
        valid = valid_steps(lengths, out)
        scores = self.query(torch.tanh(self.hidden(out))).squeeze(-1)
        return masked_weights(scores, valid)

    def forward(self, out: Tensor, lengths: Tensor) -> Tensor:
        out = out.masked_fill(~valid_steps(lengths, out)[..., None], 0)
        return (self.weights(out, lengths)[:, None] @ out).squeeze(1)
