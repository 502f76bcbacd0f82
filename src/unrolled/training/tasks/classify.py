"""Classification, many to one: a sequence of tokens or features in, one label out.

Score    accuracy on the validation part. Baseline: always the most frequent label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item, Vocabulary, batch_indices, check_answers
from unrolled.decoding import one_label
from unrolled.errors import DataError, expected
from unrolled.models import Batch
from unrolled.training.baselines import MajorityClass, most_frequent
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.metrics import Classification
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks.aligned import EVALUATION_BATCH, device_of, encode_rows, lengths_of, model_from
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart, batches
from unrolled.training.tasks.reading import Measuring, Reading, Row

__all__ = ["Classify"]


class Classify(Task):
    name, unit = "classify", "items"

    def __init__(self, recipe: Recipe, reading: Reading, labels: Vocabulary, majority: str) -> None:
        super().__init__(recipe)
        self.reading, self.labels, self.majority = reading, labels, MajorityClass(majority)

    @classmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> Classify:
        names: Counter[str] = Counter()
        measuring = Measuring(recipe, train)
        for block in train.blocks():
            names.update(item.label for item in block if item.label is not None)
            measuring.add(block)
        labels = Vocabulary.of_labels(names)
        if len(labels) < 2:
            found = f"{len(labels)} ({', '.join(labels.tokens)})"
            raise DataError(expected(f"{train.name}: labels", "two or more different ones", found, "Check --label."))
        return cls(recipe, measuring.reading(), labels, most_frequent(names, "labels"))

    def to_dict(self) -> dict[str, Any]:
        saved = {"reading": self.reading.to_dict(), "labels": self.labels.to_dict()}
        return saved | {"majority": self.majority.label}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> Classify:
        labels = Vocabulary.from_dict(saved["labels"])
        return cls(recipe, Reading.from_dict(saved["reading"]), labels, saved["majority"])

    def build(self) -> nn.Module:
        return model_from(self.recipe, self.reading, classes=len(self.labels), pooling=self.recipe.pooling)

    def encode_items(self, dataset: Dataset) -> Encoded:
        check_answers(self.labels.tokens, dataset)
        targets = [self.labels.encode([item.label or ""]) for item in dataset]
        return encode_rows(self.reading, dataset, targets)

    # training

    def step_count(self, data: Encoded) -> int:
        return -(-data.row_count // self.recipe.batch_size)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        for piece, indices in batches(data, self.recipe.batch_size, rng, lengths_of, place):
            indices = self.ranks.share(indices)
            if not len(indices):
                yield StepLoss.of_nothing()
                continue
            batch = self._batch(piece, indices).to(device_of(model))
            assert batch.targets is not None
            logits = model(batch)
            loss = cross_entropy(logits, batch.targets, label_smoothing=self.recipe.label_smoothing)

            def by_row(batch: Batch = batch) -> Tensor:
                assert batch.targets is not None
                return row_losses(model(batch), batch.targets)[0]

            rows = [piece.where[i] for i in indices]
            yield StepLoss(loss, loss.detach(), len(indices), rows, ((batch,), {}), by_row)

    def _batch(self, data: Encoded, indices: np.ndarray) -> Batch:
        targets = np.concatenate([data.targets[i] for i in indices])
        return self.reading.batch([data.rows[i] for i in indices], targets)

    # afterwards

    def measure(self, model: nn.Module, data: Encoded) -> Numbers:
        metric, nats = Classification(len(self.labels)), 0.0
        for piece in data.pieces():
            log_probabilities = self._log_probabilities(model, piece.rows)
            targets = np.concatenate([np.zeros(0, np.int64), *piece.targets])
            metric.update(log_probabilities.argmax(-1), targets)
            nats -= float(log_probabilities[np.arange(len(targets)), targets].sum())
        return metric.compute() | {"nats": nats / max(metric.items, 1)}

    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        return "accuracy", metrics["accuracy"], True

    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        del train
        metric = Classification(len(self.labels))
        for block in dataset.blocks():
            truth = self.labels.encode(item.label or "" for item in block)
            metric.update(self.labels.encode(self.majority.predict(len(truth))), truth)
        return {f"always {self.majority.label!r}": metric.compute()}

    def item(self, given: Any, where: str) -> Item:
        return self.reading.item(given, where)

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """label, its probability, the scores (probabilities) of all labels, and the tokens that are not known."""
        rows = [self.reading.encode(item) for item in items]
        probabilities = np.exp(self._log_probabilities(model, rows))
        return [one_label(self.labels.tokens, p, row.unknown) for row, p in zip(rows, probabilities, strict=True)]

    @torch.no_grad()
    def _log_probabilities(self, model: nn.Module, rows: Sequence[Row]) -> np.ndarray:
        """(N, C) float64, in the order of the rows."""
        result = np.zeros((len(rows), len(self.labels)))
        for indices in self.ranks.share(batch_indices([len(row) for row in rows], EVALUATION_BATCH)):
            batch = self.reading.batch([rows[i] for i in indices]).to(device_of(model))
            result[indices] = model(batch).cpu().double().log_softmax(-1).numpy()
        return self.ranks.added(result)
