"""The best sequence of tags: whole rows at once, or a step at a time.

Axes     B batch, T time, K tags; scores (B, T, K), lengths (B,); transitions (K, K) from row to column. NumPy only.
Source   Viterbi (1967). A tag is given out as soon as all paths that can still win agree on it.
Variant  Of equal scores the tag of the smaller index wins. A row of length 0 has the path [].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Allowed", "Pairs", "Path", "allowed_spans", "bio_allowed", "is_span_scheme", "viterbi"]

Array = NDArray[Any]
PREFIXES = frozenset(("B-", "I-", "E-", "S-", "L-", "U-"))


class Allowed(NamedTuple):
    """Which tags may begin a row, and which may follow which."""

    start: Any  # (K,) boolean
    pairs: Any  # (K, K) boolean, from row to column


class Pairs(NamedTuple):
    """What the neighbours of a tag add to its score; −inf for what is not allowed."""

    start: Array  # (K,)
    into: Array  # (K, K) from column to row: the maximum runs over neighbours in memory
    end: Array  # (K,)

    @classmethod
    def of(
        cls,
        tags: int,
        start: Any = None,
        transitions: Any = None,
        end: Any = None,
        *,
        allowed: Allowed | None = None,
        dtype: Any = np.float32,
    ) -> Pairs:
        """Parts that are None score 0."""
        first = np.zeros(tags, dtype) if start is None else np.asarray(start)
        last = np.zeros(tags, dtype) if end is None else np.asarray(end)
        pairs = np.zeros((tags, tags), dtype) if transitions is None else np.asarray(transitions)
        if allowed is not None:
            first = np.where(np.asarray(allowed.start), first, -np.inf)
            pairs = np.where(np.asarray(allowed.pairs), pairs, -np.inf)
        return cls(first.astype(dtype), np.ascontiguousarray(pairs.T.astype(dtype)), last.astype(dtype))


def viterbi(scores: Array, lengths: Array, pairs: Pairs) -> list[list[int]]:
    """The best path of each row; the pointers are followed for all rows at once."""
    batch, steps, _ = scores.shape
    if steps == 0 or batch == 0:
        return [[] for _ in range(batch)]
    last_step = np.asarray(lengths) - 1
    best, pointers = scores[:, 0] + pairs.start, []
    ending = best + pairs.end  # (B, K): the best path that ends at the row's own last step
    for t in range(1, int(last_step.max()) + 1):
        best, pointer = _advance(best, scores[:, t], pairs)
        pointers.append(pointer)
        ending = np.where((last_step == t)[:, None], best + pairs.end, ending)
    return _follow(ending.argmax(-1), pointers, last_step)


def _advance(best: Array, scores: Array, pairs: Pairs) -> tuple[Array, Array]:
    """One step: the best score of each tag (B, K), and the tag before it (B, K)."""
    reached = best[:, None, :] + pairs.into
    pointer = reached.argmax(-1)
    return np.take_along_axis(reached, pointer[..., None], -1)[..., 0] + scores, pointer


def _follow(last: Array, pointers: Sequence[Array], last_step: Array) -> list[list[int]]:
    """From the last tag of each row back to its first."""
    path, tag, rows = [last], last, np.arange(len(last))
    for t in range(len(pointers), 0, -1):
        # Rows that end before t still stand at their own last tag.
        tag = np.where(t <= last_step, pointers[t - 1][rows, tag], tag)
        path.append(tag)
    table = np.stack(path[::-1], axis=1).tolist()
    return [row[: int(end) + 1] for row, end in zip(table, last_step, strict=True)]


class Path:
    """The same search over one row whose steps come one after the other.

    `push` returns the tags that no later step can change; `finish` returns the rest.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.best: Array | None = None  # (K,) the best score of a path that ends in each tag
        self.open: Array = np.zeros((0, len(pairs.start)), np.int32)  # (steps not given out, K): that path's tags

    def push(self, scores: Array) -> list[int]:
        """Scores (T, K) of the next steps → the tags that are settled now, which may be of earlier steps."""
        tags = np.arange(len(self.pairs.start), dtype=np.int32)
        settled: list[int] = []
        for step in scores:
            if self.best is None:
                self.best = step + self.pairs.start
            else:
                best, pointer = _advance(self.best[None], step[None], self.pairs)
                self.best, self.open = best[0], self.open[:, pointer[0]]
            self.open = np.concatenate([self.open, tags[None]])
            settled += self._settle()
        return settled

    def finish(self) -> list[int]:
        """The tags that were still open. The path is at its beginning again."""
        if self.best is None:
            return []
        rest = [int(tag) for tag in self.open[:, (self.best + self.pairs.end).argmax()]]
        self.best, self.open = None, self.open[:0]
        return rest

    def _settle(self) -> list[int]:
        assert self.best is not None
        alive = self.open[:, np.isfinite(self.best)]
        if not alive.shape[1]:
            return []
        differs = (alive != alive[:, :1]).any(axis=1)
        count = int(differs.argmax()) if differs.any() else len(alive)
        given, self.open = alive[:count, 0], self.open[count:]
        return [int(tag) for tag in given]


def is_span_scheme(tags: Sequence[str]) -> bool:
    """Whether a tag set marks spans: every tag is O or has a prefix such as B- or I-, and not all are O.

    >>> is_span_scheme(["O", "B-city", "I-city"]), is_span_scheme(["NOUN", "VERB"])
    (True, False)
    """
    prefixes = {name[:2] for name in tags if name != "O"}
    return bool(prefixes) and prefixes <= PREFIXES


def allowed_spans(tags: Sequence[str]) -> Allowed | None:
    """What may follow what where the tags are B-, I- and O; None for other tag sets, where all may."""
    bio = is_span_scheme(tags) and {tag[:2] for tag in tags} <= {"B-", "I-", "O"}
    return bio_allowed(tags) if bio else None


def bio_allowed(tags: Sequence[str]) -> Allowed:
    """What the BIO scheme allows: I-X only after B-X or I-X. Tags of other forms are free.

    >>> bio_allowed(["O", "B-city", "I-city"]).pairs.astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """
    inside = np.array([tag.startswith("I-") for tag in tags], dtype=bool)
    kind = [tag[2:] if tag[:2] in ("B-", "I-") else None for tag in tags]
    same = np.array([[a is not None and a == b for b in kind] for a in kind], dtype=bool)
    return Allowed(~inside, ~inside | same.reshape(len(tags), len(tags)))
