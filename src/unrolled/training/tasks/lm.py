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

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item, batch_indices, pad, streams
from unrolled.decoding import END, first_tokens, likelihood, write
from unrolled.errors import DataError, expected
from unrolled.training.baselines import NGram
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.metrics import Perplexity
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks.aligned import device_of, model_from
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart
from unrolled.training.tasks.reading import Reading
from unrolled.training.tbptt import Chunk, Cut, TruncatedBPTT

__all__ = ["END", "LanguageModelling"]

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
        independent = recipe.context == "independent" or (recipe.context == "auto" and len(train) > 1)
        reading = Reading.fit(recipe, train, specials=(END,) if independent else ())
        task = cls(recipe, reading, independent, ())
        counts = Counter(int(token) for step in task.encode(train).rows for token in step.targets)
        if sum(counts.values()) < 2:
            raise DataError(expected(train.name, "a text of several tokens", sum(counts.values())))
        return cls(recipe, reading, independent, [counts[i] for i in range(len(task.vocabulary))])

    def to_dict(self) -> dict[str, Any]:
        return {"reading": self.reading.to_dict(), "independent": self.independent, "counts": list(self.counts)}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> LanguageModelling:
        return cls(recipe, Reading.from_dict(saved["reading"]), bool(saved["independent"]), list(saved["counts"]))

    def build(self) -> nn.Module:
        return model_from(self.recipe, self.reading, tie_weights=self.recipe.tie_weights)

    def encode(self, dataset: Dataset) -> Encoded:
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

    # training

    def step_count(self, data: Encoded) -> int:
        tokens = sum(len(row.targets) for row in data.rows)
        columns = -(-tokens // min(self.recipe.batch_size, max(tokens, 1)))
        return -(-columns // self.recipe.chunk)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        order = rng.permutation(len(data.rows)) if self.independent else range(len(data.rows))
        rows: list[Step] = [data.rows[i] for i in order]
        begins = np.concatenate([np.arange(len(row.targets)) == 0 for row in rows]) if self.independent else None
        joined = [np.concatenate(part) for part in zip(*rows, strict=True)] + ([] if begins is None else [begins])
        width = min(self.recipe.batch_size, len(joined[0]))
        (inputs, lengths), (targets, _), *resets = [streams(part, width) for part in joined]
        device = device_of(model)
        lengths = self.ranks.share(lengths)
        parts = [self.ranks.share(part) for part in (inputs, targets, *(part for part, _ in resets))]
        tensors = [torch.from_numpy(part).to(device) for part in parts]
        place = Place() if place is None else place
        pieces = TruncatedBPTT(self.recipe.chunk).chunks(
            *tensors[:2],
            resets=tensors[2] if resets else None,
            lengths=torch.from_numpy(lengths).to(device),
            cut=Cut(place.batches, place.carried) if place.batches else None,
        )
        for piece in pieces if len(lengths) else ():
            step = self._step(model, piece)
            place.batches, place.carried = piece.cut
            yield step
        for _ in range(place.batches, self.step_count(data)):  # others have a row that is one step longer
            place.batches += 1
            yield StepLoss.of_nothing()

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
        for i, nats in enumerate(self._nats(model, data.rows)):
            # Words do not bring back the spaces between them, so their nats are not those of all characters.
            lossless = self.reading.tokenizer is not None and self.reading.tokenizer.kind in ("chars", "subword")
            metric.update(nats, characters=int(data.targets[i][0]) if lossless else None)
        result = metric.compute()
        return result | {"nats": float(result["nats_per_token"])}

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
                assert piece.targets is not None
                scores = logits.cpu().double().log_softmax(-1).gather(-1, piece.targets.cpu()[..., None])[..., 0]
                found.append(-scores.numpy())
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
        documents = [step.targets for step in self.encode(dataset).rows]
        smoothed = np.asarray(self.counts, float) + 1
        unigram = -np.log(smoothed / smoothed.sum())
        result = {"unigram": _perplexity(unigram[ids] for ids in documents)}
        part = train()
        if part is not None:
            counted = NGram.fit([step.targets for step in self.encode(part).rows], len(self.vocabulary), order=3)
            result["trigram"] = _perplexity([counted.nats(documents)])
        return result

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


def _perplexity(nats: Any) -> Numbers:
    metric = Perplexity()
    for part in nats:
        metric.update(part)
    return metric.compute()
