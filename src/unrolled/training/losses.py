"""Losses: means over valid positions, in nats, never over padding.

Axes     logits (B, C) or (B, T, C), targets without the last; lengths (B,); mask like targets.
Source   `equations.masked_cross_entropy`, the one place of the law; label smoothing as in Szegedy et al.
         (2016), arXiv:1512.00567, section 7: the target is (1 - ε) one-hot + ε uniform over all C classes.
Variant  A row weighs as much as it has valid positions: the mean over tokens, not the mean of rows' means.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unrolled import equations
from unrolled.errors import ShapeError, expected

__all__ = ["cross_entropy", "row_losses", "valid_mask"]


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    *,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Mean of -log p(target) over the valid positions; 0, with zero gradients, where there is none.

    Args:
        logits: (B, C), or (B, T, C) with `lengths` or `mask`. Padding is not read, NaN included.
        targets: class numbers, (B,) or (B, T).
        lengths: (B,) valid steps of each row.
        mask: boolean, like targets; together with `lengths`, both must hold.
        label_smoothing: the share ε of the target that is spread evenly over the classes.
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(expected("label_smoothing", "0 or more and less than 1", label_smoothing))
    valid = valid_mask(logits, targets, lengths=lengths, mask=mask)
    loss = equations.masked_cross_entropy(logits, targets, valid)
    if label_smoothing == 0:
        return loss
    safe = logits.masked_fill(~valid.unsqueeze(-1), 0)
    to_uniform = (safe.logsumexp(-1) - safe.mean(-1)) * valid  # mean over classes of -log p
    return (1 - label_smoothing) * loss + label_smoothing * to_uniform.sum() / valid.sum().clamp(min=1)


def row_losses(
    logits: Tensor,
    targets: Tensor,
    *,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The sum of -log p(target) over the valid positions of each row, and their number: both (B,).

    Sums can be added over batches and divided once: their mean does not depend on how rows were batched.
    """
    valid = valid_mask(logits, targets, lengths=lengths, mask=mask)
    safe = logits.masked_fill(~valid.unsqueeze(-1), 0)
    losses = equations.cross_entropy(safe, targets.masked_fill(~valid, 0)) * valid
    rows = targets.shape[0]
    return losses.reshape(rows, -1).sum(-1), valid.reshape(rows, -1).sum(-1)


def valid_mask(
    logits: Tensor,
    targets: Tensor,
    *,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Boolean, like targets: the positions that count."""
    if logits.shape[:-1] != targets.shape:
        wanted = f"{list(logits.shape[:-1])}, as logits without the classes"
        raise ShapeError(expected("targets", wanted, f"shape {list(targets.shape)}"))
    valid = torch.ones(targets.shape, dtype=torch.bool, device=targets.device)
    if lengths is not None:
        if targets.dim() != 2:
            raise ShapeError(expected("targets", "(batch, time), since lengths are given", list(targets.shape)))
        rows = torch.as_tensor(lengths, device=targets.device)
        if rows.shape != targets.shape[:1]:
            raise ShapeError(expected("lengths", f"[{targets.shape[0]}] (batch)", f"shape {list(rows.shape)}"))
        valid = torch.arange(targets.shape[1], device=targets.device) < rows[:, None]
    if mask is None:
        return valid
    if mask.dtype != torch.bool or mask.shape != targets.shape:
        wanted = f"boolean {list(targets.shape)}, as targets"
        raise ShapeError(expected("mask", wanted, f"{mask.dtype} {list(mask.shape)}"))
    return valid & mask
