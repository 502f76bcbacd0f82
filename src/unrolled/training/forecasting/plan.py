"""What is measured before training: a `runtime.plan.Plan`, and how it is found.

Variant  scaler = series: place and scale of a series are those of its training part. scaler = window: those of the
         context that a window, or a forecast, starts with; never of the horizon.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from unrolled.data.calendar import Frequency, calendar_features
from unrolled.data.series import Series, SeriesScaler
from unrolled.decoding.forecasting import Layout
from unrolled.runtime import plan as measured
from unrolled.runtime.plan import Frame, Scale, forward
from unrolled.training.recipe import Recipe

__all__ = ["Frame", "Plan", "Scale", "season_of"]


@dataclass(frozen=True)
class Plan(measured.Plan):
    """All that training and forecasts must agree on, measured on the training parts."""

    @classmethod
    def fit(cls, recipe: Recipe, parts: list[Series]) -> Self:
        """Measure the training parts."""
        first = parts[0]
        season, long = season_of(recipe, first.frequency)
        seasons = tuple(dict.fromkeys((1, season, long)))
        longest = max(len(part) for part in parts)
        lags = recipe.lags or _usual_lags(season, long, longest)
        span = max(int(part.times[-1]) - part.start for part in parts)
        cycles = first.frequency.cycles(span) if recipe.calendar else ()
        calendar = calendar_features(first.times[:1], cycles).shape[1]
        side, past = first.known.shape[1] + calendar, first.past.shape[1]
        levels = (0.5,) if recipe.output == "point" else recipe.quantiles
        layout = Layout(tuple(sorted(lags)), seasons, side, past, recipe.output, tuple(levels), recipe.horizon)
        log = recipe.transform == "log"
        learnt = [replace(part, target=forward(part.target, log)) for part in parts]
        scaler = SeriesScaler.fit(learnt, counts=recipe.output == "negative-binomial")
        sizes = np.log(scaler.scale)
        size = (float(sizes.mean()), float(sizes.std()) if sizes.std() > 1e-6 else 1.0)
        known, past_names = (
            given if len(given) == count else tuple(f"{role} covariate {i + 1}" for i in range(count))
            for given, count, role in ((recipe.known, side - calendar, "known"), (recipe.past, past, "past"))
        )
        return cls(
            layout, scaler, first.frequency, first.dates, season, lookback_of(recipe, season), recipe.horizon,
            recipe.scaler == "window", log, cycles, size, known, past_names,
        )  # fmt: skip


def season_of(recipe: Recipe, frequency: Frequency) -> tuple[int, int]:
    """The season by which the seasonal naive rule goes, and the longest one."""
    natural = frequency.seasons
    season = recipe.season or natural[0]
    longer = [length for length in natural if length > season]
    return season, max([season, *longer]) if recipe.season in (None, natural[0]) else season


def lookback_of(recipe: Recipe, season: int) -> int:
    """Steps that are read before a forecast: two horizons or two seasons, whichever is more, unless it is said."""
    return recipe.lookback or max(2 * recipe.horizon, 2 * season, 8)


def _usual_lags(season: int, long: int, steps: int) -> tuple[int, ...]:
    """The last three values, and one season back with its neighbours, for as long as the series goes back."""
    wanted = [1, 2, 3]
    for length in dict.fromkeys((season, long)):
        wanted += [length - 1, length, length + 1] if length > 1 else []
    return tuple(sorted({lag for lag in wanted if 1 <= lag < max(steps, 2)}))
