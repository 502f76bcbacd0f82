"""Classifier: a sequence in, one label out.

Axes     T time, B batch, H features, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Item
from unrolled.data.reading import Reading, Row
from unrolled.data.vocabulary import Vocabulary
from unrolled.decoding.answers import log_softmax, one_label
from unrolled.runtime.heads import Linear, Pooling, pooling_of
from unrolled.runtime.model import Body, Model, Parts, batches
from unrolled.runtime.stream import Stream, open_feed
from unrolled.runtime.task_streams import ClassifierStream

__all__ = ["Classifier"]


class Classifier(Model):
    """As `unrolled.models.Classifier`, with every pooling."""

    task = "classify"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.reading = Reading.from_dict(parts.task["reading"])
        self.labels = Vocabulary.from_dict(parts.task["labels"])
        self.body = Body(parts, self.reading)
        width = self.body.recurrent.width
        self.pooling: Pooling = pooling_of(parts.recipe.get("pooling"), width, parts.weights)
        self.output = Linear(parts.weights, "output.", width, len(self.labels))

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """label, its probability, the scores (probabilities) of all labels, and the tokens that are not known."""
        rows = [self.reading.encode(item) for item in items]
        probabilities = np.exp(log_softmax(self.scores(rows)))
        return [one_label(self.labels.tokens, p, row.unknown) for row, p in zip(rows, probabilities, strict=True)]

    def scores(self, rows: Sequence[Row]) -> np.ndarray:
        """Logits (N, C) of encoded rows."""
        result = np.zeros((len(rows), len(self.labels)), np.float32)
        for indices in batches(rows):
            side = self.reading.side_by_side([rows[i] for i in indices])
            out, state = self.body.recurrent.run(self.body.inputs.vectors(side), lengths=side.lengths)
            result[indices] = self.output(self.pool(out, state[0], side.lengths).astype(np.float32))
        return result

    def pool(self, out: np.ndarray, h: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(B, H); 0 for a row of length 0."""
        if type(self.pooling) is Pooling:  # "last": the final states of the top layer, side by side
            pooled = np.concatenate(list(h[-self.body.recurrent.shape.directions :]), axis=-1)
        elif not len(out):
            pooled = np.zeros(out.shape[1:])
        else:
            steps = np.minimum(np.arange(1, len(out) + 1)[:, None], lengths)
            valid = np.arange(len(out))[:, None] < lengths
            pooled = self.pooling.running(out, valid, self.pooling.start(len(lengths)), steps)[-1]
        return np.where((lengths == 0)[:, None], 0, pooled)

    def stream(self, batch_size: int | None = None, *, lookahead: int | None = None) -> Stream:
        """A stream whose answers are those of what has come so far."""
        return ClassifierStream(self, batch_size, open_feed(self, batch_size, lookahead))
