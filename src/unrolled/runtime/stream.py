"""Streams: chunks of any size in, answers out, the state kept in between.

Axes     T time, B streams, R the streams that a call is for, N chunks of a call, C classes.
Law      chunks of any size give what the whole sequence gives; streams do not see each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unrolled import bundle
from unrolled.data.reading import Row, SideBySide
from unrolled.errors import BundleError, RunError, ShapeError, expected
from unrolled.runtime.feed import Ahead, Forward, Released, taken

if TYPE_CHECKING:
    from unrolled.runtime.model import Model

__all__ = ["Chunks", "Stream", "open_feed"]


class Chunks(NamedTuple):
    """What a call reads: chunks of some streams, those of one stream one after the other."""

    side: SideBySide  # the R streams, each with its chunks joined
    which: np.ndarray | None  # (R,) streams; None: all, in order
    rows: np.ndarray  # (N,) the place among the R streams of each chunk
    ends: np.ndarray  # (N,) the step behind each chunk's last
    tokens: list[list[str]]  # (N,) of each chunk; [] for features
    unknown: list[tuple[str, ...]]  # (N,)


class Stream:
    """Feeds a model in chunks. Make one with `model.stream()`.

    A stream made without a batch size takes one chunk at a time and gives one answer; with a batch size it takes a list
    of chunks, one for each stream or for each of the named rows, and gives a list of answers.
    """

    def __init__(self, model: Model, batch_size: int | None, feed: Forward) -> None:
        self.model, self.feed, self.single = model, feed, batch_size is None
        self.steps = np.zeros(feed.rows, np.int64)  # released steps of each stream

    @property
    def batch_size(self) -> int:
        """How many streams."""
        return self.feed.rows

    # reading

    def push(self, chunk: Any, rows: Sequence[int] | None = None) -> Any:
        """Read on: a text, a list of tokens, features (T, D) or one row of features (D,); for several streams, a list.

        Raises:
            DataError: a chunk is not what the model reads.
            ShapeError: not one chunk for each stream.
        """
        given = [chunk] if self.single else list(chunk)
        index = self._rows(rows)
        if len(given) != (self.batch_size if index is None else len(index)):
            wanted = f"{self.batch_size if index is None else len(index)} chunks, one a stream"
            raise ShapeError(expected("chunk", wanted, len(given)))
        together = self._together(given) if self.model.features else None
        if together is not None:
            answers = self.answer(_alone(together, index))
        else:
            answers = self.read([[self._row(one, f"chunk {place}")] for place, one in enumerate(given)], index)
        return answers[0] if self.single else answers

    def _together(self, given: Sequence[Any]) -> np.ndarray | None:
        """(R, T, D) float32 where all chunks are finite features of one length; None: they must be read one by one."""
        try:
            with np.errstate(over="ignore"):
                values = np.asarray(given, np.float32)
        except (TypeError, ValueError, OverflowError):
            return None
        values = values[:, None] if values.ndim == 2 else values
        fits = values.ndim == 3 and values.size and values.shape[-1] == len(self.model.reading.scaler.mean)  # type: ignore[union-attr]  # read features
        return values if fits and np.isfinite(values).all() else None

    def read(self, chunks: Sequence[Sequence[tuple[Row, list[str]]]], index: np.ndarray | None) -> list[dict[str, Any]]:
        """Answers for several chunks a stream, stream by stream, in one call of the engine."""
        joined = [_join([row for row, _ in row_chunks]) for row_chunks in chunks]
        flat = [(place, row, tokens) for place, one in enumerate(chunks) for row, tokens in one]
        ends = np.array([end for one in chunks for end in accumulate([len(row) for row, _ in one])], np.int64)
        side = self.model.reading.side_by_side(joined)
        places = np.array([place for place, _, _ in flat], np.int64)
        return self.answer(
            Chunks(side, index, places, ends, [t for _, _, t in flat], [row.unknown for _, row, _ in flat])
        )

    def answer(self, chunks: Chunks) -> list[dict[str, Any]]:
        """One answer a chunk."""
        raise NotImplementedError

    def finish(self, rows: Sequence[int] | None = None) -> Any:
        """The sequences end here: answers for what was held back. The streams start again."""
        index = self._rows(rows)
        ended = np.arange(self.batch_size) if index is None else index
        answers = self.last(ended, self.feed.finish(ended))
        self.reset(ended.tolist())
        return answers[0] if self.single else answers

    def last(self, index: np.ndarray, released: Released) -> list[dict[str, Any]]:
        """The answers of `finish`."""
        raise NotImplementedError

    def reset(self, rows: Sequence[int] | int | None = None) -> None:
        """Start again: all streams, or the named ones."""
        index = self._rows(rows)
        index = np.arange(self.batch_size) if index is None else index
        self.feed.reset(index)
        self.steps[index] = 0
        self.forget(index)

    def forget(self, index: np.ndarray) -> None:
        """What a task itself remembers of these streams."""

    def resize(self, batch_size: int) -> None:
        """More streams, or fewer: those at the end."""
        if batch_size < 1:
            raise ValueError(expected("batch_size", "1 or more", batch_size))
        self.steps = resized(self.steps, batch_size)
        self.regrow(batch_size)
        self.feed.resize(batch_size)

    def regrow(self, batch_size: int) -> None:
        """What a task itself remembers, for another number of streams."""

    def _row(self, given: Any, where: str) -> tuple[Row, list[str]]:
        if self.model.features and np.ndim(given) == 1 and len(given):
            given = [given]
        item = self.model.item(given, where)
        return self.model.reading.encode(item), ([] if self.model.features else self.model.reading.tokens(item))

    def _rows(self, rows: Any) -> np.ndarray | None:
        if rows is None:
            return None
        index = np.atleast_1d(np.asarray(rows))
        if index.dtype == bool and index.shape == (self.batch_size,):
            index = index.nonzero()[0]
        outside = (index.dtype.kind not in "iu" and len(index)) or ((index < 0) | (index >= self.batch_size)).any()
        if outside or len(np.unique(index)) < len(index):
            raise ValueError(expected("rows", f"different numbers from 0 to {self.batch_size - 1}", list(index)[:8]))
        return index.astype(np.int64)

    # the state

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that the streams remember, as arrays with the streams as first axis; it can be set to one such."""
        return {"steps": self.steps.copy(), **self.feed.dump(), **self.dump()}

    @state.setter
    def state(self, saved: Mapping[str, np.ndarray]) -> None:
        parts = dict(saved)
        steps = taken(parts, "steps", (self.batch_size,), np.int64)
        self.feed.restore(parts)
        self.restore_task(parts)
        self.steps = steps.copy()

    def dump(self) -> dict[str, np.ndarray]:
        """What a task itself remembers."""
        return {}

    def restore_task(self, saved: dict[str, np.ndarray]) -> None:
        """The inverse of `dump`."""

    def words(self) -> dict[str, Any]:
        """What is remembered and is no number, for the header of the file."""
        return {}

    def take_words(self, saved: Any) -> None:
        """The inverse of `words`."""

    def save(self, path: str | Path, **more: Any) -> None:
        """Write the state to a file, which is replaced whole: a bundle without weights. `more` goes into its header."""
        about = {"task": self.model.task, "model": self.model.mark, "lookahead": getattr(self.feed, "block", None)}
        bundle.save(path, self.state, {"stream": {**about, "batch_size": self.batch_size, **self.words()}, **more})

    def restore(self, path: str | Path) -> dict[str, Any]:
        """Go on from a file that `save` wrote, in any process; returns its header.

        Raises:
            BundleError: the file is damaged, or is the state of another model.
        """
        tensors, header = bundle.load(path)
        about = header.get("stream")
        if not isinstance(about, dict):
            raise BundleError(expected(str(path), "the state of a stream", "a bundle without one"))
        for name, own in (("model", self.model.mark), ("lookahead", getattr(self.feed, "block", None))):
            if about.get(name) != own:
                way_out = "Start with another state file, or with the model that it was written with."
                raise BundleError(expected(f"{path}: {name}", own, about.get(name), way_out))
        rows = about.get("batch_size")
        if type(rows) is not int or not 1 <= rows <= tensors.get("steps", np.zeros(0)).size:
            raise BundleError(expected(f"{path}: batch_size", "as many as the file holds streams", repr(rows)[:40]))
        if rows != self.batch_size:
            if self.single:
                raise BundleError(expected(f"{path}: batch_size", 1, rows, f"Use model.stream(batch_size={rows})."))
            self.resize(rows)
        self.state = tensors
        self.take_words(about)
        return header


def open_feed(model: Any, batch_size: int | None, lookahead: int | None) -> Forward:
    """The feed of a new stream.

    Raises:
        RunError: the model reads both ways and no lookahead is named, or it reads one way and one is.
    """
    recurrent = model.body.recurrent
    rows = 1 if batch_size is None else batch_size
    if rows < 1:
        raise ValueError(expected("batch_size", "1 or more", rows))
    if not recurrent.shape.bidirectional:
        if lookahead is not None:
            found = f"{lookahead}, with a model of one direction"
            raise RunError(expected("lookahead", "to be left out", found, "It is exact without."))
        return Forward(recurrent, rows)
    if lookahead is None:
        raise RunError(
            "stream: the model is bidirectional, and its backward direction starts at the end of the sequence, which "
            "has not come yet. Train one with --no-bidirectional, or ask for an approximation: lookahead=n "
            "(--lookahead N) reads blocks of n steps, each with the n steps behind it."
        )
    if type(lookahead) is not int or lookahead < 1:
        raise ValueError(expected("lookahead", "1 step or more", lookahead))
    return Ahead(recurrent, rows, lookahead)


def resized(array: np.ndarray, rows: int, fill: Any = 0) -> np.ndarray:
    """The array with another number of rows; new ones hold `fill`."""
    made = np.full((rows, *array.shape[1:]), fill, array.dtype)
    kept = min(rows, len(array))
    made[:kept] = array[:kept]
    return made


def _alone(inputs: np.ndarray, index: np.ndarray | None) -> Chunks:
    """One chunk for each stream, all of one length: (R, T, D)."""
    count, steps = inputs.shape[:2]
    lengths = np.full(count, steps, np.int64)
    side = SideBySide(inputs, lengths, None, None)
    return Chunks(side, index, np.arange(count), lengths, [[] for _ in range(count)], [()] * count)


def _join(rows: Sequence[Row]) -> Row:
    """Several rows one after the other."""
    if len(rows) == 1:
        return rows[0]
    inputs = np.concatenate([row.inputs for row in rows])
    if rows[0].letters is None:
        return Row(inputs)
    widest = max(row.letters.shape[1] for row in rows if row.letters is not None)
    letters = [
        np.pad(row.letters, ((0, 0), (0, widest - row.letters.shape[1]))) for row in rows if row.letters is not None
    ]
    return Row(inputs, np.concatenate(letters), np.concatenate([row.widths for row in rows if row.widths is not None]))
