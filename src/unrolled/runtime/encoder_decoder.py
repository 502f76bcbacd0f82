"""Encoder–decoder: sources in, targets out, greedy, by beam or drawn.

Axes     N rows, S source positions, M memory, P decoder state, V target vocabulary; L layers of the decoder.
Source   the parts and their order are those of `unrolled.models.encoder_decoder`, which cites the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unrolled.data.batching import batch_indices
from unrolled.data.items import Item
from unrolled.data.reading import Reading, Row, SideBySide
from unrolled.decoding.searching import Search, search_targets, translated
from unrolled.decoding.sequences import Hypothesis
from unrolled.decoding.writing import END
from unrolled.errors import BundleError, DataError, RunError, expected
from unrolled.runtime.heads import Linear
from unrolled.runtime.inputs import Tokens, inputs_of
from unrolled.runtime.model import Model, Parts
from unrolled.runtime.recurrent import Recurrent, State
from unrolled.runtime.weights import Weights

__all__ = ["EncoderDecoder"]

ROWS_AT_A_TIME = 256  # hypotheses side by side; results do not depend on it


class EncoderDecoder(Model):
    """As `unrolled.models.EncoderDecoder`, without the Transformer."""

    task = "seq2seq"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.reading, self.target = (Reading.from_dict(parts.task[name]) for name in ("reading", "target"))
        if self.target.vocabulary is None:
            raise BundleError(expected(f"{parts.where}: target", "a vocabulary", "features"))
        self.vocabulary, self.limit = self.target.vocabulary, int(parts.task["limit"])
        self.end = self.vocabulary.id(END)
        self.vector = parts.recipe.get("source") == "vector"
        self._build(parts)

    def _build(self, parts: Parts) -> None:
        recipe, weights = parts.recipe, parts.weights
        embedding, hidden, layers = (parts.get(name, int) for name in ("embedding", "hidden", "layers"))
        self.inputs = inputs_of(weights, self.reading, embedding)
        self.target_inputs = Tokens(weights, "target_inputs.", len(self.vocabulary), embedding, None)
        self.encoder: Recurrent | Linear
        ends: tuple[int, tuple[int, ...]]
        if self.vector:
            self.encoder = Linear(weights, "vector.hidden.", self.inputs.width, hidden)
            memory, ends = 0, (1, (hidden,))
        else:
            both = parts.get("bidirectional", bool)
            learned = parts.get("learn_initial_state", bool)
            shape = parts.shape(self.inputs.width, bidirectional=both, learned=learned)
            self.encoder = Recurrent(weights, "encoder.", shape)
            memory = self.encoder.width
            ends = (layers, (memory,) * (2 if shape.cell == "lstm" else 1))
        kind = recipe.get("attention", "auto")
        self.kind = ("none" if self.vector else "general") if kind == "auto" else kind
        self.feeding = parts.get("input_feeding", bool)
        width = recipe.get("decoder_hidden") or hidden
        more = memory if self.kind == "additive" else width if self.feeding else 0
        cell = recipe.get("decoder_cell") or recipe["cell"]
        deep = recipe.get("decoder_layers") or layers
        shape = parts.shape(embedding + more, cell=cell, hidden=width, layers=deep)
        self.decoder = Recurrent(weights, "decoder.", shape)
        self.bridge = Bridge(weights, recipe.get("bridge"), ends, self.decoder)
        self.look = None if self.kind == "none" else Attention(weights, self.kind, width, memory)
        luong = self.kind in ("dot", "general")
        self.combine = Linear(weights, "combine.", memory + width, width) if luong else None
        outputs = width + (memory if self.kind == "additive" else 0)
        self.output = Linear(weights, "output.", outputs, len(self.vocabulary))

    # inputs

    def item(self, given: Any, where: str) -> Item:
        """An item from a text, a list of tokens, rows of features, or one vector where the model reads one."""
        if self.vector and not isinstance(given, Item):
            try:
                given = np.asarray(given, dtype=np.float32).reshape(1, -1)
            except (TypeError, ValueError):
                raise DataError(expected(where, "a list of numbers", repr(given)[:40])) from None
        return self.reading.item(given, where)

    # answers

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """The best of `translate` with the recipe's beam."""
        return [best[0] for best in self._translate(items, self._search({}))]

    def translate(self, inputs: Iterable[Any], **options: Any) -> list[list[dict[str, Any]]]:
        """For each source its hypotheses, best first: target, tokens, score, log_probability (nats), stopped.

        `options` are fields of `decoding.Search`: beam, n_best, length_penalty, coverage_penalty, limit, attention;
        sample with temperature, top_k, top_p and seed. What is not said is the recipe's.
        """
        if isinstance(inputs, str):
            raise RunError(expected("inputs", "a list of texts", "one text", "Write translate([text])."))
        items = [self.item(given, f"input {number}") for number, given in enumerate(inputs, start=1)]
        return self._translate(items, self._search(options))

    def _search(self, options: dict[str, Any]) -> Search:
        recipe = self.recipe
        usual = Search(int(recipe["beam"]), 1, float(recipe["length_penalty"]), float(recipe["coverage_penalty"]))
        return usual.with_options(options)

    def _translate(self, items: Sequence[Item], search: Search) -> list[list[dict[str, Any]]]:
        rows = [self.reading.encode(item) for item in items]
        for item, row in zip(items, rows, strict=True):
            if not len(row):
                raise DataError(expected(item.where, "a source of one token or more", "an empty one"))
        answers = []
        for item, row, found in zip(items, rows, self.search(rows, search), strict=True):
            source = None if self.features else self.reading.tokens(item)
            more = (self.target.join, search, source, len(row), row.unknown)
            answers.append([translated(one, self.vocabulary.decode(one.tokens), *more) for one in found])
        return answers

    def search(self, rows: Sequence[Row], search: Search) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        never = () if self.vocabulary.unknown_id is None else (self.vocabulary.unknown_id,)
        result: list[list[Hypothesis]] = [[]] * len(rows)
        for indices in batch_indices([len(row) for row in rows], max(1, ROWS_AT_A_TIME // search.width)):
            side = self.reading.side_by_side([rows[i] for i in np.repeat(indices, search.copies)])
            step = DecoderStep(self, side)
            found = search_targets(step, side.lengths, search, end=self.end, limit=self.limit, never=never)
            for place, one in zip(indices, found, strict=True):
                result[place] = one
        return result

    # the network

    def encode(self, side: SideBySide) -> tuple[State, Memory | None]:
        """Where the decoder starts, (L, N, P) a part, and what it can look at."""
        x = self.inputs.vectors(side)
        if isinstance(self.encoder, Linear):
            return self.bridge(tuple([np.tanh(self.encoder(x))])), None
        out, state = self.encoder.run(x, lengths=side.lengths)
        directions = self.encoder.shape.directions
        joined = tuple(np.concatenate([part[d::directions] for d in range(directions)], axis=-1) for part in state)
        memory = None if self.look is None else self.look.remember(out.swapaxes(0, 1), side.lengths)
        return self.bridge(joined), memory

    def decode(self, ids: np.ndarray, state: State, fed: np.ndarray | None, memory: Memory | None) -> Any:
        """One step of all rows: scores (N, V), the weights (N, S) or None, the state, and what is fed."""
        x, weights, context = self.target_inputs.embedding[ids], None, None
        if self.kind == "additive":
            assert self.look is not None
            context, weights = self.look(state[0][-1], memory)
            x = np.concatenate([x, context], axis=-1)
        elif fed is not None:
            x = np.concatenate([x, fed], axis=-1)
        (out,), state = self.decoder.run(x[None], state)
        if context is not None:
            out = np.concatenate([out, context], axis=-1)
        elif self.combine is not None and self.look is not None:
            context, weights = self.look(out, memory)
            out = np.tanh(self.combine(np.concatenate([context, out], axis=-1)))
        return self.output(out), weights, state, out if self.feeding else None


class Memory:
    """A source that can be looked at again and again."""

    def __init__(self, values: np.ndarray, keys: np.ndarray, valid: np.ndarray) -> None:
        self.values, self.keys, self.valid = values, keys, valid  # (N, S, M), (N, S, …), (N, S)

    def rows(self, rows: np.ndarray) -> Memory:
        """Some rows of it."""
        return Memory(self.values[rows], self.keys[rows], self.valid[rows])


class Attention:
    """Scores of one kind, their weights, and the weighted mean of the memory: additive, dot or general."""

    def __init__(self, weights: Weights, kind: str, query: int, memory: int) -> None:
        self.kind = kind
        if kind not in ("additive", "dot", "general"):
            raise BundleError(
                expected(f"{weights.where}: attention", "none, additive, dot or general", repr(kind)[:40])
            )
        if kind == "additive":
            self.output = weights.take("attention.scores.output", query)
            self.query = Linear(weights, "attention.scores.query.", query, query, bias=False)
            self.memory = Linear(weights, "attention.scores.memory.", memory, query)
        elif kind == "general":
            self.memory = Linear(weights, "attention.scores.weight.", memory, query, bias=False)

    def remember(self, values: np.ndarray, lengths: np.ndarray) -> Memory:
        """Prepare sources (N, S, M), which are 0 past their lengths (N,)."""
        keys = values if self.kind == "dot" else self.memory(values)
        return Memory(values, keys, np.arange(values.shape[1]) < lengths[:, None])

    def __call__(self, query: np.ndarray, memory: Memory | None) -> tuple[np.ndarray, np.ndarray]:
        """query (N, P) → context (N, M) and weights (N, S), exactly 0 at padding."""
        assert memory is not None
        if self.kind == "additive":
            scores = np.tanh(self.query(query)[:, None] + memory.keys) @ self.output
        else:
            scores = (memory.keys @ query[..., None])[..., 0]
        scores = np.where(memory.valid, scores, np.finfo(np.float32).min)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=np.finfo(np.float32).min))
        weights = weights / weights.sum(-1, keepdims=True) * memory.valid
        return (weights[:, None] @ memory.values)[:, 0], weights


class Bridge:
    """From the encoder's last state to the decoder's first; layers are matched from the top."""

    def __init__(self, weights: Weights, kind: Any, encoder: tuple[int, tuple[int, ...]], decoder: Recurrent) -> None:
        if kind not in ("projection", "copy", "zeros"):
            raise BundleError(expected(f"{weights.where}: bridge", "projection, copy or zeros", repr(kind)[:40]))
        layers, self.widths = encoder
        self.kind, self.decoder = kind, decoder
        own = decoder.shape
        self.sources = [max(0, layers - own.layers + layer) for layer in range(own.layers)]
        if kind == "copy" and self.widths[0] != own.hidden:
            raise BundleError(expected(f"{weights.where}: decoder", f"{self.widths[0]} units", own.hidden))
        self.maps = [
            [
                Linear(
                    weights, f"bridge.maps.{layer}.{part}.", self.widths[min(part, len(self.widths) - 1)], own.hidden
                )
                for part in range(decoder.parts)
            ]
            for layer in range(own.layers if kind == "projection" else 0)
        ]

    def __call__(self, joined: State) -> State:
        """(layers, N, directions · H) a part → (L, N, P) a part."""
        return tuple(
            np.stack([self._start(joined, layer, part) for layer in range(self.decoder.shape.layers)])
            for part in range(self.decoder.parts)
        )

    def _start(self, joined: State, layer: int, part: int) -> np.ndarray:
        has_part = part < len(self.widths)
        source = joined[part if has_part else 0][self.sources[layer]]
        if self.kind == "projection":
            projected = self.maps[layer][part](source)
            return np.tanh(projected) if part == 0 else projected
        if self.kind == "copy" and has_part:
            return source
        return np.zeros((len(source), self.decoder.shape.hidden), np.float32)


class DecoderStep:
    """`scores, state, weights = step(tokens, state)`: what `unrolled.decoding` searches with."""

    def __init__(self, model: EncoderDecoder, side: SideBySide) -> None:
        self.model, self.rows = model, len(side.lengths)
        start, self.memory = model.encode(side)
        fed = np.zeros((self.rows, model.decoder.width), np.float32) if model.feeding else None
        self._owners, self._picked = np.arange(self.rows), self.memory
        self.first = self._state(self._owners, start, fed)

    @staticmethod
    def _state(owners: np.ndarray, state: State, fed: np.ndarray | None) -> dict[str, Any]:
        return {"source": owners, "recurrent": tuple(part.swapaxes(0, 1) for part in state), "fed": fed}

    def __call__(self, tokens: np.ndarray, state: dict[str, Any]) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """One step for all rows."""
        owners = state["source"]
        same = len(owners) == len(self._owners) and bool((owners == self._owners).all())
        if self.memory is not None and not same:
            self._owners, self._picked = owners, self.memory.rows(owners)
        before = tuple(part.swapaxes(0, 1) for part in state["recurrent"])
        scores, weights, after, fed = self.model.decode(tokens, before, state["fed"], self._picked)
        return scores, self._state(owners, after, fed), weights
