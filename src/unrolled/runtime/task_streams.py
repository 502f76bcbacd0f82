"""What a stream answers, by task: the label so far, the tags that are settled, how likely a chunk was.

Axes     T time, B streams, R the streams of a call, N chunks of a call, C classes, K tags, P state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unrolled.data.reading import SideBySide
from unrolled.decoding.answers import likelihood, log_softmax, one_label
from unrolled.decoding.viterbi import Path
from unrolled.decoding.writing import END
from unrolled.errors import BundleError, RunError, expected
from unrolled.runtime.feed import Ahead, Forward, Released, cut, taken
from unrolled.runtime.heads import Pooling
from unrolled.runtime.stream import Chunks, Stream, resized

if TYPE_CHECKING:
    from unrolled.runtime.classifier import Classifier
    from unrolled.runtime.language_model import LanguageModel
    from unrolled.runtime.tagger import Tagger

__all__ = ["ClassifierStream", "LanguageStream", "TaggerStream"]


class ClassifierStream(Stream):
    """The label of what has come so far, as if it ended here."""

    model: Classifier

    def __init__(self, model: Classifier, batch_size: int | None, feed: Forward) -> None:
        super().__init__(model, batch_size, feed)
        if isinstance(feed, Ahead) and type(model.pooling) is Pooling:
            found = "pooling last, whose backward half has read the whole sequence from its end"
            raise RunError(expected("lookahead", "a model with pooling mean, max or attention", found))
        self.sums = model.pooling.start(feed.rows)

    def answer(self, chunks: Chunks) -> list[dict[str, Any]]:
        probabilities = self.probabilities(chunks.side, chunks.which, chunks.rows, chunks.ends)
        answers = zip(probabilities, chunks.unknown, strict=True)
        return [one_label(self.model.labels.tokens, p, unknown) for p, unknown in answers]

    def probabilities(
        self, side: SideBySide, index: np.ndarray | None, rows: np.ndarray, ends: np.ndarray
    ) -> np.ndarray:
        """(N, C) of the labels, after `ends[n]` steps of the chunk of the stream `rows[n]`."""
        released = self.feed.push(self.model.body.inputs.vectors(side), side.lengths, index)
        if isinstance(self.feed, Ahead):
            ends = np.minimum(ends, released.lengths[rows])
        return self._probabilities(released, index, rows, ends)

    def _probabilities(
        self, released: Released, index: np.ndarray | None, rows: np.ndarray, ends: np.ndarray
    ) -> np.ndarray:
        out, lengths = released
        which = slice(None) if index is None else index
        sums = {name: part[which] for name, part in self.sums.items()}
        before, head = self.steps[which], self.model.output
        empty = ends == 0  # nothing new: the answer of before stands
        held = head(self._now(index, sums, before)[rows[empty]].astype(np.float32)) if empty.any() else None
        scores = np.zeros((len(rows), len(head.bias)))
        if len(out):
            places = np.arange(1, len(out) + 1)[:, None]
            picked = (np.maximum(ends, 1) - 1, rows)
            steps = before + np.minimum(places, lengths)
            scores = self.model.pooling.scores(out, places <= lengths, sums, steps, picked, head)
            for name, own in self.sums.items():
                own[which] = sums[name]
        if held is not None:
            scores[empty] = held
        self.steps[which] += lengths
        return np.exp(log_softmax(scores))

    def _now(self, index: np.ndarray | None, sums: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
        """(R, H): the pooled vector before anything new is read."""
        if not sums:
            return np.where((steps == 0)[:, None], 0, self.feed.top(index))
        nothing = np.zeros((1, len(steps), self.model.body.recurrent.width), np.float32)
        held = {name: part.copy() for name, part in sums.items()}
        pooled = self.model.pooling.running(nothing, np.zeros((1, len(steps)), bool), held, steps[None])[0]
        return np.where((steps == 0)[:, None], 0, pooled)

    def last(self, index: np.ndarray, released: Released) -> list[dict[str, Any]]:
        rows = np.arange(len(index))
        return [
            one_label(self.model.labels.tokens, p) for p in self._probabilities(released, index, rows, released.lengths)
        ]

    def forget(self, index: np.ndarray) -> None:
        for name, start in self.model.pooling.start(len(index)).items():
            self.sums[name][index] = start

    def regrow(self, batch_size: int) -> None:
        fresh = self.model.pooling.start(batch_size)
        kept = min(batch_size, self.batch_size)
        for name, part in self.sums.items():
            fresh[name][:kept] = part[:kept]
        self.sums = fresh

    def dump(self) -> dict[str, np.ndarray]:
        return {f"pool.{name}": part.copy() for name, part in self.sums.items()}

    def restore_task(self, saved: dict[str, np.ndarray]) -> None:
        self.sums = {
            name: taken(saved, f"pool.{name}", part.shape, part.dtype.type).copy() for name, part in self.sums.items()
        }


class TaggerStream(Stream):
    """Tags as soon as no later step can change them; `first` is the number of the first one, counted from 0."""

    model: Tagger

    def __init__(self, model: Tagger, batch_size: int | None, feed: Forward) -> None:
        super().__init__(model, batch_size, feed)
        self.paths = [self._path() for _ in range(feed.rows)]
        self.given = np.zeros(feed.rows, np.int64)  # tags given out
        self.tokens: list[list[str]] = [[] for _ in range(feed.rows)]  # that wait for their tag

    def _path(self) -> Path | None:
        return None if self.model.pairs is None else Path(self.model.pairs)

    def answer(self, chunks: Chunks) -> list[dict[str, Any]]:
        released = self.feed.push(self.model.body.inputs.vectors(chunks.side), chunks.side.lengths, chunks.which)
        index = np.arange(self.batch_size) if chunks.which is None else chunks.which
        self.steps[index] += released.lengths
        scores = self.model.output(released.out)
        best = scores.argmax(-1) if self.model.pairs is None else None
        begins = np.zeros(len(index), np.int64)
        answers = []
        for row, end, tokens, unknown in zip(chunks.rows, chunks.ends, chunks.tokens, chunks.unknown, strict=True):
            end = released.lengths[row] if isinstance(self.feed, Ahead) else end
            part = slice(begins[row], end)
            begins[row] = end
            self.tokens[index[row]] += tokens
            path = self.paths[index[row]]
            tags = best[part, row].tolist() if path is None and best is not None else path.push(scores[part, row])
            answers.append(self._answer(index[row], tags, unknown))
        return answers

    def _answer(self, row: int, tags: list[int], unknown: tuple[str, ...] = ()) -> dict[str, Any]:
        first = int(self.given[row])
        self.given[row] += len(tags)
        waiting = self.tokens[row]
        tokens = None if self.model.features else waiting[: len(tags)]
        del waiting[: len(tags)]
        said = {} if tokens is None else {"tokens": tokens}
        more = {"unknown": list(unknown)} if unknown else {}
        return {"first": first, **said, "tags": self.model.tags.decode(tags), **more}

    def last(self, index: np.ndarray, released: Released) -> list[dict[str, Any]]:
        scores = self.model.output(released.out)
        answers = []
        for place, row in enumerate(index):
            new = scores[: released.lengths[place], place]
            path = self.paths[row]
            tags = new.argmax(-1).tolist() if path is None else path.push(new) + path.finish()
            answers.append(self._answer(row, tags))
        return answers

    def forget(self, index: np.ndarray) -> None:
        self.given[index] = 0
        for row in index:
            self.paths[row], self.tokens[row] = self._path(), []

    def regrow(self, batch_size: int) -> None:
        more = batch_size - self.batch_size
        self.paths = self.paths[:batch_size] + [self._path() for _ in range(more)]
        self.tokens = self.tokens[:batch_size] + [[] for _ in range(more)]
        self.given = resized(self.given, batch_size)

    def dump(self) -> dict[str, np.ndarray]:
        paths = [path for path in self.paths if path is not None]
        if not paths:
            return {"given": self.given.copy()}
        tags = len(self.model.tags)
        best = [np.full(tags, np.nan) if path.best is None else path.best for path in paths]
        return {
            "given": self.given.copy(),
            "path.best": np.array(best, np.float32),
            "path.counts": np.array([len(path.open) for path in paths], np.int64),
            "path.open": np.concatenate([path.open for path in paths]),
        }

    def restore_task(self, saved: dict[str, np.ndarray]) -> None:
        given = taken(saved, "given", (self.batch_size,), np.int64)
        if self.model.pairs is not None:
            tags = len(self.model.tags)
            best = taken(saved, "path.best", (self.batch_size, tags), np.float32)
            counts = taken(saved, "path.counts", (self.batch_size,), np.int64)
            opened = taken(saved, "path.open", (int(counts.sum()), tags), np.int32)
            if len(opened) and not (opened.min() >= 0 and opened.max() < tags):
                raise BundleError(expected("state 'path.open'", f"tags from 0 to {tags - 1}", int(opened.max())))
            for row, part in enumerate(cut(opened, counts)):
                path = Path(self.model.pairs)
                path.open, path.best = part.copy(), None if np.isnan(best[row]).all() else best[row].copy()
                self.paths[row] = path
        self.given = given.copy()
        self.tokens = [[] for _ in range(self.batch_size)]

    def words(self) -> dict[str, Any]:
        return {"tokens": self.tokens}

    def take_words(self, saved: Any) -> None:
        tokens = saved.get("tokens")
        if not isinstance(tokens, list) or len(tokens) != self.batch_size:
            raise BundleError(expected("state tokens", f"{self.batch_size} lists", type(tokens).__name__))
        self.tokens = [[str(token) for token in row] for row in tokens]


class LanguageStream(Stream):
    """How likely each chunk is after all that came before it, and what may come next."""

    model: LanguageModel
    NEXT = 3  # tokens that `next` names

    def answer(self, chunks: Chunks) -> list[dict[str, Any]]:
        model, index = self.model, chunks.which
        side, ends = chunks.side, chunks.ends
        begin = (self.steps if index is None else self.steps[index]) == 0
        if model.independent and begin.any():
            side, ends = self._behind_the_end(side, begin), ends + begin[chunks.rows]
        before = self.feed.top(index).copy()
        out, lengths = self.feed.push(model.body.inputs.vectors(side), side.lengths, index)
        self.steps[slice(None) if index is None else index] += lengths
        seen = np.concatenate([before[None], out])  # seen[t]: what token t was predicted from
        begins, answers = begin.astype(np.int64), []  # the first token of all is predicted from nothing
        for row, end, unknown in zip(chunks.rows, ends, chunks.unknown, strict=True):
            part = slice(begins[row], max(end, begins[row]))
            nats = model.nats(seen[part, row], side.inputs[row, part])
            begins[row] = part.stop
            answers.append(likelihood(nats, unknown) | self._next(seen[end, row], bool(end or not begin[row])))
        return answers

    def _behind_the_end(self, side: SideBySide, begin: np.ndarray) -> SideBySide:
        """Documents begin behind an end symbol."""
        lengths = side.lengths + begin
        inputs = np.zeros((len(lengths), int(lengths.max())), np.int64)
        for row, first in enumerate(begin):
            inputs[row, int(first) : lengths[row]] = side.inputs[row, : side.lengths[row]]
        inputs[begin, 0] = self.model.vocabulary.id(END)
        return side._replace(inputs=inputs, lengths=lengths)

    def _next(self, out: np.ndarray, known: bool) -> dict[str, Any]:
        if not known:
            return {"next": []}
        log_p = log_softmax(self.model.logits(out))
        best = np.argsort(-log_p, kind="stable")[: self.NEXT]
        return {
            "next": [{"token": self.model.vocabulary.tokens[i], "probability": float(np.exp(log_p[i]))} for i in best]
        }

    def last(self, index: np.ndarray, released: Released) -> list[dict[str, Any]]:
        """How likely it was that the text ended here, where documents have an end."""
        del released
        if not self.model.independent:
            return [likelihood(np.zeros(0)) for _ in index]
        end = np.array([self.model.vocabulary.id(END)])
        tops = self.feed.top(index)
        return [
            likelihood(self.model.nats(top[None], end) if self.steps[row] else np.zeros(0))
            for row, top in zip(index, tops, strict=True)
        ]
