"""Classifiers, many to one: a sequence in, one score a class out.

Axes     B batch, T time, C classes; `Batch` → logits (B, C).
Source   recurrent layer, pooling, one linear map. The bag is the baseline without order: the mean of the embeddings,
         as in Iyyer et al. (2015), "Deep Unordered Composition", without its hidden layers.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unrolled.errors import expected
from unrolled.models.parts import Batch, Inputs, check_fit, check_rate, lengths_of, width_of
from unrolled.models.pooling import POOLINGS, Attention, last_pool, max_pool, mean_pool

__all__ = ["BagClassifier", "Classifier"]


class Classifier(nn.Module):
    """A recurrent layer read to its end, pooled, and scored.

    Args:
        inputs: `TokenInput` or `FeatureInput`.
        recurrent: RNN, LSTM or GRU of this library with batch_first=True, in one direction or both.
        classes: how many classes.
        pooling: "last", "mean", "max" or "attention"; see `models.pooling`.
        dropout: share of the pooled features set to 0 while training.
    """

    def __init__(
        self, inputs: Inputs, recurrent: Any, classes: int, *, pooling: str = "last", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ValueError(expected("pooling", "one of " + ", ".join(POOLINGS), repr(pooling)))
        check_fit(inputs, recurrent)
        self.inputs = inputs
        self.recurrent = recurrent
        self.pooling = pooling
        self.attention = Attention(width_of(recurrent)) if pooling == "attention" else None
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(width_of(recurrent), classes)

    def forward(self, batch: Batch) -> Tensor:
        """(B, C)."""
        return self.output(self.dropout(self.pool(batch)))

    def pool(self, batch: Batch) -> Tensor:
        """(B, H): the vector of each row that the scores are made from."""
        x = self.inputs.read(batch)
        lengths = lengths_of(batch.lengths, x)
        out, state = self.recurrent(x, lengths=lengths)
        if self.pooling == "last":
            return last_pool(state, lengths, bidirectional=self.recurrent.bidirectional)
        if self.attention is not None:
            return self.attention(out, lengths)
        return (mean_pool if self.pooling == "mean" else max_pool)(out, lengths)


class BagClassifier(nn.Module):
    """The mean of a row's input vectors, scored. Any order of the same tokens gives the same scores.

    It is here to be compared with: "dog bites man" and "man bites dog" are one bag.
    """

    def __init__(self, inputs: Inputs, classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.inputs = inputs
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(inputs.width, classes)

    def forward(self, batch: Batch) -> Tensor:
        """(B, C)."""
        x = self.inputs.read(batch)
        lengths = lengths_of(batch.lengths, x)
        return self.output(self.dropout(mean_pool(x, lengths)))
