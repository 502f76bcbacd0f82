"""Sequence to sequence: a text, tokens, features or one vector in, tokens of another number out.

Training Teacher forcing: every step reads the true token before it; with `sampling`, more and more often one of the
         model's own.
Score    the token error rate of free running, since in use there are no true tokens: greedy on the validation part,
         with the recipe's beam in the final report. Beside it `nats_per_token`, under teacher forcing.
Targets  A source that stands in several rows is trained with each of its targets, scored once, and right with any.
Baseline always the most frequent target of the training part, and the target of its nearest source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item, batch_indices, pad
from unrolled.decoding import END, Hypothesis, Search, search_targets, translated
from unrolled.errors import DataError, RecipeError, expected
from unrolled.models import (
    Batch,
    DecoderStep,
    EncoderDecoder,
    FeatureInput,
    build_encoder_decoder,
    build_pair_transformer,
)
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers, Report
from unrolled.training.tasks.aligned import device_of
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart, ahead
from unrolled.training.tasks.reading import Reading, Row
from unrolled.training.transduction import NearestSource, Transduction, bleu_and_chrf, truth_share

__all__ = ["Search", "SequenceToSequence"]

ROWS_AT_A_TIME = 256  # hypotheses side by side where no gradient is taken; results do not depend on it

_OF_THE_MODEL = (
    *("cell", "hidden", "layers", "bidirectional", "embedding", "single_bias", "reset_after", "forget_bias", "init"),
    *("dropout", "input_dropout", "output_dropout", "word_dropout", "learn_initial_state", "backend"),
    *("decoder_cell", "decoder_hidden", "decoder_layers", "input_feeding", "bridge", "feature_noise"),
)


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
        _check_source(recipe, train)
        reading = Reading.fit(recipe, train)
        kind = recipe.target_tokenizer or recipe.tokenizer
        targets = Dataset([_target_item(item) for item in train], train.name)
        target = Reading.fit(recipe.model_copy(update={"tokenizer": kind}), targets, specials=(END,))
        written = [tuple(target.tokens(item)) for item in targets]
        limit = recipe.longest + 1 if recipe.longest is not None else 2 * max(map(len, written)) + 1
        counts = Counter(written)
        frequent = min(counts, key=lambda tokens: (-counts[tokens], tokens))
        return cls(recipe, reading, target, limit, frequent)

    def to_dict(self) -> dict[str, Any]:
        saved = {"reading": self.reading.to_dict(), "target": self.target.to_dict()}
        return {**saved, "limit": self.limit, "frequent": list(self.frequent)}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> SequenceToSequence:
        reading, target = (Reading.from_dict(saved[name]) for name in ("reading", "target"))
        return cls(recipe, reading, target, int(saved["limit"]), saved["frequent"])

    def build(self) -> EncoderDecoder:
        recipe = self.recipe
        sizes = self.reading.sizes()
        sizes.pop("character_vocabulary", None)
        vector = recipe.source == "vector"
        attention = ("none" if vector else "general") if recipe.attention == "auto" else recipe.attention
        options = {name: getattr(recipe, name) for name in _OF_THE_MODEL}
        if "channels" in sizes and recipe.word_dropout:
            way_out = "Use --input-dropout or --feature-noise."
            raise RecipeError(expected("word_dropout", "0 for features", recipe.word_dropout, way_out))
        if "channels" not in sizes and recipe.feature_noise:
            raise RecipeError(
                expected("feature_noise", "0 for texts and tokens", recipe.feature_noise, "Leave it out.")
            )
        if recipe.cell == "transformer":
            model: EncoderDecoder = build_pair_transformer(
                **_of_a_transformer(recipe), **sizes, target_vocabulary=len(self.vocabulary)
            )
        else:
            model = build_encoder_decoder(
                **options, **sizes, vector=vector, attention=attention, target_vocabulary=len(self.vocabulary)
            )
        scaler = self.reading.scaler
        if scaler is not None and not torch.empty(0).is_meta:  # meta: the weights are read from a file
            assert isinstance(model.inputs, FeatureInput)
            model.inputs.standardise(torch.from_numpy(scaler.mean), torch.from_numpy(scaler.scale))
        if recipe.init_range is not None:
            for parameter in model.parameters():
                nn.init.uniform_(parameter, -recipe.init_range, recipe.init_range)
        return model

    # data

    def encode(self, dataset: Dataset) -> Encoded:
        """Rows are `Pair`s; targets end in the end symbol."""
        _check_source(self.recipe, dataset)
        written = [self.target.tokens(_target_item(item)) for item in dataset]
        self._check_targets(dataset, written)
        rows = [Pair(self.reading.encode(item), item.content()) for item in dataset]
        targets = [self.vocabulary.encode([*tokens, END]) for tokens in written]
        unknown = sum(len(row.source.unknown) for row in rows)
        return Encoded(rows, targets, [item.where for item in dataset], unknown, sum(len(row) for row in rows))

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
        return -(-len(data.rows) // self.recipe.batch_size)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        lengths = [len(row) + len(target) for row, target in zip(data.rows, data.targets, strict=True)]
        recipe = self.recipe
        schedule = (recipe.sampling, recipe.sampling_rate, recipe.sampling_floor)
        count = self.step_count(data)
        for number, indices in ahead(enumerate(batch_indices(lengths, recipe.batch_size, rng=rng)), place):
            indices = self.ranks.share(indices)
            if not len(indices):
                yield StepLoss.of_nothing()
                continue
            own = 1 - truth_share(*schedule, self.epoch - 1 + number / count, recipe.epochs)
            yield self._step(model, data, indices, own)

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
        nats = self._nats(model, data)
        keys = {row.key: row.source for row in data.rows}
        references: dict[bytes, list[tuple[str, ...]]] = {key: [] for key in keys}
        for row, target in zip(data.rows, data.targets, strict=True):
            references[row.key].append(tuple(self.vocabulary.decode(target[:-1])))
        own = [best[0] for best in self.search(model, self.ranks.share(list(keys.values())), search or Search())]
        shares = self.ranks.exchange([[self._tokens(one), one.stopped] for one in own])
        written, stopped = zip(*self.ranks.woven(shares), strict=True)
        metric = Transduction()
        for guess, right in zip(written, references.values(), strict=True):
            metric.update(guess, right)
        result = metric.compute() | {"nats_per_token": nats}
        result["stopped_at_limit"] = sum(one == "limit" for one in stopped)
        result["several_targets"] = sum(len(set(right)) > 1 for right in references.values())
        if self.recipe.bleu and search is not None:
            texts = [[self.target.join(one) for one in dict.fromkeys(right)] for right in references.values()]
            result |= bleu_and_chrf([self.target.join(guess) for guess in written], texts)
        return result | {"nats": nats}

    @torch.no_grad()
    def _nats(self, model: nn.Module, data: Encoded) -> float:
        """The mean of -log p of all target tokens and end symbols, each given the true ones before it."""
        total, tokens = 0.0, 0
        for indices in self.ranks.share(batch_indices([len(target) for target in data.targets], ROWS_AT_A_TIME)):
            batch, previous, targets, lengths = self._side_by_side(model, data, indices)
            logits = model(batch, previous, lengths=lengths).cpu().double()
            losses, counts = row_losses(logits, targets.cpu(), lengths=lengths.cpu())
            total += float(losses.sum())
            tokens += int(counts.sum())
        total, tokens = self.ranks.total([total, tokens])  # type: ignore[assignment]
        return total / max(tokens, 1)

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
        return Report(dataset.name, metrics, self.baselines(dataset, train), int(metrics["items"]), self.unit, notes)

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
        references: dict[bytes, list[Sequence[str]]] = {}
        sources: dict[bytes, Item] = {}
        for item in dataset:
            sources.setdefault(item.content(), item)
            references.setdefault(item.content(), []).append(self.target.tokens(_target_item(item)))
        text = self.target.join(self.frequent)
        name = f"always {text if len(text) <= 20 else text[:20] + '…'!r}"
        result = {name: _scored([self.frequent] * len(sources), references.values())}
        part = train()
        if part is not None and len(_shapes(part) | _shapes(dataset)) <= 1:  # of other lengths there is no distance
            nearest = NearestSource(
                [self._plain(item) for item in part], [self.target.tokens(_target_item(item)) for item in part]
            )
            guesses = nearest.predict(self._plain(item) for item in sources.values())
            result["nearest source"] = _scored(guesses, references.values())
        return result

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


def _of_a_transformer(recipe: Recipe) -> dict[str, Any]:
    """Keywords of the Transformer for pairs; options that only recurrent layers have are refused."""
    for name, usual in (("decoder_cell", None), ("decoder_hidden", None), ("input_feeding", False)):
        if getattr(recipe, name) != usual:
            raise RecipeError(expected(name, f"{usual} with cell transformer", getattr(recipe, name), "Leave it out."))
    if recipe.attention != "auto" or recipe.source == "vector":
        name = "source" if recipe.source == "vector" else "attention"
        way_out = "A Transformer has an attention of its own, over a sequence."
        raise RecipeError(expected(name, "auto with cell transformer", getattr(recipe, name), way_out))
    names = (
        *("hidden", "layers", "decoder_layers", "heads", "feedforward", "embedding", "feature_noise"),
        *("dropout", "input_dropout", "output_dropout", "word_dropout"),
    )
    return {name: getattr(recipe, name) for name in names}


def _target_item(item: Item) -> Item:
    """The target of a pair, as an item that a `Reading` reads."""
    if item.target is None:
        raise DataError(expected(item.where, "a target", "none", "Score and train on pairs with a target."))
    return Item(item.where, text=item.target) if isinstance(item.target, str) else Item(item.where, tokens=item.target)


def _check_source(recipe: Recipe, dataset: Dataset) -> None:
    """Raise where a vector is wanted and something else is there."""
    for item in dataset if recipe.source == "vector" else ():
        if item.features is None or len(item.features) != 1:
            found = item.kind if item.features is None else f"{len(item.features)} time steps"
            raise DataError(expected(item.where, "one vector (source=vector)", found, "Leave out --source vector."))


def _shapes(dataset: Dataset) -> set[tuple[int, ...]]:
    return {item.features.shape for item in dataset if item.features is not None}


def _scored(written: Sequence[Sequence[str]], references: Any) -> Numbers:
    metric = Transduction()
    for guess, right in zip(written, references, strict=True):
        metric.update(guess, right)
    return metric.compute()
