"""From items to batches: what `data.Reading` does, with what only training needs: measuring, and tensors.

Axes     B batch, T time, W letters of a token, D channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unrolled.data import Counts, Dataset, Moments, Tokenizer, Vocabulary
from unrolled.data import reading as numbers
from unrolled.data.reading import Row, checked_features, tokens_of
from unrolled.models import Batch
from unrolled.training.recipe import Recipe

__all__ = ["Measuring", "Reading", "Row"]


@dataclass(frozen=True)
class Reading(numbers.Reading):
    """How items become numbers, measured on the training part."""

    @classmethod
    def fit(cls, recipe: Recipe, train: Dataset, specials: Sequence[str] = ()) -> Reading:
        """Measure the training part."""
        measuring = Measuring(recipe, train, specials)
        for block in train.blocks():
            measuring.add(block)
        return measuring.reading()

    def batch(self, rows: Sequence[Row], targets: np.ndarray | None = None) -> Batch:
        """Rows side by side, as tensors."""
        inputs, lengths, *letters = self.side_by_side(rows)
        parts = (None if part is None else torch.from_numpy(part) for part in (*letters, targets))
        return Batch(torch.from_numpy(inputs), torch.from_numpy(lengths), *parts)

    def sizes(self) -> dict[str, Any]:
        """What `models.build` needs to know."""
        if self.scaler is not None:
            return {"channels": len(self.scaler.mean)}
        assert self.vocabulary is not None
        letters = None if self.letters is None else len(self.letters)
        size = {"vocabulary": len(self.vocabulary), "unknown": self.vocabulary.unknown_id}
        return {**size, "character_vocabulary": letters}


class Measuring:
    """A reading in the making: the training part is counted a block at a time, and gone through once.

    The pieces of `subword` are learnt from as many characters, at the beginning of the texts, as there is room for;
    where that is not all of them, the texts are gone through once more to count the pieces.

    Args:
        data: the training part, which says how much may be counted.
        whole: also count equal items.
        of: of a block, the items that are measured; None: its own.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Dataset,
        specials: Sequence[str] = (),
        *,
        whole: bool = False,
        of: Callable[[Dataset], Dataset] | None = None,
    ) -> None:
        self.recipe, self.data, self.room, self.specials, self.whole = recipe, data, data.room, specials, whole
        self.of = of or (lambda block: block)
        self.items: Counts[tuple[str, ...]] = Counts(self.room.names)
        self.total = self.longest = 0  # tokens: of all items, and of the longest
        self.first = ""  # the first token of all
        self.counts: Counts[str] = Counts(self.room.names)
        self.letters: Counts[str] = Counts(self.room.names)
        self.moments = Moments()
        self.tokenizer: Tokenizer | None = None
        self.kind = ""
        self._held: list[str] = []  # texts, from which the pieces of `subword` will be learnt
        self._characters = 0

    def add(self, block: Dataset) -> None:
        """Count some items, all of one kind."""
        if not len(block):
            return
        block = self.of(block)
        self.kind = self.kind or block.kind
        if self.kind == "features":
            self.moments.add(checked_features(item, None) for item in block)
            return
        if self.kind == "text" and self.recipe.tokenizer == "subword":
            self._hold(block)
            return
        if self.kind == "text" and self.tokenizer is None:
            self.tokenizer = Tokenizer(self.recipe.tokenizer, self.recipe.lowercase)
        for item in block:
            self._count(tokens_of(item, self.tokenizer))

    def _hold(self, block: Dataset) -> None:
        for item in block:
            self._characters += len(item.text or "")
            if self.room.characters is None or self._characters <= self.room.characters or not self._held:
                self._held.append(item.text or "")

    def _count(self, tokens: Sequence[str]) -> None:
        self.counts.add(tokens)
        self.total += len(tokens)
        self.first = self.first or next(iter(tokens), "")
        self.longest = max(self.longest, len(tokens))
        if self.whole:
            self.items.add([tuple(tokens)])
        if self.recipe.characters:
            self.letters.add("".join(tokens))

    def _count_pieces(self, tokenizer: Tokenizer) -> None:
        held, self._held = self._held, []
        if sum(map(len, held)) == self._characters:
            for text in held:
                self._count(tokenizer.tokenize(text))
            return
        for block in self.data.blocks():
            for item in self.of(block):
                self._count(tokenizer.tokenize(item.text or ""))

    def counts_of(self, vocabulary: Vocabulary) -> list[int]:
        """How often each entry of the vocabulary came; what it does not have counts as its unknown."""
        counts = [self.counts.table[token] for token in vocabulary.tokens]
        if vocabulary.unknown_id is not None:
            counts[vocabulary.unknown_id] += self.total - sum(counts)
        return counts

    def reading(self) -> Reading:
        """How items become numbers, by what was counted."""
        if self.kind == "features":
            return Reading(scaler=self.moments.scaler())
        recipe, size = self.recipe, self.recipe.vocabulary_size
        if self._held:
            self.tokenizer = Tokenizer.train(
                "subword", self._held, lowercase=recipe.lowercase, vocabulary_size=recipe.vocabulary_size
            )
            self._count_pieces(self.tokenizer)
            size = None
        least = recipe.min_count
        for what, counts in (("tokens", self.counts), ("letters", self.letters), ("targets", self.items)):
            if counts.lost:
                self.data.remark(
                    f"{self.data.name}: more different {what} than there is room to count ({self.room.names:,}): rare "
                    f"ones may be missing, and counts are too small by {counts.lost:,} at most; --memory makes room"
                )
        vocabulary = Vocabulary.of_counts(self.counts.table, min_count=least, max_size=size, specials=self.specials)
        letters = Vocabulary.of_counts(self.letters.table, min_count=least) if recipe.characters else None
        return Reading(self.tokenizer, vocabulary, letters)
