"""Mean and scale of each channel, measured on the training part alone.

Axes     T time, D channels.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    def fit(cls, arrays: Sequence[np.ndarray]) -> Scaler:
        """Every time step counts once, whatever the sequence it stands in."""
        filled = [np.asarray(array, dtype=np.float64) for array in arrays if len(array)]
        if not filled:
            raise DataError(expected("arrays", "at least one time step", "none"))
        steps = np.concatenate(filled)  # (sum of T, D)
        if not np.isfinite(steps).all():
            raise DataError(expected("arrays", "finite numbers", "NaN or infinity"))
        mean, scale = steps.mean(axis=0), steps.std(axis=0)
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
