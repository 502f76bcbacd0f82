"""Greedy, beam and sampled search over step functions that are small enough to be searched by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from unrolled.decoding import (
    beam_search,
    coverage_penalty,
    greedy_search,
    length_penalty,
    sample_sequences,
    take_rows,
)
from unrolled.errors import ShapeError

START, END, TOKENS, LIMIT = 0, 1, 5, 4


class Memory(NamedTuple):
    """A state with parts of several kinds, so that picking rows is tested on each."""

    row: np.ndarray
    past: dict[str, Any]
    nothing: None


def model(seed: int, rows: int, *, weights: bool = False) -> tuple[Any, Memory]:
    """Scores that depend on the source row and on all tokens so far."""
    table = np.random.default_rng(seed).normal(size=(rows, 64, TOKENS)) * 2

    def step(tokens: np.ndarray, state: Memory) -> tuple[Any, ...]:
        key = (state.past["key"] * 7 + tokens * 3 + 1) % 64
        scores = table[state.row, key]
        looked = np.abs(np.sin(scores[:, :3]))
        looked[state.row == 0, 2] = 0  # the first source has two positions
        looked /= looked.sum(-1, keepdims=True)
        state = Memory(state.row, {"key": key}, None)
        return (scores, state, looked) if weights else (scores, state)

    return step, Memory(np.arange(rows), {"key": np.zeros(rows, np.int64)}, None)


def every_sequence(step: Any, first: Memory, row: int) -> dict[tuple[int, ...], float]:
    """log p of each sequence that ends within the limit, by asking for each of its tokens."""
    found = {}
    for length in range(LIMIT):
        for body in itertools.product([t for t in range(TOKENS) if t != END], repeat=length):
            state, token, total = take_rows(first, np.array([row])), START, 0.0
            for wanted in (*body, END):
                scores, state = step(np.array([token]), state)
                total += scores[0, wanted] - np.log(np.exp(scores[0]).sum())
                token = wanted
            found[body] = total
    return found


OPTIONS = {"start": START, "end": END, "limit": LIMIT}


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_sequences(seed: int) -> None:
    step, first = model(seed, 3)
    wide = TOKENS**LIMIT
    found = beam_search(step, first, 3, **OPTIONS, beam=wide, n_best=wide)
    for row in range(3):
        truth = sorted(every_sequence(step, first, row).items(), key=lambda pair: -pair[1])[:6]
        ended = [one for one in found[row] if one.stopped == "end"][:6]
        assert [one.tokens for one in ended] == [tokens for tokens, _ in truth]
        np.testing.assert_allclose([one.log_probability for one in ended], [p for _, p in truth], rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_length_normalisation_is_that_of_the_paper(alpha: float) -> None:
    step, first = model(1, 2)
    found = beam_search(step, first, 2, **OPTIONS, beam=400, n_best=400, alpha=alpha)
    for row in range(2):
        truth = {t: p / ((5 + len(t) + 1) / 6) ** alpha for t, p in every_sequence(step, first, row).items()}
        best = sorted(truth.items(), key=lambda pair: -pair[1])[:10]
        ended = [one for one in found[row] if one.stopped == "end"][:10]
        assert [one.tokens for one in ended] == [tokens for tokens, _ in best]
        for one in ended:
            assert one.score == pytest.approx(truth[one.tokens], abs=1e-12)
    assert length_penalty(1, 0.6) == pytest.approx(1.0)
    assert length_penalty(13, 1.0) == pytest.approx(3.0)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.8, 0.0), (2.0, 0.5)])
@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy(seed: int, alpha: float, beta: float) -> None:
    step, first = model(seed, 4, weights=True)
    greedy = greedy_search(step, first, 4, **OPTIONS)
    given: dict[str, Any] = {"alpha": alpha, "beta": beta, "lengths": [2, 3, 3, 1]}
    beam = [one for (one,) in beam_search(step, first, 4, **OPTIONS, beam=1, **given)]
    assert [one.tokens for one in greedy] == [one.tokens for one in beam]
    assert [one.stopped for one in greedy] == [one.stopped for one in beam]
    assert [one.log_probability for one in greedy] == [one.log_probability for one in beam]


def test_greedy_takes_the_first_of_equals_and_so_does_the_beam() -> None:
    def step(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.zeros((len(tokens), TOKENS)), state

    (greedy,) = greedy_search(step, None, 1, **OPTIONS, excluded=(0,))
    assert (greedy.tokens, greedy.stopped) == ((), "end")
    (other,) = greedy_search(step, None, 1, start=START, end=3, limit=2, excluded=(0,))
    assert (other.tokens, other.stopped) == ((1, 1), "limit")
    assert beam_search(step, None, 1, start=START, end=3, limit=2, excluded=(0,), beam=1)[0][0].tokens == (1, 1)


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
def test_a_row_alone_is_what_it_is_in_a_batch(search: str) -> None:
    step, first = model(3, 5, weights=True)

    def run(state: Memory) -> list[Any]:
        rows = len(state.row)
        if search == "greedy":
            return greedy_search(step, state, rows, **OPTIONS)
        if search == "beam":
            return beam_search(step, state, rows, **OPTIONS, beam=3, n_best=3, alpha=0.6)
        rngs = [np.random.default_rng(7) for _ in range(rows)]
        return sample_sequences(step, state, rows, **OPTIONS, rngs=rngs, temperature=1.3, top_k=4)

    whole = run(first)
    for row in range(5):
        assert run(take_rows(first, np.array([row]))) == [whole[row]]
    assert run(take_rows(first, np.array([4, 2, 0]))) == [whole[4], whole[2], whole[0]]


def test_coverage_needs_weights_and_lengths_and_follows_the_formula() -> None:
    step, first = model(2, 2, weights=True)
    found = beam_search(
        step, first, 2, **OPTIONS, beam=4, n_best=4, alpha=0.6, beta=0.3, lengths=[2, 3], keep_weights=True
    )
    for hypotheses, length in zip(found, (2, 3), strict=True):
        for one in hypotheses:
            assert one.weights is not None
            total = one.weights.sum(0)[:length]
            cp = 0.3 * sum(math.log(min(value, 1.0)) for value in total)
            lp = ((5 + len(one.weights)) / 6) ** 0.6
            assert one.score == pytest.approx(one.log_probability / lp + cp, abs=1e-12)
            assert len(one.weights) == len(one.tokens) + (one.stopped == "end")
    assert found[0][0].weights is not None
    np.testing.assert_array_equal(found[0][0].weights[:, 2], 0)
    with pytest.raises(ValueError, match="lengths: expected"):
        beam_search(step, first, 2, **OPTIONS, beta=0.3)
    plain, first = model(2, 2)
    with pytest.raises(ValueError, match=r"beta \(coverage penalty\): expected 0 for a model without attention"):
        beam_search(plain, first, 2, **OPTIONS, beta=0.3, lengths=[2, 3])
    with pytest.raises(ValueError, match="0 or more, found -1"):
        beam_search(step, first, 2, **OPTIONS, alpha=-1.0)
    assert coverage_penalty(np.array([2.0, 1.0]), 0.5) == 0
    assert coverage_penalty(np.array([0.0]), 0.5) == pytest.approx(-50)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.6, 0.0), (2.0, 0.0), (2.0, 0.4)])
@pytest.mark.parametrize("seed", range(10))
def test_a_beam_that_wants_the_best_finds_what_a_wide_one_finds(seed: int, alpha: float, beta: float) -> None:
    """The stop loses nothing: one hypothesis asked for is the first of as many as there are."""
    step, first = model(seed, 3, weights=True)
    given: dict[str, Any] = {"alpha": alpha, "beta": beta, "lengths": [2, 3, 1]}
    for width in (4, TOKENS**LIMIT):
        every = beam_search(step, first, 3, **OPTIONS, **given, beam=width, n_best=width)
        best = beam_search(step, first, 3, **OPTIONS, **given, beam=width)
        assert [(one[0].tokens, one[0].score) for one in best] == [(one[0].tokens, one[0].score) for one in every]


def test_the_limit_is_told_and_ranked_by_score_like_the_others() -> None:
    def step(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.tile([-9.0, -3.0, 4.0, -9.0, -9.0], (len(tokens), 1)), state

    (greedy,) = greedy_search(step, None, 1, **OPTIONS)
    assert (greedy.tokens, greedy.stopped) == ((2, 2, 2, 2), "limit")
    (found,) = beam_search(step, None, 1, **OPTIONS, beam=3, n_best=3)
    assert {one.stopped for one in found} == {"end", "limit"}
    assert (found[0].tokens, found[0].stopped) == ((2, 2, 2, 2), "limit")
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_what_is_excluded_is_not_written_and_takes_no_probability() -> None:
    step, first = model(4, 3)
    for one in greedy_search(step, first, 3, **OPTIONS, excluded=(2, 4)):
        assert not {2, 4} & set(one.tokens)

    def two(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.tile([0.0, 0.0, 50.0], (len(tokens), 1)), state

    (one,) = greedy_search(two, None, 1, start=0, end=0, limit=1, excluded=(2,))
    assert one.log_probability == pytest.approx(math.log(0.5))


def test_sampling_draws_what_the_model_says() -> None:
    def step(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.log(np.tile([0.0001, 0.5, 0.3, 0.1999], (len(tokens), 1))), state

    rngs = [np.random.default_rng([1, i]) for i in range(4000)]
    drawn = sample_sequences(step, None, 4000, start=0, end=1, limit=1, rngs=rngs)
    share = sum(one.stopped == "end" for one in drawn) / 4000
    assert abs(share - 0.5) < 0.03
    only = sample_sequences(
        step, None, 50, start=0, end=0, limit=2, rngs=[np.random.default_rng(i) for i in range(50)], top_k=1
    )
    assert {one.tokens for one in only} == {(1, 1)}
    with pytest.raises(ValueError, match="rngs: expected 2"):
        sample_sequences(step, None, 2, start=0, end=1, limit=1, rngs=[np.random.default_rng(0)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beam": 0}, "n_best: expected"),
        ({"beam": 2, "n_best": 3}, "Widen the beam"),
        ({"limit": 0}, "limit: expected 1 token"),
    ],
)
def test_arguments_out_of_range(change: dict[str, Any], message: str) -> None:
    step, first = model(0, 1)
    with pytest.raises(ValueError, match=message):
        beam_search(step, first, 1, **(OPTIONS | change))


def test_scores_are_checked() -> None:
    def flat(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.zeros(len(tokens)), state

    def broken(tokens: np.ndarray, state: Any) -> tuple[Any, ...]:
        return np.full((len(tokens), 3), np.nan), state

    with pytest.raises(ShapeError, match="scores"):
        greedy_search(flat, None, 2, **OPTIONS)
    with pytest.raises(ValueError, match="scores: expected finite"):
        greedy_search(broken, None, 2, **OPTIONS)
    assert greedy_search(flat, None, 0, **OPTIONS) == []
    assert beam_search(flat, None, 0, **OPTIONS) == []
