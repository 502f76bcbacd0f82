"""What turns the vectors of a chunk into outputs, and remembers in between: one way, or both ways with a look ahead.

Axes     T time, B streams, R the streams that a chunk is for, I input, P state. Chunks are (T, R, I), time first.
Source   lookahead: the latency-controlled bidirectional layer of Zhang et al. (2016), arXiv:1510.08983.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrolled.errors import BundleError, expected
from unrolled.runtime.recurrent import Recurrent, State

__all__ = ["Ahead", "Forward", "Released"]


class Released(NamedTuple):
    """Outputs that no later step changes."""

    out: np.ndarray  # (T, R, D·P), 0 past a row's length
    lengths: np.ndarray  # (R,)


class Forward:
    """Layers of one direction: every step's output is there at once."""

    def __init__(self, recurrent: Recurrent, rows: int) -> None:
        self.recurrent, self.rows = recurrent, rows
        self.state: State = recurrent.start(rows)

    def push(self, x: np.ndarray, lengths: np.ndarray, index: np.ndarray | None) -> Released:
        """Read a chunk (T, R, I) of the streams `index`, all where it is None."""
        before = self.state if index is None else tuple(part.take(index, axis=1) for part in self.state)
        whole = len(lengths) == 0 or int(lengths.min()) == len(x)
        out, after = self.recurrent.run(x, before, None if whole else lengths)
        if index is None:
            self.state = after
        else:
            for own, new in zip(self.state, after, strict=True):
                own[:, index] = new
        return Released(out, lengths)

    def finish(self, index: np.ndarray) -> Released:
        """Nothing is held back."""
        return Released(np.zeros((0, len(index), self.recurrent.width), np.float32), np.zeros(len(index), np.int64))

    def top(self, index: np.ndarray | None) -> np.ndarray:
        """(R, P): the state of the top layer, which is its last output."""
        return self.state[0][-1] if index is None else self.state[0][-1, index]

    def reset(self, index: np.ndarray) -> None:
        """These streams start again."""
        for own, new in zip(self.state, self.recurrent.start(len(index)), strict=True):
            own[:, index] = new

    def resize(self, rows: int) -> None:
        """More streams, or fewer: those at the end."""
        fresh = self.recurrent.start(rows)
        kept = min(rows, self.rows)
        for own, new in zip(self.state, fresh, strict=True):
            new[:, :kept] = own[:, :kept]
        self.state, self.rows = fresh, rows

    def dump(self) -> dict[str, np.ndarray]:
        """The state with the streams as the first axis: h (B, L, P), and c."""
        return {name: part.swapaxes(0, 1).copy() for name, part in zip("hc", self.state, strict=False)}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """The inverse of `dump`."""
        self.state = tuple(
            taken(saved, name, part.swapaxes(0, 1).shape, np.float32).swapaxes(0, 1).copy()
            for name, part in zip("hc", self.state, strict=False)
        )


class Ahead(Forward):
    """Layers of both directions, by blocks of `lookahead` steps.

    The forward direction is exact. The backward direction of a block starts `lookahead` steps behind it, instead of at
    the end of the sequence. A block is counted from the stream's own beginning, so chunks of any size give the same;
    a stream of at most `lookahead` steps gives what the whole sequence gives.
    """

    def __init__(self, recurrent: Recurrent, rows: int, lookahead: int) -> None:
        super().__init__(recurrent, rows)
        self.block = lookahead
        self.waiting = [self._nothing() for _ in range(rows)]  # (steps, I) not released yet

    def _nothing(self) -> np.ndarray:
        return np.zeros((0, self.recurrent.shape.input_size), np.float32)

    def push(self, x: np.ndarray, lengths: np.ndarray, index: np.ndarray | None) -> Released:
        """Read a chunk; a block is released when the block behind it is there."""
        rows = np.arange(self.rows) if index is None else index
        for place, row in enumerate(rows):
            self.waiting[row] = np.concatenate([self.waiting[row], x[: lengths[place], place]])
        return self._release(rows, 2 * self.block)

    def finish(self, index: np.ndarray) -> Released:
        """The sequences end here: all that waits is released."""
        return self._release(index, 1)

    def _release(self, rows: np.ndarray, needed: int) -> Released:
        """Blocks of the streams that have `needed` steps or more, as many as there are."""
        parts: list[list[np.ndarray]] = [[] for _ in rows]
        while True:
            ready = [place for place, row in enumerate(rows) if len(self.waiting[row]) >= needed]
            if not ready:
                break
            for place, out in zip(ready, self._window(rows[ready]), strict=True):
                parts[place].append(out)
                row = rows[place]
                self.waiting[row] = self.waiting[row][len(out) :]
        lengths = np.array([sum(map(len, part)) for part in parts], np.int64)
        out = np.zeros((int(lengths.max(initial=0)), len(rows), self.recurrent.width), np.float32)
        for place, part in enumerate(parts):
            if part:
                out[: lengths[place], place] = np.concatenate(part)
        return Released(out, lengths)

    def _window(self, rows: np.ndarray) -> list[np.ndarray]:
        """The outputs of the first block of each of these streams; the forward states move behind it."""
        window = np.array([min(len(self.waiting[row]), 2 * self.block) for row in rows])
        block = np.minimum(window, self.block)
        x = np.zeros((int(window.max()), len(rows), self.recurrent.shape.input_size), np.float32)
        for place, row in enumerate(rows):
            x[: window[place], place] = self.waiting[row][: window[place]]
        fresh = self.recurrent.start(len(rows))
        for layer in range(self.recurrent.shape.layers):
            forward, backward = self.recurrent.layers[2 * layer : 2 * layer + 2]
            before = tuple(np.ascontiguousarray(part[2 * layer, rows]) for part in self.state)
            head, after = forward.run(x[: self.block], before, lengths=np.minimum(block, len(x)))
            tail, _ = forward.run(x[self.block :], after, lengths=window - block)
            turned = tuple(part[2 * layer + 1] for part in fresh)
            back, _ = backward.run(x, turned, lengths=window, reverse=True)
            for own, new in zip(self.state, after, strict=True):
                own[2 * layer, rows] = new
            x = np.concatenate([np.concatenate([head, tail]), back], axis=-1)
        return [x[: block[place], place] for place in range(len(rows))]

    def top(self, index: np.ndarray | None) -> np.ndarray:
        """No output stands for what has been read: the newest ones are not there yet."""
        raise NotImplementedError

    def reset(self, index: np.ndarray) -> None:
        super().reset(index)
        for row in index:
            self.waiting[row] = self._nothing()

    def resize(self, rows: int) -> None:
        self.waiting = self.waiting[:rows] + [self._nothing() for _ in range(rows - self.rows)]
        super().resize(rows)

    def dump(self) -> dict[str, np.ndarray]:
        counts = np.array([len(part) for part in self.waiting], np.int64)
        together = np.concatenate([self._nothing(), *self.waiting])
        return super().dump() | {"waiting.counts": counts, "waiting.vectors": together}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        counts = taken(saved, "waiting.counts", (self.rows,), np.int64)
        vectors = taken(saved, "waiting.vectors", (int(counts.sum()), self.recurrent.shape.input_size), np.float32)
        super().restore(saved)
        self.waiting = cut(vectors, counts)


def taken(saved: dict[str, np.ndarray], name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """One part of a saved state.

    Raises:
        BundleError: it is not there, or is of another shape.
    """
    part = saved.get(name)
    wanted = f"{np.dtype(dtype)} {shape}"
    if part is None:
        raise BundleError(expected(f"state {name!r}", wanted, "none", "Is it the state of another model?"))
    if part.shape != shape or part.dtype != dtype:
        raise BundleError(expected(f"state {name!r}", wanted, f"{part.dtype} {part.shape}"))
    return part


def cut(together: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """(sum of counts, …) → one array a row."""
    if (counts < 0).any():
        raise BundleError(expected("state counts", "0 or more", int(counts.min())))
    return np.split(together, np.cumsum(counts)[:-1]) if len(counts) else []
