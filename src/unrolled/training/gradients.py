"""Gradient clipping by the global norm, and checks that stop a run where a number is no longer finite.

Source   Pascanu, Mikolov and Bengio (2013), "On the difficulty of training recurrent neural networks",
         algorithm 1: g ← g · max_norm / ‖g‖ where ‖g‖ > max_norm; the norm is over all parameters together.
Variant  The norm returned is the one before clipping. Gradients that are not finite are never clipped to
         numbers that look well: they raise, and stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from unrolled.errors import RunError
from unrolled.insight.non_finite import Found

__all__ = ["check_finite_loss", "clip_gradients"]

Named = Iterable[tuple[str, Tensor]] | Iterable[Tensor] | nn.Module

ADVICE = "Lower the learning rate, clip harder (clip), or look at the data of that row."


def clip_gradients(parameters: Named, max_norm: float | None, *, step: int | None = None) -> float:
    """Scale all gradients so that their joint norm is at most `max_norm`; None only measures.

    Args:
        parameters: a module, its `named_parameters()`, or plain parameters (named by their number).

    Returns:
        The norm before clipping.

    Raises:
        RunError: a gradient is not finite; names the first parameter for which that is so.
    """
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm: expected a number above 0, or None to only measure, found {max_norm}.")
    gradients = [(name, p.grad) for name, p in _named(parameters) if p.grad is not None]
    if not gradients:
        return 0.0
    norm = float(nn.utils.get_total_norm([gradient for _, gradient in gradients]))
    if not norm < float("inf"):
        _check_finite_gradients(gradients, step)
        # Every number is finite and only the sum of squares was not: measure in float64.
        norm = float(nn.utils.get_total_norm([gradient.double() for _, gradient in gradients]))
    if max_norm is not None and norm > max_norm:
        for _, gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


def _check_finite_gradients(gradients: Iterable[tuple[str, Tensor]], step: int | None) -> None:
    for name, gradient in gradients:
        bad = ~gradient.isfinite()
        if bad.any():
            raise RunError(
                f"the gradient of {name} is not finite{_at(step)}: {int(bad.sum())} of {gradient.numel()} "
                f"numbers, the first is {float(gradient[bad][0])}. {ADVICE}"
            )


def check_finite_loss(
    losses: Tensor,
    step: int | None = None,
    *,
    model: Named | None = None,
    rows: Sequence[Any] | None = None,
    found: Found | None = None,
) -> None:
    """Stop where a loss is not finite.

    Args:
        losses: one loss for each row (B,), or a single one.
        model: its first parameter that is not finite is named, which tells a broken model from a broken row.
        rows: what to call the rows, such as "reviews.csv:17"; None: their numbers in the batch.
        found: what `insight.find_non_finite` saw, where it was asked.

    Raises:
        RunError: names the step, the rows and the layer.
    """
    flat = losses.detach().reshape(-1)
    bad = (~flat.isfinite()).nonzero()[:, 0].tolist()
    if not bad:
        return
    parts = [f"the loss is {float(flat[bad[0]])}{_at(step)}"]
    if losses.dim():
        names = [str(rows[i]) if rows is not None else str(i) for i in bad[:5]]
        parts.append(f"in row {', '.join(names)}" + (f" and {len(bad) - 5} more" if len(bad) > 5 else ""))
    if found is not None:
        parts.append(str(found))
    if model is not None:
        broken = next((name for name, p in _named(model) if not p.isfinite().all()), None)
        where = "all parameters are finite" if broken is None else f"parameter {broken} is not finite"
        parts.append(where)
    raise RunError(f"{'; '.join(parts)}. {ADVICE}")


def _named(parameters: Named) -> Iterable[tuple[str, Tensor]]:
    if isinstance(parameters, nn.Module):
        yield from parameters.named_parameters()
        return
    for number, item in enumerate(parameters):
        yield item if isinstance(item, tuple) else (f"parameter {number}", item)


def _at(step: int | None) -> str:
    return "" if step is None else f" at step {step}"
