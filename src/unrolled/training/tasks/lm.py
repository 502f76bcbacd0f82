"""Language modelling: the next token.

Context  continuous   all texts are one stream; the state goes on, the first token is not scored.
         independent  every document starts from the initial state, behind an end symbol, and ends in one: all its
                      tokens and its end are scored.
Training The stream (for documents: laid end to end in a new order each epoch, with a reset where one begins) is cut
         into `batch_size` parallel rows, and these into chunks of `chunk` steps; the state goes from chunk to chunk.
         A row that begins inside a document starts it without its past; in evaluation nothing is cut.
Score    perplexity, exact: it does not depend on batch size, chunk or the order of documents.
Baseline the unigram and the interpolated trigram model of the same tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item, batch_indices, pad, streams
from unrolled.data.streaming import Laid, Segment, Table, stream_bounds
from unrolled.decoding import END, first_tokens, likelihood, write
from unrolled.errors import DataError, expected
from unrolled.training.baselines import NGram
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.metrics import Perplexity
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks.aligned import device_of, model_from
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart
from unrolled.training.tasks.encoded import timed
from unrolled.training.tasks.ondisk import OnDisk
from unrolled.training.tasks.packing import packed, unpacked
from unrolled.training.tasks.reading import Measuring, Reading, Row
from unrolled.training.tbptt import Block, Chunk, Cut, TruncatedBPTT

__all__ = ["END", "LanguageModelling"]

BYTES_OF_A_STEP = 17  # token in, token out, whether a document begins
STEPS_AT_A_TIME = 2**13  # of one long text; the layers keep the gates of each while it is scored
NUMBERS_AT_A_TIME = 2**24  # logits that evaluation holds: bounds its memory, changes no result


class Step(NamedTuple):
    """Tokens in and out, side by side."""

    inputs: np.ndarray  # (N,)
    targets: np.ndarray  # (N,)


class LanguageModelling(Task):
    name, unit = "lm", "tokens"

    def __init__(self, recipe: Recipe, reading: Reading, independent: bool, counts: Sequence[int]) -> None:
        super().__init__(recipe)
        if reading.vocabulary is None:
            raise DataError(expected("lm data", "texts", "features"))
        self.reading, self.vocabulary, self.independent = reading, reading.vocabulary, independent
        self.counts = counts  # of each token in the training part: the unigram model

    @classmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> LanguageModelling:
        measuring, items = Measuring(recipe, train), 0
        for block in train.blocks():
            measuring.add(block)
            items += len(block)
        independent = recipe.context == "independent" or (recipe.context == "auto" and not train.is_one_text)
        measuring.specials = (END,) if independent else ()
        reading = measuring.reading()
        if reading.vocabulary is None:
            raise DataError(expected("lm data", "texts", "features"))
        counts = measuring.counts_of(reading.vocabulary)
        if independent:
            counts[reading.vocabulary.id(END)] += items
        else:
            counts[reading.vocabulary.id(measuring.first)] -= 1  # it is no target
        if sum(counts) < 2:
            raise DataError(expected(train.name, "a text of several tokens", sum(counts)))
        return cls(recipe, reading, independent, counts)

    def to_dict(self) -> dict[str, Any]:
        return {"reading": self.reading.to_dict(), "independent": self.independent, "counts": list(self.counts)}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> LanguageModelling:
        return cls(recipe, Reading.from_dict(saved["reading"]), bool(saved["independent"]), list(saved["counts"]))

    def build(self) -> nn.Module:
        return model_from(self.recipe, self.reading, tie_weights=self.recipe.tie_weights)

    def encode_items(self, dataset: Dataset) -> Encoded:
        """One row a document, or one for the whole stream; `targets` holds how many characters each row spells."""
        encoded = [self.reading.encode(item) for item in dataset]
        unknown, total = sum(len(row.unknown) for row in encoded), sum(len(row) for row in encoded)
        spelled = [np.array([len(item.text or "")]) for item in dataset]
        if self.independent:
            rows = [self._document(row.inputs) for row in encoded]
            return Encoded(rows, spelled, [item.where for item in dataset], unknown, total)
        ids = np.concatenate([np.zeros(0, np.int64), *(row.inputs for row in encoded)])
        stream = Step(ids[:-1], ids[1:])
        return Encoded([stream], [sum(spelled, np.zeros(1, np.int64))], [dataset.name], unknown, total)

    def _document(self, ids: np.ndarray) -> Step:
        end = np.array([self.vocabulary.id(END)])
        return Step(np.concatenate([end, ids]), np.concatenate([ids, end]))

    def pack(self, block: Dataset) -> tuple[Table, int, int]:
        """The tokens of each document, behind an end symbol where they are independent; targets: as `encode_items`."""
        rows = [self.reading.encode(item) for item in block]
        start = [self.vocabulary.id(END)] if self.independent else []
        spelled = [np.array([len(item.text or "")]) for item in block]
        data = Encoded(rows, spelled, [item.where for item in block])
        laid = [Row(np.concatenate([np.array(start, np.int64), row.inputs])) for row in rows]
        return packed(data, laid), sum(len(row.unknown) for row in rows), sum(len(row) for row in rows)

    def unpack(self, table: Table, place: str) -> Encoded:
        return unpacked(table, place, lambda _, row: self._document(row.inputs[1:] if self.independent else row.inputs))

    # training

    def step_count(self, data: Encoded) -> int:
        tokens = self._laid(data).steps if isinstance(data, OnDisk) else sum(len(row.targets) for row in data.rows)
        columns = -(-tokens // min(self.recipe.batch_size, max(tokens, 1)))
        return -(-columns // self.recipe.chunk)

    def _laid(self, data: OnDisk, key: int | None = None) -> Laid:
        return Laid(data.store, "inputs", key, self.vocabulary.id(END) if self.independent else None)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        place = Place() if place is None else place
        chunks = self._from_disk if isinstance(data, OnDisk) else self._in_memory
        for piece in timed(chunks(data, rng, place, device_of(model)), place):
            step = self._step(model, piece)
            place.batches, place.carried = piece.cut
            yield step
        for _ in range(place.batches, self.step_count(data)):  # others have a row that is one step longer
            place.batches += 1
            yield StepLoss.of_nothing()

    def _in_memory(
        self, data: Encoded, rng: np.random.Generator, place: Place, device: torch.device
    ) -> Iterator[Chunk]:
        order = rng.permutation(len(data.rows)) if self.independent else range(len(data.rows))
        rows: list[Step] = [data.rows[i] for i in order]
        begins = np.concatenate([np.arange(len(row.targets)) == 0 for row in rows]) if self.independent else None
        joined = [np.concatenate(part) for part in zip(*rows, strict=True)] + ([] if begins is None else [begins])
        width = min(self.recipe.batch_size, len(joined[0]))
        (inputs, lengths), (targets, _), *resets = [streams(part, width) for part in joined]
        lengths = self.ranks.share(lengths)
        parts = [self.ranks.share(part) for part in (inputs, targets, *(part for part, _ in resets))]
        tensors = [torch.from_numpy(part).to(device) for part in parts]
        if not len(lengths):
            return iter(())
        return TruncatedBPTT(self.recipe.chunk).chunks(
            *tensors[:2],
            resets=tensors[2] if resets else None,
            lengths=torch.from_numpy(lengths).to(device),
            cut=_cut(place),
        )

    def _from_disk(self, data: OnDisk, rng: np.random.Generator, place: Place, device: torch.device) -> Iterator[Chunk]:
        laid = self._laid(data, int(rng.integers(2**63)) if self.independent else None)
        bounds = self.ranks.share(stream_bounds(laid.steps, min(self.recipe.batch_size, laid.steps)))
        if not bounds:
            return iter(())
        chunk = self.recipe.chunk
        size = chunk * max(1, data.part.source.budget.piece // (BYTES_OF_A_STEP * len(bounds) * chunk))
        segments = laid.segments(bounds, place.batches * chunk, size, data.part.threads)
        lengths = torch.tensor([length for _, length in bounds], device=device)
        blocks = (self._block(segment, device) for segment in segments)
        return TruncatedBPTT(chunk).stream(blocks, lengths=lengths, cut=_cut(place))

    def _block(self, segment: Segment, device: torch.device) -> Block:
        inputs, targets, begins = (torch.from_numpy(part).to(device) for part in segment)
        return Block(inputs, targets, begins if self.independent else None)

    def _step(self, model: nn.Module, piece: Chunk) -> StepLoss:
        keywords = _only_needed(piece)
        logits, state = model(piece.inputs, piece.state, **keywords)
        piece.carry(state)
        assert piece.targets is not None
        targets, mask = piece.targets, piece.mask
        mean = cross_entropy(logits, targets, mask=mask)
        # Summed over time and averaged over streams, as Zaremba et al. (2014) state their learning rate and clip.
        scale = 1.0 if self.recipe.loss_scale == "mean" else piece.steps / len(targets)

        def by_row() -> Tensor:
            again, _ = model(piece.inputs, piece.state, **keywords)
            return row_losses(again, targets, mask=mask)[0]

        names = [
            f"stream {row}, steps {piece.start} to {piece.start + mask.shape[1] - 1}" for row in range(len(targets))
        ]
        weight = None if self.recipe.loss_scale == "mean" else len(targets)
        call = ((piece.inputs, piece.state), keywords)
        return StepLoss(mean * scale, mean.detach(), piece.steps, names, call, by_row, weight)

    # afterwards

    def measure(self, model: nn.Module, data: Encoded) -> Numbers:
        metric = Perplexity()
        if isinstance(data, OnDisk) and not self.independent:
            for nats in self._stream_nats(model, data):
                metric.update(nats)
            if self._is_lossless:
                metric.characters += sum(int(table["targets"].values.sum()) for table in data.store)
        else:
            for piece in data.pieces():
                for i, nats in enumerate(self._nats(model, piece.rows)):
                    metric.update(nats, characters=int(piece.targets[i][0]) if self._is_lossless else None)
        result = metric.compute()
        return result | {"nats": float(result["nats_per_token"])}

    @property
    def _is_lossless(self) -> bool:
        """Words do not bring back the spaces between them, so their nats are not those of all characters."""
        return self.reading.tokenizer is not None and self.reading.tokenizer.kind in ("chars", "subword")

    @torch.no_grad()
    def _stream_nats(self, model: nn.Module, data: OnDisk) -> Iterator[np.ndarray]:
        """-log p of each token of one long text after its first, some at a time."""
        laid, device = self._laid(data), device_of(model)
        chunk = max(1, min(NUMBERS_AT_A_TIME // len(self.vocabulary), STEPS_AT_A_TIME))
        segments = laid.segments([(0, laid.steps)], 0, chunk, data.part.threads)
        blocks = (self._block(segment, device) for segment in segments)
        for piece in TruncatedBPTT(chunk).stream(blocks, lengths=[laid.steps]):
            nats = np.zeros(piece.steps)
            if self.ranks.first:
                logits, state = model(piece.inputs, piece.state, **_only_needed(piece))
                piece.carry(state)
                nats = _nats_of(logits, piece)[0]
            else:
                piece.carry(None)
            yield self.ranks.added(nats)

    @torch.no_grad()
    def _nats(self, model: nn.Module, rows: Sequence[Step]) -> list[np.ndarray]:
        """-log p of each target of each row, every row from the initial state to its end."""
        result = [np.zeros(len(row.targets)) for row in rows]
        for indices in self.ranks.share(batch_indices([len(row.targets) for row in rows], 32)):
            inputs, lengths = pad([rows[i].inputs for i in indices])
            targets, _ = pad([rows[i].targets for i in indices])
            chunk = max(1, NUMBERS_AT_A_TIME // (len(indices) * len(self.vocabulary)))
            tensors = [torch.from_numpy(part).to(device_of(model)) for part in (inputs, targets)]
            found = []
            for piece in TruncatedBPTT(chunk).chunks(*tensors, lengths=lengths.tolist()):
                logits, state = model(piece.inputs, piece.state, **_only_needed(piece))
                piece.carry(state)
                found.append(_nats_of(logits, piece))
            nats = np.concatenate(found, axis=1) if found else np.zeros(targets.shape)
            for row, i in enumerate(indices):
                result[i][:] = nats[row, : lengths[row]]
        ends = np.cumsum([len(row) for row in result])[:-1]
        return np.split(self.ranks.added(np.concatenate([np.zeros(0), *result])), ends) if result else []

    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        return "perplexity", metrics["perplexity"], False

    def rank(self, metrics: Numbers) -> tuple[float, float]:
        return -metrics["nats"], 0.0  # a perplexity may be too large for a number; its logarithm is not

    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        smoothed = np.asarray(self.counts, float) + 1
        unigram = -np.log(smoothed / smoothed.sum())
        part = train()
        counted = None
        if part is not None:
            counted = NGram.fit([step.targets for step in self.encode_items(part).rows], len(self.vocabulary), order=3)
        simple, better = Perplexity(), Perplexity()
        for documents in self._targets(self.encode(dataset)):
            for ids in documents:
                simple.update(unigram[ids])
            if counted is not None:
                better.update(counted.nats(documents))
        return {"unigram": simple.compute()} | ({} if counted is None else {"trigram": better.compute()})

    def _targets(self, data: Encoded) -> Iterator[list[np.ndarray]]:
        """What is scored, some rows at a time."""
        if isinstance(data, OnDisk) and not self.independent:
            laid = self._laid(data)
            for segment in laid.segments([(0, laid.steps)], 0, NUMBERS_AT_A_TIME // 16, data.part.threads):
                yield [segment.targets[0]]
        else:
            for piece in data.pieces():
                yield [step.targets for step in piece.rows]

    def remarks(self, metrics: Numbers) -> list[str]:
        del metrics
        if self.independent:
            return ["context=independent: every document from the initial state, its end scored too"]
        return ["context=continuous: one stream, the state goes on from text to text"]

    def item(self, given: Any, where: str) -> Item:
        return self.reading.item(given, where)

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """log_probability (nats), how many tokens it is over, perplexity; each text from the initial state."""
        read = [self.reading.encode(item) for item in items]
        rows = [self._document(r.inputs) if self.independent else Step(r.inputs[:-1], r.inputs[1:]) for r in read]
        scored = zip(read, self._nats(model, rows), strict=True)
        return [likelihood(nats, row.unknown) for row, nats in scored]

    def generate(self, model: nn.Module, prompt: str, length: int, **options: Any) -> str:
        """The prompt and what follows, one token at a time; the unknown token is never drawn.

        Options are those of `decoding.write`: temperature, top_k, top_p, seed, stop.
        """
        return self.go_on(model, prompt, length, **options)[0]

    @torch.no_grad()
    def go_on(self, model: nn.Module, prompt: str, length: int, **options: Any) -> tuple[str, list[str], list[str]]:
        """The same, with the tokens that the model read first, and those that it wrote."""
        written = self.reading.tokens(Item("prompt", text=prompt))
        first, prompted = first_tokens(written, self.vocabulary.tokens, independent=self.independent), len(written)
        start = self.vocabulary.encode(first)
        state: Any = None

        def advance(ids: np.ndarray) -> np.ndarray:
            nonlocal state
            logits, state = model(torch.from_numpy(ids)[None].to(device_of(model)), state)
            return logits[0, -1].cpu().double().numpy()

        text = write(
            advance,
            start,
            written,
            length,
            tokens=self.vocabulary.tokens,
            join=self.reading.join,
            never=self.vocabulary.unknown_id,
            end=END if self.independent else None,
            skip=len(prompt),
            **options,
        )
        return text, first, written[prompted:]


def _only_needed(piece: Chunk) -> dict[str, Any]:
    """Lengths and resets where they say something; a layer is faster without."""
    keywords: dict[str, Any] = {}
    if piece.lengths is not None and bool((piece.lengths < piece.inputs.shape[1]).any()):
        keywords["lengths"] = piece.lengths
    if piece.resets is not None and bool(piece.resets.any()):
        keywords["resets"] = piece.resets
    return keywords


def _nats_of(logits: Tensor, piece: Chunk) -> np.ndarray:
    """(B, T) -log p of the targets."""
    assert piece.targets is not None
    return -logits.cpu().double().log_softmax(-1).gather(-1, piece.targets.cpu()[..., None])[..., 0].numpy()


def _cut(place: Place) -> Cut | None:
    return Cut(place.batches, place.carried) if place.batches else None
