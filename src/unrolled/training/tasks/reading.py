"""From items to batches: the tokenizer, the vocabularies and the scale, measured on the training part.

Axes     B batch, T time, W letters of a token, D channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unrolled.data import Dataset, Item, Scaler, Tokenizer, Vocabulary, pad
from unrolled.errors import DataError, expected
from unrolled.models import Batch
from unrolled.training.recipe import Recipe

__all__ = ["Reading", "Row"]

LONGEST_WORD = 40  # letters of a token that are read; a web address would make the whole batch as wide


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One item as numbers."""

    inputs: np.ndarray  # (T,) ids, or (T, D) features
    letters: np.ndarray | None = None  # (T, W) ids
    widths: np.ndarray | None = None  # (T,)
    unknown: tuple[str, ...] = ()  # the tokens that the vocabulary does not have

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Reading:
    """How items become numbers. Exactly one of `vocabulary` and `scaler` is there."""

    tokenizer: Tokenizer | None = None  # None: the items are tokens already
    vocabulary: Vocabulary | None = None
    letters: Vocabulary | None = None
    scaler: Scaler | None = None

    @classmethod
    def fit(cls, recipe: Recipe, train: Dataset, specials: Sequence[str] = ()) -> Reading:
        """Measure the training part."""
        if train.kind == "features":
            return cls(scaler=Scaler.fit([_features(item, None) for item in train]))
        tokenizer = None
        if train.kind == "text":
            options: dict[str, Any] = {"lowercase": recipe.lowercase, "vocabulary_size": recipe.vocabulary_size}
            tokenizer = Tokenizer.train(recipe.tokenizer, (item.text or "" for item in train), **options)
        words = [tokens_of(item, tokenizer) for item in train]
        size = None if recipe.tokenizer == "subword" and tokenizer is not None else recipe.vocabulary_size
        vocabulary = Vocabulary.build(words, min_count=recipe.min_count, max_size=size, specials=specials)
        letters = None
        if recipe.characters:
            letters = Vocabulary.build((word for sentence in words for word in sentence), min_count=recipe.min_count)
        return cls(tokenizer, vocabulary, letters)

    def encode(self, item: Item) -> Row:
        """One item as numbers.

        Raises:
            DataError: features with the wrong channels, or tokens where features are wanted, or the reverse.
        """
        if self.scaler is not None:
            return Row(_features(item, len(self.scaler.mean)))
        assert self.vocabulary is not None
        tokens = self.tokens(item)
        ids = self.vocabulary.encode(tokens)
        unknown = tuple(token for token in tokens if token not in self.vocabulary)
        if self.letters is None:
            return Row(ids, unknown=unknown)
        spelled = [self.letters.encode(token[:LONGEST_WORD]) for token in tokens]
        if not spelled:
            return Row(ids, np.zeros((0, 1), np.int64), np.zeros(0, np.int64), unknown)
        return Row(ids, *pad(spelled), unknown)

    def tokens(self, item: Item) -> list[str]:
        return tokens_of(item, self.tokenizer)

    def batch(self, rows: Sequence[Row], targets: np.ndarray | None = None) -> Batch:
        """Rows side by side."""
        inputs, lengths = pad([row.inputs for row in rows])
        letters = widths = None
        if rows[0].letters is not None:
            steps, widest = inputs.shape[1], max(row.letters.shape[1] for row in rows if row.letters is not None)
            letters = np.zeros((len(rows), steps, widest), np.int64)
            widths = np.zeros((len(rows), steps), np.int64)
            for i, row in enumerate(rows):
                if row.letters is not None and row.widths is not None:
                    letters[i, : len(row), : row.letters.shape[1]] = row.letters
                    widths[i, : len(row)] = row.widths
        parts = (None if part is None else torch.from_numpy(part) for part in (letters, widths, targets))
        return Batch(torch.from_numpy(inputs), torch.from_numpy(lengths), *parts)

    def item(self, given: Any, where: str) -> Item:
        """An item from a text, a list of tokens, or rows of features (T, D)."""
        if isinstance(given, Item):
            return given
        if self.scaler is not None:
            features: np.ndarray
            try:
                features = np.asarray(given, dtype=np.float32)
            except (TypeError, ValueError):
                features = np.zeros(0)
            if features.ndim != 2:
                wanted = f"numbers (time, {len(self.scaler.mean)} channels)"
                raise DataError(expected(where, wanted, f"{type(given).__name__} of shape {np.shape(features)}"))
            return Item(where, features=features)
        if isinstance(given, str):
            return Item(where, text=given) if self.tokenizer is not None else Item(where, tokens=tuple(given.split()))
        if isinstance(given, Sequence) and all(isinstance(token, str) for token in given):
            return Item(where, tokens=tuple(given))
        raise DataError(expected(where, "a text or a list of tokens", type(given).__name__))

    def sizes(self) -> dict[str, Any]:
        """What `models.build` needs to know."""
        if self.scaler is not None:
            return {"channels": len(self.scaler.mean)}
        assert self.vocabulary is not None
        letters = None if self.letters is None else len(self.letters)
        size = {"vocabulary": len(self.vocabulary), "unknown": self.vocabulary.unknown_id}
        return {**size, "character_vocabulary": letters}

    def to_dict(self) -> dict[str, Any]:
        return {name: None if part is None else part.to_dict() for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Reading:
        kinds: dict[str, Any] = {
            "tokenizer": Tokenizer,
            "vocabulary": Vocabulary,
            "letters": Vocabulary,
            "scaler": Scaler,
        }
        return cls(
            **{name: None if saved[name] is None else kind.from_dict(saved[name]) for name, kind in kinds.items()}
        )


def tokens_of(item: Item, tokenizer: Tokenizer | None) -> list[str]:
    if item.tokens is not None:
        return list(item.tokens)
    if item.text is None:
        raise DataError(expected(item.where, "a text or tokens, as the model was trained on", "features"))
    return item.text.split() if tokenizer is None else tokenizer.tokenize(item.text)


def _features(item: Item, channels: int | None) -> np.ndarray:
    if item.features is None:
        raise DataError(expected(item.where, "features, as the model was trained on", "a text or tokens"))
    features = np.asarray(item.features, np.float32)
    if channels is not None and features.shape[1:] != (channels,):
        found = f"shape {features.shape}"
        raise DataError(expected(item.where, f"features (time, {channels}) (…, channels)", found))
    bad = ~np.isfinite(features)
    if bad.any():
        step, channel = (int(place[0]) for place in bad.nonzero())
        found = f"{features[step, channel]} at step {step}, channel {channel}"
        raise DataError(expected(item.where, "finite features", found, "Fill in or remove the row."))
    return features
