"""Gates, states, and how much of them is saturated.

Axes     T time, B batch, H hidden. Padding is in no count.
Source   Karpathy, Johnson and Fei-Fei (2015), arXiv:1506.02078, section 4.2: a gate counts as saturated to the left
         below 0.1 and to the right above 0.9; each unit is one point of the plot.
Variant  For what comes out of a tanh (an RNN's h, the candidates g and n) the ends are -0.9 and 0.9. For relu, left is
         the share of exact zeros; there is no right end.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.errors import expected
from unrolled.insight.cells import KEEPS
from unrolled.insight.stepping import Trace, record

__all__ = ["Saturation", "gates", "half_life", "memory", "saturation"]

CANDIDATES = ("g", "n", "h")


class Saturation(NamedTuple):
    """Shares of the valid steps, a number for each unit: (H,)."""

    left: Tensor
    right: Tensor
    steps: int  # that were counted for each unit

    def total(self) -> tuple[float, float]:
        """The shares over all units."""
        return (float(self.left.mean()), float(self.right.mean())) if self.steps else (math.nan, math.nan)


def gates(model: nn.Module, *args: Any, **kwargs: Any) -> list[Trace]:
    """Gates, hidden and cell states at every step of each recurrent layer and direction, when model(*args) runs.

    >>> traces = gates(unrolled.LSTM(4, 3), x, lengths=[5, 3])    # doctest: +SKIP
    >>> traces[0].gates["f"].shape                                # doctest: +SKIP
    torch.Size([5, 2, 3])

    Args:
        model: any module with recurrent layers of this library or of torch.nn in it, or such a layer. It is copied to
            float64 first and stays as it is.

    Raises:
        RunError: it has no such layer, or one whose own code computes something else than its equations.
    """
    with torch.no_grad():
        return record(model, *args, **kwargs).traces()


def values(trace: Trace, gate: str) -> Tensor:
    """(N, H): a gate, or the state h or c, at the valid steps of all rows, one below the other.

    Raises:
        ValueError: the cell has no gate of that name; the message names those it has.
    """
    has = {**trace.gates, "h": trace.h} | ({} if trace.c is None else {"c": trace.c})
    if gate not in has:
        raise ValueError(expected("gate", f"one of {', '.join(has)}, which {trace.kind} has", repr(gate)))
    return has[gate][trace.valid]


def saturation(trace: Trace, gate: str, *, low: float = 0.1, high: float = 0.9) -> Saturation:
    """The share of steps at which each unit of a gate is below `low`, and above `high`.

    Args:
        gate: i f g o, r z n, or h. For g, n and h the lower end is -high; for a relu's h it is 0 itself.
    """
    if not 0 <= low < high <= 1:
        raise ValueError(expected("low, high", "0 <= low < high <= 1", f"{low}, {high}"))
    seen = values(trace, gate)
    left, right = at_the_ends(seen, gate, trace.kind, low=low, high=high)
    if not len(seen):
        empty = torch.full(seen.shape[1:], math.nan, dtype=torch.float64)
        return Saturation(empty, empty, 0)
    return Saturation(left.double().mean(0), right.double().mean(0), len(seen))


def at_the_ends(values: Tensor, gate: str, kind: str, *, low: float = 0.1, high: float = 0.9) -> tuple[Tensor, Tensor]:
    """Two booleans for each value: at the lower end, and at the upper end, of what that gate can be."""
    if gate == "h" and kind == "rnn_relu":
        return values <= 0, torch.zeros_like(values, dtype=torch.bool)
    return values < (-high if gate in CANDIDATES else low), values > high


def half_life(gate: Any) -> Any:
    """Steps until half is left of what a gate keeps: ln 0.5 / ln f. Infinite at 1, 0 at 0; a number or a tensor.

    >>> [round(half_life(f), 1) for f in (0.9, 0.99, 0.999)]
    [6.6, 69.0, 692.8]
    """
    kept = torch.as_tensor(gate, dtype=torch.float64)
    if bool(((kept < 0) | (kept > 1)).any()):
        raise ValueError(expected("gate", "values from 0 to 1", gate))
    steps = math.log(0.5) / kept.log()
    steps = torch.where(kept == 1, math.inf, steps)
    return steps if isinstance(gate, Tensor) else float(steps)


def memory(trace: Trace) -> Tensor | None:
    """(H,): the half-life of each unit's memory in steps; None for an RNN, which has no gate that keeps.

    What is left after several steps is the product of the gates, so the gate that counts is their geometric mean, over
    all valid steps. An LSTM keeps by its forget gate, a GRU by its update gate.
    """
    if trace.kind not in KEEPS:
        return None
    kept = values(trace, KEEPS[trace.kind])
    if not len(kept):
        return kept.new_full(kept.shape[1:], math.nan)
    return half_life(kept.log().mean(0).exp())
