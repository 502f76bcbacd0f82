"""Language model: how likely a text is, and how it goes on.

Axes     T time, B batch, P state, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Item
from unrolled.data.reading import Reading, Row
from unrolled.decoding.answers import likelihood, log_softmax
from unrolled.decoding.writing import END, first_tokens, write
from unrolled.errors import BundleError, expected
from unrolled.runtime.model import Body, Model, Parts, batches
from unrolled.runtime.stream import Stream, open_feed
from unrolled.runtime.task_streams import LanguageStream

__all__ = ["LanguageModel"]

NUMBERS_AT_A_TIME = 2**24  # scores that are held at once: bounds the memory, changes no result


class LanguageModel(Model):
    """As `unrolled.models.LanguageModel`."""

    task = "lm"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.reading = Reading.from_dict(parts.task["reading"])
        if self.reading.vocabulary is None:
            raise BundleError(expected(f"{parts.where}: reading", "a vocabulary", "features"))
        self.vocabulary = self.reading.vocabulary
        self.independent = bool(parts.task["independent"])
        self.body = Body(parts, self.reading)
        size, width = len(self.vocabulary), self.body.recurrent.width
        tied = parts.get("tie_weights", bool)
        weight = self.body.inputs.embedding if tied else parts.weights.take("output_weight", size, width)  # type: ignore[union-attr]  # reads tokens
        if weight.shape != (size, width):
            raise BundleError(expected(f"{parts.where}: tied weights", f"({size}, {width})", weight.shape))
        self.output_weight, self.output_bias = weight, parts.weights.take("output_bias", size)

    def logits(self, out: np.ndarray) -> np.ndarray:
        """(…, P) → (…, V)."""
        return out @ self.output_weight.T + self.output_bias

    def nats(self, out: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """−log p (N,) of the tokens (N,) that follow the outputs (N, P)."""
        result = np.zeros(len(targets))
        size = max(1, NUMBERS_AT_A_TIME // len(self.vocabulary))
        for start in range(0, len(targets), size):
            part = slice(start, start + size)
            scores = log_softmax(self.logits(out[part]))
            result[part] = -scores[np.arange(len(scores)), targets[part]]
        return result

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """log_probability (nats), how many tokens it is over, perplexity; each text from the initial state."""
        rows = [self.reading.encode(item) for item in items]
        end = np.array([self.vocabulary.id(END)]) if self.independent else np.zeros(0, np.int64)
        ids = [np.concatenate([end, row.inputs, end]) for row in rows]
        return [likelihood(nats, row.unknown) for row, nats in zip(rows, self.scores(ids), strict=True)]

    def scores(self, ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """−log p (N − 1,) of every token but the first, for each row of ids (N,)."""
        found: list[list[np.ndarray]] = [[np.zeros(0)] for _ in ids]
        read = [Row(row[:-1]) for row in ids]
        for indices in batches(read):
            side = self.reading.side_by_side([read[i] for i in indices])
            steps = max(1, NUMBERS_AT_A_TIME // (len(indices) * self.body.recurrent.width))
            state: Any = None
            for start in range(0, side.inputs.shape[1], steps):
                lengths = np.clip(side.lengths - start, 0, steps)
                part = side._replace(inputs=side.inputs[:, start : start + steps])
                out, state = self.body.recurrent.run(
                    self.body.inputs.vectors(part), state, np.minimum(lengths, part.inputs.shape[1])
                )
                for place, i in enumerate(indices):
                    targets = ids[i][start + 1 :][: lengths[place]]
                    found[i].append(self.nats(out[: len(targets), place], targets))
        return [np.concatenate(parts) for parts in found]

    def generate(self, prompt: str = "", length: int = 200, **options: Any) -> str:
        """The prompt and what follows; options are those of `decoding.write`: temperature, top_k, top_p, seed, stop."""
        written = self.reading.tokens(Item("prompt", text=prompt))
        first = first_tokens(written, self.vocabulary.tokens, independent=self.independent)
        state: Any = None

        def advance(ids: np.ndarray) -> np.ndarray:
            nonlocal state
            out, state = self.body.recurrent.run(self.body.inputs.embedding[ids][:, None], state)  # type: ignore[union-attr]  # same
            return self.logits(out[-1, 0])

        return write(
            advance,
            self.vocabulary.encode(first),
            written,
            length,
            tokens=self.vocabulary.tokens,
            join=self.reading.join,
            never=self.vocabulary.unknown_id,
            end=END if self.independent else None,
            skip=len(prompt),
            **options,
        )

    def stream(self, batch_size: int | None = None, *, lookahead: int | None = None) -> Stream:
        """A stream that says how likely each chunk is after all that came before it."""
        return LanguageStream(self, batch_size, open_feed(self, batch_size, lookahead))
