"""Beam search: the best few sequences of a step function, side by side.

Axes     B sentences, K hypotheses of each, V vocabulary, S source positions; rows of the step are the hypotheses that
         are still going, those of one sentence next to each other.
Source   length and coverage as in Wu et al. (2016), arXiv:1609.08144, eq. (14):
             score = log p / lp + cp,   lp = ((5 + |Y|) / 6)^α,   cp = β Σ_i log min(Σ_j a_ij, 1),
         |Y| tokens with the end symbol, a_ij the weight of source position i when token j was written.
Variant  At every step the 2K best continuations of a sentence are looked at: an end symbol among the best K of them
         finishes its hypothesis, and the best K others go on. A sentence is done when as many as are wanted have
         finished and none that goes on can become better than they are: log p only falls, lp is largest at the limit,
         and cp is never above 0. So more are wanted, and the best stay the best. (Stopping at K finished ones, as is
         often done, lets K poor early ends push out a far better hypothesis.) At the limit, those that have not ended
         are ranked among the others. With α = β = 0 the score is log p. With K = 1 the first end is the end, whatever
         α and β are: this is greedy search, the same tokens and probability.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrolled.decoding.sequences import Answer, Hypothesis, Step, ask, check_limit, take_rows
from unrolled.errors import expected

__all__ = ["beam_search", "coverage_penalty", "length_penalty"]


def length_penalty(tokens: int, alpha: float) -> float:
    """lp: what a log-probability of so many tokens, the end symbol among them, is divided by."""
    return ((5 + tokens) / 6) ** alpha


def coverage_penalty(weights: NDArray[np.float64], beta: float) -> float:
    """cp of the summed weights (S,) of each source position; a position that was never looked at costs β · 100."""
    smallest = math.exp(-100)
    return beta * float(np.log(np.clip(weights, smallest, 1)).sum())


class _Node(NamedTuple):
    """A hypothesis: its last token and what stands before it."""

    before: _Node | None
    token: int
    log_p: float  # of all tokens so far
    weights: NDArray[np.float64] | None  # (S,) of the last token
    looked: NDArray[np.float64] | None  # (S,) summed over the tokens


class _Sentence:
    """What is going on and what has ended for one source."""

    def __init__(self, row: int, start: int) -> None:
        self.row = row
        self.going = [_Node(None, start, 0.0, None, None)]
        self.found: list[Hypothesis] = []

    def is_done(self, settings: _Settings) -> bool:
        """Whether none of those that go on can be among the best."""
        if not self.going:
            return True
        if len(self.found) < settings.n_best:
            return False
        if settings.beam == 1:
            return True
        least = sorted(one.score for one in self.found)[-settings.n_best]
        return least >= max(node.log_p for node in self.going) / length_penalty(settings.limit, settings.alpha)


class _Settings(NamedTuple):
    """What a search keeps, and by what it ranks."""

    beam: int
    n_best: int
    end: int
    limit: int
    keep_weights: bool
    alpha: float
    beta: float
    lengths: Sequence[int] | NDArray[np.int64] | None

    def hypothesis(self, node: _Node, row: int, *, ended: bool) -> Hypothesis:
        """The tokens from the first to the last, and their score."""
        path: list[_Node] = []
        last: _Node = node
        while last.before is not None:
            path.append(last)
            last = last.before
        path.reverse()
        score = node.log_p / length_penalty(len(path), self.alpha)
        if self.beta and node.looked is not None and self.lengths is not None:
            score += coverage_penalty(node.looked[: int(self.lengths[row])], self.beta)
        weights = [one.weights for one in path if one.weights is not None]
        tokens = tuple(one.token for one in path)
        return Hypothesis(
            tokens[:-1] if ended else tokens,
            node.log_p,
            score,
            "end" if ended else "limit",
            np.array(weights) if weights else None,
        )


def beam_search(
    step: Step,
    state: Any,
    rows: int,
    *,
    start: int,
    end: int,
    limit: int,
    beam: int = 4,
    n_best: int = 1,
    alpha: float = 0.0,
    beta: float = 0.0,
    lengths: Sequence[int] | NDArray[np.int64] | None = None,
    excluded: Collection[int] = (),
    keep_weights: bool = False,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each row, best first.

    Args:
        state: of all rows before the first token, as `decoding.sequences` says.
        rows: how many sources there are.
        start: what is read first.
        end: the end symbol.
        limit: the most tokens of a hypothesis, the end symbol included.
        beam: K.
        alpha: strength of the length normalisation; 0 leaves it out.
        beta: strength of the coverage normalisation; it needs a step that tells its weights, and `lengths`.
        lengths: (rows,) source positions that are not padding.
        excluded: tokens that are never written.
        keep_weights: whether hypotheses bring the weights of the attention.

    Raises:
        ValueError: an argument is out of range, or the coverage is asked of a step without weights.
    """
    if beam < 1 or not 1 <= n_best <= beam:
        found = f"beam={beam}, n_best={n_best}"
        raise ValueError(expected("n_best", "1 or more, and no more than beam", found, "Widen the beam."))
    if not (0 <= alpha < math.inf and 0 <= beta < math.inf):
        raise ValueError(expected("alpha and beta (length and coverage penalty)", "0 or more", f"{alpha} and {beta}"))
    if beta and lengths is None:
        raise ValueError(expected("lengths", "the source lengths, since beta is not 0", "none"))
    settings = _Settings(beam, n_best, end, check_limit(limit), keep_weights, alpha, beta, lengths)
    sentences = [_Sentence(row, start) for row in range(rows)]
    waiting = sentences
    for _ in range(settings.limit):
        if not waiting:
            break
        tokens = np.array([node.token for sentence in waiting for node in sentence.going], dtype=np.int64)
        answer = ask(step, tokens, state, excluded)
        kept = _advance_all(waiting, answer, settings)
        state = take_rows(answer.state, np.array(kept, dtype=np.intp))
        waiting = [sentence for sentence in waiting if sentence.going]
    for sentence in waiting:
        sentence.found += [settings.hypothesis(node, sentence.row, ended=False) for node in sentence.going]
    return [sorted(s.found, key=lambda one: -one.score)[:n_best] for s in sentences]  # stable: of equals the first


def _advance_all(waiting: list[_Sentence], answer: Answer, settings: _Settings) -> list[int]:
    """One token more for all sentences. Returns the rows, of those asked, that go on."""
    if settings.beta and answer.weights is None:
        raise ValueError(expected("beta (coverage penalty)", "0 for a model without attention", settings.beta))
    used = answer.weights if settings.beta or settings.keep_weights else None
    kept: list[int] = []
    first = 0
    for sentence in waiting:
        here = slice(first, first + len(sentence.going))
        chosen = _advance(sentence, answer.log_p[here], None if used is None else used[here], settings)
        if sentence.is_done(settings):
            sentence.going = []
        else:
            kept += [first + i for i in chosen]
        first = here.stop
    return kept


def _advance(
    sentence: _Sentence, log_p: NDArray[np.float64], weights: NDArray[np.float64] | None, settings: _Settings
) -> list[int]:
    """One token more for the hypotheses of a sentence. Returns its rows, of those asked, that go on."""
    before, beam, end = sentence.going, settings.beam, settings.end
    totals = log_p + np.array([node.log_p for node in before])[:, None]
    going: list[_Node] = []
    chosen: list[int] = []
    for place, position in enumerate(_best(totals.ravel(), 2 * beam)):
        row, token = divmod(int(position), totals.shape[1])
        if token == end and place >= beam:
            continue
        new = None if weights is None else weights[row]
        past = before[row].looked
        looked = new if past is None or new is None else past + new
        node = _Node(before[row], token, float(totals[row, token]), new, looked)
        if token == end:
            sentence.found.append(settings.hypothesis(node, sentence.row, ended=True))
        elif len(going) < beam:
            going.append(node)
            chosen.append(row)
    sentence.going = going
    return chosen


def _best(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The places of the largest finite values, largest first; of equal ones the first."""
    count = min(count, len(values))
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero((values >= least) & (values > -np.inf))  # all that are equal to the least, too
    return places[np.argsort(-values[places], kind="stable")][:count]
