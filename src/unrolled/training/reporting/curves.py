"""Curves of a training run, small enough for a page and with every extreme still in them.

Variant  A curve of more than 2,000 points is cut into 999 buckets of neighbours, and each is stood for by its smallest
         and its largest point, in their order: a spike of one step is seen however long the run was. The first and the
         true last point always stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.insight.packing import number
from unrolled.training.report import title_of

__all__ = ["MOST_POINTS", "bucketed", "curve", "curves_of", "epochs_of"]

MOST_POINTS = 2000


def bucketed(values: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """Which points of a curve to keep, in order: all, or of each bucket the smallest and the largest.

    >>> bucketed([3.0, 1.0, 9.0, 2.0, 5.0, 4.0], most=4)
    [0, 1, 2, 5]
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    seen = np.asarray(values, np.float64)
    kept = {0, count - 1}
    for part in np.array_split(np.arange(count), max(1, (most - 2) // 2)):
        there = part[~np.isnan(seen[part])]
        if len(there):
            kept |= {int(there[seen[there].argmin()]), int(there[seen[there].argmax()])}
    return sorted(kept)


def curve(x: Sequence[float], y: Sequence[float]) -> dict[str, Any] | None:
    """One curve as JSON; None where there is no point.

    count        points before they were thinned
    bucketed     whether they were
    x, y         the points that are drawn
    last         [x, y] of the true last one
    smallest, largest   [x, y] of the true extremes; null where no value is finite
    """
    if not len(y):
        return None
    kept = bucketed(y)
    finite = [i for i, value in enumerate(y) if math.isfinite(value)]
    ends = {"smallest": min, "largest": max}
    found: dict[str, Any] = {"count": len(y), "bucketed": len(kept) < len(y)}
    found |= {"x": [number(x[i]) for i in kept], "y": [number(y[i]) for i in kept]}
    found["last"] = [number(x[-1]), number(y[-1])]
    for name, pick in ends.items():
        place = pick(finite, key=lambda i: y[i]) if finite else None
        found[name] = None if place is None else [number(x[place]), number(y[place])]
    return found


def curves_of(entries: Sequence[dict[str, Any]], clip: float | None) -> dict[str, Any]:
    """Loss, learning rate and the norm of the gradient of the logged steps, each a `curve` over optimizer steps.

    gradient_norm is the norm before clipping, clipped_norm what was left of it: the smaller of the norm and `clip`.
    """
    steps = [e for e in entries if e.get("event") == "step" and _is_number(e.get("step"))]

    def of(name: str) -> dict[str, Any] | None:
        there = [e for e in steps if _is_number(e.get(name))]
        return curve([e["step"] for e in there], [float(e[name]) for e in there])

    normed = [e for e in steps if _is_number(e.get("gradient_norm"))]
    after = [min(float(e["gradient_norm"]), math.inf if clip is None else clip) for e in normed]
    found = {"loss": of("loss"), "learning_rate": of("learning_rate"), "gradient_norm": of("gradient_norm")}
    return found | {"clipped_norm": curve([e["step"] for e in normed], after)}


def epochs_of(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What each epoch came to: `curve`s over epochs, and over optimizer steps the same losses.

    loss      the mean of the training loss      valid    {metric: curve} of the validation part
    seconds   of each epoch                      steps    {loss, nats: curve} over optimizer steps
    best      the epochs that were the best so far
    """
    rows = [e for e in entries if e.get("event") == "epoch" and _is_number(e.get("epoch"))]

    def over(axis: str, pairs: list[tuple[Any, Any]]) -> dict[str, Any] | None:
        there = [(e[axis], value) for e, value in pairs if _is_number(value) and _is_number(e.get(axis))]
        return curve([x for x, _ in there], [float(y) for _, y in there])

    def own(name: str) -> list[tuple[Any, Any]]:
        return [(e, e.get(name)) for e in rows]

    def valid(name: str) -> list[tuple[Any, Any]]:
        return [(e, (e.get("valid") or {}).get(name)) for e in rows]

    every = dict.fromkeys(name for e in rows for name in e.get("valid") or {})
    names = [name for name in every if name == "nats" or title_of(name) is not None]  # counts of items are no curves
    return {
        "loss": over("epoch", own("loss")),
        "valid": {name: found for name in names if (found := over("epoch", valid(name))) is not None},
        "seconds": over("epoch", own("seconds")),
        "steps": {"loss": over("step", own("loss")), "nats": over("step", valid("nats"))},
        "best": [int(e["epoch"]) for e in rows if e.get("best")],
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
