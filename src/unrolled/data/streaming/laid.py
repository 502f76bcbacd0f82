"""The rows of a store laid end to end, as one long array that is never all in memory, cut into parallel streams.

Axes     B streams, S steps of a segment; N steps in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from unrolled.data.streaming.order import permuted, read_ahead
from unrolled.data.streaming.store import Store
from unrolled.data.streaming.tables import Ragged

__all__ = ["Laid", "Segment", "stream_bounds"]


class Segment(NamedTuple):
    """The next steps of all streams side by side."""

    inputs: np.ndarray  # (B, S) int64, zeros behind the end of a stream
    targets: np.ndarray  # (B, S) int64: the step after each
    begins: np.ndarray  # (B, S) bool: a row begins here


def stream_bounds(steps: int, count: int) -> list[tuple[int, int]]:
    """Begin and length of each of `count` streams of `steps` steps, as `batching.streams` cuts them.

    >>> stream_bounds(5, 2)
    [(0, 3), (3, 2)]
    """
    least, longer = divmod(steps, count)
    return [(row * least + min(row, longer), least + (row < longer)) for row in range(count)]


class Laid:
    """The rows of a store in one line.

    Args:
        key: makes the order of the blocks, and of the rows in each; None: as they stand.
        after: the step that follows the last one; None: there is none, and the last step is a target only.
    """

    def __init__(self, store: Store, column: str, key: int | None = None, after: int | None = None) -> None:
        self.store, self.column, self.key, self.after = store, column, key, after
        count = len(store.blocks)
        self.order = np.arange(count) if key is None else permuted(count, key)
        self.ends = np.cumsum([store.blocks[number].steps for number in self.order])
        self.steps = store.steps - (after is None)

    def segments(self, bounds: Sequence[tuple[int, int]], begin: int, size: int, threads: int) -> Iterator[Segment]:
        """The streams from their step `begin` on, `size` steps at a time.

        Args:
            bounds: begin and length of each stream.
            threads: 1 reads ahead, 0 does not.
        """
        walks = [_Walk(self) for _ in bounds]
        longest = max((length for _, length in bounds), default=0)

        def reader(at: int) -> Callable[[], Segment]:
            return lambda: self._segment(walks, bounds, at, min(size, longest - at))

        return read_ahead(map(reader, range(begin, longest, size)), min(threads, 1))

    def _segment(self, walks: Sequence[_Walk], bounds: Sequence[tuple[int, int]], at: int, size: int) -> Segment:
        found = Segment(*(np.zeros((len(bounds), size), kind) for kind in (np.int64, np.int64, bool)))
        for row, (walk, (begin, length)) in enumerate(zip(walks, bounds, strict=True)):
            steps = min(size, length - at)
            if steps > 0:
                values, begins = walk.read(begin + at, begin + at + steps + 1)
                found.inputs[row, :steps] = values[:-1]
                found.targets[row, :steps] = values[1:]
                found.begins[row, :steps] = begins[:-1]
        return found

    def block(self, place: int) -> Ragged:
        """The rows of the block at a place of the order."""
        number = int(self.order[place])
        rows = self.store.read(number)[self.column]
        return rows if self.key is None else rows.taken(permuted(len(rows), self.key, number))


class _Walk:
    """Reads forward, with one block in memory."""

    def __init__(self, laid: Laid) -> None:
        self.laid, self._at = laid, -1
        self._rows: Ragged | None = None

    def read(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The steps from `begin` to `end`, which may be one behind the last; and where a row begins."""
        laid = self.laid
        size = int(laid.ends[-1])
        values, begins = [], []
        while begin < min(end, size):
            place = int(np.searchsorted(laid.ends, begin, side="right"))
            rows = self._block(place)
            first = int(laid.ends[place]) - len(rows.values)
            last = min(end - first, len(rows.values))
            values.append(rows.values[begin - first : last].astype(np.int64))
            starts = np.zeros(len(rows.values), bool)
            starts[(rows.ends - rows.lengths)[rows.lengths > 0]] = True
            begins.append(starts[begin - first : last])
            begin = first + last
        if end > size:
            values.append(np.array([0 if laid.after is None else laid.after]))
            begins.append(np.zeros(1, bool))
        return np.concatenate(values), np.concatenate(begins)

    def _block(self, place: int) -> Ragged:
        if self._rows is None or self._at != place:
            self._rows, self._at = self.laid.block(place), place
        return self._rows
