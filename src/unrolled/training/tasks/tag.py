"""Tagging, many to many and aligned: one tag for each token or time step.

Score    span F1 where the tags mark spans (B-, I-), else the share of right tags. Baseline: each word's most frequent
         tag; for features, the most frequent tag of all.
Variant  Where the tags are B-, I- and O, only sequences that this scheme allows are given, with a CRF or without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Counts, Dataset, Item, Vocabulary, batch_indices, check_answers, pad
from unrolled.decoding import allowed_spans, is_span_scheme, tagged
from unrolled.errors import DataError, expected
from unrolled.models import Batch, Tagger
from unrolled.training.baselines import MostFrequentTag
from unrolled.training.losses import row_losses
from unrolled.training.metrics import Tagging
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks.aligned import EVALUATION_BATCH, device_of, encode_rows, lengths_of, model_from
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart, batches
from unrolled.training.tasks.reading import Measuring, Reading, Row

__all__ = ["Tag"]


class Tag(Task):
    name, unit = "tag", "tokens"

    def __init__(self, recipe: Recipe, reading: Reading, tags: Vocabulary, usual: MostFrequentTag) -> None:
        super().__init__(recipe)
        self.reading, self.tags, self.usual = reading, tags, usual
        self.spans = is_span_scheme(tags.tokens)
        self.allowed = allowed_spans(tags.tokens)

    @classmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> Tag:
        overall: Counter[str] = Counter()
        pairs: Counts[tuple[str, str]] = Counts(train.room.names)
        measuring = Measuring(recipe, train)
        for block in train.blocks():
            for item in block:
                overall.update(item.tags or ())
                pairs.add(zip(_words(item), item.tags or (), strict=True))
            measuring.add(block)
        tags = Vocabulary.of_labels(overall)
        if len(tags) < 2:
            found = f"{len(tags)} ({', '.join(tags.tokens)})"
            raise DataError(expected(f"{train.name}: tags", "two or more different ones", found, "Check --tags."))
        return cls(recipe, measuring.reading(), tags, MostFrequentTag.of_counts(pairs.table, overall))

    def to_dict(self) -> dict[str, Any]:
        usual = {"tags": self.usual.tags, "unknown": self.usual.unknown}
        return {"reading": self.reading.to_dict(), "tags": self.tags.to_dict(), "usual": usual}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> Tag:
        usual = MostFrequentTag(dict(saved["usual"]["tags"]), saved["usual"]["unknown"])
        return cls(recipe, Reading.from_dict(saved["reading"]), Vocabulary.from_dict(saved["tags"]), usual)

    def build(self) -> nn.Module:
        return model_from(self.recipe, self.reading, classes=len(self.tags), crf=self.recipe.crf)

    def encode_items(self, dataset: Dataset) -> Encoded:
        check_answers(self.tags.tokens, dataset)
        return encode_rows(self.reading, dataset, [self.tags.encode(item.tags or ()) for item in dataset])

    # training

    def step_count(self, data: Encoded) -> int:
        return -(-data.row_count // self.recipe.batch_size)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        assert isinstance(model, Tagger)
        for piece, indices in batches(data, self.recipe.batch_size, rng, lengths_of, place):
            indices = self.ranks.share(indices)
            if not len(indices):
                yield StepLoss.of_nothing()
                continue
            batch = self._batch(piece, indices).to(device_of(model))
            loss = model.loss(model(batch), batch)

            def by_row(batch: Batch = batch) -> Tensor:
                return _sums(model, model(batch), batch)

            positions = int(batch.lengths.sum())
            rows = [piece.where[i] for i in indices]
            yield StepLoss(loss, loss.detach(), positions, rows, ((batch,), {}), by_row)

    def _batch(self, data: Encoded, indices: np.ndarray) -> Batch:
        targets, _ = pad([data.targets[i] for i in indices])
        return self.reading.batch([data.rows[i] for i in indices], targets)

    # afterwards

    @torch.no_grad()
    def measure(self, model: nn.Module, data: Encoded) -> Numbers:
        assert isinstance(model, Tagger)
        metric, nats = Tagging(spans=self.spans), 0.0
        for piece in data.pieces():
            nats += self._score(model, piece, metric)
        return metric.compute() | {"nats": nats / max(metric.tokens, 1)}

    def _score(self, model: Tagger, data: Encoded, metric: Tagging) -> float:
        """Add some rows to the metric. Returns the nats of their tags."""
        nats, lengths = 0.0, lengths_of(data)
        found = [np.zeros(length, np.int64) for length in lengths]
        orders = batch_indices(lengths, EVALUATION_BATCH)
        for indices in self.ranks.share(orders):
            batch = self._batch(data, indices).to(device_of(model))
            scores = model(batch)
            nats += float(_sums(model, scores, batch).cpu().double().sum())
            for i, tags in zip(indices, model.decode(scores, batch.lengths, allowed=self.allowed), strict=True):
                found[i][:] = tags
        (nats,) = self.ranks.total([nats])
        guesses = np.split(self.ranks.added(np.concatenate([np.zeros(0, np.int64), *found])), np.cumsum(lengths)[:-1])
        for indices in orders:
            written, truth = ([rows[i] for i in indices] for rows in (guesses, data.targets))
            metric.update([self.tags.decode(row) for row in written], [self.tags.decode(row) for row in truth])
        return nats

    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        name = "span_f1" if self.spans else "token_accuracy"
        return name.replace("_", " "), metrics[name], True

    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        del train
        metric = Tagging(spans=self.spans)
        for block in dataset.blocks():
            metric.update((self.usual.predict(_words(item)) for item in block), (item.tags or () for item in block))
        return {
            "the word's most frequent tag" if self.reading.scaler is None else "the most frequent tag": metric.compute()
        }

    def item(self, given: Any, where: str) -> Item:
        item = self.reading.item(given, where)
        return Item(where, tokens=tuple((item.text or "").split())) if item.kind == "text" else item

    @torch.no_grad()
    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """tokens (none for features), a tag for each, and the tokens that are not known."""
        assert isinstance(model, Tagger)
        rows: list[Row] = [self.reading.encode(item) for item in items]
        answers: list[dict[str, Any]] = [{} for _ in items]
        for indices in batch_indices([len(row) for row in rows], EVALUATION_BATCH):
            batch = self.reading.batch([rows[i] for i in indices]).to(device_of(model))
            found = model.decode(model(batch), batch.lengths, allowed=self.allowed)
            for i, tags in zip(indices, found, strict=True):
                tokens = None if self.reading.scaler is not None else self.reading.tokens(items[i])
                answers[i] = tagged(tokens, self.tags.decode(tags), rows[i].unknown)
        return answers


def _words(item: Item) -> Sequence[str]:
    return item.tokens if item.tokens is not None else [""] * item.length  # features: any step is like any other


def _sums(model: Tagger, scores: Tensor, batch: Batch) -> Tensor:
    """(B,) nats of each row's tags."""
    assert batch.targets is not None
    if model.crf is not None:
        return model.crf.nll(scores, batch.targets, batch.lengths)
    return row_losses(scores, batch.targets, lengths=batch.lengths)[0]
