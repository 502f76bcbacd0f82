"""The trivial baselines: what they answer, and that the n-gram model is a distribution."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from unrolled.errors import DataError
from unrolled.training.baselines import MajorityClass, MostFrequentTag, NGram


def test_majority_class_and_its_ties():
    assert MajorityClass.fit(["b", "a", "b"]).predict(2) == ["b", "b"]
    assert MajorityClass.fit(["b", "a"]).label == MajorityClass.fit(["a", "b"]).label == "a"
    with pytest.raises(DataError, match="labels: expected at least one"):
        MajorityClass.fit([])


def test_most_frequent_tag_of_the_word():
    sentences = [["the", "run"], ["run", "run", "cat", "mat"], []]
    tags = [["D", "N"], ["V", "V", "N", "N"], []]
    baseline = MostFrequentTag.fit(sentences, tags)
    assert baseline.predict(["the", "run", "dog"]) == ["D", "V", "N"]  # N is the most frequent of all
    assert baseline.predict([]) == []


def witten_bell(documents, vocabulary_size, order, history, token):
    """The formula, straight from counts, for one token."""
    probability = 1 / vocabulary_size
    for length in range(min(order - 1, len(history)) + 1):
        wanted = tuple(history[len(history) - length :])
        seen = Counter(
            document[i]
            for document in documents
            for i in range(length, len(document))
            if tuple(document[i - length : i]) == wanted
        )
        if not seen:
            break
        total, kinds = sum(seen.values()), len(seen)
        probability = (seen[token] + kinds * probability) / (total + kinds)
    return probability


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_ngram_is_witten_bell(order):
    rng = np.random.default_rng(order)
    documents = [rng.integers(0, 4, size=size).tolist() for size in (40, 1, 0, 25)]
    model = NGram.fit(documents, vocabulary_size=6, order=order)
    unseen = [rng.integers(0, 6, size=size).tolist() for size in (12, 0, 7)]
    wanted = [
        witten_bell(documents, 6, order, document[:i], token) for document in unseen for i, token in enumerate(document)
    ]
    np.testing.assert_allclose(model.probabilities(unseen), wanted, rtol=1e-12)
    assert model.nats_per_token(unseen) == pytest.approx(-np.log(wanted).mean(), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_ngram_sums_to_one(order):
    rng = np.random.default_rng(7)
    model = NGram.fit([rng.integers(0, 9, size=200)], vocabulary_size=12, order=order)
    for history in ([], [3], [11], [3, 4], [11, 3], [3, 11], [1, 2, 3, 4, 5], [11, 11, 11, 11]):
        distribution = model.distribution(history)
        assert distribution.shape == (12,)
        assert distribution.min() > 0
        assert distribution.sum() == pytest.approx(1, abs=1e-12)


def test_history_does_not_cross_documents():
    model = NGram.fit([[0, 1], [2, 3]], vocabulary_size=4, order=2)
    together, apart = model.probabilities([[0, 1, 2]]), model.probabilities([[0, 1], [2]])
    np.testing.assert_array_equal(together[:2], apart[:2])
    assert apart[2] == model.distribution()[2]
    # Token 1 was never followed by anything, so its history backs off.
    assert together[2] == apart[2]


def test_higher_orders_gain_on_a_pattern_and_unigram_is_the_entropy():
    pattern = np.tile([0, 1, 2, 0, 2, 1], 2000)
    nats = [NGram.fit([pattern], 3, order).nats_per_token([pattern]) for order in (1, 2, 3)]
    assert nats[0] == pytest.approx(np.log(3), abs=1e-4)
    assert nats[0] > nats[1] > nats[2]
    assert nats[2] < 0.5


def test_large_vocabularies_and_a_long_text():
    rng = np.random.default_rng(0)
    text = (rng.random(200_000) ** 3 * 1_000_000).astype(np.int64)
    model = NGram.fit([text], vocabulary_size=1_000_000, order=4)  # V**4 would not fit an int64
    assert np.isfinite(model.nats([text])).all()


def test_bad_input_is_named():
    with pytest.raises(DataError, match="token numbers from 0 to 3, found 4"):
        NGram.fit([[0, 4]], vocabulary_size=4)
    with pytest.raises(DataError, match="at least one token to count"):
        NGram.fit([[]], vocabulary_size=4)
    with pytest.raises(DataError, match="at least one token to score"):
        NGram.fit([[0]], vocabulary_size=4).nats_per_token([])
    with pytest.raises(ValueError, match="order: expected 1"):
        NGram(4, order=0)
