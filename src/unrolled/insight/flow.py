"""Gradient through time: how strongly the loss at one step depends on the state at another.

Axes     N targets (steps whose loss is asked), T time (steps whose state is asked), B batch.
Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, eq. (4): the gradient of a loss is a sum over pairs of
         steps; the norm of each pair is one cell of the triangle.
Variant  The derivative is a total one: every way from h_k to L_t counts, through time, through the layers above, and
         through pooling or attention. Rows do not mix, so each row has a triangle of its own. With `chunk` the gradient
         is cut where truncated backpropagation cuts it: cells beyond a cut are exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.insight.cells import is_recurrent, spells
from unrolled.insight.stepping import Recording, Track, record

__all__ = ["Flow", "gradient_flow"]

MOST_TARGETS = 64
NUMBERS = 2**25  # in the gradients that are held at once: more targets then go back together, which is faster
Losses = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Flow:
    """The norms of one layer and direction."""

    name: str
    layer: int
    direction: int
    kind: str
    targets: Tensor  # (N,) the steps t whose loss was asked; one entry, the last step, for a loss of the whole row
    norms: Tensor  # (N, T, B): the norm of dL_t/dh_k; NaN at padding, and where k cannot reach t
    cuts: tuple[int, ...]  # the gradient is cut before these steps
    skipped: int  # targets that the cap left out
    aligned: bool  # t and k count the same steps; not so for an encoder and its decoder's losses

    def triangle(self) -> Tensor:
        """(N, T): the mean over the rows that have both steps; NaN where none has."""
        return self.norms.nanmean(-1)

    def by_lag(self) -> Tensor:
        """(T,): the mean of log10 of the norm over all pairs k = t - lag (k = t + lag, backward), for lag 0, 1, …

        A pair whose gradient is exactly 0 (cut, or underflown) is left out; NaN where no pair is left, and everywhere
        where the steps are not aligned.
        """
        if not self.aligned:
            return self.norms.new_full((self.norms.shape[1],), math.nan)
        lags = self.targets[:, None] - torch.arange(self.norms.shape[1])
        lags = -lags if self.direction else lags
        seen = self.norms.log10()
        sums, counts = seen.new_zeros(self.norms.shape[1]), seen.new_zeros(self.norms.shape[1])
        usable = seen.isfinite() & (lags >= 0)[:, :, None]
        where = lags[:, :, None].expand_as(seen)[usable]
        sums.index_add_(0, where, seen[usable])
        counts.index_add_(0, where, torch.ones_like(seen[usable]))
        return sums / counts


def gradient_flow(
    model: nn.Module,
    *args: Any,
    losses: Losses | None = None,
    targets: Sequence[int] | None = None,
    chunk: int | None = None,
    **kwargs: Any,
) -> list[Flow]:
    """The norm of dL_t/dh_k for every pair of steps, by layer and direction, when model(*args, **kwargs) runs.

    Args:
        losses: from the model's output to the losses, (B, T), or (B,) where a row has one loss. None: for a recurrent
            layer the sum of its output's features at each step; for a model, -log p of what it holds likeliest.
        targets: the steps t to ask for; None: all, or 64 of them evenly spread where there are more.
        chunk: cut the gradient as truncated backpropagation with this chunk does.

    Raises:
        RunError: there is no recurrent layer, or it computes something else than its equations.
        ShapeError: `losses` gives neither (B, T) nor (B,).
    """
    recording = record(model, *args, chunk=chunk, **kwargs)
    tracks = [track for track in recording.tracks if track.x and not spells(recording.model, track.name)]
    given = _losses(model, recording, losses)
    batch = tracks[0].x[0].shape[0] if tracks else 0
    if given.dim() not in (1, 2) or given.shape[0] != batch:
        raise ShapeError(expected("losses", f"({batch}, time) or ({batch},) (batch)", tuple(given.shape)))
    tracks = [track for track in tracks if track.x[0].shape[0] == batch]
    asked, skipped = _targets(given, targets)
    columns = [given.sum()] if given.dim() == 1 else [given[:, t].sum() for t in asked]
    norms = _norms(columns, tracks)
    ordered = _one_way(tracks)
    return [_flow(*part, given, asked, chunk, skipped) for part in zip(tracks, norms, ordered, strict=True)]


def _losses(model: nn.Module, recording: Recording, losses: Losses | None) -> Tensor:
    output = recording.output
    if losses is not None:
        return losses(output)
    first = output[0] if isinstance(output, tuple) else output
    if not isinstance(first, Tensor) or first.dim() not in (2, 3):
        found = type(first).__name__ if not isinstance(first, Tensor) else f"an output {tuple(first.shape)}"
        raise ShapeError(expected("losses", "a function of the model's output", f"none, and {found}"))
    if is_recurrent(model):
        summed = first.sum(-1)
        return summed if getattr(model, "batch_first", False) or summed.dim() == 1 else summed.T
    return -first.log_softmax(-1).amax(-1)


def _targets(losses: Tensor, targets: Sequence[int] | None) -> tuple[list[int], int]:
    if losses.dim() == 1:
        return [-1], 0
    steps = losses.shape[1]
    if targets is None:
        kept = torch.linspace(0, steps - 1, min(steps, MOST_TARGETS)).round().long().unique().tolist()
        return kept, steps - len(kept)
    for target in targets:
        if not 0 <= target < steps:
            raise ValueError(expected("targets", f"steps from 0 to {steps - 1}", target))
    return [int(target) for target in targets], 0


def _norms(columns: list[Tensor], tracks: list[Track]) -> list[Tensor]:
    """(N, T, B) for each track."""
    nodes = [node for track in tracks for node in track.nodes()]
    parts: list[list[Tensor]] = [[] for _ in tracks]
    at_a_time = max(1, NUMBERS // max(1, sum(node.numel() for node in nodes)))
    for start in range(0, len(columns), at_a_time):
        some = columns[start : start + at_a_time]
        found = iter(_gradients(some, nodes))
        for track, part in zip(tracks, parts, strict=True):
            part.append(torch.stack([_norm(next(found)) for _ in track.x], dim=1))
    empty = torch.zeros(0)
    return [torch.cat(part) if part else empty for part in parts]


def _norm(gradient: Tensor) -> Tensor:
    """(N, B) of (N, B, P); the largest number is taken out first, so that squares neither overflow nor underflow."""
    largest = gradient.abs().amax(-1, keepdim=True)
    scale = torch.where((largest > 0) & largest.isfinite(), largest, 1)
    return scale[..., 0] * torch.linalg.vector_norm(gradient / scale, dim=-1)


def _gradients(columns: list[Tensor], nodes: list[Tensor]) -> list[Tensor]:
    """The gradient (N, …) of each of N losses with regard to each node, all losses at once."""
    if not any(column.requires_grad for column in columns):
        return [node.new_zeros(len(columns), *node.shape) for node in nodes]
    joined = torch.stack(columns)
    every = torch.eye(len(columns), dtype=joined.dtype)
    found = torch.autograd.grad(joined, nodes, every, retain_graph=True, allow_unused=True, is_grads_batched=True)
    zeros = (node.new_zeros(len(columns), *node.shape) for node in nodes)
    return [zero if one is None else one for one, zero in zip(found, zeros, strict=True)]


def _one_way(tracks: list[Track]) -> list[bool]:
    """For each track whether a state can only count at steps on its own side: nothing above it reads the other way."""
    if not any(track.direction for track in tracks):
        return [True] * len(tracks)
    top = (tracks[-1].name, tracks[-1].layer)
    return [(track.name, track.layer) == top for track in tracks]


def _flow(
    track: Track, norms: Tensor, one_way: bool, losses: Tensor, asked: list[int], chunk: int | None, skipped: int
) -> Flow:
    steps = len(track.x)
    valid = track.stacked(track.valid)
    alone = losses.dim() == 1
    targets = torch.tensor([steps - 1 if alone else t for t in asked], dtype=torch.int64)
    norms = norms.detach().masked_fill(~valid[None], math.nan)
    aligned = alone or losses.shape[1] == steps
    if aligned and not alone:
        norms = norms.masked_fill(~valid[targets][:, None], math.nan)
        norms = _hide_unreachable(norms, targets, track.direction) if one_way else norms
    cuts = tuple(range(chunk, steps, chunk)) if chunk else ()
    return Flow(track.name, track.layer, track.direction, track.cell.kind, targets, norms, cuts, skipped, aligned)


def _hide_unreachable(norms: Tensor, targets: Tensor, direction: int) -> Tensor:
    """NaN on the far side of the diagonal, unless some gradient is there: attention, for one, may look ahead."""
    steps = torch.arange(norms.shape[1])
    far = (steps < targets[:, None]) if direction else (steps > targets[:, None])
    there = norms[far.unsqueeze(-1).expand_as(norms)]
    return norms if bool((there.nan_to_num(0) != 0).any()) else norms.masked_fill(far.unsqueeze(-1), math.nan)
