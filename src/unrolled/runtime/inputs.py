"""Inputs: tokens, the letters inside them, or rows of measurements, as vectors.

Axes     B batch, T time, W letters of a token, D channels. Rows come batch first and leave time first, (T, B, width).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.data.reading import Reading, SideBySide
from unrolled.runtime.recurrent import Recurrent, Shape
from unrolled.runtime.weights import Weights

__all__ = ["Features", "Tokens", "inputs_of"]


class Features:
    """(x − mean) / scale."""

    def __init__(self, weights: Weights, prefix: str, channels: int) -> None:
        self.mean = weights.take(f"{prefix}mean", channels)
        self.scale = weights.take(f"{prefix}scale", channels)
        self.width = channels

    def vectors(self, rows: SideBySide) -> np.ndarray:
        """(T, B, D) float32."""
        return (np.swapaxes(rows.inputs, 0, 1) - self.mean) / self.scale


class Tokens:
    """An embedding, beside the vector of each token's letters where there is one."""

    def __init__(self, weights: Weights, prefix: str, tokens: int, size: int | None, letters: int | None) -> None:
        self.embedding = weights.take(f"{prefix}embedding.weight", tokens, size)
        self.letters = None if letters is None else Letters(weights, f"{prefix}characters.", letters)
        self.width = self.embedding.shape[1] + (0 if self.letters is None else self.letters.width)

    def vectors(self, rows: SideBySide) -> np.ndarray:
        """(T, B, width) float32."""
        vectors = self.embedding[rows.inputs.T]
        if self.letters is None or rows.letters is None or rows.widths is None:
            return vectors
        return np.concatenate([vectors, self.letters.vectors(rows.letters, rows.widths).swapaxes(0, 1)], axis=-1)


class Letters:
    """The letters of each token → the final states of a bidirectional LSTM, side by side; 0 for a token without any."""

    def __init__(self, weights: Weights, prefix: str, letters: int) -> None:
        self.embedding = weights.take(f"{prefix}embedding.weight", letters, None)
        hidden = weights.size(f"{prefix}recurrent.weight_hh_l0", 1)
        shape = Shape("lstm", self.embedding.shape[1], hidden, bidirectional=True)
        self.recurrent = Recurrent(weights, f"{prefix}recurrent.", shape)
        self.width = self.recurrent.width

    def vectors(self, letters: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """(B, T, W) and (B, T) → (B, T, width). Each distinct token is read once."""
        vectors = np.zeros((widths.size, self.width), np.float32)
        spelled = np.flatnonzero(widths)
        if len(spelled):
            keys = np.column_stack([widths.ravel()[spelled], letters.reshape(widths.size, -1)[spelled]])
            words, where = np.unique(keys, axis=0, return_inverse=True)
            _, (h, _) = self.recurrent.run(self.embedding[words[:, 1:].T], lengths=words[:, 0])
            vectors[spelled] = np.concatenate([h[0], h[1]], axis=-1)[where.ravel()]
        return vectors.reshape(*widths.shape, self.width)


def inputs_of(weights: Weights, reading: Reading, embedding: Any, prefix: str = "inputs.") -> Features | Tokens:
    """What a model of this reading begins with; `embedding` is the size that the recipe names, None for any."""
    if reading.scaler is not None:
        return Features(weights, prefix, len(reading.scaler.mean))
    assert reading.vocabulary is not None
    letters = None if reading.letters is None else len(reading.letters)
    return Tokens(weights, prefix, len(reading.vocabulary), embedding, letters)
