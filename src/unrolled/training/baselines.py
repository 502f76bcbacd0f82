"""Trivial baselines, beside which a result is printed: NumPy only, fitted in seconds.

Source   Witten and Bell (1991), "The zero-frequency problem", method C, in its interpolated form:
         p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h)), where c counts, t(h) is the number of different
         tokens seen after h, h' is h without its oldest token, and the empty history backs off to 1 / V.
Variant  Histories do not reach across documents: the first token of a document has the empty history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrolled.errors import DataError, expected

__all__ = ["MajorityClass", "MostFrequentTag", "NGram", "most_frequent"]

Ids = NDArray[np.int64]
Probabilities = NDArray[np.float64]


class MajorityClass:
    """Answers the most frequent label, whatever comes. Ties go to the label that sorts first."""

    def __init__(self, label: str) -> None:
        self.label = label

    @classmethod
    def fit(cls, labels: Iterable[str]) -> MajorityClass:
        return cls(most_frequent(Counter(labels), "labels"))

    def predict(self, items: int) -> list[str]:
        return [self.label] * items


class MostFrequentTag:
    """Answers each word's most frequent tag; a word never seen gets the most frequent tag of all."""

    def __init__(self, tags: dict[str, str], unknown: str) -> None:
        self.tags, self.unknown = tags, unknown

    @classmethod
    def fit(cls, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]]) -> MostFrequentTag:
        pairs: Counter[tuple[str, str]] = Counter()
        for words, word_tags in zip(sentences, tags, strict=True):
            pairs.update(zip(words, word_tags, strict=True))
        overall: Counter[str] = Counter()
        for (_, tag), count in pairs.items():
            overall[tag] += count
        return cls.of_counts(pairs, overall)

    @classmethod
    def of_counts(cls, pairs: Mapping[tuple[str, str], int], overall: Mapping[str, int]) -> MostFrequentTag:
        """The same of counts: of each word with each tag, and of each tag."""
        by_word: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (word, tag), count in pairs.items():
            by_word[word][tag] = count
        usual = {word: most_frequent(counts, "tags") for word, counts in by_word.items()}
        return cls(usual, most_frequent(overall, "tags"))

    def predict(self, words: Sequence[str]) -> list[str]:
        return [self.tags.get(word, self.unknown) for word in words]


def most_frequent(counts: Mapping[str, int], what: str) -> str:
    """The name that was counted most often; of equal ones the first by its letters."""
    if not counts:
        raise DataError(expected(what, "at least one, to find the most frequent", "none"))
    return min(counts, key=lambda label: (-counts[label], label))


class _Order(NamedTuple):
    """What one history length knows. Keys are sorted, so that a look-up is a binary search."""

    histories: Ids  # key of each history: its shorter history's number · V + its oldest token
    events: Ids  # key of each (history, token): history number · V + token
    counts: Ids  # c(h w) of each event
    totals: Ids  # c(h) of each history
    kinds: Ids  # t(h) of each history


class NGram:
    """An interpolated n-gram model of token numbers: a proper distribution over the whole vocabulary.

    Args:
        vocabulary_size: V; every token number below it gets some probability, seen or not.
        order: n; 1 is the unigram model, 3 the trigram.

    A million characters are fitted and scored in a few seconds; memory grows with the number of
    different n-grams.
    """

    def __init__(self, vocabulary_size: int, order: int = 3) -> None:
        if vocabulary_size < 1:
            raise ValueError(expected("vocabulary_size", "1 or more", vocabulary_size))
        if order < 1:
            raise ValueError(expected("order", "1 (unigram) or more", order))
        self.vocabulary_size, self.order = vocabulary_size, order
        self._orders: list[_Order] = []

    @classmethod
    def fit(cls, documents: Iterable[Sequence[int] | Ids], vocabulary_size: int, order: int = 3) -> NGram:
        """Count the documents, each a sequence of token numbers."""
        model = cls(vocabulary_size, order)
        tokens, ages = model._flatten(documents)
        if not tokens.size:
            raise DataError(expected("documents", "at least one token to count", "none"))
        numbers = np.zeros(tokens.size, np.int64)  # each position's history, by number; -1: too near the beginning
        histories = np.zeros(1, np.int64)
        for length in range(order):
            if length:
                keys = model._history_keys(numbers, tokens, ages, length)
                histories = np.unique(keys[keys >= 0])
                numbers = _look_up(histories, keys)
            known = numbers >= 0
            events, counts = np.unique(numbers[known] * vocabulary_size + tokens[known], return_counts=True)
            owners = events // vocabulary_size
            kinds = np.bincount(owners, minlength=histories.size)
            totals = np.bincount(numbers[known], minlength=histories.size)
            model._orders.append(_Order(histories, events, counts.astype(np.int64), totals, kinds))
        return model

    def probabilities(self, documents: Iterable[Sequence[int] | Ids]) -> Probabilities:
        """p(token | the tokens before it in its document) for each token, documents one after the other."""
        tokens, ages = self._flatten(documents)
        return self._score(tokens, ages)

    def nats(self, documents: Iterable[Sequence[int] | Ids]) -> Probabilities:
        """-log p of each token, documents one after the other."""
        return -np.log(self.probabilities(documents))

    def nats_per_token(self, documents: Iterable[Sequence[int] | Ids]) -> float:
        """The mean of `nats`: the cross-entropy that a language model is held against."""
        nats = self.nats(documents)
        if not nats.size:
            raise DataError(expected("documents", "at least one token to score", "none"))
        return float(nats.mean())

    def distribution(self, history: Sequence[int] | Ids = ()) -> Probabilities:
        """p(token | history) for every token (V,)."""
        recent = list(history)[-(self.order - 1) :] if self.order > 1 else []
        tokens, ages = self._flatten([[*recent, token] for token in range(self.vocabulary_size)])
        return self._score(tokens, ages).reshape(self.vocabulary_size, -1)[:, -1]

    def _score(self, tokens: Ids, ages: Ids) -> Probabilities:
        probabilities = np.full(tokens.size, 1 / self.vocabulary_size)
        numbers = np.zeros(tokens.size, np.int64)
        for length, order in enumerate(self._orders):
            if length:
                numbers = _look_up(order.histories, self._history_keys(numbers, tokens, ages, length))
            known = numbers >= 0
            history, shorter = numbers[known], probabilities[known]
            event = _look_up(order.events, history * self.vocabulary_size + tokens[known])
            counts = np.where(event >= 0, order.counts[event], 0)
            kinds, totals = order.kinds[history], order.totals[history]
            probabilities[known] = (counts + kinds * shorter) / (totals + kinds)
        return probabilities

    def _history_keys(self, shorter: Ids, tokens: Ids, ages: Ids, length: int) -> Ids:
        """Key of the history of `length` tokens before each position; -1 where it is not there."""
        keys = np.full(tokens.size, -1, np.int64)
        oldest = np.concatenate([np.zeros(min(length, tokens.size), np.int64), tokens[:-length]])
        there = (ages >= length) & (shorter >= 0)
        keys[there] = shorter[there] * self.vocabulary_size + oldest[there]
        return keys

    def _flatten(self, documents: Iterable[Sequence[int] | Ids]) -> tuple[Ids, Ids]:
        """All tokens in one line, and how many tokens of its own document stand before each."""
        arrays = [np.asarray(document, np.int64).reshape(-1) for document in documents]
        tokens = np.concatenate([np.zeros(0, np.int64), *arrays])
        ages = np.concatenate([np.zeros(0, np.int64), *(np.arange(array.size) for array in arrays)])
        outside = (tokens < 0) | (tokens >= self.vocabulary_size)
        if outside.any():
            wanted = f"token numbers from 0 to {self.vocabulary_size - 1}"
            raise DataError(expected("documents", wanted, int(tokens[outside][0])))
        return tokens, ages


def _look_up(table: Ids, keys: Ids) -> Ids:
    """The place of each key in a sorted table; -1 where it is not in it."""
    if not table.size:
        return np.full(keys.size, -1, np.int64)
    places = np.minimum(np.searchsorted(table, keys), table.size - 1)
    return np.where(table[places] == keys, places, -1)
