"""Series: values at equal steps of time, with covariates, and their parts in time.

Axes     T time steps, K covariates known in advance, P covariates known only afterwards ("past").
Variant  A missing value is NaN and stays one; filling, where it is asked for, repeats the value before and so never
         looks ahead. A part of a series keeps all that stands before it, as its history: `begin` says where the part
         itself begins, and nothing before `begin` is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unrolled.data.calendar import Frequency, show_time
from unrolled.errors import DataError, expected

__all__ = ["Series", "SeriesScaler", "begun_at", "fill_forward", "join", "split_in_time"]


@dataclass(frozen=True, eq=False)
class Series:
    """One series on its grid of times, and the covariates of the steps that follow it."""

    id: str
    where: str  # "loads.csv:17"
    start: int  # the time of the first step
    target: np.ndarray  # (T,) float64, NaN where missing
    known: np.ndarray  # (T + F, K) float64: F further steps, which have no target yet
    past: np.ndarray  # (T, P) float64, NaN where missing
    frequency: Frequency
    dates: bool
    begin: int = 0  # the part that is trained on, or scored, starts here

    def __len__(self) -> int:
        return len(self.target)

    @property
    def times(self) -> np.ndarray:
        """(T,) int64"""
        return self.frequency.after(self.start, np.arange(len(self)))

    @property
    def ahead(self) -> int:
        """F: steps after the last time for which the known covariates are there."""
        return len(self.known) - len(self)

    def time(self, step: int) -> str:
        """The time of a step, also of one before the first or after the last, for messages and answers."""
        return show_time(int(self.frequency.after(self.start, step)), self.dates)

    def grid(self, steps: int) -> np.ndarray:
        """(T + steps,) the times, and those that follow."""
        return self.frequency.after(self.start, np.arange(len(self) + steps))

    def part(self, begin: int, end: int) -> Series:
        """Everything before `end`, of which `begin` and what follows is the part; nothing from `end` on is kept."""
        return replace(
            self,
            target=self.target[:end],
            past=self.past[:end],
            known=self.known[:end] if end < len(self) else self.known,
            begin=begin,
        )


def split_in_time(series: Series, valid: int, test: int) -> tuple[Series, Series, Series]:
    """The first steps, the next `valid`, the last `test`: each part knows what stood before it and nothing after."""
    first, second = len(series) - valid - test, len(series) - test
    return series.part(0, first), series.part(first, second), series.part(second, len(series))


def join(before: Series, after: Series) -> Series:
    """`after` as the part that follows `before`.

    Raises:
        DataError: it does not begin one step after the end of `before`.
    """
    wanted = int(before.grid(1)[-1])
    if after.start != wanted:
        found = show_time(after.start, after.dates)
        where = f"{after.where}: series {after.id!r}"
        way_out = "The file must go on where the one before it stops."
        raise DataError(expected(where, f"a first time of {show_time(wanted, before.dates)}", found, way_out))
    return replace(
        before,
        where=after.where,
        target=np.concatenate([before.target, after.target]),
        known=np.concatenate([before.known[: len(before)], after.known]),
        past=np.concatenate([before.past, after.past]),
        begin=len(before),
    )


def begun_at(series: Series, start: int) -> Series:
    """The series with missing steps before it, so that it begins at `start`; as it is, where that is no step before."""
    steps = int(series.frequency.positions(np.array([series.start]), start)[0])
    if steps <= 0:
        return series

    def padded(values: np.ndarray) -> np.ndarray:
        return np.concatenate([np.full((steps, *values.shape[1:]), np.nan), values])

    target, known, past = (padded(values) for values in (series.target, series.known, series.past))
    return replace(series, start=start, begin=series.begin + steps, target=target, known=known, past=past)


def fill_forward(values: np.ndarray) -> np.ndarray:
    """(T, …) with each NaN replaced by the value before it; those before the first value stay.

    >>> fill_forward(np.array([np.nan, 1.0, np.nan, 3.0]))
    array([nan,  1.,  1.,  3.])
    """
    last = np.where(np.isnan(values), -1, np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1)))
    last = np.maximum.accumulate(last, axis=0)
    filled = np.take_along_axis(values, np.maximum(last, 0), axis=0)
    return np.where(last < 0, np.nan, filled)


@dataclass(frozen=True, eq=False)
class SeriesScaler:
    """A place and a scale for each series, and for each covariate, all measured on training parts alone."""

    ids: tuple[str, ...]
    mean: np.ndarray  # (N,) of the target
    scale: np.ndarray  # (N,)
    known: np.ndarray  # (2, K) mean and scale
    past: np.ndarray  # (2, P)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The place of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    @classmethod
    def fit(cls, parts: Sequence[Series], *, counts: bool = False) -> SeriesScaler:
        """Measure the training parts; with `counts` the mean is 0 and the scale 1 + the mean (Salinas et al., 2020)."""
        places = np.array([_moments(part.target, counts) for part in parts]).reshape(-1, 2)
        known = np.concatenate([part.known[: len(part)] for part in parts])
        past = np.concatenate([part.past for part in parts])
        covariates = [np.array([_moments(column) for column in block.T]).reshape(-1, 2).T for block in (known, past)]
        return cls(tuple(part.id for part in parts), places[:, 0], places[:, 1], *covariates)

    def of(self, series: Series, *, counts: bool = False) -> tuple[float, float]:
        """Mean and scale of a series: as fitted, or, for one that was not there, of what stands before its part."""
        if series.id in self.rows:
            place = self.rows[series.id]
            return float(self.mean[place]), float(self.scale[place])
        return _moments(series.target[: series.begin] if series.begin else series.target, counts)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        parts = {name: getattr(self, name).tolist() for name in ("mean", "scale", "known", "past")}
        return {"ids": list(self.ids), **parts}

    @classmethod
    def from_dict(cls, saved: dict[str, object]) -> SeriesScaler:
        """The inverse of `to_dict`."""
        arrays = {name: np.array(saved[name], np.float64) for name in ("mean", "scale", "known", "past")}
        ids = saved["ids"]
        if not isinstance(ids, list) or arrays["mean"].shape != (len(ids),) or arrays["scale"].shape != (len(ids),):
            raise DataError(expected("scaler", "a mean and a scale for each id", repr(saved)[:80]))
        return cls(tuple(map(str, ids)), **arrays)


def _moments(values: np.ndarray, counts: bool = False) -> tuple[float, float]:
    """Mean and scale of what is there; 0 and 1 of nothing; a constant has the scale 1."""
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    mean, scale = float(values.mean()), float(values.std())
    if counts:
        return 0.0, 1.0 + mean
    return mean, scale if scale > 1e-9 * max(abs(mean), 1e-12) else 1.0
