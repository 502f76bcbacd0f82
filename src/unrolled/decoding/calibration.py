"""Calibration: quantiles are moved until the shares that they name are those that are found. NumPy only.

Axes     N forecasts, h steps of the horizon, Q quantile levels; all in units of a row's scale.
Source   validation: conformal quantile regression (Romano, Patterson and Candès, 2019, arXiv:1905.03222), each level by
         itself. adaptive: Gibbs and Candès (2021), arXiv:2106.00170, in the form that moves the quantile and not its
         level, so that no interval is infinite: Angelopoulos, Candès and Tibshirani (2023), arXiv:2307.16895, eq. (1).
Variant  The median is the forecast and stays where it is. The offsets of a step are measured on this step, or on its
         neighbours too where there are few forecasts. A shift is learnt once a horizon, from a forecast whose horizon
         has passed, and is the same for all steps, in units of how far the errors of each step spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.errors import expected

__all__ = ["RATE", "Calibration", "Pending", "conformal_offsets", "memory_shapes", "moved_on", "rising", "track"]

ENOUGH = 100  # errors behind the offset of a step: with fewer the neighbouring steps are counted too
RATE = 0.5  # of the adaptive shift, a horizon: about a tenth of the largest error, as the third source takes


@dataclass(frozen=True, eq=False)
class Calibration:
    """What validation found, and how fast it is corrected later.

    Args:
        until: (N,) int64 the time of the last step that was calibrated on, for each series of the run.
        shifts: (N, Q) where each series stood then.
        rate: of the adaptive shift; 0: the offsets stay as they are.
        least: a value below which there is none, such as 0 for counts.
    """

    levels: tuple[float, ...]
    offsets: np.ndarray  # (h, Q) to be added
    spread: np.ndarray  # (h, Q) one unit of a shift
    until: np.ndarray
    shifts: np.ndarray
    rate: float = 0.0
    least: float | None = None

    def __post_init__(self) -> None:
        steps, series = len(self.offsets), len(self.until)
        shapes = {"offsets": (steps, len(self.levels)), "spread": (steps, len(self.levels))}
        shapes["shifts"] = (series, len(self.levels))
        for name, shape in shapes.items():
            found = getattr(self, name)
            if found.shape != shape or not np.isfinite(found).all():
                raise ValueError(expected(f"calibration: {name}", f"finite numbers {shape}", found.shape))
        if not steps or 0.5 not in self.levels or not 0 <= self.rate < float("inf"):
            found = f"{steps} steps, levels {self.levels}, rate {self.rate}"
            raise ValueError(expected("calibration", "steps, a level 0.5 and a rate of 0 or more", found))

    @classmethod
    def fit(
        cls,
        values: np.ndarray,
        found: np.ndarray,
        levels: Sequence[float],
        *,
        series: int = 1,
        rate: float = 0.0,
        least: float | None = None,
    ) -> Calibration:
        """From forecasts (N, h, Q) and what came (N, h), NaN where missing; `series` starts with 0 each."""
        offsets, spread = conformal_offsets(values, found, levels)
        nothing = np.full(series, np.iinfo(np.int64).min), np.zeros((series, len(levels)))
        return cls(tuple(levels), offsets, spread, *nothing, rate, least)

    def apply(self, found: np.ndarray, levels: Sequence[float], shift: np.ndarray | None = None) -> np.ndarray:
        """(…, h, Q') quantiles at rising `levels`, all of the calibration's among them, calibrated; shift (…, Q).

        A quantile of another level keeps its place between its two neighbours among the calibration's, so that it does
        not depend on what else was asked for. Steps beyond the last that was calibrated move as that one does.
        """
        steps = np.minimum(np.arange(found.shape[-2]), len(self.offsets) - 1)
        moved = self.offsets[steps]
        if shift is not None:
            moved = moved + self.spread[steps] * np.asarray(shift)[..., None, :]
        own, wanted = np.array(self.levels), np.asarray(levels)
        moved[..., self.levels.index(0.5)] = 0.0
        before = found[..., np.searchsorted(wanted, own)]
        result = _between(found, wanted, before, rising(before + moved, own), own)
        return result if self.least is None else np.maximum(result, self.least)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Calibration:
        """The inverse of `to_dict`."""
        numbers = {name: np.array(saved[name], np.float64) for name in ("offsets", "spread", "shifts")}
        levels = tuple(float(level) for level in saved["levels"])
        least = None if saved["least"] is None else float(saved["least"])
        numbers["until"] = np.array(saved["until"], np.int64)
        return cls(levels, rate=float(saved["rate"]), least=least, **numbers)


def _between(
    found: np.ndarray, wanted: np.ndarray, before: np.ndarray, after: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """(…, Q') at `wanted`, carried along as the quantiles (…, Q) at `own` go from `before` to `after`.

    Between two of them in proportion, by value, or by level where the two are equal; beyond the outermost, as it goes.
    """
    right = (
        np.clip(np.searchsorted(own, wanted), 1, max(len(own) - 1, 1)) if len(own) > 1 else np.zeros(len(wanted), int)
    )
    left = np.maximum(right - 1, 0)
    gap = before[..., right] - before[..., left]
    by_level = (wanted - own[left]) / np.where(right > left, own[right] - own[left], 1.0)
    share = np.clip(np.where(gap > 0, (found - before[..., left]) / np.where(gap > 0, gap, 1.0), by_level), 0, 1)
    step = after[..., right] - after[..., left]
    inside = np.where(share < 0.5, after[..., left] + share * step, after[..., right] - (1 - share) * step)
    below, above = found + (after - before)[..., :1], found + (after - before)[..., -1:]
    return np.where(wanted < own[0], below, np.where(wanted > own[-1], above, inside))


def rising(found: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles that do not cross: going outwards from the level next to the median, none turns back."""
    middle = int(np.abs(levels - 0.5).argmin())
    result = found.copy()
    result[..., middle:] = np.maximum.accumulate(found[..., middle:], axis=-1)
    result[..., : middle + 1] = np.minimum.accumulate(found[..., middle::-1], axis=-1)[..., ::-1]
    return result


def conformal_offsets(values: np.ndarray, found: np.ndarray, levels: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """What is to be added to quantiles (N, h, Q), given what came (N, h): offsets (h, Q), and the spread of errors.

    For a level above 0.5, the ⌈(n + 1) level⌉-th smallest of n errors, or 0 where there are fewer than that; below
    0.5 the mirror image. If old and new errors can be exchanged, a new value lies at or below its quantile with a
    probability of `level` or more, and of level + 1/(n + 1) or less if no two errors are equal.
    """
    steps = values.shape[1]
    errors = values[..., None] - found
    offsets, spread = np.zeros((steps, len(levels))), np.ones((steps, len(levels)))
    for step in range(steps):
        near = errors[:, _neighbours(step, np.isfinite(values).sum(axis=0))].reshape(-1, len(levels))
        near = np.sort(near[np.isfinite(near).all(axis=1)], axis=0)
        if not len(near):
            continue
        for q, level in enumerate(levels):
            offsets[step, q] = 0.0 if level == 0.5 else _order_statistic(near[:, q], level)
            spread[step, q] = max(float(np.abs(near[:, q] - np.median(near[:, q])).mean()), 1e-12)
    return offsets, spread


def _neighbours(step: int, counts: np.ndarray) -> slice:
    """The steps around one that hold ENOUGH values between them, or all."""
    for reach in range(len(counts)):
        around = slice(max(0, step - reach), step + reach + 1)
        if counts[around].sum() >= ENOUGH:
            return around
    return slice(None)


def _order_statistic(ordered: np.ndarray, level: float) -> float:
    count = len(ordered)
    share = level if level > 0.5 else 1 - level
    place = int(np.ceil((count + 1) * share - 1e-9))
    if place > count:
        return 0.0  # too few to say: an infinite interval would be the honest one
    return float(ordered[place - 1] if level > 0.5 else ordered[count - place])


def moved_on(calibration: Calibration, shift: np.ndarray, pending: Pending) -> np.ndarray:
    """The shift (Q,) after the horizon of a forecast. A quantile that touches its bound is not pushed further on."""
    if not pending.counted:
        return shift
    move = np.array(calibration.levels) - pending.below / pending.counted
    middle = calibration.levels.index(0.5)
    inner = np.concatenate([pending.quantiles[:, 1 : middle + 1], pending.quantiles[:, middle:-1]], axis=1)
    outer = np.delete(np.arange(len(move)), middle)
    inwards = np.where(outer < middle, move[outer] > 0, move[outer] < 0)
    stuck = inwards & (pending.quantiles[:, outer] == inner).all(axis=0)
    if calibration.least is not None:
        stuck |= (move[outer] < 0) & (pending.quantiles[:, outer] <= calibration.least).all(axis=0)
    move[outer[stuck]] = 0.0
    return shift + calibration.rate * move


def track(calibration: Calibration, shift: np.ndarray, values: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(N + 1, Q) the shift at the origin of each of N forecasts, and after the last.

    Args:
        shift: (Q,) at the first origin.
        values: (N, h) what came, NaN where missing. The horizon of a forecast has passed where the next one begins.
        found: (N, h, Q) the forecasts of the network, not calibrated.
    """
    shifts = [np.asarray(shift, np.float64)]
    for value, quantiles in zip(values, found, strict=True):
        pending = Pending(calibration.apply(quantiles, calibration.levels, shifts[-1])).seen_more(value)
        shifts.append(moved_on(calibration, shifts[-1], pending))
    return np.array(shifts)


@dataclass(frozen=True, eq=False)
class Pending:
    """A calibrated forecast (h, Q) whose horizon has not passed, and what came of it so far."""

    quantiles: np.ndarray
    below: Any = 0.0  # (Q,) values at or below each quantile
    counted: int = 0  # values that were not missing
    seen: int = 0  # steps

    @property
    def left(self) -> int:
        """Steps until its horizon has passed."""
        return len(self.quantiles) - self.seen

    def seen_more(self, values: np.ndarray) -> Pending:
        """After the next values, of which there may be none."""
        ahead = self.quantiles[self.seen : self.seen + len(values)]
        there = np.isfinite(values) & np.isfinite(ahead).all(axis=1)
        below = self.below + (values[there][:, None] <= ahead[there]).sum(axis=0)
        return Pending(self.quantiles, below, self.counted + int(there.sum()), self.seen + len(values))


def memory_shapes(horizon: int, levels: int) -> dict[str, tuple[int, ...]]:
    """What is kept of each series that is followed: `Pending` and the shift, by name."""
    return {"shift": (levels,), "pending": (horizon, levels), "below": (levels,), "counted": (), "seen": ()}
