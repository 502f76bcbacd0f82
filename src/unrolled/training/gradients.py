"""Gradient clipping by the global norm, and checks that stop a run where a number is no longer finite.

Source   Pascanu, Mikolov and Bengio (2013), "On the difficulty of training recurrent neural networks",
         algorithm 1: g ← g · max_norm / ‖g‖ where ‖g‖ > max_norm; the norm is over all parameters together.
Variant  The norm returned is the one before clipping. Gradients that are not finite are never clipped to
         numbers that look well: they raise, and stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.errors import RunError

__all__ = ["NonFinite", "check_finite_loss", "clip_gradients", "first_non_finite"]

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
    found: NonFinite | None = None,
) -> None:
    """Stop where a loss is not finite.

    Args:
        losses: one loss for each row (B,), or a single one.
        model: its first parameter that is not finite is named, which tells a broken model from a broken row.
        rows: what to call the rows, such as "reviews.csv:17"; None: their numbers in the batch.
        found: what `first_non_finite` saw, where it was asked.

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
        parts.append(f"first seen in {found}")
    if model is not None:
        broken = next((name for name, p in _named(model) if not p.isfinite().all()), None)
        where = "all parameters are finite" if broken is None else f"parameter {broken} is not finite"
        parts.append(where)
    raise RunError(f"{'; '.join(parts)}. {ADVICE}")


class NonFinite(NamedTuple):
    """Where a forward pass first left the finite numbers."""

    module: str  # its name in the model
    kind: str  # "LSTM", "Linear", …
    layer: int | None  # of a stack of recurrent layers
    step: int | None  # time step
    row: int | None  # row of the batch

    def __str__(self) -> str:
        layer = "" if self.layer is None else f", layer {self.layer}"
        step = "" if self.step is None else f", time step {self.step}"
        row = "" if self.row is None else f", row {self.row}"
        return f"{self.module or 'the model'} ({self.kind}){layer}{step}{row}"


def first_non_finite(model: nn.Module, *args: Any, **kwargs: Any) -> NonFinite | None:
    """Name the first module, layer and time step of a forward pass that is not finite, if any.

    `model(*args, **kwargs)` runs once, without a graph. A recurrent layer is then walked a step at a time,
    which is slow: ask only when something went wrong. Lengths and resets are minded; a layer that runs in
    both directions is located by its output alone.
    """
    seen: list[tuple[str, nn.Module, tuple[Any, ...], dict[str, Any], Any]] = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
            if not seen and not all(bool(leaf.isfinite().all()) for leaf in _leaves(output)):
                seen.append((name, module, inputs, keywords, output))

        return hook

    hooks = [m.register_forward_hook(watch(name), with_kwargs=True) for name, m in model.named_modules()]
    try:
        with torch.no_grad():
            model(*args, **kwargs)
            return _locate(*seen[0]) if seen else None
    finally:
        for hook in hooks:
            hook.remove()


def _locate(name: str, module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> NonFinite:
    kind = type(module).__name__
    if not all(hasattr(module, field) for field in ("num_layers", "hidden_size", "batch_first")):
        return NonFinite(name, kind, None, None, None)
    arguments = dict(zip(("input", "hx"), inputs, strict=False)) | keywords
    x = arguments["input"]
    out = output[0] if isinstance(output, tuple) else output
    if not isinstance(x, Tensor) or x.dim() != 3 or not isinstance(out, Tensor):
        return NonFinite(name, kind, None, None, None)  # packed or unbatched
    if not module.batch_first:
        x, out = x.transpose(0, 1), out.transpose(0, 1)
    state = output[1]
    bad_rows = ~out.isfinite().all(-1).all(-1)
    for leaf in _leaves(state):
        bad_rows = bad_rows | ~leaf.isfinite().all(-1).all(0)
    row = int(bad_rows.nonzero()[0, 0])
    if not module.bidirectional:
        layer, step = _walk(module, x, arguments, row)
        if layer is not None:
            return NonFinite(name, kind, layer, step, row)
    bad = (~out[row].isfinite().all(-1)).nonzero()
    return NonFinite(name, kind, None, int(bad[0, 0]) if len(bad) else None, row)


def _walk(module: nn.Module, x: Tensor, arguments: dict[str, Any], row: int) -> tuple[int | None, int | None]:
    """(layer, time step) at which the state of one row, fed a step at a time, is first not finite."""
    lengths, resets = arguments.get("lengths"), arguments.get("resets")
    steps = x.shape[1] if lengths is None else int(lengths[row])
    initial = arguments.get("hx")
    state = _row(initial, row)
    for step in range(steps):
        if resets is not None and bool(resets[row, step]):
            state = None
        piece = x[row : row + 1, step : step + 1]
        _, state = module(piece if module.batch_first else piece.transpose(0, 1), state)
        for layer in range(int(module.num_layers)):  # type: ignore[arg-type]
            if not all(bool(leaf[layer].isfinite().all()) for leaf in _leaves(state)):
                return layer, step
    return None, None


def _row(state: Any, row: int) -> Any:
    if isinstance(state, Tensor):
        return state[:, row : row + 1]
    return None if state is None else tuple(_row(part, row) for part in state)


def _leaves(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, nn.utils.rnn.PackedSequence):
        yield value.data


def _named(parameters: Named) -> Iterable[tuple[str, Tensor]]:
    if isinstance(parameters, nn.Module):
        yield from parameters.named_parameters()
        return
    for number, item in enumerate(parameters):
        yield item if isinstance(item, tuple) else (f"parameter {number}", item)


def _at(step: int | None) -> str:
    return "" if step is None else f" at step {step}"
