"""Forecasts from a network: at many origins of a series, and from the state in which a series was left. NumPy only.

Axes     B origins, T steps of context, h steps of the horizon, Q quantile levels. Results are in the units of the data.
Variant  A forecast reads the `context` steps before its origin from the initial state, then the steps ahead. What is
         kept for later (`remember`) is that state; new rows (`go_on`) move it on, so a series that is followed row by
         row has read all its rows since, not the last `context` alone. Draws are seeded, so a forecast can be repeated;
         they depend on which origins are asked for together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from unrolled.data.batching import pad
from unrolled.data.calendar import show_time
from unrolled.data.series import Series
from unrolled.decoding.calibration import Pending, moved_on
from unrolled.decoding.forecasting import Layout, Origin, autoregress, direct, seasonal_values
from unrolled.errors import DataError, RecipeError, expected
from unrolled.runtime.plan import Frame, Plan, Scale

__all__ = [
    "Ask",
    "Follow",
    "Left",
    "Network",
    "forecast_from",
    "forecast_left",
    "go_on",
    "keep",
    "kept_values",
    "next_time",
    "origins_of",
    "raw_from",
    "remember",
]

ROWS_AT_A_TIME = 16_384  # paths side by side: bounds the memory


State = tuple[np.ndarray, ...]  # (h,) or (h, c), each (L, B, units)


class Network(Protocol):
    """A forecaster over NumPy arrays: PyTorch's behind an adapter, or the runtime's."""

    is_direct: bool
    states: tuple[str, ...]  # the names of the parts of the recurrent state

    def read(
        self, inputs: np.ndarray, series: np.ndarray, state: State | None, lengths: np.ndarray | None = None
    ) -> tuple[np.ndarray, State]:
        """(B, T, F) → the recurrent outputs (B, T, width) and the state after each row's last step."""

    def say(self, out: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """(B, width) and the inputs (B, F) of the same steps → raw (B, R)."""

    def look_ahead(self, states: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """The direct head: (B, width) and (B, h, A) → raw (B, h, R)."""

    def memory(self, name: str) -> np.ndarray:
        """What is kept of each series, (series, …)."""

    def keep(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Write into it."""


class Ask(NamedTuple):
    """What is wanted of a forecast."""

    horizon: int
    levels: tuple[float, ...]
    paths: int
    seed: int = 0


def origins_of(series: Series, horizon: int, stride: int | None) -> list[int]:
    """The steps before which forecasts begin: the begin of the part, and every `stride` steps after it."""
    return list(range(series.begin, len(series), stride or horizon))


def forecast_from(
    model: Network,
    plan: Plan,
    frames: Sequence[Frame],
    origins: Sequence[int],
    ask: Ask,
    shifts: Sequence[np.ndarray] | None = None,
) -> Iterator[np.ndarray]:
    """(h, Q) for each pair of a frame and an origin, which is the number of steps that are known.

    Args:
        shifts: (Q,) of the calibration at each origin; None: none.
    """
    behind = ask._replace(levels=plan.behind(ask.levels))
    for i, (scale, found) in enumerate(raw_from(model, plan, frames, origins, behind)):
        shift = None if shifts is None else shifts[i]
        yield plan.back(plan.calibrated(found, behind.levels, ask.levels, shift), scale)


def raw_from(
    model: Network, plan: Plan, frames: Sequence[Frame], origins: Sequence[int], ask: Ask
) -> Iterator[tuple[Scale, np.ndarray]]:
    """The scale of each forecast and, in its units, the quantiles (h, Q) as the network says them: not calibrated."""
    _check(model, plan, ask)
    rng = np.random.default_rng(ask.seed)
    at_a_time = max(1, ROWS_AT_A_TIME // _paths(plan, model, ask))
    for begin in range(0, len(frames), at_a_time):
        some, places = frames[begin : begin + at_a_time], origins[begin : begin + at_a_time]
        scales = [plan.scale_of(f, max(0, o - plan.context), o) for f, o in zip(some, places, strict=True)]
        state = _read(model, plan, some, [max(0, o - plan.context) for o in places], places, scales)
        found = _from_state(model, plan, _origin(plan, some, places, scales, ask.horizon), state, ask, rng)
        yield from zip(scales, found, strict=True)


def _read(
    model: Network,
    plan: Plan,
    frames: Sequence[Frame],
    starts: Sequence[int],
    ends: Sequence[int],
    scales: Sequence[Scale],
    state: Any = None,
) -> _State:
    """The state after the steps start … end of each frame."""
    rows = [plan.inputs(f, s, e, scale) for f, s, e, scale in zip(frames, starts, ends, scales, strict=True)]
    inputs, lengths = pad(rows)
    series = np.array([frame.row for frame in frames])
    _, state = model.read(inputs, series, state, lengths)
    return _State(series, state)


class _State(NamedTuple):
    series: np.ndarray  # (B,)
    value: State  # the recurrent state

    def repeat(self, times: int) -> _State:
        """Each row `times` times, side by side."""
        value = tuple(np.repeat(part, times, axis=1) for part in self.value)
        return _State(np.repeat(self.series, times), value)


def _origin(
    plan: Plan,
    frames: Sequence[Frame],
    places: Sequence[int],
    scales: Sequence[Scale],
    horizon: int,
    before: np.ndarray | None = None,
) -> Origin:
    memory = plan.layout.memory
    before = np.full(memory, np.nan) if before is None else before
    recent, side = [], []
    for frame, place, scale in zip(frames, places, scales, strict=True):
        padded = np.concatenate([before, frame.values[:place]])
        recent.append((padded[-memory:] - scale.place) / scale.scale)
        known = frame.side[place : place + horizon]
        if len(known) < horizon:  # the last origin of a part: what stands past its end is not scored
            known = np.concatenate([known, np.zeros((horizon - len(known), known.shape[1]))])
        side.append(known)
    sizes = np.array([scale.scale for scale in scales])
    past = np.stack([frame.past[place] for frame, place in zip(frames, places, strict=True)])
    return Origin(np.stack(recent), past, np.stack(side), plan.size_of(sizes), sizes)


def _from_state(model: Network, plan: Plan, origin: Origin, state: _State, ask: Ask, rng: Any) -> np.ndarray:
    """(B, h, Q) in units of each row's scale, not calibrated."""
    if model.is_direct:
        return _ahead(model, plan.layout, origin, state, ask)
    paths = _paths(plan, model, ask)
    stepper = _Stepper(model, state.repeat(paths))
    drawn = autoregress(plan.layout, stepper, origin, paths=paths, rng=rng)  # (B, paths, h)
    return np.moveaxis(np.quantile(drawn, ask.levels, axis=1), 0, -1)


class _Stepper:
    """One step of the network for rows that keep their state here."""

    def __init__(self, model: Network, state: _State) -> None:
        self.model, self.state = model, state

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        out, value = self.model.read(inputs[:, None], self.state.series, self.state.value)
        self.state = self.state._replace(value=value)
        return self.model.say(out[:, 0], inputs)


def _ahead(model: Network, layout: Layout, origin: Origin, state: _State, ask: Ask) -> np.ndarray:
    """The direct head: one more step, then the whole horizon."""
    horizon = origin.side.shape[1]
    lagged = origin.recent[:, origin.recent.shape[1] - np.array(layout.lags)]
    first = layout.step(lagged, origin.past, origin.side[:, 0], origin.size)
    out, _ = model.read(first[:, None], state.series, state.value)
    seen = layout.horizon(seasonal_values(origin.recent, layout.seasons, horizon), origin.side)
    raw = model.look_ahead(out[:, 0], seen)
    return direct(layout, raw, origin, np.array(ask.levels))


def _paths(plan: Plan, model: Network, ask: Ask) -> int:
    return 1 if model.is_direct or plan.layout.output == "point" else ask.paths


def _check(model: Network, plan: Plan, ask: Ask) -> None:
    """Raise where the model cannot give what is asked for."""
    if model.is_direct and ask.horizon > plan.horizon:
        way_out = f"Use --horizon {plan.horizon} or less, or train with --head autoregressive, which goes on and on."
        wanted = f"at most {plan.horizon}, which the direct head was trained for"
        raise RecipeError(expected("horizon", wanted, ask.horizon, way_out))
    if not all(0 < level < 1 for level in ask.levels):
        raise RecipeError(expected("quantile", "shares between 0 and 1", list(ask.levels), "0.9 is one of them."))
    if plan.layout.output == "quantile" and ask.levels:
        low, high = plan.layout.levels[0], plan.layout.levels[-1]
        if min(ask.levels) < low - 1e-9 or max(ask.levels) > high + 1e-9:
            way_out = "Train with --quantiles that reach further."
            wanted = f"levels between {low:g} and {high:g}, which the model was trained for"
            raise RecipeError(expected("quantile", wanted, list(ask.levels), way_out))


# the state that carries on


def remember(model: Network, plan: Plan, frames: Sequence[Frame]) -> None:
    """Keep in the model where each series ends: its last values, its covariates and the recurrent state."""
    for begin in range(0, len(frames), 256):
        some = [frame for frame in frames[begin : begin + 256] if len(frame.values)]
        ends = [len(frame.values) for frame in some]
        starts = [max(0, end - plan.context) for end in ends]
        scales = [plan.scale_of(f, s, e) for f, s, e in zip(some, starts, ends, strict=True)]
        state = _read(model, plan, some, starts, ends, scales)
        times = [int(frame.series.times[-1]) for frame in some]
        keep(model, Left(_origin(plan, some, ends, scales, 1), scales, state, times))


class Left(NamedTuple):
    """Where series were left: what a forecast, or the next rows, begin with."""

    origin: Origin
    scales: Sequence[Scale]
    state: _State
    times: list[int]  # of the last step
    follow: Follow | None = None  # of one series, where the calibration is adaptive


class Follow(NamedTuple):
    """The calibration of one series that is followed."""

    shift: np.ndarray  # (Q,)
    pending: Pending | None  # the forecast that is held against the rows that come


def go_on(model: Network, plan: Plan, series: Series, horizon: int, paths: int = 200) -> Left:
    """Read new rows of one series from where it was left. The series may have no rows, only known covariates ahead.

    Args:
        paths: of the forecasts against which an adaptive calibration holds the rows.

    Raises:
        DataError: the rows do not begin one step after those that were read.
    """
    index = plan.scaler.rows[series.id]
    scale = Scale(float(model.memory("place")[index]), float(model.memory("scale")[index]))
    time, wanted = int(model.memory("time")[index]), next_time(model, plan, series.id)
    if series.start != wanted:
        shown = [show_time(one, series.dates) for one in (wanted, series.start, time)]
        where = f"{series.where}: series {series.id!r}"
        way_out = f"The run has read this series up to {shown[2]}: give only the rows after it, and all of them"
        way_out += "; a run with gaps = mask reads on where rows are missing."
        raise DataError(expected(where, f"a first time of {shown[0]}", shown[1], way_out))
    recent = kept_values(model, plan, series.id)
    frame = plan.frame(series, before=recent, ahead=horizon)
    frame.past[0] = model.memory("past")[index]
    state = _State(np.array([index]), tuple(model.memory(name)[index][:, None] for name in model.states))
    follow = _follow(model, plan, index)
    if len(series) and follow is not None:
        state, follow = _read_and_follow(model, plan, frame, scale, recent, state, follow, paths)
    elif len(series):
        state = _read(model, plan, [frame], [0], [len(series)], [scale], state.value)
    time = int(series.times[-1]) if len(series) else time
    origin = _origin(plan, [frame], [len(series)], [scale], horizon, recent)
    return Left(origin, [scale], state, [time], follow)


def _follow(model: Network, plan: Plan, index: int) -> Follow | None:
    """Where the adaptive calibration of a series was left; None where there is none."""
    if plan.calibration is None or not plan.calibration.rate:
        return None
    shift, quantiles, below = (model.memory(name)[index].astype(np.float64) for name in ("shift", "pending", "below"))
    seen, counted = (int(model.memory(name)[index]) for name in ("seen", "counted"))
    return Follow(shift, Pending(quantiles, below, counted, seen) if seen else None)


def _read_and_follow(
    model: Network,
    plan: Plan,
    frame: Frame,
    scale: Scale,
    recent: np.ndarray,
    state: _State,
    follow: Follow,
    paths: int,
) -> tuple[_State, Follow]:
    """The state after all steps, and the calibration: a forecast a horizon, held against the steps after it."""
    assert plan.calibration is not None
    place, steps = 0, len(frame.values)
    ask = Ask(plan.horizon, plan.calibration.levels, paths)
    while place < steps:
        pending = follow.pending
        if pending is None:
            origin = _origin(plan, [frame], [place], [scale], plan.horizon, recent)
            (raw,) = _from_state(model, plan, origin, state, ask, np.random.default_rng(ask.seed))
            pending = Pending(plan.calibration.apply(raw, ask.levels, follow.shift))
            if plan.known:  # a forecast without its known covariates says nothing about the calibration
                pending.quantiles[max(0, len(frame.series.known) - place) :] = np.nan
        end = place + min(steps - place, pending.left)
        state = _read(model, plan, [frame], [place], [end], [scale], state.value)
        pending = pending.seen_more((frame.values[place:end] - scale.place) / scale.scale)
        place = end
        if pending.left:
            follow = Follow(follow.shift, pending)
        else:
            follow = Follow(moved_on(plan.calibration, follow.shift, pending), None)
    return state, follow


def next_time(model: Network, plan: Plan, name: str) -> int:
    """The time of the step after the last one that the model has read of a series."""
    return int(plan.frequency.after(int(model.memory("time")[plan.scaler.rows[name]]), 1))


def kept_values(model: Network, plan: Plan, name: str) -> np.ndarray:
    """(memory,) the last values that the model has read of a series, as learnt; NaN where missing."""
    index = plan.scaler.rows[name]
    recent = model.memory("recent")[index].astype(np.float64)
    return recent * float(model.memory("scale")[index]) + float(model.memory("place")[index])


def forecast_left(model: Network, plan: Plan, left: Left, ask: Ask) -> np.ndarray:
    """(h, Q) of the one series of `left`."""
    _check(model, plan, ask)
    rng = np.random.default_rng(ask.seed)
    behind = ask._replace(levels=plan.behind(ask.levels))
    (raw,) = _from_state(model, plan, left.origin, left.state, behind, rng)
    shift = left.follow.shift if left.follow else None
    return plan.back(plan.calibrated(raw, behind.levels, ask.levels, shift), left.scales[0])


def keep(model: Network, left: Left) -> None:
    """Write where series were left into the model, which then can be saved with it."""
    rows = left.state.series
    for name, part in (
        ("recent", left.origin.recent),
        ("past", left.origin.past),
        ("place", [scale.place for scale in left.scales]),
        ("scale", [scale.scale for scale in left.scales]),
        ("time", left.times),
    ):
        model.keep(name, rows, np.asarray(part))
    for name, value in zip(model.states, left.state.value, strict=True):
        model.keep(name, rows, value.swapaxes(0, 1))  # (L, B, units) as (B, L, units)
    if left.follow is not None:
        pending = left.follow.pending
        model.keep("shift", rows, left.follow.shift[None])
        model.keep("seen", rows, np.array([pending.seen if pending else 0]))
        if pending is not None:
            model.keep("pending", rows, pending.quantiles[None])
            model.keep("below", rows, pending.below[None])
            model.keep("counted", rows, np.array([pending.counted]))
