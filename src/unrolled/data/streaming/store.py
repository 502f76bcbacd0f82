"""Blocks of rows on the disk: one file that is written once, block after block, and read at any place.

Layout   NAME.blocks: the blocks, each a table (`Table.to_bytes`), one after the other.
         NAME.json: where each of them begins, its bytes, rows and steps, and a CRC-32; and what the writer says of all.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from unrolled.data.streaming.tables import Table
from unrolled.errors import DataError, expected

__all__ = ["Block", "Store", "Writer"]


class Block(NamedTuple):
    """Where a block stands in the file, and what it holds."""

    begin: int
    size: int  # bytes
    rows: int
    steps: int
    room: int  # bytes that it takes in memory
    check: int  # CRC-32 of its bytes


class Writer:
    """Writes a store. Rows are gathered to blocks of about `block` bytes.

    Args:
        path: without a suffix.
        counted: the column whose steps an index counts.
    """

    def __init__(self, path: Path, block: int, counted: str) -> None:
        self.path, self.block, self.counted = path, block, counted
        self.blocks: list[Block] = []
        self._held: list[Table] = []
        self._bytes = 0
        self._file: BinaryIO = path.with_suffix(".blocks").open("wb")

    def add(self, table: Table) -> None:
        """Some more rows."""
        if not len(table):
            return
        self._held.append(table)
        self._bytes += table.size
        if self._bytes >= self.block:
            self._write(last=False)

    def _write(self, *, last: bool) -> None:
        parts = Table.joined(self._held).split(self.block) if self._held else []
        rest = [] if last or not parts else [parts.pop()]
        for part in parts:
            content = part.to_bytes()
            begin = self.blocks[-1].begin + self.blocks[-1].size if self.blocks else 0
            steps = len(part[self.counted].values)
            self.blocks.append(Block(begin, len(content), len(part), steps, part.size, zlib.crc32(content)))
            self._file.write(content)
        self._held, self._bytes = rest, sum(part.size for part in rest)

    def finish(self, **said: Any) -> None:
        """Write the rest and the index. `said`: what a reader should know of all rows, for JSON."""
        self._write(last=True)
        _close(self._file)
        index = json.dumps({**said, "blocks": self.blocks}, ensure_ascii=False)
        with self.path.with_suffix(".json").open("wb") as file:
            file.write(index.encode())
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Let go of the file; without `finish` it is of no use."""
        self._file.close()


class Store:
    """Reads what a `Writer` wrote. May be asked by several threads at once.

    Raises:
        DataError: it is not there, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(".blocks")
        try:
            self.said: dict[str, Any] = json.loads(path.with_suffix(".json").read_bytes())
            self.blocks = [Block(*map(int, block)) for block in self.said.pop("blocks")]
            size = self.path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(str(error).splitlines()[0]) from None
        wanted = self.blocks[-1].begin + self.blocks[-1].size if self.blocks else 0
        if size != wanted:
            raise self._damaged(f"{size:,} bytes in place of {wanted:,}")
        self.rows = sum(block.rows for block in self.blocks)
        self.steps = sum(block.steps for block in self.blocks)

    def _damaged(self, found: str) -> DataError:
        way_out = f"Delete the folder {self.path.parent}; it is made again from the data."
        return DataError(expected(str(self.path), "blocks of numbers as they were written", found, way_out))

    @property
    def bytes(self) -> int:
        """Of all blocks."""
        return sum(block.size for block in self.blocks)

    def read(self, number: int) -> Table:
        """One block.

        Raises:
            DataError: it is damaged.
        """
        block = self.blocks[number]
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(block.begin)
                content = file.read(block.size)
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from None
        if zlib.crc32(content) != block.check:
            raise self._damaged(f"other bytes in block {number}")
        return Table.from_bytes(content)

    def __iter__(self) -> Iterator[Table]:
        """All blocks, one after the other."""
        return map(self.read, range(len(self.blocks)))

    def joined(self, numbers: Iterable[int]) -> Table:
        """Some blocks as one table, in the order given; one at least."""
        return Table.joined([self.read(int(number)) for number in numbers])

    def groups(self, size: int) -> Iterator[list[int]]:
        """The numbers of all blocks in their order, in groups that take about `size` bytes of memory."""
        return self.grouped(range(len(self.blocks)), size)

    def grouped(self, numbers: Iterable[int], size: int) -> Iterator[list[int]]:
        """Numbers of blocks in groups that take about `size` bytes of memory, one block at least in each."""
        group: list[int] = []
        held = 0
        for number in numbers:
            room = self.blocks[number].room
            if group and held + room > size:
                yield group
                group, held = [], 0
            group.append(int(number))
            held += room
        if group:
            yield group


def _close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()
