"""What training measured of its series, and the arrays that a series becomes. NumPy only.

Axes     T time steps, F steps ahead, L lags, P past covariates, S side numbers (known covariates, then the calendar).
Variant  scaler = series: place and scale of a series are those of its training part. scaler = window: those of the
         context that a window, or a forecast, starts with; never of the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from unrolled.data.calendar import Frequency, calendar_features
from unrolled.data.series import Series, SeriesScaler
from unrolled.decoding.calibration import Calibration
from unrolled.decoding.forecasting import Layout, lagged_windows
from unrolled.errors import DataError, expected

__all__ = ["Frame", "Plan", "Scale", "check_values", "forward"]

LEAST = 0.02  # of the series' own scale: a window that hardly moves is not blown up beyond this


class Scale(NamedTuple):
    place: float
    scale: float


class Frame(NamedTuple):
    """A series as arrays."""

    series: Series
    row: int  # its place among the series that the model was trained on; 0 for a new one
    values: np.ndarray  # (T,) as learnt: their logarithms where the transform is log
    lagged: np.ndarray  # (T + 1, L) of these
    past: np.ndarray  # (T + 1, P) of the step before, standardised; NaN at 0
    side: np.ndarray  # (T + F, S) standardised, 0 where missing
    own: Scale


@dataclass(frozen=True)
class Plan:
    """All that training and forecasts must agree on; saved with the model."""

    layout: Layout
    scaler: SeriesScaler
    frequency: Frequency
    dates: bool
    season: int
    context: int
    horizon: int
    window_scale: bool
    log: bool
    calendar: tuple[str, ...]  # the cycles that are read
    size: tuple[float, float]  # mean and deviation of the log scales
    known: tuple[str, ...]  # the names of the covariates
    past: tuple[str, ...]
    calibration: Calibration | None = None  # of the intervals; None: as the network says them

    @property
    def counts(self) -> bool:
        return self.layout.output == "negative-binomial"

    def frame(self, series: Series, before: np.ndarray | None = None, ahead: int = 0) -> Frame:
        """The arrays of a series; `before` are learnt values before it, `ahead` steps after it are asked."""
        self.check(series)
        learnt = replace(series, target=forward(series.target, self.log))
        index = self.scaler.rows.get(series.id, 0)
        past = (series.past - self.scaler.past[0]) / self.scaler.past[1]
        known = (series.known - self.scaler.known[0]) / self.scaler.known[1]
        steps = len(series) + max(ahead, series.ahead)
        known = np.concatenate([np.nan_to_num(known), np.zeros((steps - len(known), known.shape[1]))])
        return Frame(
            series,
            index,
            learnt.target,
            lagged_windows(learnt.target, self.layout.lags, before),
            np.concatenate([np.full((1, past.shape[1]), np.nan), past]),
            np.concatenate([known, self.calendar_of(series, steps)], axis=1),
            Scale(*self.scaler.of(learnt, counts=self.counts)),
        )

    def back(self, learnt: np.ndarray, scale: Scale) -> np.ndarray:
        """From units of the scale to the units of the data. Quantiles stay quantiles; counts are whole."""
        values = learnt * scale.scale + scale.place
        return np.exp(values) if self.log else np.rint(values) if self.counts else values

    def behind(self, levels: Sequence[float]) -> tuple[float, ...]:
        """The levels that the network must be asked for, so that those can be calibrated."""
        own = () if self.calibration is None else self.calibration.levels
        return tuple(sorted({*levels, *own}))

    def calibrated(
        self, found: np.ndarray, levels: Sequence[float], wanted: Sequence[float], shift: np.ndarray | None = None
    ) -> np.ndarray:
        """(…, h, Q) quantiles at levels `wanted`, of those at `levels` (see `behind`); in units of the scale."""
        whole = found if self.calibration is None else self.calibration.apply(found, levels, shift)
        return whole[..., np.searchsorted(levels, wanted)]

    def calendar_of(self, series: Series, steps: int) -> np.ndarray:
        """(steps, C) from the first step of the series on."""
        return calendar_features(self.frequency.after(series.start, np.arange(steps)), self.calendar)

    def check_ahead(self, series: Series, horizon: int) -> None:
        """Raise where a known covariate is missing in the horizon; the message names series, time and column."""
        ahead = series.known[len(series) : len(series) + horizon]
        if len(self.known) and (len(ahead) < horizon or not np.isfinite(ahead).all()):
            bad = ~np.isfinite(ahead)
            step = int(bad.any(axis=1).argmax()) if bad.any() else len(ahead)
            names = (
                [name for name, gone in zip(self.known, bad[step], strict=True) if gone] if bad.any() else self.known
            )
            wanted = f"the known covariates of all {horizon} steps of the horizon"
            found = f"no {', '.join(names)} at {series.time(len(series) + step)}"
            way_out = "Give a file that ends in rows with these columns filled and the target empty, or --horizon less."
            raise DataError(expected(f"{series.where}: series {series.id!r}", wanted, found, way_out))

    def scale_of(self, frame: Frame, start: int, end: int) -> Scale:
        """Place and scale of a window whose context is start … end."""
        if not self.window_scale:
            return frame.own
        values = frame.values[start:end]
        values = values[np.isfinite(values)]
        if len(values) < 2:
            return frame.own
        if self.counts:
            return Scale(0.0, 1.0 + float(values.mean()))
        return Scale(float(values.mean()), max(float(values.std()), LEAST * frame.own.scale))

    def size_of(self, scale: float | np.ndarray) -> np.ndarray:
        """The standardised log of a scale: how large the series is, as a number that goes into each step."""
        return (np.log(scale) - self.size[0]) / self.size[1]

    def inputs(self, frame: Frame, start: int, end: int, scale: Scale, hidden: int | None = None) -> np.ndarray:
        """(end − start, width) the numbers of the steps; past covariates from step `hidden` on are not known."""
        lagged = (frame.lagged[start:end] - scale.place) / scale.scale
        past = frame.past[start:end]
        if hidden is not None and hidden < end:
            past = past.copy()
            past[max(hidden - start, 0) :] = np.nan
        size = np.full(end - start, self.size_of(scale.scale))
        return self.layout.step(lagged, past, frame.side[start:end], size)

    def check(self, series: Series) -> None:
        """Raise where a series does not have the step or the columns that the model was trained on."""
        found = (series.frequency, series.dates, series.known.shape[1], series.past.shape[1])
        wanted = (self.frequency, self.dates, len(self.known), len(self.past))
        if found != wanted:
            shown = [f"step {one[0]}, {one[2]} known and {one[3]} past covariates" for one in (wanted, found)]
            where = f"{series.where}: series {series.id!r}"
            raise DataError(expected(where, f"{shown[0]}, as in training", shown[1]))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = ("layout", "scaler", "frequency", "calibration")
        plain = {name: value for name, value in vars(self).items() if name not in parts}
        plain |= {"frequency": [self.frequency.size, self.frequency.unit]}
        plain["calibration"] = None if self.calibration is None else self.calibration.to_dict()
        return plain | {"layout": self.layout.to_dict(), "scaler": self.scaler.to_dict()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        parts = dict(saved)
        parts["layout"] = Layout.from_dict(parts["layout"])
        parts["scaler"] = SeriesScaler.from_dict(parts["scaler"])
        parts["frequency"] = Frequency(*parts["frequency"])
        calibration = parts.pop("calibration", None)
        parts = {name: tuple(value) if isinstance(value, list) else value for name, value in parts.items()}
        if calibration is not None:
            parts["calibration"] = Calibration.from_dict(calibration)
        return cls(**parts)._checked()

    def _checked(self) -> Self:
        """Itself, if its calibration is one of these series and this horizon."""
        if self.calibration is not None:
            wanted = self.horizon, len(self.scaler.ids)
            found = len(self.calibration.offsets), len(self.calibration.until)
            if found != wanted:
                raise ValueError(expected("calibration", f"{wanted} (steps, series)", found))
        return self


def forward(values: np.ndarray, log: bool) -> np.ndarray:
    """What is learnt of values: they themselves, or their logarithms."""
    return np.log(values) if log else values


def check_values(output: str, log: bool, series: Series) -> None:
    """Raise where a value is one that the output or the transform cannot have."""
    if output == "negative-binomial":
        bad = (series.target < 0) | (series.target != np.round(series.target))
        wanted, way_out = (
            "a count (0, 1, 2, …), as output negative-binomial needs",
            "Use --output student-t or quantile.",
        )
    elif log:
        bad = series.target <= 0
        wanted, way_out = "a value above 0, as transform log needs", "Use --transform none."
    else:
        return
    bad &= np.isfinite(series.target)
    if bad.any():
        step = int(bad.argmax())
        where = f"{series.where}: series {series.id!r} at {series.time(step)}"
        raise DataError(expected(where, wanted, f"{series.target[step]:g}", way_out))
