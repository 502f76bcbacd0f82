"""What a forecast is held against: the last value, the last season, and exponential smoothing.

Axes     (T,) a history with NaN where missing, (h,) the steps after it.
Source   ETS by statsmodels (Hyndman et al., 2008): additive errors, damped additive trend, additive season. Its
         parameters are fitted once a series, on what stands before the first origin; with them the states then go
         through the values after it, and a later origin forecasts from the state there.
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

    Args:
        values: (T,) all of it.
        begin: how many of the values the parameters are fitted on; origins follow.

    Raises:
        MissingExtra: statsmodels is not installed; the message says how to get it.
    """

    def __init__(self, values: np.ndarray, begin: int, season: int) -> None:
        model = require("statsmodels.tsa.exponential_smoothing.ets", "forecast").ETSModel
        self.season = season
        self.start = max(0, begin - LONGEST_FIT)
        filled = self._filled(values)[self.start :]
        fitted_on = filled[: begin - self.start]
        options: dict[str, Any] = {"error": "add", "trend": "add", "damped_trend": True}
        if season > 1 and len(fitted_on) >= 2 * season + 2:
            options |= {"seasonal": "add", "seasonal_periods": season}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an optimiser that stops early still gives the best it found
            parameters = model(fitted_on, **options).fit(disp=False, maxiter=200).params
            self.states: Any = model(filled, **options).smooth(parameters)

    def forecast(self, origin: int, horizon: int) -> np.ndarray:
        """(h,) from the values before `origin`."""
        first = origin - self.start
        return np.asarray(self.states.predict(start=first, end=first + horizon - 1, dynamic=True))

    def _filled(self, history: np.ndarray) -> np.ndarray:
        """Missing values by what the seasonal naive rule would have said: statsmodels takes none."""
        filled = history.astype(np.float64).copy()
        for place in np.flatnonzero(np.isnan(filled)):
            filled[place] = seasonal_naive(filled[:place], 1, self.season)[0]
        return filled
