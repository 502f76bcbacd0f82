"""Answers of `forecast`: the error and the coverage of each step ahead, and forecasts beside what came.

Axes     h steps of the horizon, Q quantile levels. Values are in the data's own unit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unrolled.data import Dataset
from unrolled.insight.packing import number, numbers
from unrolled.training.forecasting.calibrating import shifts_at
from unrolled.training.forecasting.rolling import forecast_from, origins_of

__all__ = ["answers"]

MOST_SERIES, MOST_ORIGINS = 40, 200
SAMPLES = 4
WORST = 12
BEFORE = 3  # horizons of history that a sample shows
MOST_POINTS = 400


def answers(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """From rolling origins, as the scores; samples begin at the last origin of the first series."""
    task, recipe, notes = trained.task, trained.recipe, []
    rows = task.encode(dataset).rows
    horizon = task.plan.horizon
    pairs = [(row, at) for row in rows[:MOST_SERIES] for at in origins_of(row.series, horizon, recipe.stride)]
    if len(rows) > MOST_SERIES:
        notes.append(f"errors and samples: of the first {MOST_SERIES} of {len(rows):,} series")
    if len(pairs) > MOST_ORIGINS:
        notes.append(f"errors and samples: of {MOST_ORIGINS:,} of {len(pairs):,} forecasts, evenly spread")
    pairs = _spread(pairs)
    levels = (0.5,) if task.plan.layout.output == "point" else recipe.quantiles
    ask = task.ask(None, levels, None, recipe.seed)
    shifts = shifts_at(trained.model, task.plan, pairs, ask)
    made = list(
        forecast_from(trained.model, task.plan, [row for row, _ in pairs], [at for _, at in pairs], ask, shifts)
    )
    columns = [ask.levels.index(level) for level in levels]
    found = [one[:, columns] for one in made]
    middle = list(levels).index(0.5)
    errors = {"kind": "steps", "levels": list(levels), "scored": len(pairs)}
    errors |= {"steps": _by_step(pairs, found, middle, horizon), "series": _by_series(pairs, found, middle)}
    last: dict[int, int] = {}  # of each series: the last origin whose whole horizon has come, or the first of all
    for i, (row, at) in enumerate(pairs):
        if id(row) not in last or at + horizon <= len(row.series):
            last[id(row)] = i
    samples = [_sample(*pairs[i], found[i], middle, levels) for i in list(last.values())[:SAMPLES]]
    return {"errors": errors, "samples": samples, "notes": notes}


def _spread(pairs: list[Any]) -> list[Any]:
    if len(pairs) <= MOST_ORIGINS:
        return pairs
    return [pairs[round(i * (len(pairs) - 1) / (MOST_ORIGINS - 1))] for i in range(MOST_ORIGINS)]


def _gaps(pairs: list[Any], found: list[np.ndarray], middle: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, h) the error of the median and whether the outer quantiles hold the value, NaN where none came."""
    errors, held = (np.full((len(pairs), horizon), np.nan) for _ in range(2))
    for i, ((row, at), forecast) in enumerate(zip(pairs, found, strict=True)):
        actual = row.series.target[at : at + horizon]
        errors[i, : len(actual)] = actual - forecast[: len(actual), middle]
        inside = (actual >= forecast[: len(actual), 0]) & (actual <= forecast[: len(actual), -1])
        held[i, : len(actual)] = np.where(np.isnan(actual), np.nan, inside)
    return errors, held


def _by_step(pairs: list[Any], found: list[np.ndarray], middle: int, horizon: int) -> list[dict[str, Any]]:
    """[{ahead: from 1, count, mae, bias: mean of actual − forecast, coverage}]"""
    errors, held = _gaps(pairs, found, middle, horizon)
    steps = []
    for ahead in range(horizon):
        there = errors[:, ahead][~np.isnan(errors[:, ahead])]
        if not len(there):
            continue
        covered = held[:, ahead][~np.isnan(held[:, ahead])].mean()
        entry = {"ahead": ahead + 1, "count": len(there), "mae": number(np.abs(there).mean())}
        steps.append(entry | {"bias": number(there.mean()), "coverage": number(covered)})
    return steps


def _by_series(pairs: list[Any], found: list[np.ndarray], middle: int) -> list[dict[str, Any]]:
    """[{id, forecasts, mae}] of the series with the largest errors relative to their own spread."""
    gaps: dict[str, list[np.ndarray]] = {}
    spread: dict[str, float] = {}
    for (row, at), forecast in zip(pairs, found, strict=True):
        actual = row.series.target[at : at + len(forecast)]
        gaps.setdefault(row.series.id, []).append(actual - forecast[: len(actual), middle])
        spread[row.series.id] = float(np.nanstd(row.series.target)) or 1.0
    rows = []
    for name, parts in gaps.items():
        there = np.concatenate(parts)
        there = there[~np.isnan(there)]
        mean = float(np.abs(there).mean()) if len(there) else math.nan
        entry = {"id": name, "forecasts": len(parts), "mae": number(mean)}
        rows.append(entry | {"relative": number(mean / spread[name])})
    rows.sort(key=lambda one: -one["relative"] if isinstance(one["relative"], float) else math.inf)
    return rows[:WORST]


def _sample(row: Any, at: int, forecast: np.ndarray, middle: int, levels: Any) -> dict[str, Any]:
    series, horizon = row.series, len(forecast)
    begin = max(0, at - min(max(BEFORE * horizon, 24), MOST_POINTS))
    end = min(len(series), at + horizon)
    return {
        "kind": "forecast",
        "id": series.id,
        "where": series.where,
        "times": [series.time(step) for step in range(begin, at + horizon)],
        "origin": at - begin,  # how many of the times lie before the forecast
        "actual": [None if math.isnan(v) else number(v) for v in series.target[begin:end].tolist()],
        "forecast": numbers(forecast[:, middle]),
        "low": numbers(forecast[:, 0]) if len(levels) > 1 else None,
        "high": numbers(forecast[:, -1]) if len(levels) > 1 else None,
        "levels": [levels[0], levels[-1]] if len(levels) > 1 else None,
    }
