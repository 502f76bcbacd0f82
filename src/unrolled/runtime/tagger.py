"""Tagger: one tag a step, with or without the scores of neighbouring tags.

Axes     T time, B batch, K tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Item
from unrolled.data.reading import Reading, Row
from unrolled.data.vocabulary import Vocabulary
from unrolled.decoding.answers import tagged
from unrolled.decoding.viterbi import Pairs, allowed_spans, viterbi
from unrolled.runtime.heads import Linear
from unrolled.runtime.model import Body, Model, Parts, batches
from unrolled.runtime.stream import Stream, open_feed
from unrolled.runtime.task_streams import TaggerStream

__all__ = ["Tagger"]


class Tagger(Model):
    """As `unrolled.models.Tagger`; `pairs` is None where each step's best tag is the answer."""

    task = "tag"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.reading = Reading.from_dict(parts.task["reading"])
        self.tags = Vocabulary.from_dict(parts.task["tags"])
        self.body = Body(parts, self.reading)
        count = len(self.tags)
        self.output = Linear(parts.weights, "output.", self.body.recurrent.width, count)
        allowed = allowed_spans(self.tags.tokens)
        self.pairs: Pairs | None = None if allowed is None else Pairs.of(count, allowed=allowed)
        if parts.get("crf", bool):
            shapes = {"start": (count,), "transitions": (count, count), "end": (count,)}
            scores = [parts.weights.take(f"crf.{name}", *shape) for name, shape in shapes.items()]
            self.pairs = Pairs.of(count, *scores, allowed=allowed)

    def item(self, given: Any, where: str) -> Item:
        """An item; a text is its words."""
        item = self.reading.item(given, where)
        return Item(where, tokens=tuple((item.text or "").split())) if item.kind == "text" else item

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """tokens (none for features), a tag for each, and the tokens that are not known."""
        rows = [self.reading.encode(item) for item in items]
        answers = []
        for item, row, tags in zip(items, rows, self.best(self.scores(rows)), strict=True):
            tokens = None if self.features else self.reading.tokens(item)
            answers.append(tagged(tokens, self.tags.decode(tags), row.unknown))
        return answers

    def scores(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """(T, K) of each encoded row."""
        result = [np.zeros((0, len(self.tags)), np.float32)] * len(rows)
        for indices in batches(rows):
            side = self.reading.side_by_side([rows[i] for i in indices])
            out, _ = self.body.recurrent.run(self.body.inputs.vectors(side), lengths=side.lengths)
            scores = self.output(out)
            for place, i in enumerate(indices):
                result[i] = scores[: len(rows[i]), place]
        return result

    def best(self, scores: Sequence[np.ndarray]) -> list[list[int]]:
        """The best tags of each row."""
        if self.pairs is None:
            return [row.argmax(-1).tolist() for row in scores]
        return [viterbi(row[None], np.array([len(row)]), self.pairs)[0] for row in scores]

    def stream(self, batch_size: int | None = None, *, lookahead: int | None = None) -> Stream:
        """A stream that gives each tag as soon as no later step can change it."""
        return TaggerStream(self, batch_size, open_feed(self, batch_size, lookahead))
