"""From items to numbers and back to rows side by side: the tokenizer, the vocabularies and the scale of a model.

Axes     B batch, T time, W letters of a token, D channels. NumPy only: the same numbers go into training and into the
         runtime, so a model reads a text in one way wherever it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from unrolled.data.batching import pad
from unrolled.data.items import Item
from unrolled.data.scaling import Scaler
from unrolled.data.vocabulary import Vocabulary
from unrolled.errors import DataError, expected

if TYPE_CHECKING:
    from unrolled.data.tokenizer import Tokenizer

__all__ = ["LONGEST_WORD", "Reading", "Row", "SideBySide", "checked_features", "tokens_of"]

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


class SideBySide(NamedTuple):
    """Rows of a batch, padded at the end."""

    inputs: np.ndarray  # (B, T) ids, or (B, T, D) features
    lengths: np.ndarray  # (B,)
    letters: np.ndarray | None  # (B, T, W)
    widths: np.ndarray | None  # (B, T)


@dataclass(frozen=True)
class Reading:
    """How items become numbers. Exactly one of `vocabulary` and `scaler` is there."""

    tokenizer: Tokenizer | None = None  # None: the items are tokens already
    vocabulary: Vocabulary | None = None
    letters: Vocabulary | None = None
    scaler: Scaler | None = None

    def encode(self, item: Item) -> Row:
        """One item as numbers.

        Raises:
            DataError: features with the wrong channels, or tokens where features are wanted, or the reverse.
        """
        if self.scaler is not None:
            return Row(checked_features(item, len(self.scaler.mean)))
        assert self.vocabulary is not None
        tokens = self.tokens(item)
        numbers = self.vocabulary.numbers(tokens)
        ids = np.array(numbers, dtype=np.int64)
        unknown: tuple[str, ...] = ()
        if self.vocabulary.unknown_id in numbers:  # it may be the entry itself
            unknown = tuple(token for token in tokens if token not in self.vocabulary)
        if self.letters is None:
            return Row(ids, unknown=unknown)
        spelled = [self.letters.encode(token[:LONGEST_WORD]) for token in tokens]
        if not spelled:
            return Row(ids, np.zeros((0, 1), np.int64), np.zeros(0, np.int64), unknown)
        return Row(ids, *pad(spelled), unknown)

    def tokens(self, item: Item) -> list[str]:
        """The tokens of a text, or those that the item brings."""
        return tokens_of(item, self.tokenizer)

    def join(self, tokens: Sequence[str]) -> str:
        """The text of some tokens."""
        return " ".join(tokens) if self.tokenizer is None else self.tokenizer.join(tokens)

    def side_by_side(self, rows: Sequence[Row]) -> SideBySide:
        """Rows as one padded batch."""
        inputs, lengths = pad([row.inputs for row in rows])
        if rows[0].letters is None:
            return SideBySide(inputs, lengths, None, None)
        widest = max(row.letters.shape[1] for row in rows if row.letters is not None)
        letters = np.zeros((*inputs.shape[:2], widest), np.int64)
        widths = np.zeros(inputs.shape[:2], np.int64)
        for i, row in enumerate(rows):
            if row.letters is not None and row.widths is not None:
                letters[i, : len(row), : row.letters.shape[1]] = row.letters
                widths[i, : len(row)] = row.widths
        return SideBySide(inputs, lengths, letters, widths)

    def item(self, given: Any, where: str) -> Item:
        """An item from a text, a list of tokens, or rows of features (T, D)."""
        if isinstance(given, Item):
            return given
        if self.scaler is not None:
            features: np.ndarray
            try:
                with np.errstate(over="ignore"):  # too large for float32: infinity, which `encode` refuses
                    features = np.asarray(given, dtype=np.float32)
            except (TypeError, ValueError, OverflowError):  # the last: a whole number that no float can hold
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: None if part is None else part.to_dict() for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        tokenizer: Tokenizer | None = None
        if saved["tokenizer"] is not None:
            from unrolled.data.tokenizer import Tokenizer  # its patterns take a while to make

            tokenizer = Tokenizer.from_dict(saved["tokenizer"])
        kinds: dict[str, Any] = {"vocabulary": Vocabulary, "letters": Vocabulary, "scaler": Scaler}
        rest = {name: None if saved[name] is None else kind.from_dict(saved[name]) for name, kind in kinds.items()}
        if (rest["vocabulary"] is None) == (rest["scaler"] is None):
            found = "neither" if rest["scaler"] is None else "both"
            raise DataError(expected("reading", "a vocabulary or a scaler", found))
        return cls(tokenizer, **rest)


def tokens_of(item: Item, tokenizer: Tokenizer | None) -> list[str]:
    """The tokens of an item.

    Raises:
        DataError: it has features.
    """
    if item.tokens is not None:
        return list(item.tokens)
    if item.text is None:
        raise DataError(expected(item.where, "a text or tokens, as the model was trained on", "features"))
    return item.text.split() if tokenizer is None else tokenizer.tokenize(item.text)


def checked_features(item: Item, channels: int | None) -> np.ndarray:
    """The features of an item, (T, D) float32.

    Raises:
        DataError: it has none, other channels than `channels`, or numbers that are not finite.
    """
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
