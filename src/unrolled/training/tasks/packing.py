"""Rows of a task as tables that are kept on the disk, and the way back; and the writing of a whole file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from unrolled.data.readers.pieces import Raw, parse
from unrolled.data.streaming import Part, Ragged, Source, Splitter, Table, Writer, spread_out
from unrolled.training.recipe import Recipe
from unrolled.training.tasks.encoded import Encoded
from unrolled.training.tasks.reading import Row

if TYPE_CHECKING:
    from unrolled.training.tasks.base import Task

__all__ = ["View", "packed", "place_of", "task_digest", "unpacked", "write_rows"]

T = TypeVar("T")


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


# a whole file


def task_digest(task: Task) -> str:
    """SHA-256 of what a task measured: numbers that were made by one are not those of another."""
    return hashlib.sha256(json.dumps(task.to_dict(), sort_keys=True).encode()).hexdigest()


def write_rows(
    folder: Path, task: Task, source: Source, parts: Mapping[str, Part], key: str, watch: Callable[[float], None]
) -> None:
    """Keep the rows of some parts of a file in stores in a folder, by the names of the parts.

    Args:
        key: of everything that the rows depend on.
        watch: told which share of the file is behind.

    Raises:
        DataError: as the readers and the task raise.
        OSError: the folder cannot be written to.
    """
    source.counted()  # which labels had to move
    numbers = {name: (part.number, part.name) for name, part in parts.items()}
    told: dict[str, dict[str, Any]] = {name: {"place": "", "unknown": 0, "tokens": 0} for name in parts}
    counts = [0] * len(source.fractions)
    given = task.recipe.model_dump(exclude_unset=True), task.to_dict(), source.splitter, numbers
    with ExitStack() as files:
        writers = {name: Writer(folder / name, source.budget.block, "inputs") for name in parts}
        for writer in writers.values():
            files.callback(writer.close)
        pieces = files.enter_context(spread_out(task.recipe.workers, packer, *given))
        for one in pieces(source.raws()):
            counts = [count + more for count, more in zip(counts, one.counts, strict=True)]
            for name, (table, said) in one.tables.items():
                writers[name].add(table)
                told[name] = {item: said[item] if item == "place" else told[name][item] + said[item] for item in said}
            watch(one.behind)
        for name, writer in writers.items():
            writer.finish(key=key, **told[name])
    source.counted().counts = counts


class Packed(NamedTuple):
    """A piece of a file as numbers."""

    behind: float  # the share of the file
    counts: list[int]  # items of each part
    tables: dict[str, tuple[Table, dict[str, Any]]]  # by the name of the part; what stands before a line, tokens


def packer(
    fields: dict[str, Any], saved: dict[str, Any], splitter: Splitter, parts: Mapping[str, tuple[int, str]]
) -> Callable[[Raw], Packed]:
    """A function that makes numbers of a piece; all that it needs can be sent to another process.

    Args:
        fields: of the recipe.
        saved: the task.
        parts: for each the number and the name of its items.
    """
    from unrolled.training.tasks import find  # the tasks import this module

    recipe = Recipe(**fields)
    task = find(recipe.task).from_dict(recipe, saved)

    def work(raw: Raw) -> Packed:
        split = splitter.parts(parse(raw), raw.part)
        tables = {}
        for name, (number, shown) in parts.items():
            if len(split[number]):
                table, unknown, tokens = task.pack(replace(split[number], name=shown))
                place = place_of(split[number][0].where)
                tables[name] = table, {"place": place, "unknown": unknown, "tokens": tokens}
        return Packed(raw.behind, list(map(len, split)), tables)

    return work
