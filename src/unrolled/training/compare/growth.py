"""Time and memory against the length of the sequence, and the exponent that fits them: cost ≈ a · T^k.

Measured is the layer that the cells do not share, at its size in the contest: one forward and backward pass on random
input, and one more step in evaluation behind T others. Embedding and output layer cost the same with each and grow
with T at most linearly. The exponent is the slope of a straight line through (log T, log cost); that of the longest
lengths says more, since short ones cost mostly what a call costs.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from unrolled.errors import RunError
from unrolled.training.compare.child import ask

__all__ = ["LENGTHS", "Fit", "fit", "fits", "measure"]

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
TAIL = 3  # lengths, the longest ones
REPEATS = 5
SECONDS = 30.0  # for one pass; a length that would take longer is left out, and named
SHARE = 0.5  # of the memory that is free


class Fit(NamedTuple):
    """Slopes of log cost over log length."""

    all: float  # through all lengths
    tail: float  # through the longest three
    least: float  # of the tail, over the repetitions
    largest: float


def fit(lengths: Sequence[int], costs: Sequence[Sequence[float]]) -> Fit | None:
    """The exponents of costs, one list of repetitions a length; None with fewer than three, as two fit any line.

    A length with a cost of 0, too small to be measured, does not count.

    >>> fit([100, 200, 400], [[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
    Fit(all=2.0, tail=2.0, least=2.0, largest=2.0)
    """
    measured = [pair for pair in zip(lengths, costs, strict=True) if min(pair[1]) > 0]
    if len(measured) < TAIL:
        return None
    lengths, costs = zip(*measured, strict=True)
    middle = [statistics.median(cost) for cost in costs]
    each = [_slope(lengths[-TAIL:], column) for column in zip(*costs[-TAIL:], strict=True)]
    slopes = (_slope(lengths, middle), _slope(lengths[-TAIL:], middle[-TAIL:]), min(each), max(each))
    return Fit(*(round(slope, 6) for slope in slopes))


def _slope(lengths: Sequence[int], costs: Sequence[float]) -> float:
    line = statistics.linear_regression([math.log(length) for length in lengths], [math.log(cost) for cost in costs])
    return line.slope


def measure(
    layer: dict[str, Any], width: int, *, lengths: Sequence[int], tokens: bool, threads: int | None, note: Any
) -> dict[str, Any]:
    """Measure one layer; `layer` are keywords of `models.build`.

    Args:
        width: features of a step of its input.
        tokens: also one step in evaluation. A layer that reads both directions has none; it is measured in one
            direction then, which is how the decoder of an encoder–decoder reads.
        note: called with each length that is left out, and why.
    """
    job = {"layer": layer, "width": width, "batch": 1, "repeats": REPEATS, "threads": threads}
    points, left_out = _each_length(job | {"kind": "training"}, lengths, note)
    found: dict[str, Any] = {"training": points, "left_out": left_out}
    if tokens and points:
        one_way = {"kind": "token", "layer": layer | {"bidirectional": False}}
        found["token"] = ask(job | one_way | {"lengths": [point["length"] for point in points]})["points"]
    return found | {"exponents": fits(found)}


def _each_length(
    job: dict[str, Any], lengths: Sequence[int], note: Callable[[str], None]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A point a length, as long as time and memory last, and why the others are left out."""
    points: list[dict[str, Any]] = []
    for number, length in enumerate(lengths):
        why = _too_much(points[-1], length) if points else ""
        if not why:
            try:
                points.append({"length": length} | ask(job | {"length": length}))
                continue
            except RunError as error:
                why = str(error)
        left_out = {str(one): why for one in lengths[number:]}
        note(f"{job['layer']['cell']}: no measurement from {length:,} steps on: {why}")
        return points, left_out
    return points, {}


def _too_much(last: dict[str, Any], length: int) -> str:
    """Why a length is not tried, judged from the one before as if the cost grew with the square; "" where it fits."""
    factor = (length / last["length"]) ** 2
    seconds, taken = min(last["seconds"]) * factor, (last["resident_bytes"] or 0) * factor
    if seconds > SECONDS:
        return f"one pass may take {seconds:.0f} s, more than {SECONDS:.0f} s"
    free = _free_bytes()
    if free is not None and taken > SHARE * free:
        return f"it may take {taken / 2**30:.1f} GiB, more than {SHARE:.0%} of the {free / 2**30:.1f} GiB that are free"
    return ""


def _free_bytes() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def fits(found: dict[str, Any]) -> dict[str, Any]:
    """The exponents of each quantity, by name; those that could not be fitted are left out."""
    lengths = [point["length"] for point in found["training"]]
    behind = [point["length"] for point in found.get("token", [])]
    quantities = {
        "training_seconds": (lengths, [point["seconds"] for point in found["training"]]),
        "training_saved_bytes": (lengths, [[point["saved_bytes"]] for point in found["training"]]),
        "training_resident_bytes": (lengths, [[point["resident_bytes"] or 0] for point in found["training"]]),
        "token_seconds": (behind, [point["seconds"] for point in found.get("token", [])]),
        "token_state_bytes": (behind, [[point["state_bytes"]] for point in found.get("token", [])]),
    }
    made = {name: fit(*given) for name, given in quantities.items()}
    return {name: one._asdict() for name, one in made.items() if one is not None}
