"""Sequence to sequence: a text, tokens, features or one vector in, tokens of another number out.

Training Teacher forcing: every step reads the true token before it; with `sampling`, more and more often one of the
         model's own.
Score    the token error rate of free running, since in use there are no true tokens: greedy on the validation part,
         with the recipe's beam in the final report. Beside it `nats_per_token`, under teacher forcing.
Targets  A source that stands in several rows is trained with each of its targets, scored once, and right with any.
Baseline always the most frequent target of the training part, and the target of its nearest source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item, batch_indices, pad
from unrolled.data.streaming import Part, Table
from unrolled.decoding import END, Hypothesis, Search, search_targets, translated
from unrolled.errors import DataError, expected
from unrolled.models import (
    Batch,
    DecoderStep,
    EncoderDecoder,
)
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers, Report
from unrolled.training.tasks.aligned import device_of
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart, batches
from unrolled.training.tasks.encoded import sizes
from unrolled.training.tasks.packing import packed, unpacked
from unrolled.training.tasks.pair_model import pair_model
from unrolled.training.tasks.reading import Measuring, Reading, Row
from unrolled.training.transduction import NearestSource, Tally, Transduction, bleu_and_chrf, truth_share

__all__ = ["Search", "SequenceToSequence"]

ROWS_AT_A_TIME = 256  # hypotheses side by side where no gradient is taken; results do not depend on it


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """One source as numbers, and what tells equal sources apart from others."""

    source: Row
    key: bytes

    def __len__(self) -> int:
        return len(self.source)

    @property
    def inputs(self) -> np.ndarray:
        """Of the source."""
        return self.source.inputs


def _lengths(data: Encoded) -> np.ndarray:
    return np.asarray(sizes(data.rows)) + np.asarray(sizes(data.targets))


class SequenceToSequence(Task):
    """Pairs of a source and a target."""

    name, unit = "seq2seq", "sources"

    def __init__(self, recipe: Recipe, reading: Reading, target: Reading, limit: int, frequent: Sequence[str]) -> None:
        super().__init__(recipe)
        if target.vocabulary is None:
            raise DataError(expected("targets", "texts or tokens", "features"))
        self.reading, self.target, self.limit, self.frequent = reading, target, limit, tuple(frequent)
        self.vocabulary = target.vocabulary
        self.end = self.vocabulary.id(END)

    @classmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> SequenceToSequence:
        kind = recipe.target_tokenizer or recipe.tokenizer
        sources = Measuring(recipe, train)
        target_recipe = recipe.model_copy(update={"tokenizer": kind})
        targets = Measuring(target_recipe, train, specials=(END,), whole=True, of=_target_items)
        for block in train.blocks():
            _check_source(recipe, block)
            sources.add(block)
            targets.add(block)
        reading, target, counts = sources.reading(), targets.reading(), targets.items.table
        limit = recipe.longest + 1 if recipe.longest is not None else 2 * targets.longest + 1
        frequent = min(counts, key=lambda tokens: (-counts[tokens], tokens), default=())
        return cls(recipe, reading, target, limit, frequent)

    def to_dict(self) -> dict[str, Any]:
        saved = {"reading": self.reading.to_dict(), "target": self.target.to_dict()}
        return {**saved, "limit": self.limit, "frequent": list(self.frequent)}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> SequenceToSequence:
        reading, target = (Reading.from_dict(saved[name]) for name in ("reading", "target"))
        return cls(recipe, reading, target, int(saved["limit"]), saved["frequent"])

    def build(self) -> EncoderDecoder:
        return pair_model(self.recipe, self.reading, len(self.vocabulary))

    # data

    def encode_items(self, dataset: Dataset) -> Encoded:
        """Rows are `Pair`s; targets end in the end symbol."""
        _check_source(self.recipe, dataset)
        written = [self.target.tokens(_target_item(item)) for item in dataset]
        self._check_targets(dataset, written)
        rows = [Pair(self.reading.encode(item), item.content()) for item in dataset]
        targets = [self.vocabulary.encode([*tokens, END]) for tokens in written]
        unknown = sum(len(row.source.unknown) for row in rows)
        return Encoded(rows, targets, [item.where for item in dataset], unknown, sum(len(row) for row in rows))

    def pack(self, block: Dataset) -> tuple[Table, int, int]:
        data = self.encode_items(block)
        keys = [np.frombuffer(hashlib.sha256(row.key).digest()[:16], np.uint8) for row in data.rows]
        return packed(data, [row.source for row in data.rows], keys=keys), data.unknown, data.tokens

    def unpack(self, table: Table, place: str) -> Encoded:
        return unpacked(table, place, lambda i, row: Pair(row, table["keys"][i].tobytes()))

    def _check_targets(self, dataset: Dataset, written: Sequence[Sequence[str]]) -> None:
        for item, tokens in zip(dataset, written, strict=True):
            if END in tokens or not tokens:
                wanted = f"a target of one token or more, and {END!r} not among them"
                raise DataError(expected(item.where, wanted, repr(" ".join(tokens))[:60], "Change it."))
        most = self.recipe.longest
        long = [(item, tokens) for item, tokens in zip(dataset, written, strict=True) if len(tokens) > (most or 10**9)]
        if long:
            item, tokens = max(long, key=lambda found: len(found[1]))
            found = f"{len(long)} longer ones of {len(dataset)} in {dataset.name}, "
            found += f"the longest with {len(tokens)} ({item.where})"
            way_out = f"Remove or cut them, or use --longest {len(tokens)}."
            first = long[0][0].where
            raise DataError(expected(f"{first}: target", f"at most {most} tokens (longest)", found, way_out))

    def item(self, given: Any, where: str) -> Item:
        if self.recipe.source == "vector" and not isinstance(given, Item):
            try:
                given = np.asarray(given, dtype=np.float32).reshape(1, -1)
            except (TypeError, ValueError):
                raise DataError(expected(where, "a list of numbers", repr(given)[:40])) from None
        return self.reading.item(given, where)

    # training

    def step_count(self, data: Encoded) -> int:
        return -(-data.row_count // self.recipe.batch_size)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        recipe, place = self.recipe, Place() if place is None else place
        schedule = (recipe.sampling, recipe.sampling_rate, recipe.sampling_floor)
        count = self.step_count(data)
        for piece, indices in batches(data, recipe.batch_size, rng, _lengths, place):
            indices = self.ranks.share(indices)
            if not len(indices):
                yield StepLoss.of_nothing()
                continue
            own = 1 - truth_share(*schedule, self.epoch - 1 + (place.batches - 1) / count, recipe.epochs)
            yield self._step(model, piece, indices, own)

    def _step(self, model: nn.Module, data: Encoded, indices: np.ndarray, own: float) -> StepLoss:
        batch, previous, targets, lengths = self._side_by_side(model, data, indices)
        keywords = {"lengths": lengths, "own": own}
        logits = model(batch, previous, **keywords)
        loss = cross_entropy(logits, targets, lengths=lengths, label_smoothing=self.recipe.label_smoothing)

        def by_row() -> Tensor:
            return row_losses(model(batch, previous, **keywords), targets, lengths=lengths)[0]

        rows = [data.where[i] for i in indices]
        return StepLoss(loss, loss.detach(), int(lengths.sum()), rows, ((batch, previous), keywords), by_row)

    def _side_by_side(
        self, model: nn.Module, data: Encoded, indices: np.ndarray
    ) -> tuple[Batch, Tensor, Tensor, Tensor]:
        """Sources, what the decoder reads (B, T), what it should write (B, T), and its lengths (B,)."""
        device = device_of(model)
        batch = self.reading.batch([data.rows[i].source for i in indices]).to(device)
        targets, lengths = (torch.from_numpy(part).to(device) for part in pad([data.targets[i] for i in indices]))
        start = targets.new_full((len(targets), 1), self.end)
        return batch, torch.cat([start, targets[:, :-1]], 1), targets, lengths

    # afterwards

    def measure(self, model: nn.Module, data: Encoded, search: Search | None = None) -> Numbers:
        totals, tally = np.zeros(2), Tally()
        for piece in data.pieces():
            totals += self._nats(model, piece)
            self._write(model, piece, search or Search(), tally)
        nats = float(totals[0] / max(totals[1], 1))
        result = tally.metric.compute() | {"nats_per_token": nats}
        result |= {"stopped_at_limit": tally.stopped, "several_targets": tally.several}
        if self.recipe.bleu and search is not None:
            result |= bleu_and_chrf(tally.texts, tally.right)
        return result | {"nats": nats}

    def _write(self, model: nn.Module, data: Encoded, search: Search, tally: Tally) -> None:
        """Write the targets of some rows, each source once, and add what came of it."""
        keys = {row.key: row.source for row in data.rows}
        references: dict[bytes, list[tuple[str, ...]]] = {key: [] for key in keys}
        for row, target in zip(data.rows, data.targets, strict=True):
            references[row.key].append(tuple(self.vocabulary.decode(target[:-1])))
        own = [best[0] for best in self.search(model, self.ranks.share(list(keys.values())), search)]
        shares = self.ranks.exchange([[self._tokens(one), one.stopped] for one in own])
        for (guess, stopped), right in zip(self.ranks.woven(shares), references.values(), strict=True):
            tally.metric.update(guess, right)
            tally.stopped += stopped == "limit"
            tally.several += len(set(right)) > 1
            if self.recipe.bleu:
                tally.texts.append(self.target.join(guess))
                tally.right.append([self.target.join(one) for one in dict.fromkeys(right)])

    @torch.no_grad()
    def _nats(self, model: nn.Module, data: Encoded) -> list[float]:
        """The sum of -log p of all target tokens and end symbols, given the true ones before them; their number."""
        total, tokens = 0.0, 0
        for indices in self.ranks.share(batch_indices([len(target) for target in data.targets], ROWS_AT_A_TIME)):
            batch, previous, targets, lengths = self._side_by_side(model, data, indices)
            logits = model(batch, previous, lengths=lengths).cpu().double()
            losses, counts = row_losses(logits, targets.cpu(), lengths=lengths.cpu())
            total += float(losses.sum())
            tokens += int(counts.sum())
        return self.ranks.total([total, tokens])

    @torch.no_grad()
    def search(self, model: nn.Module, rows: Sequence[Row], search: Search) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        assert isinstance(model, EncoderDecoder)
        at_a_time = max(1, ROWS_AT_A_TIME // search.width)
        never = () if self.vocabulary.unknown_id is None else (self.vocabulary.unknown_id,)
        result: list[list[Hypothesis]] = [[]] * len(rows)
        for indices in batch_indices([len(row) for row in rows], at_a_time):
            batch = self.reading.batch([rows[i] for i in np.repeat(indices, search.copies)]).to(device_of(model))
            step = DecoderStep(model, model.encode(batch))
            lengths = batch.lengths.cpu().numpy()
            written = search_targets(step, lengths, search, end=self.end, limit=self.limit, never=never)
            for place, found in zip(indices, written, strict=True):
                result[place] = found
        return result

    def _tokens(self, found: Hypothesis) -> list[str]:
        return self.vocabulary.decode(found.tokens)

    def default_search(self) -> Search:
        """The recipe's."""
        recipe = self.recipe
        return Search(recipe.beam, 1, recipe.length_penalty, recipe.coverage_penalty)

    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        return "token_error_rate", metrics["token_error_rate"], False

    def report(self, model: nn.Module, dataset: Dataset, train: TrainingPart) -> Report:
        encoded = self.encode(dataset)
        metrics = self.measure(model, encoded, self.default_search())
        notes = [*dataset.notes, *encoded.notes, *self.remarks(metrics)]
        if isinstance(dataset, Part):
            notes.append("equal sources count as one where they stand near each other: the data are larger than memory")
        baselines = self.baselines_or_note(dataset, train, notes)
        return Report(dataset.name, metrics, baselines, int(metrics["items"]), self.unit, notes)

    def remarks(self, metrics: Numbers) -> list[str]:
        how = f"a beam of {self.recipe.beam}" if self.recipe.beam > 1 else "the likeliest token at each step"
        lines = [
            f"exact match and token error rate: free running, {how}; nats per token: given the true tokens before it"
        ]
        if metrics["several_targets"]:
            lines.append(f"{int(metrics['several_targets']):,} sources have several targets: any of them is right")
        if metrics["stopped_at_limit"]:
            lines.append(
                f"{int(metrics['stopped_at_limit']):,} targets did not end within {self.limit} tokens and were stopped"
            )
        return lines

    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        part = train()
        near = part is not None and len(_shapes(part) | _shapes(dataset)) <= 1  # of other lengths there is no distance
        nearest = None if part is None or not near else self._nearest(part)
        usual, found = Transduction(), Transduction()
        for block in dataset.blocks():
            references: dict[bytes, list[Sequence[str]]] = {}
            sources: dict[bytes, Item] = {}
            for item in block:
                sources.setdefault(item.content(), item)
                references.setdefault(item.content(), []).append(self.target.tokens(_target_item(item)))
            guesses = [] if nearest is None else nearest.predict(self._plain(item) for item in sources.values())
            for right in references.values():
                usual.update(self.frequent, right)
            for guess, right in zip(guesses, references.values(), strict=False):
                found.update(guess, right)
        text = self.target.join(self.frequent)
        name = f"always {text if len(text) <= 20 else text[:20] + '…'!r}"
        return {name: usual.compute()} | ({} if nearest is None else {"nearest source": found.compute()})

    def _nearest(self, part: Dataset) -> NearestSource:
        targets = [self.target.tokens(_target_item(item)) for item in part]
        return NearestSource([self._plain(item) for item in part], targets)

    def _plain(self, item: Item) -> Any:
        return self.reading.tokens(item) if item.features is None else item.features

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """The best of `translate` with the recipe's beam."""
        return [best[0] for best in self.translate(model, items)]

    def translate(
        self, model: nn.Module, items: Sequence[Item], search: Search | None = None, **options: Any
    ) -> list[list[dict[str, Any]]]:
        """For each item its hypotheses, best first.

        Each has target (the text), tokens, score (what it was ranked by), log_probability (nats), stopped (end or
        limit), with `attention` the source's tokens and the weights [token][source position], the end symbol's last
        where it was written; and the source's tokens that are not known. `options` are fields of `Search`; what is not
        said is the recipe's.
        """
        search = (search or self.default_search()).with_options(options)
        rows = [self.reading.encode(item) for item in items]
        for item, row in zip(items, rows, strict=True):
            if not len(row):
                raise DataError(expected(item.where, "a source of one token or more", "an empty one"))
        answers = []
        for item, row, found in zip(items, rows, self.search(model, rows, search), strict=True):
            answers.append([self._answer(one, item, row, search) for one in found])
        return answers

    def _answer(self, found: Hypothesis, item: Item, row: Row, search: Search) -> dict[str, Any]:
        source = self.reading.tokens(item) if item.features is None else None
        return translated(found, self._tokens(found), self.target.join, search, source, len(row), row.unknown)


def _target_item(item: Item) -> Item:
    """The target of a pair, as an item that a `Reading` reads."""
    if item.target is None:
        raise DataError(expected(item.where, "a target", "none", "Score and train on pairs with a target."))
    return Item(item.where, text=item.target) if isinstance(item.target, str) else Item(item.where, tokens=item.target)


def _target_items(pairs: Dataset) -> Dataset:
    return Dataset([_target_item(item) for item in pairs], pairs.name)


def _check_source(recipe: Recipe, dataset: Dataset) -> None:
    """Raise where a vector is wanted and something else is there."""
    for item in dataset if recipe.source == "vector" else ():
        if item.features is None or len(item.features) != 1:
            found = item.kind if item.features is None else f"{len(item.features)} time steps"
            raise DataError(expected(item.where, "one vector (source=vector)", found, "Leave out --source vector."))


def _shapes(dataset: Dataset) -> set[tuple[int, ...]]:
    return {item.features.shape for item in dataset if item.features is not None}
