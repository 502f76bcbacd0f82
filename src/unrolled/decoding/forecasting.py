"""Forecasts, written once over NumPy: the numbers that go into a step, and how steps follow each other.

Axes     B rows (series or origins), T steps, h steps of the horizon, L lags, S numbers known of a step in advance
         (known covariates, then the calendar), P past covariates, Q quantile levels. Values are in units of a row's
         scale: (value − place) / scale; a missing value is NaN here and becomes 0 beside a flag 0.
Source   autoregressive: Salinas et al. (2020), "DeepAR", Int. J. Forecasting 36(3), with lagged inputs: draws are fed
         back, and quantiles are those of the paths. direct: Wen et al. (2017), arXiv:1711.11053: one state, the whole
         horizon at once.
Variant  The input of step t holds what was known just before it: the value at t − 1 is among the lags, and the side
         numbers are those of t itself. So the newest observation is always used, and a covariate that is known for t
         speaks about t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.decoding.distributions import draw, quantiles, raw_width
from unrolled.errors import expected

__all__ = ["Layout", "Origin", "autoregress", "direct", "lagged_windows", "seasonal_values"]


@dataclass(frozen=True)
class Layout:
    """Which numbers go into a step, in their order, and what comes out."""

    lags: tuple[int, ...]
    seasons: tuple[int, ...]  # of the values that the direct head repeats; 1 is the last value
    side: int
    past: int
    output: str
    levels: tuple[float, ...]
    reach: int = 1  # steps of the horizon in training

    @property
    def memory(self) -> int:
        """How many of the last values a forecast needs."""
        return max(*self.lags, *self.seasons)

    @property
    def width(self) -> int:
        """Numbers that go into a step."""
        return 2 * len(self.lags) + 2 * self.past + self.side + 1

    @property
    def ahead(self) -> int:
        """Numbers that the direct head reads of each step of the horizon."""
        return 2 * len(self.seasons) + self.side + 1

    @property
    def outputs(self) -> int:
        """Raw numbers that come out for a step."""
        return raw_width(self.output, len(self.levels))

    def step(self, lagged: np.ndarray, past: np.ndarray, side: np.ndarray, size: np.ndarray) -> np.ndarray:
        """(…, L), (…, P) of the step before, (…, S), (…,) log scale → (…, width) float32, without NaN."""
        parts = [lagged, _there(lagged), past, _there(past), side, size[..., None]]
        return np.nan_to_num(np.concatenate(parts, axis=-1), posinf=0.0, neginf=0.0).astype(np.float32)

    def horizon(self, seasonal: np.ndarray, side: np.ndarray) -> np.ndarray:
        """(…, h, seasons), (…, h, S) → (…, h, ahead) float32: what the direct head reads of each step."""
        steps = np.arange(side.shape[-2]) / max(self.reach - 1, 1)
        place = np.broadcast_to(steps[:, None], (*side.shape[:-1], 1))
        parts = [seasonal, _there(seasonal), side, place]
        return np.nan_to_num(np.concatenate(parts, axis=-1)).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Layout:
        """The inverse of `to_dict`."""
        parts: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in saved.items()}
        return cls(**parts)


def _there(values: np.ndarray) -> np.ndarray:
    return np.isfinite(values).astype(np.float64)


def lagged_windows(values: np.ndarray, lags: tuple[int, ...], before: np.ndarray | None = None) -> np.ndarray:
    """(T,) → (T + 1, L): at t the values at t − lag; NaN before the first. `before` are values that came earlier."""
    longest = max(lags)
    earlier = np.full(longest, np.nan)
    if before is not None and len(before):
        earlier[-min(longest, len(before)) :] = before[-longest:]
    padded = np.concatenate([earlier, values])
    steps = np.arange(len(values) + 1)[:, None] + longest
    return padded[steps - np.array(lags)]


def seasonal_values(recent: np.ndarray, seasons: tuple[int, ...], horizon: int) -> np.ndarray:
    """(…, memory) the last values, newest last → (…, h, seasons): for each step, the value whole seasons before it.

    The seasonal naive forecast of each season: the newest value at the same place in the season.
    """
    steps = np.arange(1, horizon + 1)
    back = np.stack([season * -(-steps // season) - steps + 1 for season in seasons], axis=-1)  # (h, seasons)
    return recent[..., recent.shape[-1] - back]


@dataclass(frozen=True)
class Origin:
    """What is known at the moments from which forecasts are made; one row each."""

    recent: np.ndarray  # (B, memory) the last values, newest last, in units of the scale, NaN where missing
    past: np.ndarray  # (B, P) past covariates of the last step
    side: np.ndarray  # (B, h, S) of the steps to forecast
    size: np.ndarray  # (B,) standardised log scale
    scale: np.ndarray  # (B,)

    def __post_init__(self) -> None:
        rows = {len(part) for part in vars(self).values()}
        if len(rows) != 1:
            raise ValueError(expected("origin", "as many rows in every part", sorted(rows)))


Step = Callable[[np.ndarray], np.ndarray]  # inputs (B, width) → raw (B, R); keeps the state of the rows by itself


def autoregress(layout: Layout, step: Step, origin: Origin, *, paths: int, rng: np.random.Generator) -> np.ndarray:
    """Draw paths, each value fed back as the newest one: (B, paths, h), in units of the scale.

    Args:
        step: one step of the network for B · paths rows, the paths of an origin side by side.
    """
    rows, horizon = origin.side.shape[:2]
    recent = np.repeat(origin.recent, paths, axis=0)
    past = np.repeat(origin.past, paths, axis=0)
    size, scale = np.repeat(origin.size, paths), np.repeat(origin.scale, paths)
    levels, lags = np.array(layout.levels), np.array(layout.lags)
    drawn = np.empty((rows * paths, horizon))
    for k in range(horizon):
        side = np.repeat(origin.side[:, k], paths, axis=0)
        raw = step(layout.step(recent[:, recent.shape[1] - lags], past, side, size)).astype(np.float64)
        drawn[:, k] = draw(layout.output, raw, levels=levels, scale=scale, rng=rng)
        recent = np.concatenate([recent[:, 1:], drawn[:, k : k + 1]], axis=1)
        past = np.full_like(past, np.nan)  # what is known only afterwards is not known here
    return drawn.reshape(rows, paths, horizon)


def direct(layout: Layout, raw: np.ndarray, origin: Origin, wanted: np.ndarray) -> np.ndarray:
    """raw (B, h, R) of the direct head → quantiles (B, h, Q) in units of the scale."""
    scale = np.broadcast_to(origin.scale[:, None], raw.shape[:2])
    levels = np.array(layout.levels)
    return quantiles(layout.output, raw.astype(np.float64), wanted, levels=levels, scale=scale)
