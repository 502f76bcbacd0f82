"""From items to batches: what `data.Reading` does, with what only training needs: measuring, and tensors.

Axes     B batch, T time, W letters of a token, D channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from unrolled.data import Dataset, Scaler, Tokenizer, Vocabulary
from unrolled.data import reading as numbers
from unrolled.data.reading import Row, checked_features, tokens_of
from unrolled.models import Batch
from unrolled.training.recipe import Recipe

__all__ = ["Reading", "Row"]


@dataclass(frozen=True)
class Reading(numbers.Reading):
    """How items become numbers, measured on the training part."""

    @classmethod
    def fit(cls, recipe: Recipe, train: Dataset, specials: Sequence[str] = ()) -> Self:
        """Measure the training part."""
        if train.kind == "features":
            return cls(scaler=Scaler.fit([checked_features(item, None) for item in train]))
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
