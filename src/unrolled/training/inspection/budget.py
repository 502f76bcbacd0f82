"""How much of an item is looked at, so that a look ends: explaining an output takes work that grows with steps²."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import nn

from unrolled.insight.cells import is_recurrent

__all__ = ["Budget", "budget"]

WORK = 1e11  # multiplications in float64 to explain one item: under ten seconds of one core
PASSES = 96  # of integrated gradients for one output: 32 nodes, forward and, at twice the cost, back
FEWEST = 16


class Budget(NamedTuple):
    """What fits into the work."""

    steps: int  # of an item
    outputs: int  # that are explained
    note: str | None  # what was left out, in words


def budget(
    model: nn.Module, longest: int, steps: int, outputs: int, *, chosen: bool = False, work: float = WORK
) -> Budget:
    """At most `steps` of an item whose longest has `longest`, and `outputs` of it; fewer where the model is large.

    Fewer outputs come first, unless they were `chosen`; then the items are cut. What is computed stays exact: it is
    the same of a shorter item.
    """
    weights = sum(
        parameter.numel() for module in model.modules() if is_recurrent(module)
        for parameter in module.parameters(recurse=False)
    )  # fmt: skip
    wanted = min(longest, steps)
    if wanted <= _affordable(weights, outputs, work):
        return Budget(steps, outputs, None)
    said = [f"{weights:,} recurrent weights"]
    if not chosen and outputs > 1:
        outputs = 1
        said.append("the last output of an item is explained")
    most = _affordable(weights, outputs, work)
    if wanted > most:
        steps = most
        said.append(f"the first {most} steps are looked at")
    return Budget(steps, outputs, f"{said[0]}: {', '.join(said[1:])}")


def _affordable(weights: int, outputs: int, work: float) -> int:
    """The steps T for which occlusion, T runs of T steps, and the integrals, PASSES runs an output, take the work."""
    half = PASSES * outputs / 2
    return max(FEWEST, int(math.sqrt(half**2 + work / max(1, weights)) - half))
