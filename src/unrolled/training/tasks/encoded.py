"""A data set as numbers, in memory, and the batches of an epoch.

Whatever goes through data for any task asks for `pieces` or `batches`, so it does not know whether all of them are in
memory; `ondisk` has the other kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from unrolled.data import batch_indices

__all__ = ["Encoded", "Lengths", "Place", "batches", "sizes", "timed", "unknown_notes"]

T = TypeVar("T")


Lengths = Callable[["Encoded"], Sequence[int] | np.ndarray]


@dataclass
class Place:
    """Where an epoch stands. `steps` begins there, and moves it on before it yields a loss."""

    batches: int = 0  # that are behind
    carried: Any = None  # what goes on from batch to batch: None, or tensors in tuples
    drawn: dict[str, Any] | None = None  # the state of the epoch's generator of random numbers
    waited: float = 0.0  # seconds that were spent on waiting for data, in this process


class Encoded(NamedTuple):
    """A data set as numbers, or a piece of one that is larger than memory: `OnDisk` is the whole of that."""

    rows: Sequence[Any]  # one an item; what they are is the task's own business
    targets: Sequence[np.ndarray]
    where: Sequence[str]
    unknown: int = 0  # tokens that the vocabulary does not have
    tokens: int = 0

    @property
    def notes(self) -> list[str]:
        return unknown_notes(self.unknown, self.tokens)

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return len(self.rows)

    def pieces(self) -> Iterator[Encoded]:
        """The rows in their order, in parts that each fit into memory: here one, with all of them."""
        yield self

    def batches(
        self, size: int, rng: np.random.Generator, lengths: Lengths, behind: int
    ) -> Iterator[tuple[Encoded, np.ndarray]]:
        """The batches of an epoch but for the first `behind`: a piece, and the places of its rows."""
        for indices in batch_indices(lengths(self), size, rng=rng)[behind:]:
            yield self, indices

    def stamp(self, add: Callable[[bytes], None]) -> None:
        """Say what the rows are, to the last number."""
        for row, target in zip(self.rows, self.targets, strict=True):
            numbers = [part for part in row if isinstance(part, np.ndarray)] if isinstance(row, tuple) else [row.inputs]
            for array in (*numbers, target):
                add(np.ascontiguousarray(array).tobytes())


def unknown_notes(unknown: int, tokens: int) -> list[str]:
    """A line on tokens that a vocabulary does not have, if there are any."""
    return [f"{unknown:,} of {tokens:,} tokens are not in the vocabulary and were read as <unk>"] if unknown else []


def batches(
    data: Encoded,
    size: int,
    rng: np.random.Generator,
    lengths: Lengths,
    place: Place | None,
) -> Iterator[tuple[Encoded, np.ndarray]]:
    """The batches of an epoch that are not behind yet: each is counted, and the wait for it timed, as it is taken.

    Args:
        lengths: of the rows of a piece; rows of like length share a batch.
    """
    place = Place() if place is None else place
    for found in timed(data.batches(size, rng, lengths, place.batches), place):
        place.batches += 1
        yield found


def timed(source: Iterable[T], place: Place) -> Iterator[T]:
    """The same, and how long they were waited for."""
    rest = iter(source)
    while True:
        begun = time.perf_counter()
        found = next(rest, None)
        place.waited += time.perf_counter() - begun
        if found is None:
            return
        yield found


def sizes(rows: Sequence[Any]) -> Sequence[int] | np.ndarray:
    """The length of each row, without making those that are made when they are asked for."""
    found: np.ndarray | None = getattr(rows, "lengths", None)
    return [len(row) for row in rows] if found is None else found
