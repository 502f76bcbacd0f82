"""One optimizer step: the gradients of one batch or of several, added up with the weight of their positions.

Axes     N batches a step ("gradient accumulation"), R processes; the step follows the mean over the positions of all.
Source   Pascanu et al. (2013) for the clip, which sees the sum; Micikevicius et al. (2018), arXiv:1710.03740, for the
         scaled loss of float16 and the steps that it leaves out.
Variant  The losses of N batches weigh as their positions do, so that without dropout N batches of B rows are one of
         N · B rows. The first batch has the weight 1 and the sum is divided at the end: a step of one batch computes
         what it would without all this, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import torch
from torch import nn

from unrolled.errors import RunError
from unrolled.insight.non_finite import find_non_finite
from unrolled.training.gradients import check_finite_loss, clip_gradients
from unrolled.training.optimisation import Average, optimizer_for
from unrolled.training.precision import Precision
from unrolled.training.ranks import Ranks
from unrolled.training.recipe import Recipe
from unrolled.training.tasks import StepLoss

__all__ = ["Descent", "Taken"]


class Taken(NamedTuple):
    """A step that was taken, or left out because a gradient was too large for float16."""

    loss: float  # nats a position
    nats: float
    positions: float
    norm: float  # of the gradient before clipping; not finite where the step was left out
    skipped: bool


class Descent:
    """The way down: `add` the losses of the batches, then `step`."""

    def __init__(self, recipe: Recipe, model: nn.Module, ranks: Ranks, precision: Precision) -> None:
        self.recipe, self.model, self.ranks, self.precision = recipe, model, ranks, precision
        self.optimizer = optimizer_for(recipe, model)
        self.average = Average(model, recipe.average)
        self.pieces: list[StepLoss] = []  # of the step that is being gathered

    @property
    def is_full(self) -> bool:
        """Whether the step has all its batches."""
        return len(self.pieces) == self.recipe.accumulate

    def add(self, piece: StepLoss, step: int) -> None:
        """Add the gradient of one batch to those of the step.

        Raises:
            RunError: the loss is not finite; names the row and the layer.
        """
        if not self.pieces:
            self.optimizer.zero_grad(set_to_none=True)
        self.pieces.append(piece)
        if not bool(torch.isfinite(piece.loss)):
            self._explain_loss(piece, step)
        if piece.positions:
            share = _weight(piece) / self._unit()
            self.precision.scaler.scale(piece.loss if share == 1 else piece.loss * share).backward()

    def step(self, rate: float, step: int) -> Taken | None:
        """Take the step, with all processes; None where none of them had anything to learn from.

        Raises:
            RunError: a gradient is not finite; names the parameter and the row.
        """
        pieces = [piece for piece in self.pieces if piece.positions]
        unit = self._unit()
        own = [float(piece.mean) * piece.positions for piece in pieces]
        positions, weights = [piece.positions for piece in pieces], [_weight(piece) for piece in pieces]
        nats, count, weight = self.ranks.total([sum(own), sum(positions), sum(weights)])
        self.pieces = []
        if not count:
            return None
        self._divide(unit / weight)
        norm = self._clip(pieces, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        scaler = self.precision.scaler
        scaler.step(self.optimizer)
        scaler.update()
        skipped = not math.isfinite(norm)
        if not skipped:
            self.average.update()
        alone = len(pieces) == 1 and self.ranks.count == 1
        return Taken(float(pieces[0].mean) if alone else nats / count, nats, count, norm, skipped)

    def _unit(self) -> float:
        """The weight of the first batch, by which the others are measured; 0 where there is none."""
        return next((_weight(piece) for piece in self.pieces if piece.positions), 0.0)

    def _divide(self, factor: float) -> None:
        """In place of each gradient that of the mean over all batches and processes."""
        if self.ranks.count > 1:
            self.ranks.add_gradients(self.model, factor)
        elif factor != 1:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _clip(self, pieces: list[StepLoss], step: int) -> float:
        """Clip the sum. Returns its norm; NaN where the scale of float16 was too large, and the step is left out."""
        scaler = self.precision.scaler
        scaler.unscale_(self.optimizer)
        try:
            return clip_gradients(self.model, self.recipe.clip, step=step)
        except RunError as error:
            if scaler.is_enabled() and scaler.get_scale() > 1:  # at 1, nothing has been made larger than it is
                return math.nan
            row = _row_of_bad_gradient(self.model, pieces) if pieces else "one of another process"
            raise RunError(f"{error} Row: {row}.") from None

    def _explain_loss(self, piece: StepLoss, step: int) -> NoReturn:
        found = find_non_finite(self.model, *piece.call[0], **piece.call[1])
        with torch.no_grad():
            losses = piece.by_row()
        check_finite_loss(losses, step, model=self.model, rows=piece.rows, found=found)
        largest = piece.rows[int(losses.argmax())]  # each row is finite, and only their sum is not
        raise RunError(f"the loss is {float(piece.loss.detach())} at step {step}, the largest in row {largest}.")

    # checkpoints

    def scaler_state(self) -> dict[str, Any] | None:
        """What float16 remembers of its scale, for JSON; None in other precisions."""
        return self.precision.scaler.state_dict() or None

    def restore_scaler(self, saved: dict[str, Any] | None) -> None:
        """The inverse of `scaler_state`."""
        if saved is not None and self.precision.scaler.is_enabled():
            self.precision.scaler.load_state_dict(saved)


def _weight(piece: StepLoss) -> float:
    """What the loss was divided by."""
    return piece.positions if piece.weight is None else piece.weight


def _row_of_bad_gradient(model: nn.Module, pieces: list[StepLoss]) -> str:
    """The first row whose own gradient is not finite, found row by row: only a failed run can afford it."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    for piece in pieces:
        losses = piece.by_row()
        for i, name in enumerate(piece.rows):
            gradients = torch.autograd.grad(losses[i], parameters, retain_graph=True, allow_unused=True)
            if not all(bool(g.isfinite().all()) for g in gradients if g is not None):
                return name
    names = [name for piece in pieces for name in piece.rows]
    return f"each alone is finite, of {', '.join(names[:5])}" + (" …" if len(names) > 5 else "")
