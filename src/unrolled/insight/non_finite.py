"""Where a model leaves the finite numbers, or grows past a limit: the first step, layer, row and tensor.

Axes     T time, B batch.
Variant  The model runs in its own type of number, since an overflow is one of a type: 2^200 is infinite in float32
         and a plain number in float64. What is computed first is named first: layer by layer, each in the order of its
         steps. The given model is copied; it stays as it is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.insight.cells import is_recurrent
from unrolled.insight.stepping import Track, as_numbers, copied, record

__all__ = ["Found", "find_non_finite"]

LIMIT = 1e4  # a state beyond it counts as exploding
Losses = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Found:
    """The first place. What does not apply is None."""

    what: str  # "not finite", or "large": beyond the limit, and all is finite
    where: str  # "parameter", "input", "forward", "loss" or "gradient"
    module: str
    tensor: str  # the parameter's name, or i f g o r z n h c, "input", "output", "loss"
    value: float
    layer: int | None = None
    direction: int | None = None
    step: int | None = None
    row: int | None = None
    large_since: int | None = None  # the step at which the same row and layer passed the limit
    anomaly: str | None = None  # what autograd's anomaly recording said

    def __str__(self) -> str:
        said = f"{self.value:.3g}" if math.isfinite(self.value) else str(self.value)
        place = [f"{self.tensor} of {self.module}" if self.module else self.tensor]
        place += [] if self.layer is None else [f"layer {self.layer}"]
        place += ["backward"] if self.direction else []
        place += [] if self.step is None else [f"step {self.step}"]
        place += [] if self.row is None else [f"row {self.row}"]
        text = f"first {self.what} in the {self.where}: {', '.join(place)} is {said}"
        return text if self.large_since is None else f"{text}; large since step {self.large_since}"


def find_non_finite(
    model: nn.Module,
    *args: Any,
    losses: Losses | None = None,
    limit: float = LIMIT,
    anomaly: bool = False,
    **kwargs: Any,
) -> Found | None:
    """The first number that is not finite when model(*args, **kwargs) runs, or else the first state beyond `limit`.

    Args:
        model: any; of its recurrent layers (ours and torch.nn's) each step is looked at, of other modules the output.
        losses: from the model's output to losses of any shape: their values and their gradients are searched too.
        limit: a state whose absolute value passes it is reported as large, where everything is finite.
        anomaly: where something is not finite, run forward and backward once more with autograd's anomaly recording,
            and add what it says.
    """
    found = _parameters(model) or _forward(model, args, kwargs, limit, losses)
    if (found is None or found.what == "large") and losses is not None:
        found = _gradient(model, args, kwargs, losses) or found
    if found is not None and found.what == "not finite" and anomaly:
        found = replace(found, anomaly=_recorded(model, args, kwargs, losses))
    return found


def _parameters(model: nn.Module) -> Found | None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        bad = tensor.detach()[~tensor.detach().isfinite()] if tensor.is_floating_point() else tensor[:0]
        if bad.numel():
            module, _, own = name.rpartition(".")
            return Found("not finite", "parameter", module, own, float(bad.reshape(-1)[0]))
    return None


@torch.no_grad()
def _forward(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], limit: float, losses: Losses | None
) -> Found | None:
    tracks, result = _run(model, args, kwargs)
    large = None
    for track in tracks:
        found = _in_track(track, limit)
        if found is not None and found.what == "not finite":
            return found
        large = large or found
    output = next(_bad(result), None)
    if output is not None:
        return _named_module(model, args, kwargs) or Found("not finite", "forward", "", "output", output)
    if losses is not None:
        values = losses(result)
        bad = (~values.isfinite()).nonzero()
        if len(bad):
            row, step = (*bad[0].tolist(), None, None)[:2]
            value = float(values[tuple(bad[0].tolist())])
            return Found("not finite", "loss", "", "loss", value, row=row, step=step)
    return large


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Track], Any]:
    """The tracks of the recurrent layers, none where there are no such layers, and what the model gives back."""
    if any(is_recurrent(module) for module in model.modules()):
        recording = record(model, *args, dtype=None, **kwargs)
        return recording.tracks, recording.output
    args, kwargs = as_numbers((args, kwargs), None)
    return [], copied(model, None)(*args, **kwargs)


def _in_track(track: Track, limit: float) -> Found | None:
    """The first bad tensor of one layer and direction in the order of computation, else the first large state."""
    names = ("h", "c")
    large: dict[int, int] = {}  # row → step
    first: Found | None = None
    steps = len(track.x)
    for number in range(steps):
        t = steps - 1 - number if track.direction else number
        valid = track.valid[number]
        tensors = {
            "input": track.x[number],
            **track.gates[number],
            **dict(zip(names, track.after[number], strict=False)),
        }
        # The memory is made before what is shown of it.
        order = [*(name for name in tensors if name not in names), *(name for name in ("c", "h") if name in tensors)]
        for name in order:
            rows = (~tensors[name].isfinite()).any(-1) & valid
            if rows.any():
                row = int(rows.nonzero()[0])
                value = tensors[name][row]
                where = "input" if name == "input" and track.layer == 0 else "forward"
                number_ = float(value[~value.isfinite()][0])
                place = (track.layer, track.direction, t, row)
                return Found("not finite", where, track.name, name, number_, *place, large.get(row))
        for name in ("c", "h"):
            if name not in tensors:
                continue
            size = tensors[name].abs().amax(-1)
            for row in ((size > limit) & valid).nonzero()[:, 0].tolist():
                large.setdefault(row, t)
                place = (track.layer, track.direction, t, row)
                first = first or Found("large", "forward", track.name, name, float(size[row]), *place)
    return first


def _bad(value: Any) -> Iterator[float]:
    """The numbers of an output that are not finite."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield from value[~value.isfinite()].reshape(-1)[:1].tolist()
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _bad(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _bad(part)


def _named_module(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found | None:
    """The first module whose output is not finite; recurrent ones were looked into before."""
    made = copied(model, None)
    seen: list[tuple[str, float]] = []

    def hook_for(name: str) -> Any:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            del module, given
            if not seen:
                seen.extend((name, value) for value in _bad(output))

        return hook

    for name, module in made.named_modules():
        module.register_forward_hook(hook_for(name))
    args, kwargs = as_numbers((args, kwargs), None)
    made(*args, **kwargs)
    return Found("not finite", "forward", seen[0][0], "output", seen[0][1]) if seen else None


def _gradient(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], losses: Losses) -> Found | None:
    """The first bad gradient of a state on the way back, else of a parameter."""
    tracks, output = _run(model, args, kwargs)
    nodes = [(track, number, track.after[number][0]) for track in tracks for number in range(len(track.x))]
    total = losses(output).sum()
    if not total.requires_grad:
        return None
    gradients = torch.autograd.grad(total, [node for _, _, node in nodes], allow_unused=True) if nodes else ()
    for (track, number, _), gradient in zip(reversed(nodes), reversed(gradients), strict=True):
        rows = torch.zeros(0) if gradient is None else (~gradient.isfinite()).any(-1)
        if gradient is not None and rows.any():
            row = int(rows.nonzero()[0])
            value = float(gradient[row][~gradient[row].isfinite()][0])
            step = len(track.x) - 1 - number if track.direction else number
            return Found("not finite", "gradient", track.name, "h", value, track.layer, track.direction, step, row)
    made = copied(model, None)
    args, kwargs = as_numbers((args, kwargs), None)
    losses(made(*args, **kwargs)).sum().backward()
    for name, parameter in made.named_parameters():
        bad = next(_bad(parameter.grad), None)
        if bad is not None:
            module, _, own = name.rpartition(".")
            return Found("not finite", "gradient", module, own, bad)
    return None


def _recorded(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], losses: Losses | None) -> str:
    made = copied(model, None)
    args, kwargs = as_numbers((args, kwargs), None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with torch.autograd.detect_anomaly():
                output = made(*args, **kwargs)
                first = output[0] if isinstance(output, tuple) else output
                (losses(output) if losses is not None else first).sum().backward()
        except RuntimeError as error:
            traces = [str(one.message) for one in said if "Traceback of forward call" in str(one.message)]
            return "\n".join([str(error), *traces])
    return "autograd saw no NaN on the way back: the value was infinite, or was masked out of the gradient"
