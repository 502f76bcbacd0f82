"""Do the engines compute the equations on this very machine? `unrolled doctor --check` asks.

Every engine runs every cell over rows of unequal length (one of them empty, NaN in the padding), with resets, in
both directions, forward and backward, in float32 and float64, beside the equations in float64. The native engine does
so once for each target that this machine can run, in a process of its own: the target is chosen when it loads.

Axes     T time, B batch, I input, H hidden, P projected; gates are an axis.
Variant  An engine may err `ALLOWED` epsilons of its own type, of the largest number of a result. The equations
         themselves err a few; a gate in the wrong place moves a result by more than a thousand times as much.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unrolled.errors import RunError
from unrolled.kernels.choose import ENGINES

__all__ = ["Finding", "check", "check_here"]

ALLOWED = 16
STEPS, BATCH, INPUT, HIDDEN, PROJECTED = 7, 5, 9, 17, 6  # beside the widths of vectors, all different
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN, tanh": ("rnn_scan", {"nonlinearity": "tanh"}),
    "RNN, relu": ("rnn_scan", {"nonlinearity": "relu"}),
    "LSTM": ("lstm_scan", {}),
    "LSTM, projected": ("lstm_scan", {}),
    "GRU, reset after": ("gru_scan", {"reset_after": True}),
    "GRU, reset before": ("gru_scan", {"reset_after": False}),
}
GATES = {"rnn_scan": (), "lstm_scan": (4,), "gru_scan": (3,)}


class Finding(NamedTuple):
    """One engine, one cell, one type of number."""

    engine: str
    cell: str
    dtype: str
    error: float  # the largest, in units of what is allowed; not a number where a result is not one
    what: str  # the result that erred most
    refused: str = ""  # why the engine does not run this, where it does not

    @property
    def is_right(self) -> bool:
        return bool(self.refused) or self.error <= 1


def check() -> list[Finding]:
    """Every engine, and every target of the native one that this machine can run."""
    found = list(check_here([name for name in ENGINES if name != "native"]))
    try:
        from unrolled import _native
    except ImportError:  # the rest of the report says so
        return found
    for target in _native.available():
        found += [finding._replace(engine=f"native, {target}") for finding in _in_a_process(target)]
    return found


def _in_a_process(target: str) -> list[Finding]:
    done = subprocess.run(
        [sys.executable, "-m", "unrolled.kernels.check"],
        env={**os.environ, "UNROLLED_ISA": target},
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    if done.returncode or not lines:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise RunError(
            f"native engine, target {target}: the check ended with code {done.returncode}"
            + (f": {said[-1]}" if said else ".")
        )
    return [Finding(*values) for values in json.loads(lines[-1])]


def check_here(engines: list[str]) -> Iterator[Finding]:
    """These engines, in this process."""
    for engine in engines:
        for cell in CELLS:
            for dtype in (torch.float32, torch.float64):
                yield _one(engine, cell, dtype)


def _one(engine: str, cell: str, dtype: torch.dtype) -> Finding:
    scan, options = CELLS[cell]
    tensors = _tensors(cell)
    name = str(dtype).removeprefix("torch.")
    variant = {key: value for key, value in options.items() if key == "reset_after"}
    refused = ENGINES[engine].refusal(scan, tensors["x"].to(dtype), **variant)
    if refused is not None:
        return Finding(engine, cell, name, 0.0, "", refused)
    worst, what = 0.0, ""
    for reverse in (False, True):
        truth = _results("reference", cell, tensors, torch.float64, reverse)
        got = _results(engine, cell, tensors, dtype, reverse)
        for key, right in truth.items():
            allowed = ALLOWED * torch.finfo(dtype).eps * max(1.0, float(right.abs().max()))
            error = float((got[key].double() - right).abs().max()) / allowed
            if not error <= worst:  # NaN is never less
                worst, what = error, f"{key}, {'backward' if reverse else 'forward'} in time"
    return Finding(engine, cell, name, worst, what)


def _tensors(cell: str) -> dict[str, Tensor]:
    """Inputs in float64 that float32 holds exactly."""
    scan, _ = CELLS[cell]
    made = torch.Generator().manual_seed(2)
    state = PROJECTED if cell.endswith("projected") else HIDDEN
    shapes: dict[str, tuple[int, ...]] = {"x": (STEPS, BATCH, INPUT), "h": (BATCH, state)}
    if scan == "lstm_scan":
        shapes["c"] = (BATCH, HIDDEN)
    gates = GATES[scan]
    shapes |= {"W": (*gates, INPUT, HIDDEN), "U": (*gates, state, HIDDEN)}
    shapes |= {"b": (*gates, HIDDEN), "b_h": (*gates, HIDDEN)}
    if state != HIDDEN:
        shapes["V"] = (HIDDEN, state)
    found = {name: torch.randn(shape, generator=made).double() for name, shape in shapes.items()}
    for name in ("W", "U", "V"):
        if name in found:
            found[name] = (found[name].float() / 4).double()
    return found


def _results(
    engine: str, cell: str, tensors: dict[str, Tensor], dtype: torch.dtype, reverse: bool
) -> dict[str, Tensor]:
    """Outputs, last states and the gradient of every input."""
    scan, options = CELLS[cell]
    lengths = torch.tensor([STEPS, 3, 0, 5, STEPS])
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    resets[0, 4] = resets[3, 1] = resets[4, 0] = True
    given = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in tensors.items()}
    padding = torch.arange(STEPS)[:, None] >= lengths
    x = given["x"].masked_fill(padding[..., None], float("nan"))
    others = {name: tensor for name, tensor in given.items() if name != "x"}
    run = getattr(ENGINES[engine].module, scan)
    out, *states = run(x, **others, **options, lengths=lengths, resets=resets, reverse=reverse)
    found = {"outputs": out, **{f"last {name}": state for name, state in zip("hc", states, strict=False)}}
    # Weights that are not all alike, so that no two errors cancel.
    loss = sum(
        (value * torch.linspace(-1, 1, value.numel(), dtype=dtype).view_as(value)).sum() for value in found.values()
    )
    gradients = torch.autograd.grad(loss, list(given.values()))
    found |= {f"gradient of {name}": gradient for name, gradient in zip(given, gradients, strict=True)}
    return {name: value.detach() for name, value in found.items()}


if __name__ == "__main__":
    print(json.dumps(list(check_here(["native"]))))
