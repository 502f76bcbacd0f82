"""Whole sequences from a step function: greedy and sampled; what `beam` searches is the same kind of function.

Axes     N rows (hypotheses), V vocabulary, S source positions.
Step     `scores, state = step(tokens, state)`, or `scores, state, weights`: tokens (N,) are those written last, first
         the start symbol; scores (N, V) are logits or log-probabilities of what comes next; weights (N, S) are where
         the model looked, exactly 0 at padding. The state is None, an array with one row a hypothesis, or tuples,
         lists and dicts of such: rows are picked, repeated and dropped between two calls, and nothing else happens
         to it.
Variant  A row ends with the end symbol, which counts in its probability and is not among its tokens, or at the limit,
         and says which. A row depends on nothing but itself: alone or in any batch it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrolled.decoding.answers import log_softmax
from unrolled.decoding.sampling import sample
from unrolled.errors import ShapeError, expected

__all__ = ["Hypothesis", "Step", "greedy_search", "sample_sequences", "take_rows"]

Step = Callable[[NDArray[np.int64], Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence."""

    tokens: tuple[int, ...]  # without the end symbol
    log_probability: float  # the sum over the tokens and the end symbol, in nats
    score: float  # what hypotheses are ranked by: the log-probability, normalised where that was asked for
    stopped: Literal["end", "limit"]
    weights: NDArray[np.float64] | None = None  # (tokens, S), and a row for the end symbol; None: not asked for


class Answer(NamedTuple):
    """One call of a step function, checked."""

    log_p: NDArray[np.float64]  # (N, V)
    state: Any
    weights: NDArray[np.float64] | None


def take_rows(state: Any, rows: NDArray[np.intp]) -> Any:
    """The state of some rows, in that order; a row may be taken several times."""
    if state is None:
        return None
    if isinstance(state, dict):
        return {name: take_rows(part, rows) for name, part in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(take_rows(part, rows) for part in state))
    if isinstance(state, (tuple, list)):
        return type(state)(take_rows(part, rows) for part in state)
    return np.asarray(state)[rows]


def ask(step: Step, tokens: NDArray[np.int64], state: Any, excluded: Collection[int]) -> Answer:
    """Call the step, and take the excluded tokens out before the probabilities are formed.

    Raises:
        ShapeError: scores are not (N, V).
        ValueError: a score is NaN or +inf, or nothing is left that may be written.
    """
    scores, state, *more = step(tokens, state)
    scores = np.array(scores, dtype=np.float64)
    if scores.ndim != 2 or len(scores) != len(tokens):
        raise ShapeError(expected("scores", f"({len(tokens)}, vocabulary) (rows, …)", scores.shape))
    scores[:, list(excluded)] = -np.inf
    best = scores.max(-1)
    if not np.isfinite(best).all():
        found = float(best[~np.isfinite(best)][0])
        raise ValueError(expected("scores", "finite numbers, or -inf for some tokens of a row", found))
    weights = np.asarray(more[0], np.float64) if more and more[0] is not None else None
    return Answer(log_softmax(scores), state, weights)


def check_limit(limit: int) -> int:
    """How many tokens a row may have before it is stopped."""
    if limit < 1:
        raise ValueError(expected("limit", "1 token or more", limit))
    return limit


def greedy_search(
    step: Step,
    state: Any,
    rows: int,
    *,
    start: int,
    end: int,
    limit: int,
    excluded: Collection[int] = (),
    keep_weights: bool = False,
) -> list[Hypothesis]:
    """The likeliest token at every step; of equal ones the first.

    Args:
        state: of all rows before the first token.
        rows: how many there are.
        start: what is read first.
        end: the end symbol.
        limit: the most tokens of a row, the end symbol included.
        excluded: tokens that are never written.
        keep_weights: whether hypotheses bring the weights of the attention.
    """

    def choose(log_p: NDArray[np.float64], _rows: NDArray[np.intp]) -> NDArray[np.int64]:
        return log_p.argmax(-1)

    return _one_by_one(step, state, rows, choose, start, end, limit, excluded, keep_weights)


def sample_sequences(
    step: Step,
    state: Any,
    rows: int,
    *,
    start: int,
    end: int,
    limit: int,
    rngs: Sequence[np.random.Generator],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    excluded: Collection[int] = (),
    keep_weights: bool = False,
) -> list[Hypothesis]:
    """Every token drawn at random, after `decoding.sample`'s filters. The probabilities told are the model's own.

    Args:
        rngs: one generator a row, so that a row does not depend on its neighbours.
    """
    if len(rngs) != rows:
        raise ValueError(expected("rngs", f"{rows}, one a row", len(rngs)))

    def choose(log_p: NDArray[np.float64], alive: NDArray[np.intp]) -> NDArray[np.int64]:
        options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        drawn = [sample(scores, rng=rngs[row], **options) for scores, row in zip(log_p, alive, strict=True)]
        return np.array(drawn, dtype=np.int64)

    return _one_by_one(step, state, rows, choose, start, end, limit, excluded, keep_weights)


def _one_by_one(
    step: Step,
    state: Any,
    rows: int,
    choose: Callable[[NDArray[np.float64], NDArray[np.intp]], NDArray[np.int64]],
    start: int,
    end: int,
    limit: int,
    excluded: Collection[int],
    keep_weights: bool,
) -> list[Hypothesis]:
    """One token a row and step, as `choose` says; a row that has ended is dropped from the batch."""
    written: list[list[int]] = [[] for _ in range(rows)]
    looked: list[list[NDArray[np.float64]]] = [[] for _ in range(rows)]
    total, ended = np.zeros(rows), np.zeros(rows, dtype=bool)
    alive, tokens = np.arange(rows), np.full(rows, start, dtype=np.int64)
    for _ in range(check_limit(limit)):
        if not len(alive):
            break
        answer = ask(step, tokens, state, excluded)
        tokens, state = choose(answer.log_p, alive), answer.state
        total[alive] += answer.log_p[np.arange(len(alive)), tokens]
        for i, row in enumerate(alive):
            if keep_weights and answer.weights is not None:
                looked[row].append(answer.weights[i])
            if tokens[i] != end:
                written[row].append(int(tokens[i]))
        ended[alive] = tokens == end
        if ended[alive].any():
            going = np.flatnonzero(tokens != end)
            alive, tokens, state = alive[going], tokens[going], take_rows(state, going)

    def finished(row: int) -> Hypothesis:
        sums, weights = float(total[row]), np.array(looked[row]) if looked[row] else None
        return Hypothesis(tuple(written[row]), sums, sums, "end" if ended[row] else "limit", weights)

    return [finished(row) for row in range(rows)]
