"""The fields of a recipe that only a forecast has, and what does not go together among them."""

from __future__ import annotations

from typing import Literal

from unrolled.errors import RecipeError, expected
from unrolled.training.recipe_fields import Fields, field

__all__ = ["ForecastFields", "check_forecast"]


class ForecastFields(Fields):
    """The fields of every task, and those of a forecast."""

    target: str = field("Forecasting", "The column to forecast.", "target", tasks="forecast")
    known: tuple[str, ...] = field(
        "Forecasting", "Columns that are known in advance, for the horizon too.", (), tasks="forecast"
    )
    past: tuple[str, ...] = field(
        "Forecasting", "Columns that are known only up to the moment of the forecast.", (), tasks="forecast"
    )
    horizon: int = field("Forecasting", "Steps to forecast.", 24, ge=1, tasks="forecast")
    lookback: int | None = field(
        "Forecasting",
        "Steps that are read before a forecast. None: two horizons or two seasons, whichever is more.",
        None,
        ge=1,
        tasks="forecast",
    )
    frequency: str = field(
        "Forecasting", "The step of time, such as 15min, h, d, w, mo, q; auto: the usual one.", "auto", tasks="forecast"
    )
    season: int | None = field(
        "Forecasting", "Steps of a season. None: by the step (h: 24, d: 7, mo: 12).", None, ge=1, tasks="forecast"
    )
    gaps: Literal["error", "mask", "fill"] = field(
        "Forecasting",
        "Where rows are missing: an error that names them, missing values, or the value before again.",
        "error",
        tasks="forecast",
    )
    short: Literal["error", "mask", "drop"] = field(
        "Forecasting",
        "Series shorter than context and horizon: an error, read what is there, or leave them out.",
        "error",
        tasks="forecast",
    )
    constant: Literal["error", "keep", "drop"] = field(
        "Forecasting",
        "Series that never change: an error, learn from them, or leave them out.",
        "error",
        tasks="forecast",
    )
    valid_steps: int | None = field(
        "Forecasting",
        "Steps held out of each series for validation. None: as valid_share.",
        None,
        ge=1,
        tasks="forecast",
    )
    test_steps: int | None = field(
        "Forecasting", "Steps held out of each series for the test. None: as test_share.", None, ge=0, tasks="forecast"
    )
    stride: int | None = field(
        "Forecasting", "Steps between two forecasts of an evaluation. None: one horizon.", None, ge=1, tasks="forecast"
    )
    head: Literal["autoregressive", "direct"] = field(
        "Forecasting",
        "autoregressive: each value is drawn and read again, as far as you like. direct: the whole horizon at once.",
        "autoregressive",
        tasks="forecast",
    )
    output: Literal["student-t", "quantile", "point", "negative-binomial"] = field(
        "Forecasting", "What is said of each value; negative-binomial is for counts.", "student-t", tasks="forecast"
    )
    quantiles: tuple[float, ...] = field(
        "Forecasting",
        "Shares of the values below each line of a forecast, rising.",
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        tasks="forecast",
    )
    calibrate: Literal["none", "validation", "adaptive"] = field(
        "Forecasting",
        "Move the quantiles to the shares that they name, by the errors of the validation part; adaptive: by those of "
        "later forecasts too, once their horizon has passed.",
        "adaptive",
        tasks="forecast",
    )
    scaler: Literal["series", "window"] = field(
        "Forecasting",
        "Mean and scale of a series: those of its training part, or those of the context of each window.",
        "series",
        tasks="forecast",
    )
    transform: Literal["none", "log"] = field(
        "Forecasting",
        "log: learn the logarithm of values above 0, so that errors count in percent and forecasts stay above 0.",
        "none",
        tasks="forecast",
    )
    loss_units: Literal["scale", "data"] = field(
        "Forecasting",
        "What an error of 1 means in training: the scale of its series, so that all count alike, or a unit of the "
        "data, which after transform log is a percentage.",
        "scale",
        tasks="forecast",
    )
    lags: tuple[int, ...] = field(
        "Forecasting", "Steps back whose values go into each step. None given: the last three, one season.", (),
        tasks="forecast",
    )  # fmt: skip
    calendar: bool = field("Forecasting", "Read hour, weekday and day of the year.", True, tasks="forecast")
    series_embedding: int = field(
        "Forecasting", "Numbers that stand for each series; 0: none, and new series can be forecast.", 0, ge=0,
        tasks="forecast",
    )  # fmt: skip
    skip: bool = field("Forecasting", "A straight line past the recurrent layer.", True, tasks="forecast")
    forks: int = field(
        "Forecasting", "Origins of each window at which the direct head learns.", 8, ge=1, tasks="forecast"
    )
    epoch_windows: int | None = field(
        "Forecasting",
        "Windows of an epoch. None: as many as horizons fit, and 25 batches at least.",
        None,
        ge=1,
        tasks="forecast",
    )
    paths: int = field("Forecasting", "Paths drawn by an autoregressive forecast.", 200, ge=1, tasks="forecast")
    compare_with: Literal["auto", "none", "ets"] = field(
        "Forecasting",
        "ets: fit exponential smoothing (statsmodels) beside it. auto: where there are at most 20 series.",
        "auto",
        tasks="forecast",
    )


def check_forecast(recipe: ForecastFields) -> None:
    """What belongs together in a forecast."""
    if recipe.bidirectional:
        way_out = "The future is what a forecaster predicts: a backward direction would have read it."
        raise RecipeError(expected("bidirectional", "false for task forecast", "true", way_out))
    levels = recipe.quantiles
    if list(levels) != sorted(set(levels)) or not levels or not 0 < levels[0] <= levels[-1] < 1:
        way_out = "For example --quantiles 0.1 --quantiles 0.5 --quantiles 0.9."
        raise RecipeError(expected("quantiles", "rising numbers between 0 and 1", list(levels), way_out))
    if 0.5 not in levels:
        raise RecipeError(expected("quantiles", "0.5 among them: it is the forecast", list(levels), "Add 0.5."))
    if recipe.transform == "log" and recipe.output == "negative-binomial":
        way_out = "Counts are counted as they are: leave out --transform, or use --output student-t."
        raise RecipeError(expected("transform", "none for output negative-binomial", "log", way_out))
    if any(lag < 1 for lag in recipe.lags):
        raise RecipeError(expected("lags", "whole numbers from 1 on", list(recipe.lags), "1 is the last value."))
    roles = [recipe.time or "time", recipe.target, *([recipe.id] if recipe.id else []), *recipe.known, *recipe.past]
    twice = sorted({name for name in roles if roles.count(name) > 1})
    if twice:
        raise RecipeError(expected("columns", "one role each", f"{twice[0]!r} named twice", "Name it once."))
