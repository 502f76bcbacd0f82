"""One stream, one step at a time, as fast as Python lets it: for loops in which a microsecond counts.

Axes     D channels, H features, C classes or tags. `Stream.push` does the same with checks and words around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.errors import RunError, expected
from unrolled.runtime.inputs import Features

__all__ = ["ModelSteps"]


class ModelSteps:
    """A classifier or tagger of measurements: a row of features in, scores out.

    >>> steps = model.steps()               # doctest: +SKIP
    >>> scores = steps([0.1, 0.9])          # doctest: +SKIP
    """

    def __init__(self, model: Any) -> None:
        inputs = model.body.inputs
        if model.task not in ("classify", "tag") or not isinstance(inputs, Features):
            found = f"one of task {model.task}" + ("" if model.features else " that reads tokens")
            raise RunError(expected("steps", "a classifier or tagger of features", found, "Use model.stream()."))
        if model.body.recurrent.shape.bidirectional:
            raise RunError(expected("steps", "a model of one direction", "a bidirectional one"))
        self._mean, self._factor = inputs.mean, 1 / inputs.scale
        self._x = np.zeros((1, inputs.width), np.float32)
        self._row = self._x[0]
        self._recurrent, self._pooling = model.body.recurrent, getattr(model, "pooling", None)
        # Sums are float64: a product of two types would turn the weights at every step.
        summed = self._pooling is not None and "sum" in self._pooling.NAMES
        kind = np.float64 if summed else np.float32
        self._weight, self._bias = model.output.weight.astype(kind, order="C"), model.output.bias.astype(kind)
        self.reset()

    def reset(self) -> None:
        """Start again."""
        self._steps, self._count = self._recurrent.steps(), 0
        self._sums = {} if self._pooling is None else self._pooling.start(1)

    def __call__(self, features: Any) -> np.ndarray:
        """Features (D,) → scores (C,), logits: of all that has come where there is a pooling, else of this step.

        The values are not checked: NaN goes through.
        """
        row = self._row
        row[...] = features
        row -= self._mean
        row *= self._factor
        out = self._steps(self._x)
        if self._pooling is not None:
            self._count += 1
            out = self._pooling.step(out, self._sums, self._count)
        return (out @ self._weight)[0] + self._bias
