"""Choosing tokens: filters by their laws, sampling by enumeration."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from unrolled.decoding import apply_temperature, greedy, keep_top_k, keep_top_p, sample, softmax

SCORES = np.log([0.1, 0.4, 0.2, 0.3])
# Small whole numbers, so that ties are common; some tokens are already out.
some_scores = arrays.arrays(
    np.float64, st.integers(1, 9), elements=st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 0.5, 2.0])
).filter(lambda scores: np.isfinite(scores).any())


def kept(scores: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.isfinite(scores)).tolist())


class Fixed(np.random.Generator):
    """A generator that gives one number, again and again."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, *_args, **_more):
        return self.value


def test_softmax():
    np.testing.assert_allclose(softmax(SCORES + 1000), [0.1, 0.4, 0.2, 0.3])
    assert softmax([-np.inf, 0.0]).tolist() == [0, 1]


def test_temperature_divides():
    np.testing.assert_allclose(softmax(apply_temperature(SCORES, 0.5)), np.array([1, 16, 4, 9]) / 30)
    np.testing.assert_allclose(softmax(apply_temperature(SCORES, 1)), [0.1, 0.4, 0.2, 0.3])
    assert kept(apply_temperature([1.0, 3.0, 3.0], 0)) == {1}
    assert softmax(apply_temperature([1.0, 3.0, 2.0], 1e-320)).tolist() == [0, 1, 0]


def test_top_k():
    assert [kept(keep_top_k(SCORES, k)) for k in (1, 2, 3, 9)] == [{1}, {1, 3}, {1, 2, 3}, {0, 1, 2, 3}]
    assert kept(keep_top_k([2.0, 1.0, 2.0, 2.0], 2)) == {0, 2}


@pytest.mark.parametrize(
    ("p", "wanted"), [(0.01, {1}), (0.39, {1}), (0.41, {1, 3}), (0.69, {1, 3}), (0.71, {1, 2, 3}), (1, {0, 1, 2, 3})]
)
def test_top_p(p, wanted):
    assert kept(keep_top_p(SCORES, p)) == wanted


def test_top_p_at_the_very_edge():
    quarters = np.zeros(4)
    assert [kept(keep_top_p(quarters, p)) for p in (0.25, 0.5, 0.75, 0.76)] == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}]


@given(some_scores, st.sampled_from([0.05, 0.3, 0.5, 0.9, 0.999]))
def test_top_p_keeps_the_smallest_set_that_reaches_p(scores, p):
    found = kept(keep_top_p(scores, p))
    weights = softmax(scores)
    subsets = (set(s) for n in range(1, len(scores) + 1) for s in itertools.combinations(range(len(scores)), n))
    smallest = next(s for s in subsets if weights[list(s)].sum() >= p - 1e-12)
    assert len(found) == len(smallest)
    assert weights[list(found)].sum() >= p - 1e-12
    assert min(weights[list(found)]) >= max((w for i, w in enumerate(weights) if i not in found), default=0)


@given(some_scores, st.integers(1, 10), st.sampled_from([0.1, 0.5, 0.95, 1.0]), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_laws_of_every_filter(scores, k, p, temperature):
    before = scores.copy()
    by_k, by_p, cooled = keep_top_k(scores, k), keep_top_p(scores, p), apply_temperature(scores, temperature)
    np.testing.assert_array_equal(scores, before)  # pure
    for result in (by_k, by_p, cooled):
        assert greedy(result) == greedy(scores)  # the best token always stays
        assert kept(result) <= kept(scores)
    np.testing.assert_array_equal(keep_top_k(by_k, k), by_k)  # twice is once
    assert len(kept(by_k)) == min(k, len(kept(scores)))
    assert kept(keep_top_k(scores, k)) <= kept(keep_top_k(scores, k + 1))
    assert kept(keep_top_p(scores, p / 2)) <= kept(by_p)


@given(some_scores, st.integers(0, 99))
def test_sampling_splits_the_unit_interval_by_probability(scores, percent):
    u = percent / 100
    weights = softmax(scores)
    token = sample(scores, rng=Fixed(u))
    assert weights[token] > 0
    assert weights[:token].sum() <= u + 1e-12
    assert u - 1e-12 <= weights[: token + 1].sum()


def test_the_ends_of_the_unit_interval_never_draw_a_token_that_is_out():
    scores = [-np.inf, 0.0, -np.inf, 0.0, -np.inf]
    assert sample(scores, rng=Fixed(0.0)) == 1
    assert sample(scores, rng=Fixed(0.5)) == 3
    assert sample(scores, rng=Fixed(np.nextafter(1, 0))) == 3
    assert sample([0.0, -1000.0], rng=Fixed(np.nextafter(1, 0))) == 0


def test_shares_of_many_draws():
    rng = np.random.default_rng(1)
    draws = [sample(SCORES, rng=rng) for _ in range(8000)]
    shares = np.bincount(draws, minlength=4) / 8000
    np.testing.assert_allclose(shares, [0.1, 0.4, 0.2, 0.3], atol=4 * np.sqrt(0.25 / 8000))


def test_filters_apply_in_order():
    """At temperature 2 the shares of the two best are 0.536 and 0.464: top-p 0.55 needs both, and at temperature 1 too,
    where they are 0.571 and 0.429, it needs one only."""
    grid = np.linspace(0, 1, 200, endpoint=False)
    drawn = {t: {sample(SCORES, temperature=t, top_k=2, top_p=0.55, rng=Fixed(u)) for u in grid} for t in (1, 2)}
    assert drawn == {1: {1}, 2: {1, 3}}


def test_a_seed_repeats_and_one_number_is_taken():
    first = [sample(SCORES, temperature=0.9, top_p=0.9, rng=np.random.default_rng(s)) for s in range(20)]
    assert first == [sample(SCORES, temperature=0.9, top_p=0.9, rng=np.random.default_rng(s)) for s in range(20)]
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    sample(SCORES, top_k=2, rng=rng)
    other.random()
    assert rng.random() == other.random()


def test_temperature_zero_is_greedy_and_needs_no_chance():
    assert sample([0.0, 2.0, 2.0], temperature=0) == 1
    assert sample([0.0, 2.0, 2.0], temperature=0, top_k=3, top_p=1.0) == 1
    assert greedy(np.float32([0, 2, 2])) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "temperature: expected a finite number, 0 or more, found -1"),
        ({"temperature": float("nan")}, "temperature: expected"),
        ({"temperature": float("inf")}, "temperature: expected"),
        ({"top_k": 0}, "top_k: expected 1 or more"),
        ({"top_k": True}, "top_k: expected"),
        ({"top_p": 0}, "top_p: expected more than 0 and at most 1"),
        ({"top_p": 1.1}, "top_p: expected"),
        ({"rng": None}, r"rng: expected a numpy.random.Generator"),
    ],
)
def test_arguments_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        sample(SCORES, **{"rng": np.random.default_rng(0), **options})


def test_top_k_is_a_whole_number():
    with pytest.raises(TypeError, match="top_k: expected a whole number"):
        keep_top_k(SCORES, 2.5)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, np.nan], r"scores\[1\]: expected a number or -inf, found nan"),
        ([np.inf, 0.0], r"scores\[0\]"),
        ([-np.inf, -np.inf], "-inf for all"),
        ([], "at least one token"),
        ([[0.0]], r"found \(1, 1\)"),
    ],
)
def test_scores_that_cannot_be_used(scores, message):
    for function in (greedy, softmax, lambda s: sample(s, rng=np.random.default_rng(0))):
        with pytest.raises(ValueError, match=message):
            function(scores)


def test_no_torch_is_imported():
    code = "import sys, unrolled.decoding; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
