"""Mean and scale of each channel, measured on the training part alone, at once or a piece at a time.

Axes     T time, D channels.
Source   pieces: Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", equation 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.errors import DataError, expected


@dataclass(frozen=True, eq=False)
class Scaler:
    """(x − mean) / scale. A channel that never changes has scale 1."""

    mean: np.ndarray  # (D,) float32
    scale: np.ndarray  # (D,) float32

    @classmethod
    def fit(cls, arrays: Iterable[np.ndarray]) -> Scaler:
        """Every time step counts once, whatever the sequence it stands in."""
        moments = Moments()
        moments.add(arrays)
        return moments.scaler()

    @classmethod
    def of(cls, mean: np.ndarray, scale: np.ndarray) -> Scaler:
        """From the mean and the deviation of each channel, float64."""
        # A constant channel leaves rounding noise of the size of eps * |mean|; dividing by it would blow up.
        flat = scale <= 1e-7 * np.abs(mean)
        return cls(mean.astype(np.float32), np.where(flat, 1.0, scale).astype(np.float32))

    def apply(self, x: np.ndarray) -> np.ndarray:
        """(T, D) → (x − mean) / scale, float32."""
        return ((x - self.mean) / self.scale).astype(np.float32)

    def invert(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `apply`."""
        return (x * self.scale + self.mean).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Scaler:
        """The inverse of `to_dict`."""
        try:
            with np.errstate(over="raise"):
                return cls(np.array(saved["mean"], np.float32), np.array(saved["scale"], np.float32))
        except (KeyError, TypeError, ValueError, FloatingPointError):
            raise DataError(expected("scaler", "a dict with mean and scale", repr(saved)[:80])) from None


class Moments:
    """Mean and variance of each channel so far, of the time steps of all pieces."""

    def __init__(self) -> None:
        self.steps = 0
        self.mean = np.zeros(0)  # (D,) float64
        self.variance = np.zeros(0)  # (D,)

    def add(self, arrays: Iterable[np.ndarray]) -> None:
        """Count a piece: some arrays (T, D).

        Raises:
            DataError: a number is not finite.
        """
        filled = [np.asarray(array, dtype=np.float64) for array in arrays if len(array)]
        if not filled:
            return
        steps = np.concatenate(filled)  # (sum of T, D)
        if not np.isfinite(steps).all():
            raise DataError(expected("arrays", "finite numbers", "NaN or infinity"))
        count, mean, variance = len(steps), steps.mean(axis=0), steps.var(axis=0)
        if self.steps:
            share, apart = count / (self.steps + count), mean - self.mean
            variance = self.variance + (variance - self.variance) * share + apart**2 * (share * (1 - share))
            mean = self.mean + apart * share
        self.steps, self.mean, self.variance = self.steps + count, mean, variance

    def scaler(self) -> Scaler:
        """The scale of all pieces.

        Raises:
            DataError: there was no time step.
        """
        if not self.steps:
            raise DataError(expected("arrays", "at least one time step", "none"))
        return Scaler.of(self.mean, np.sqrt(self.variance))
