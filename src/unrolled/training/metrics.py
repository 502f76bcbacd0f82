"""Metrics that are added up batch by batch, each with the number of items it scored.

Axes     update() takes a batch; padding is left out by lengths or a mask, or was never there.
Source   accuracy and macro-F1 by torchmetrics; spans by seqeval (conlleval's rules, Tjong Kim Sang and
         Buchholz 2000); perplexity exp(nats / tokens), bits per character nats / (ln 2 · characters).
Variant  Every position weighs the same, whatever row or batch it stands in. Macro-F1 is the mean over the
         classes that occur in the reference or in the prediction; a class that occurs in neither is left out.
         Nats are summed exactly, so perplexity does not depend on batches, chunks or the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unrolled.decoding import is_span_scheme
from unrolled.errors import DataError, expected, require

__all__ = ["Classification", "Perplexity", "Tagging", "is_span_scheme"]

_NOTHING = "Nothing was scored: look for an empty file, or for items that were all skipped."


class Classification:
    """Accuracy and macro-F1 of `classes` classes, numbered from 0.

    >>> scores = Classification(classes=3)
    >>> scores.update([0, 1, 1], [0, 1, 0])
    >>> scores.compute()["items"]
    3
    """

    def __init__(self, classes: int) -> None:
        torchmetrics = require("torchmetrics.classification", "train")
        # Every process has counted all items already (`ranks`): torchmetrics must not add them up again.
        options: dict[str, Any] = {"num_classes": max(classes, 2), "validate_args": False, "sync_on_compute": False}
        self._accuracy = torchmetrics.MulticlassAccuracy(average="micro", **options)
        self._macro_f1 = torchmetrics.MulticlassF1Score(average="macro", **options)
        self.classes, self.items = classes, 0

    def update(self, predicted: ArrayLike, reference: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Add a batch of class numbers; positions where the mask is False are left out."""
        import torch

        guess, truth = np.asarray(predicted), np.asarray(reference)
        if guess.shape != truth.shape:
            raise DataError(expected("predicted", f"shape {truth.shape}, as reference", guess.shape))
        if mask is not None:
            keep = np.asarray(mask, bool)
            guess, truth = guess[keep], truth[keep]
        if not truth.size:
            return
        for name, numbers in (("predicted", guess), ("reference", truth)):
            if numbers.min() < 0 or numbers.max() >= self.classes:
                found = int(numbers[(numbers < 0) | (numbers >= self.classes)].flat[0])
                raise DataError(expected(name, f"classes from 0 to {self.classes - 1}", found))
        pair = torch.as_tensor(guess.reshape(-1)), torch.as_tensor(truth.reshape(-1))
        self._accuracy.update(*pair)
        self._macro_f1.update(*pair)
        self.items += truth.size

    def compute(self) -> dict[str, float | int]:
        if not self.items:
            raise DataError(expected("items", "at least one", "none", _NOTHING))
        return {
            "accuracy": float(self._accuracy.compute()),
            "macro_f1": float(self._macro_f1.compute()),
            "items": self.items,
        }


class Tagging:
    """Token accuracy, and precision, recall and F1 of labelled spans where the tags mark spans.

    Args:
        spans: score spans; ask `is_span_scheme(tags)`.
        strict: read tags strictly as IOB2, where a span begins with B- and nothing else. By default, as
            conlleval and the published figures do, an I- that follows no span of its type begins one.
    """

    def __init__(self, *, spans: bool, strict: bool = False) -> None:
        self.spans, self.strict = spans, strict
        self.sentences = self.tokens = self._right = 0
        self._found = self._wanted = self._hit = 0

    def update(self, predicted: Iterable[Sequence[str]], reference: Iterable[Sequence[str]]) -> None:
        """Add sentences, each a sequence of tags; an empty sentence counts as a sentence and as no token."""
        for guess, truth in zip(predicted, reference, strict=True):
            if len(guess) != len(truth):
                raise DataError(
                    expected(
                        f"predicted tags of sentence {self.sentences + 1}",
                        f"{len(truth)}, one for each token",
                        len(guess),
                        "Padding must be cut off before it is scored.",
                    )
                )
            self.sentences += 1
            self.tokens += len(truth)
            self._right += sum(a == b for a, b in zip(guess, truth, strict=True))
            if self.spans and truth:
                found, wanted = self._read_spans(guess), self._read_spans(truth)
                self._found += len(found)
                self._wanted += len(wanted)
                self._hit += len(found & wanted)

    def _read_spans(self, tags: Sequence[str]) -> set[tuple[str, int, int]]:
        if not self.strict:
            labelling = require("seqeval.metrics.sequence_labeling", "train")
            return set(labelling.get_entities(list(tags)))
        scheme = require("seqeval.scheme", "train")
        (entities,) = scheme.Entities([list(tags)], scheme.IOB2).entities
        return {(entity.tag, entity.start, entity.end - 1) for entity in entities}

    def compute(self) -> dict[str, float | int]:
        """Token accuracy and, for spans, precision, recall and F1; a share of nothing is 0."""
        if not self.tokens:
            raise DataError(expected("tokens", "at least one", "none", _NOTHING))
        result: dict[str, float | int] = {"token_accuracy": self._right / self.tokens}
        if self.spans:
            result["span_precision"] = self._hit / max(self._found, 1)
            result["span_recall"] = self._hit / max(self._wanted, 1)
            result["span_f1"] = 2 * self._hit / max(self._found + self._wanted, 1)
            result["spans"] = self._wanted
        return result | {"items": self.tokens, "sentences": self.sentences}


class Perplexity:
    """Perplexity, and bits per character where characters are counted, from -log p of each token in nats."""

    def __init__(self) -> None:
        self.tokens = self.characters = 0
        self._sum = self._rest = 0.0  # a float64 sum and what its rounding left out: exact to about 32 digits

    def update(self, nats: ArrayLike, mask: ArrayLike | None = None, *, characters: int | None = None) -> None:
        """Add -log p of tokens, of any shape.

        Args:
            mask: True where a token counts; what stands elsewhere, NaN included, is not read.
            characters: how many characters these tokens spell. A model of characters passes their number.
        """
        values = np.asarray(nats, np.float64)
        values = values.reshape(-1) if mask is None else values[np.asarray(mask, bool)]
        if not np.isfinite(values).all():
            found = f"{values[~np.isfinite(values)][0]} in place {int((~np.isfinite(values)).argmax())}"
            raise DataError(expected("nats", "finite numbers", found, "The model gives a token no probability."))
        terms = [self._sum, self._rest, *values.tolist()]
        self._sum = math.fsum(terms)
        self._rest = math.fsum([*terms, -self._sum])
        self.tokens += values.size
        self.characters += characters or 0

    @property
    def nats(self) -> float:
        """The exact sum so far."""
        return self._sum

    def compute(self) -> dict[str, float | int]:
        if not self.tokens:
            raise DataError(expected("tokens", "at least one", "none", _NOTHING))
        mean = self._sum / self.tokens
        result: dict[str, float | int] = {
            "nats_per_token": mean,
            "perplexity": math.exp(mean) if mean < 709 else math.inf,
            "items": self.tokens,
        }
        if self.characters:
            result["bits_per_character"] = self._sum / (math.log(2) * self.characters)
            result["characters"] = self.characters
        return result
