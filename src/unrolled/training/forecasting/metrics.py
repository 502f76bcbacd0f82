"""Scores of forecasts, added up value by value; missing values are not scored.

Axes     h steps of a forecast, Q quantile levels.
Source   MASE: Hyndman and Koehler (2006); sMAPE as in the M4 competition, 200 |y − f| / (|y| + |f|); CRPS as twice the
         mean pinball loss over the levels (Laio and Tamea, 2007), divided by the scale of the MASE, so that series
         of any size add up; coverage is the share of values between the lowest and the highest level.
Variant  The scale of the MASE is the mean absolute seasonal difference of all that stood before the part. Every value
         weighs the same. A series whose scale is 0 or unknown is left out of MASE and CRPS, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrolled.errors import DataError, expected

__all__ = ["ForecastScores", "naive_scale"]


def naive_scale(history: np.ndarray, season: int) -> float:
    """Mean absolute difference of values one season apart; of neighbours where there is no such pair; else NaN."""
    for lag in dict.fromkeys((season, 1)):
        changes = np.abs(history[lag:] - history[:-lag]) if len(history) > lag else np.zeros(0)
        changes = changes[np.isfinite(changes)]
        if len(changes) and changes.mean() > 0:
            return float(changes.mean())
    return float("nan")


class ForecastScores:
    """Adds up the scores of forecasts.

    Args:
        levels: of the quantiles, rising; none for a model that gives only points.
    """

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels = np.array(levels, np.float64)
        self.values = self.unscaled = self._scaled = 0
        self._percent = self._absolute = self._pinball = self._inside = self._error = 0.0

    def update(self, actual: np.ndarray, point: np.ndarray, quantiles: np.ndarray | None, scale: float) -> None:
        """Add one forecast: actual (h,) with NaN where missing, point (h,), quantiles (h, Q), the scale of the MASE."""
        there = np.isfinite(actual)
        truth, guess = actual[there], point[there]
        errors = np.abs(truth - guess)
        size = np.abs(truth) + np.abs(guess)
        self.values += len(truth)
        self._error += float(errors.sum())
        self._percent += float((200 * errors / np.where(size > 0, size, 1)).sum())
        pinball = errors
        if quantiles is not None:
            short = truth[:, None] - quantiles[there]
            pinball = 2 * np.maximum(self.levels * short, (self.levels - 1) * short).mean(axis=1)
            self._inside += float(((quantiles[there][:, 0] <= truth) & (truth <= quantiles[there][:, -1])).sum())
        if np.isfinite(scale):
            self._scaled += len(truth)
            self._absolute += float(errors.sum()) / scale
            self._pinball += float(pinball.sum()) / scale
        else:
            self.unscaled += len(truth)

    def compute(self) -> dict[str, float]:
        """mase, smape (percent), mae (in the units of the data), crps; and, with two levels or more, coverage."""
        if not self.values:
            way_out = "The part has no value that is not missing: bring more data, or hold out more steps."
            raise DataError(expected("values to score", "at least one", "none", way_out))
        scaled = max(self._scaled, 1)
        result = {"mase": self._absolute / scaled, "smape": self._percent / self.values}
        result |= {"mae": self._error / self.values, "crps": self._pinball / scaled}
        if len(self.levels) > 1:
            result["coverage"] = self._inside / self.values
        return result | {"items": self.values}
