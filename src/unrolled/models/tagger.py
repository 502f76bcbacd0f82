"""Tagger, many to many and aligned: one tag for each step of a sequence.

Axes     B batch, T time, K tags; `Batch` → scores (B, T, K).
Source   bidirectional recurrent layer under a CRF: Huang, Xu & Yu (2015), arXiv:1508.01991. Without the CRF each step
         has a softmax of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unrolled.equations import masked_cross_entropy
from unrolled.errors import DataError, expected
from unrolled.models.crf import CRF, Allowed, viterbi
from unrolled.models.parts import Batch, Inputs, check_fit, check_rate, lengths_of, valid_steps, width_of

__all__ = ["Tagger"]


class Tagger(nn.Module):
    """A recurrent layer whose output is scored at every step.

    Args:
        inputs: `TokenInput` or `FeatureInput`.
        recurrent: RNN, LSTM or GRU of this library with batch_first=True, in one direction or both.
        tags: how many tags.
        crf: score pairs of neighbouring tags too.
        dropout: share of the recurrent output's features set to 0 while training.
    """

    def __init__(self, inputs: Inputs, recurrent: Any, tags: int, *, crf: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        check_fit(inputs, recurrent)
        self.inputs = inputs
        self.recurrent = recurrent
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(width_of(recurrent), tags)
        self.crf = CRF(tags) if crf else None

    def forward(self, batch: Batch) -> Tensor:
        """(B, T, K)."""
        out, _ = self.recurrent(self.inputs.read(batch), lengths=batch.lengths)
        return self.output(self.dropout(out))

    def loss(self, scores: Tensor, batch: Batch) -> Tensor:
        """Nats a valid step: the mean of −log p(tag); with a CRF, −log p(tags) of all rows over the number of steps."""
        if batch.targets is None:
            raise DataError(expected("batch.targets", "tags (batch, time)", "none", "A loss needs them."))
        if self.crf is None:
            return masked_cross_entropy(scores, batch.targets, batch.valid)
        total = self.crf.nll(scores, batch.targets, batch.lengths).sum()
        return total / batch.lengths.sum().clamp(min=1)

    @torch.no_grad()
    def decode(self, scores: Tensor, lengths: Any, *, allowed: Allowed | None = None) -> list[list[int]]:
        """The best tags of each row, as long as the row; [] for a row of length 0.

        `allowed` restricts them, for instance to `bio_allowed(names)`; the best allowed sequence is then searched for,
        with a CRF or without.
        """
        if self.crf is not None:
            return self.crf.viterbi(scores, lengths, allowed=allowed)
        lengths = lengths_of(lengths, scores)
        if allowed is not None:
            padding = ~valid_steps(lengths, scores)[..., None]
            return viterbi(scores.masked_fill(padding, 0), lengths, allowed=allowed)
        best = scores.argmax(-1).tolist()
        return [row[:length] for row, length in zip(best, lengths.tolist(), strict=True)]
