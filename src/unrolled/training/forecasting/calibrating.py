"""Calibration of a trained forecaster: measured on the validation part, and followed through the parts after it.

Variant  A part of a series is followed by forecasts one horizon apart, from the first step of the part on. Each is held
         against its values when they have all come, and moves the shift of the forecasts from then on: no forecast is
         changed by a value at or after its own origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.decoding.calibration import RATE, Calibration, track
from unrolled.models import Forecaster
from unrolled.runtime.rolling import raw_from
from unrolled.training.forecasting.plan import Frame, Plan
from unrolled.training.forecasting.rolling import Ask, TorchNetwork, origins_of

__all__ = ["calibrated", "shifts_at", "shifts_of"]


def calibrated(
    model: Forecaster, plan: Plan, frames: Sequence[Frame], stride: int | None, ask: Ask, *, adaptive: bool
) -> Calibration | None:
    """What the parts that begin at each frame's `begin` say of the intervals; None where they hold no values."""
    pairs = [(frame, at) for frame in frames for at in origins_of(frame.series, plan.horizon, stride)]
    if not pairs:
        return None
    found, values = _held_against(model, plan, pairs, ask)
    if not np.isfinite(values).any():
        return None
    rate, least = RATE if adaptive else 0.0, 0.0 if plan.counts else None
    fitted = Calibration.fit(values, found, ask.levels, series=len(plan.scaler.ids), rate=rate, least=least)
    for frame in frames:
        fitted.until[frame.row] = frame.series.times[-1]
    return fitted


def _held_against(
    model: Forecaster, plan: Plan, pairs: Sequence[tuple[Frame, int]], ask: Ask
) -> tuple[np.ndarray, np.ndarray]:
    """(N, h, Q) forecasts that are not calibrated, and (N, h) what came, NaN past the end; in units of each scale."""
    found = list(raw_from(TorchNetwork(model), plan, [f for f, _ in pairs], [at for _, at in pairs], ask))
    values = np.full((len(pairs), ask.horizon), np.nan)
    for row, (frame, at), (scale, _) in zip(values, pairs, found, strict=True):
        came = frame.values[at : at + ask.horizon]
        row[: len(came)] = (came - scale.place) / scale.scale
    return np.array([quantiles for _, quantiles in found]), values


def shifts_of(model: Forecaster, plan: Plan, frames: Sequence[Frame], ask: Ask) -> list[np.ndarray]:
    """For each frame (n + 1, Q): the shift at the begin of its part and after each of the n horizons that have passed.

    It starts where the calibration left the series, if that is the step before the part, and from 0 if it is not.
    """
    assert plan.calibration is not None
    chains = [range(f.series.begin, len(f.values) - plan.horizon + 1, plan.horizon) for f in frames]
    pairs = [(frame, at) for frame, chain in zip(frames, chains, strict=True) for at in chain]
    found, values = _held_against(model, plan, pairs, ask) if pairs else (np.zeros(0), np.zeros(0))
    result, place = [], 0
    for frame, chain in zip(frames, chains, strict=True):
        some = slice(place, place + len(chain))
        result.append(track(plan.calibration, _start(plan.calibration, plan, frame), values[some], found[some]))
        place += len(chain)
    return result


def _start(calibration: Calibration, plan: Plan, frame: Frame) -> np.ndarray:
    series = frame.series
    row = plan.scaler.rows.get(series.id)
    if row is None or not series.begin or int(series.times[series.begin - 1]) != calibration.until[row]:
        return np.zeros(len(calibration.levels))
    return calibration.shifts[row]


def shifts_at(model: Forecaster, plan: Plan, pairs: Sequence[tuple[Frame, int]], ask: Ask) -> list[np.ndarray] | None:
    """The shift (Q,) at each origin, learnt from horizons that have passed there; None where nothing is followed."""
    if plan.calibration is None or not plan.calibration.rate:
        return None
    frames: dict[int, Any] = {id(frame): frame for frame, _ in pairs}
    shifts = dict(zip(frames, shifts_of(model, plan, list(frames.values()), ask), strict=True))
    return [shifts[id(frame)][(at - frame.series.begin) // plan.horizon] for frame, at in pairs]
