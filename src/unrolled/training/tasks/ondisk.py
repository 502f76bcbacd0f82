"""Rows that are larger than memory: kept on the disk as tables, or made from the file whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from unrolled.data import batch_indices
from unrolled.data.streaming import Part, Ragged, Store, Table, read_ahead, shuffled
from unrolled.training.tasks.encoded import Encoded, Lengths, unknown_notes
from unrolled.training.tasks.reading import Row

if TYPE_CHECKING:
    from unrolled.training.tasks.base import Task

__all__ = ["Flowing", "OnDisk", "View", "on_disk", "packed", "place_of", "unpacked"]

T = TypeVar("T")


def on_disk(task: Task, part: Part) -> Any:
    """A part as numbers: what the loop asks of `Encoded`, with few of them in memory."""
    return Flowing(task, part) if part.store is None else OnDisk(task, part, part.store)


@dataclass(frozen=True, eq=False)
class OnDisk:
    """A part whose rows are in a store."""

    task: Task
    part: Part
    store: Store

    @property
    def notes(self) -> list[str]:
        """On tokens that the vocabulary does not have."""
        return unknown_notes(self.store.said["unknown"], self.store.said["tokens"])

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return self.store.rows

    def pieces(self) -> Iterator[Encoded]:
        """The rows in their order, in parts that each fit into memory."""
        groups = self.store.groups(self.part.source.budget.piece)

        def opener(group: list[int]) -> Callable[[], Table]:
            return lambda: self.store.joined(group)

        for table in read_ahead(map(opener, groups), self.part.threads):
            yield self.task.unpack(table, self.store.said["place"])

    def batches(
        self, size: int, rng: np.random.Generator, lengths: Lengths, behind: int
    ) -> Iterator[tuple[Encoded, np.ndarray]]:
        """The batches of an epoch but for the first `behind`: a piece, and the places of its rows."""
        key = int(rng.integers(2**63))
        for piece in shuffled(
            self.store,
            key,
            size=self.part.source.budget.piece,
            batch_size=size,
            behind=behind,
            threads=self.part.threads,
        ):
            data = self.task.unpack(piece.table, self.store.said["place"])
            for indices in batch_indices(np.asarray(lengths(data))[piece.rows], size, rng=piece.rng)[piece.behind :]:
                yield data, piece.rows[indices]

    def stamp(self, add: Callable[[bytes], None]) -> None:
        """Say what the rows are: the file, byte by byte, and how it was read."""
        add(self.store.said["key"].encode())


@dataclass(frozen=True, eq=False)
class Flowing:
    """A part whose rows are made anew each time: enough for what is gone through once."""

    task: Task
    part: Part

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return len(self.part)

    def pieces(self) -> Iterator[Encoded]:
        """The rows in their order, in parts that each fit into memory."""
        return map(self.task.encode_items, self.part.blocks())

    def stamp(self, add: Callable[[bytes], None]) -> None:
        """Say what the rows are: the file, byte by byte."""
        add(self.part.source.digest.encode())


class View(Sequence[T], Generic[T]):
    """Rows of a table, each made when it is asked for."""

    def __init__(self, lengths: np.ndarray, make: Callable[[int], T]) -> None:
        self.lengths, self._make = lengths, make

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: Any) -> Any:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self._make(int(row))


def packed(data: Encoded, rows: Sequence[Row] | None = None, **more: Sequence[np.ndarray]) -> Table:
    """Rows as a table. `rows`: what `data.rows` hold, where they are not `Row`s themselves; `more`: further columns."""
    rows = data.rows if rows is None else rows
    columns = {"inputs": [row.inputs for row in rows], "targets": list(data.targets)}
    columns["lines"] = [np.array([int(where[len(place_of(where)) :])]) for where in data.where]
    if rows and rows[0].letters is not None:
        columns["letters"] = [row.letters.ravel() for row in rows if row.letters is not None]
        columns["widths"] = [row.widths for row in rows if row.widths is not None]
    return Table({name: Ragged.of(arrays) for name, arrays in (columns | more).items()})


def unpacked(table: Table, place: str, row: Callable[[int, Row], Any] | None = None) -> Encoded:
    """The inverse of `packed`. `row` makes of a place and a `Row` what the rows of the task are."""

    def make(i: int) -> Any:
        inputs = table["inputs"][i]
        if inputs.ndim > 1:
            found = Row(inputs)
        elif "letters" not in table:
            found = Row(inputs.astype(np.int64))
        else:
            widths = table["widths"][i].astype(np.int64)
            letters = table["letters"][i].astype(np.int64).reshape(len(inputs), -1 if len(inputs) else 1)
            found = Row(inputs.astype(np.int64), letters, widths)
        return found if row is None else row(i, found)

    targets, lines = table["targets"], table["lines"]
    return Encoded(
        View(table["inputs"].lengths, make),
        View(targets.lengths, lambda i: targets[i].astype(np.int64)),
        View(lines.lengths, lambda i: f"{place}{int(lines[i][0])}"),
    )


def place_of(where: str) -> str:
    """What stands before the line in the name of a row.

    >>> place_of("reviews.csv:17"), place_of("reviews.parquet:row 3")
    ('reviews.csv:', 'reviews.parquet:row ')
    """
    return where.rstrip("0123456789")
