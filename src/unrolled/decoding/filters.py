"""Filters: from the scores of all tokens to the scores of those that may be drawn.

Axes     V vocabulary; scores (V,) are logits or log-probabilities, −inf where a token is out. NumPy only.
Source   temperature: Ackley, Hinton & Sejnowski (1985); top-k: Fan et al. (2018), arXiv:1805.04833;
         top-p, or nucleus: Holtzman et al. (2020), arXiv:1904.09751.
Variant  Of equal scores the one of the smaller index comes first, in every filter. A filter never writes into its input
         and always keeps at least one token.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrolled.errors import ShapeError, expected

__all__ = ["apply_temperature", "keep_top_k", "keep_top_p", "softmax"]

Scores = NDArray[np.float64]


def softmax(scores: ArrayLike) -> Scores:
    """Probabilities (V,); exactly 0 where the score is −inf."""
    checked = check_scores(scores)
    weights = np.exp(checked - checked.max())
    return weights / weights.sum()


def apply_temperature(scores: ArrayLike, temperature: float) -> Scores:
    """Scores divided by the temperature: below 1 sharper, above 1 flatter.

    Temperature 0 is the limit, the greedy choice: the first of the best tokens is kept and all others are out.
    """
    checked = check_scores(scores)
    if not (temperature >= 0 and math.isfinite(temperature)):
        way_out = "0 always takes the best token, 1 leaves the model's probabilities as they are."
        raise ValueError(expected("temperature", "a finite number, 0 or more", temperature, way_out))
    shifted = checked - checked.max()  # first, so that a tiny temperature gives -inf and never +inf
    if temperature == 0:
        return _keep(checked, _best_first(checked)[:1])
    with np.errstate(over="ignore"):
        return shifted / temperature


def keep_top_k(scores: ArrayLike, k: int) -> Scores:
    """The k best tokens; all of them if there are no more than k."""
    checked = check_scores(scores)
    try:
        count = operator.index(k)
    except TypeError:
        raise TypeError(expected("top_k", "a whole number", repr(k))) from None
    if count < 1 or isinstance(k, bool):
        raise ValueError(expected("top_k", "1 or more", k, "Leave it out to keep every token."))
    return _keep(checked, _best_first(checked)[:count])


def keep_top_p(scores: ArrayLike, p: float) -> Scores:
    """The smallest set of best tokens whose probability reaches p; 1 keeps every token."""
    checked = check_scores(scores)
    if not 0 < p <= 1:
        raise ValueError(expected("top_p", "more than 0 and at most 1", p, "For the best token only: temperature 0."))
    if p == 1:
        return checked.copy()  # by rounding, the sum may reach 1 before the last token
    order = _best_first(checked)
    reached = np.cumsum(softmax(checked)[order])
    return _keep(checked, order[: int(np.searchsorted(reached, p)) + 1])


def check_scores(scores: Any) -> Scores:
    """Scores as float64 (V,).

    Raises:
        ShapeError: not one axis, or no token.
        ValueError: NaN or +inf, or every token is out.
    """
    checked = np.asarray(scores, dtype=np.float64)
    if checked.ndim != 1 or checked.size == 0:
        raise ShapeError(expected("scores", "(vocabulary,), at least one token", checked.shape))
    broken = np.flatnonzero(np.isnan(checked) | (checked == np.inf))
    if broken.size:
        where = int(broken[0])
        raise ValueError(expected(f"scores[{where}]", "a number or -inf", float(checked[where])))
    if np.isneginf(checked).all():
        raise ValueError(expected("scores", "a token that may be drawn", "-inf for all of them"))
    return checked


def _best_first(scores: Scores) -> NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")


def _keep(scores: Scores, kept: NDArray[np.intp]) -> Scores:
    result = np.full_like(scores, -np.inf)
    result[kept] = scores[kept]
    return result
