"""One stream, one step at a time, as fast as Python lets it: for loops in which a microsecond counts.

Axes     D channels, H features, C classes or tags. `Stream.push` does the same with checks and words around it.
Variant  The state of the top layer stands in one array with a 1 behind it, and the weights of the head with their bias:
         scores are one product. A mean of states is taken of their scores instead, in float64: the head is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy import add, multiply, subtract

from unrolled.errors import RunError, expected
from unrolled.runtime.heads import Max, Mean, Pooling
from unrolled.runtime.inputs import Features

__all__ = ["ModelSteps"]

FLOAT32 = np.dtype(np.float32)


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
        self._x = np.zeros(inputs.width, np.float32)
        self._recurrent = model.body.recurrent
        self._pooling: Pooling | None = getattr(model, "pooling", None)
        self._head = np.ascontiguousarray(np.column_stack([model.output.weight.T, model.output.bias]))  # (C, H + 1)
        self._scores = np.zeros(len(self._head), np.float32)
        self._say = self._scorer()
        self.reset()

    def _scorer(self) -> Callable[[], np.ndarray]:
        if self._pooling is None or type(self._pooling) is Pooling:
            return self._last_scores
        kinds = {Mean: self._mean_scores, Max: self._largest_scores}
        return kinds.get(type(self._pooling), self._pooled_scores)

    def reset(self) -> None:
        """Start again."""
        state = self._recurrent.start(1)
        top = np.ones(state[0].shape[-1] + 1, np.float32)
        top[:-1] = state[0][-1, 0]
        parts = [[part[0] for part in layer] for layer in zip(*state, strict=True)]
        parts[-1][0] = top[:-1]
        inputs = [self._x, *(part[0] for part in parts)]
        layers = zip(self._recurrent.layers, inputs, parts, strict=False)
        self._calls = [partial(layer.step, x, *part) for layer, x, part in layers]  # every array stays where it is
        self._top, self._count = top, 0
        self._summed, self._largest = np.zeros(len(self._head)), np.full(len(top), -np.inf, np.float32)
        self._sums = {} if self._pooling is None else self._pooling.start(1)

    def __call__(self, features: Any) -> np.ndarray:
        """Features (D,) → scores (C,), logits: of all that has come where there is a pooling, else of this step.

        The values are not checked: NaN goes through.
        """
        x = self._x
        if features.__class__ is not np.ndarray or features.dtype is not FLOAT32 or features.shape != x.shape:
            x[...] = features
            features = x
        subtract(features, self._mean, x)
        multiply(x, self._factor, x)
        for step in self._calls:
            step()
        return self._say()

    def _last_scores(self) -> np.ndarray:
        return self._head.dot(self._top)

    def _mean_scores(self) -> np.ndarray:
        self._count += 1
        add(self._summed, self._head.dot(self._top, self._scores), self._summed)
        return self._summed / self._count

    def _largest_scores(self) -> np.ndarray:
        return self._head.dot(np.maximum(self._largest, self._top, out=self._largest))

    def _pooled_scores(self) -> np.ndarray:
        assert self._pooling is not None
        self._count += 1
        pooled = self._pooling.step(self._top[None, :-1], self._sums, self._count)
        return self._head[:, :-1].dot(pooled[0]) + self._head[:, -1]
