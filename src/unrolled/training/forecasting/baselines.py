"""What a forecast is held against: the last value, the last season, and exponential smoothing.

Axes     (T,) a history with NaN where missing, (h,) the steps after it.
Source   ETS by statsmodels (Hyndman et al., 2008): additive errors, damped additive trend, additive season. Its
         parameters are fitted once a series, on what stands before the first origin; at later origins the states go
         on with them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unrolled.errors import require

__all__ = ["ETS", "naive", "seasonal_naive"]

LONGEST_FIT = 2000  # steps: more would take minutes and change little


def naive(history: np.ndarray, horizon: int) -> np.ndarray:
    """The last value that is there, again and again; 0 where there is none."""
    known = history[np.isfinite(history)]
    return np.full(horizon, known[-1] if len(known) else 0.0)


def seasonal_naive(history: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """The newest value at the same place of the season, or the last one where none is known."""
    result = naive(history, horizon)
    for step in range(min(season, horizon)):
        same = history[::-1][season - 1 - step :: season]  # newest first
        same = same[np.isfinite(same)]
        if len(same):
            result[step::season] = same[0]
    return result


class ETS:
    """Exponential smoothing of one series.

    Raises:
        MissingExtra: statsmodels is not installed; the message says how to get it.
    """

    def __init__(self, history: np.ndarray, season: int) -> None:
        self._model = require("statsmodels.tsa.exponential_smoothing.ets", "forecast").ETSModel
        self.season = season
        self.parameters: Any = None
        values = self._filled(history)[-LONGEST_FIT:]
        self.options: dict[str, Any] = {"error": "add", "trend": "add", "damped_trend": True}
        if season > 1 and len(values) >= 2 * season + 2:
            self.options |= {"seasonal": "add", "seasonal_periods": season}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an optimiser that stops early still gives the best it found
            self.parameters = self._model(values, **self.options).fit(disp=False, maxiter=200).params

    def forecast(self, history: np.ndarray, horizon: int) -> np.ndarray:
        """(h,) from a history that may be longer than the one it was fitted on."""
        values = self._filled(history)[-LONGEST_FIT:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(self._model(values, **self.options).smooth(self.parameters).forecast(horizon))

    def _filled(self, history: np.ndarray) -> np.ndarray:
        """Missing values by what the seasonal naive rule would have said: statsmodels takes none."""
        filled = history.astype(np.float64).copy()
        for place in np.flatnonzero(np.isnan(filled)):
            filled[place] = seasonal_naive(filled[:place], 1, self.season)[0]
        return filled
