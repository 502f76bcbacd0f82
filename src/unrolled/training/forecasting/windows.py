"""Windows to train on: cut from the training part of one series, never across its end or into another series.

Axes     B windows of a batch, T steps, N forks, h steps of the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from unrolled.data import pad
from unrolled.decoding.forecasting import seasonal_values
from unrolled.models import Window
from unrolled.training.forecasting.plan import Frame, Plan
from unrolled.training.recipe import Recipe

__all__ = ["Cut", "batches", "cuts_of", "window_batch"]

LEAST = 25  # batches of an epoch, where the data are few


class Cut(NamedTuple):
    """Where a window stands: context start … turn, horizon turn … end."""

    frame: int
    start: int
    turn: int
    end: int


def cuts_of(frames: Sequence[Frame], plan: Plan) -> np.ndarray:
    """(W, 2) the frame and the first step of every window there is; a short series has one, its whole."""
    length = plan.context + plan.horizon
    rows = []
    for i, frame in enumerate(frames):
        starts = np.arange(max(1, len(frame.values) - length + 1))
        rows.append(np.stack([np.full_like(starts, i), starts], axis=1))
    return np.concatenate(rows)


def epoch_size(frames: Sequence[Frame], recipe: Recipe, plan: Plan) -> int:
    """Windows of an epoch: as many as the recipe says, or as horizons fit into the training part, and LEAST batches."""
    if recipe.epoch_windows is not None:
        return recipe.epoch_windows
    return max(LEAST * recipe.batch_size, sum(-(-len(frame.values) // plan.horizon) for frame in frames))


def batches(
    frames: Sequence[Frame],
    recipe: Recipe,
    plan: Plan,
    rng: np.random.Generator,
    behind: int = 0,
    drawn: dict[str, Any] | None = None,
    *,
    share: Callable[[Sequence[Any]], Sequence[Any]] = list,
) -> Iterator[tuple[Window | None, list[str]]]:
    """One epoch of windows in random places, and what to call their rows.

    Args:
        rng: as it stood when the epoch began.
        behind: batches to leave out, after which the state of rng was `drawn`.
        share: which windows of a batch to make; None in place of a batch of which it takes none.
    """
    all_cuts, count = cuts_of(frames, plan), epoch_size(frames, recipe, plan)
    # Every place once before any place twice.
    rounds = [rng.permutation(len(all_cuts)) for _ in range(-(-count // len(all_cuts)))]
    chosen = all_cuts[np.concatenate(rounds)[:count]]
    if drawn is not None:
        rng.bit_generator.state = drawn
    for begin in range(behind * recipe.batch_size, count, recipe.batch_size):
        cuts = [_cut(frames, plan, int(i), int(s)) for i, s in chosen[begin : begin + recipe.batch_size]]
        # Drawn for all of them, so that what a process draws does not depend on its share.
        forks = [_forks(cut, recipe.forks, rng) for cut in cuts] if recipe.head == "direct" else [None] * len(cuts)
        own = share(list(zip(cuts, forks, strict=True)))
        taken, places = [cut for cut, _ in own], [fork for _, fork in own]
        names = [f"{frames[c.frame].series.where} from {frames[c.frame].series.time(c.start)}" for c in taken]
        yield _windows(frames, taken, places, recipe, plan) if own else None, names


def _cut(frames: Sequence[Frame], plan: Plan, index: int, start: int) -> Cut:
    end = min(start + plan.context + plan.horizon, len(frames[index].values))
    return Cut(index, start, max(start + 1, end - plan.horizon), end)


def window_batch(
    frames: Sequence[Frame], cuts: Sequence[Cut], recipe: Recipe, plan: Plan, rng: np.random.Generator
) -> Window:
    """The windows as tensors, with forks in random places; windows of short series are padded at the end."""
    forks = [_forks(cut, recipe.forks, rng) for cut in cuts] if recipe.head == "direct" else [None] * len(cuts)
    return _windows(frames, cuts, forks, recipe, plan)


def _windows(frames: Sequence[Frame], cuts: Sequence[Cut], forks: Sequence[Any], recipe: Recipe, plan: Plan) -> Window:
    scales = [plan.scale_of(frames[cut.frame], cut.start, cut.turn) for cut in cuts]
    direct = recipe.head == "direct"
    inputs, targets = [], []
    for cut, scale in zip(cuts, scales, strict=True):
        frame = frames[cut.frame]
        # The first step of the horizon still knows the past covariates of the step before it, later ones do not.
        last = cut.turn + 1 if direct else cut.end
        inputs.append(plan.inputs(frame, cut.start, last, scale, cut.turn + 1))
        targets.append((frame.values[cut.start : cut.end] - scale.place) / scale.scale)
    series = torch.tensor([frames[cut.frame].row for cut in cuts])
    sizes = torch.tensor([one.scale for one in scales], dtype=torch.float32)
    rows, lengths = pad(inputs)
    tensors = torch.from_numpy(rows), torch.from_numpy(lengths), series
    if not direct:
        values, _ = pad(targets, np.nan)
        return Window(*tensors, *_masked(values), sizes)
    looks = [_ahead(frames[c.frame], f, plan, s) for c, f, s in zip(cuts, forks, scales, strict=True)]
    ahead, values = (np.stack(part) for part in zip(*looks, strict=True))
    places = np.stack([fork - cut.start for cut, fork in zip(cuts, forks, strict=True)])
    return Window(*tensors, *_masked(values), sizes, torch.from_numpy(places), torch.from_numpy(ahead))


def _masked(values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    mask = np.isfinite(values)
    return torch.from_numpy(np.where(mask, values, 0).astype(np.float32)), torch.from_numpy(mask)


def _forks(cut: Cut, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N,) steps from which the direct head looks ahead: the turn, and others of the second half of the context."""
    middle = (cut.start + 1 + cut.turn) // 2
    drawn = rng.integers(min(middle, cut.turn), cut.turn + 1, size=count)
    drawn[-1] = cut.turn
    return drawn


def _ahead(frame: Frame, forks: np.ndarray, plan: Plan, scale: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """(N, h, A) what is known of the steps ahead of each fork, and (N, h) their values; NaN past the part's end."""
    place, size = scale
    memory, horizon, steps = plan.layout.memory, plan.horizon, len(frame.values)
    padded = np.concatenate([np.full(memory, np.nan), frame.values, np.full(horizon, np.nan)])
    recent = padded[forks[:, None] + np.arange(memory)]
    seasonal = (seasonal_values(recent, plan.layout.seasons, horizon) - place) / size
    at = forks[:, None] + np.arange(horizon)
    values = (padded[memory + at] - place) / size
    side = frame.side[np.minimum(at, steps - 1)]
    return plan.layout.horizon(seasonal, side), values
