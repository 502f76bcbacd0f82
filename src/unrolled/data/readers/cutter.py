"""A file of bytes, from which one piece after the other is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, BinaryIO

from unrolled.data.readers.cutting import Find, character_end, last_line_end
from unrolled.data.readers.source import Piece, Request, line_ends

TIMES = 64  # pieces that a row may be as long as
LEAST = 64 << 20  # bytes that any may have
BLOCK = 1 << 16  # bytes that are searched at once for the end of a line


class Cutter:
    """What is left of a file, and the counts of what has been taken from it."""

    def __init__(self, request: Request, file: BinaryIO) -> None:
        self.request, self._file = request, file
        self.total = file.seek(0, 2)
        file.seek(0)
        self.rest, self.whole = b"", False  # the bytes that come next; whether they are the last ones
        self.before = Piece(b"")

    def look(self, count: int) -> bool:
        """Read on until `rest` has `count` bytes or the file ends. Whether anything is left."""
        if not self.whole and len(self.rest) < count:
            wanted = count - len(self.rest)
            more = self._file.read(wanted)
            self.whole = len(more) < wanted
            self.rest += more
        return bool(self.rest)

    def end(self, find: Find, size: int) -> int:
        """The length of the next piece."""
        count = size + 1
        while True:
            self.look(count)
            end = find(self.rest, size, self.whole)
            if end:
                return end
            self.refuse_beyond(len(self.rest), size)
            count = 2 * len(self.rest)

    def refuse_beyond(self, length: int, size: int) -> None:
        """Raise where what cannot be cut is longer than the memory that may be taken for it."""
        most = max(TIMES * size, LEAST)
        if length > most:
            what = "row, line, sentence, document or sequence"
            wanted = f"no {what} of more than {most >> 20} MiB in a file that is read in pieces"
            way_out = "Look for a quotation mark that nothing closes, or raise --memory beyond the size of the file."
            raise self.request.fail(self.before.lines + 1, wanted, "a longer one", way_out)

    def peek(self, end: int) -> Piece:
        """The next `end` bytes as a piece."""
        behind = min(1.0, (self.before.offset + end) / self.total)
        return replace(self.before, content=self.rest[:end], behind=behind)

    def take(self, end: int) -> Piece:
        """The same, and go on after them."""
        piece = self.peek(end)
        self.rest = self.rest[end:]
        last = piece.content.rfind(b"\n") + 1
        self.before = replace(
            self.before,
            lines=piece.lines + line_ends(piece.content),
            offset=piece.offset + end,
            feeds=piece.feeds + piece.content.count(b"\n"),
            column=end - last if last else piece.column + end,
        )
        return piece

    def know(self, **known: Any) -> None:
        """Fields of all pieces that follow."""
        self.before = replace(self.before, **known)


def boundary(file: BinaryIO, start: int, wanted: int) -> int:
    """Where the last line ends in the bytes from `start` to `wanted`, or where a character does if no line ends there.

    Not `start` itself: a first character that is longer than the room for it leads beyond `wanted`.
    """
    high = wanted
    while high > start:
        low = max(start, high - BLOCK)
        data = _between(file, low, high + 1)
        end = last_line_end(data, high - low)
        if low + end > wanted:  # the line feed of a pair stands behind
            end = last_line_end(data, high - low - 1)
        if end:
            return low + end
        high = low
    low = max(start, wanted - 8)
    return low + character_end(_between(file, low, wanted + 4), wanted - low)


def _between(file: BinaryIO, low: int, high: int) -> bytes:
    file.seek(low)
    return file.read(high - low)
