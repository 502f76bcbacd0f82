"""Bytes of a file to checked text, and the message that every reader gives about a place in it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from unrolled.data.items import Dataset, Item, label_notes, listed
from unrolled.errors import DataError, expected

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


_EMPTY = {"features": "empty sequence", "tokens": "empty token list", "text": "empty text"}


Lines = TypeVar("Lines", int, np.ndarray)


@dataclass(frozen=True)
class Piece:
    """A part of a file that is read as a file of its own, and what its reader must know of the rest."""

    content: Any  # bytes; of a Parquet file a record batch
    header: bytes = b""  # the beginning of the file, read again before each of its pieces
    behind: float = 1.0  # share of the file that ends with this piece
    part: int = 0  # how many of the cuts that were asked for lie before it
    lines: int = 0  # line ends (of a Parquet file, rows) before the content
    offset: int = 0  # bytes before it
    feeds: int = 0  # line feeds before it; a carriage return alone ends a line, but not for `decode`
    column: int = 0  # bytes after the last line feed before it
    names: tuple[str, ...] = ()  # of fields that stand in the file
    bare: bool | None = None  # whether a table of pairs has no header; None: not known yet
    width: int = 0  # CoNLL: columns of the first line; 0: not known yet
    group: str | None = None  # CoNLL: the group that is open where the content begins


@dataclass
class Part(Dataset):
    """The items of one piece, perhaps none, and the places that hold nothing."""

    empty: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Request:
    """What the caller of `read` wants from a file, or from a piece of it."""

    path: Path
    task: str
    labelled: bool
    piece: Piece | None = None

    @cached_property
    def name(self) -> str:
        return self.path.name

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are known to stand in the file, whatever this piece holds."""
        return self.piece.names if self.piece is not None else ()

    def line(self, number: Lines) -> Lines:
        """The line of the file that is line `number` of what `read_bytes` gives."""
        if self.piece is None:
            return number
        header = line_ends(self.piece.header)
        return number + (number > header) * (self.piece.lines - header)

    def fail(self, place: object, wanted: object, found: object, way_out: str = "") -> DataError:
        """The error about a place: a line number, a phrase such as `row 3`, or None for the whole file."""
        where = self.name if place is None else f"{self.name}:{place}"
        return DataError(expected(where, wanted, found, way_out))


@contextmanager
def opened(request: Request) -> Iterator[BinaryIO]:
    """The file, or the error that says why it cannot be read."""
    path = request.path
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        way_out = "Check the name; `unrolled data list` shows the embedded examples."
        raise DataError(expected(str(path), "a file", "nothing there", way_out)) from None
    except IsADirectoryError:
        raise DataError(expected(str(path), "a file", "a folder", "Name one file in it.")) from None
    except OSError as error:
        raise DataError(expected(str(path), "a readable file", error.strerror or str(error))) from None


def read_bytes(request: Request) -> bytes:
    if request.piece is not None:
        return request.piece.header + request.piece.content
    with opened(request) as file:
        data = file.read()
    if not data.strip():
        raise blank_file(request, len(data))
    return data


def check_filled(request: Request) -> int:
    """The errors of `read_bytes` in little memory; the size of the file in bytes."""
    with opened(request) as file:
        size = file.seek(0, 2)
        file.seek(0)
        while chunk := file.read(1 << 20):
            if chunk.strip():
                return size
    raise blank_file(request, size)


def blank_file(request: Request, size: int) -> DataError:
    found = f"an empty file ({size} bytes)"
    return request.fail(None, "at least one item", found, "Check that it was written to the end.")


def decode(request: Request, data: bytes) -> str:
    """UTF-8, with or without a byte-order mark."""
    begins = request.piece is None or bool(request.piece.header) or not request.piece.offset
    for mark, encoding in _MARKS.items() if begins else ():
        if data.startswith(mark):
            way_out = f"Save the file as UTF-8, for example: iconv -f {encoding} -t UTF-8."
            raise request.fail(1, "UTF-8 text", f"a byte-order mark of {encoding}", way_out)
    try:
        return data.decode("utf-8-sig" if begins else "utf-8")
    except UnicodeDecodeError as error:
        start = error.start + (3 if begins and data.startswith(codecs.BOM_UTF8) else 0)
        raise _no_text(request, data, start) from None


def _no_text(request: Request, data: bytes, start: int) -> DataError:
    piece = request.piece or Piece(data)
    offset, lines, column = start, 0, 0
    if start >= len(piece.header):
        data, start = piece.content, start - len(piece.header)
        offset, lines, column = piece.offset + start, piece.feeds, piece.column
    before = data.rfind(b"\n", 0, start) + 1
    column = start - before + 1 + (0 if before else column)
    found = f"byte 0x{data[start]:02x} at byte {column} of the line (byte offset {offset} of the file)"
    way_out = "Save the file as UTF-8, for example: iconv -f GB18030 -t UTF-8, with the encoding it has."
    return request.fail(lines + data.count(b"\n", 0, start) + 1, "UTF-8 text", found, way_out)


def numbered_lines(request: Request, text: str) -> Iterator[tuple[int, str]]:
    """The line of the file, from 1, and its text without the end. Only line feed and carriage return end a line."""
    body = text.replace("\r\n", "\n").replace("\r", "\n")
    return enumerate(body.removesuffix("\n").split("\n"), start=request.line(1))


def line_ends(data: bytes) -> int:
    """How many lines end in `data`."""
    returns = data.count(b"\r")
    return data.count(b"\n") + returns - (data.count(b"\r\n") if returns else 0)


def check_features(request: Request, place: object, array: np.ndarray, wanted: str = "finite numbers") -> None:
    """Raise for NaN or infinity, naming the time step and the channel."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        step, channel = int(bad[0, 0]), int(bad[0, 1])
        found = f"{array[step, channel]} at time step {step + 1}, channel {channel + 1}"
        way_out = "Remove the row, or fill the gap before training (too large for float32 counts as infinity)."
        raise request.fail(place, wanted, found, way_out)


def to_dataset(request: Request, items: list[Item], empty: list[str], notes: list[str] | None = None) -> Dataset:
    """Finish a reading: count what was skipped, refuse a file in which nothing is left; of a piece, say it all."""
    notes = list(notes or [])
    if request.piece is not None:
        return Part(items, request.name, notes, empty)
    if empty:
        notes.append(skipped(request, items[0] if items else None, empty, len(empty)))
    if not items:
        raise nothing_left(request, len(empty))
    if request.task == "classify":
        notes += [f"{request.name}: {note}" for note in label_notes(items)]
    return Dataset(items, request.name, notes)


SHOWN = 12  # places that a note names


def skipped(request: Request, first: Item | None, empty: Sequence[str], count: int) -> str:
    """The note on `count` empty places, of which `empty` are the first."""
    kind = _EMPTY[first.kind] if first is not None else "empty text"
    many = "s" if count > 1 else ""
    line = "" if empty[0].startswith("row") else f"line{many} "
    more = f" and {count - SHOWN} more" if count > SHOWN else ""
    return f"{request.name}: {count} {kind}{many} skipped: {line}{listed(empty[:SHOWN])}{more}"


def nothing_left(request: Request, empty: int) -> DataError:
    """The error of a file without items."""
    found = f"{empty} empty ones" if empty else "no rows below the header"
    return request.fail(None, "at least one item", found, "Check that it was written to the end.")
