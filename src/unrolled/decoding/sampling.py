"""Choosing the next token: the best one, or one drawn at random.

Axes     V vocabulary; scores (V,) are logits or log-probabilities. NumPy only: no torch is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unrolled.decoding.filters import apply_temperature, check_scores, keep_top_k, keep_top_p, softmax
from unrolled.errors import expected

__all__ = ["greedy", "sample"]


def greedy(scores: ArrayLike) -> int:
    """The best token; of equal ones, the first."""
    return int(check_scores(scores).argmax())


def sample(
    scores: ArrayLike,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
) -> int:
    """One token, drawn from what is left after temperature, then top-k, then top-p.

    Top-p therefore counts the probabilities at the given temperature among the k tokens that are left. One call takes
    exactly one number from `rng`, at any setting but temperature 0, which is greedy and takes none.
    """
    kept = apply_temperature(scores, temperature)
    if top_k is not None:
        kept = keep_top_k(kept, top_k)
    if top_p is not None:
        kept = keep_top_p(kept, top_p)
    if temperature == 0:
        return greedy(kept)
    if rng is None:
        way_out = "Make one with numpy.random.default_rng(seed)."
        raise ValueError(expected("rng", "a numpy.random.Generator, since temperature is not 0", "none", way_out))
    reached = np.cumsum(softmax(kept))
    # random() is at most 1 - 2^-53, and its product with the sum rounds below the sum: the token found has p > 0.
    return int(np.searchsorted(reached, rng.random() * reached[-1], side="right"))
