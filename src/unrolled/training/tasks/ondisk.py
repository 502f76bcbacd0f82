"""Rows that are larger than memory: what is asked of `Encoded`, answered from tables on the disk."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrolled.data import batch_indices
from unrolled.data.streaming import Part, Store, Table, read_ahead, shuffled
from unrolled.errors import DataError, expected
from unrolled.training.tasks.encoded import Encoded, Lengths, unknown_notes
from unrolled.training.tasks.packing import task_digest, write_rows

if TYPE_CHECKING:
    from unrolled.training.tasks.base import Task

__all__ = ["OnDisk", "on_disk"]


def on_disk(task: Task, part: Part) -> Any:
    """A part as numbers: what the loop asks of `Encoded`, with few of them in memory.

    Raises:
        DataError: they are not there yet, and cannot be made.
    """
    made_by = task_digest(task)
    if made_by not in part.stores:
        part.stores[made_by] = _for_now(task, part, made_by)
    return OnDisk(task, part, part.stores[made_by])


def _for_now(task: Task, part: Part, made_by: str) -> Store:
    """Numbers in a folder that is deleted when nobody needs them any more: of what is scored once."""
    key = f"{part.source.digest} {part.number} {made_by}"
    folder = Path(tempfile.mkdtemp(prefix="unrolled-"))
    try:
        write_rows(folder, task, part.source, {"rows": part}, key, lambda _: None)
        store = Store(folder / "rows")
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        way_out = "Name another one with the variable TMPDIR."
        raise DataError(expected("temporary folder", "one with room for numbers", str(error), way_out)) from None
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store


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
