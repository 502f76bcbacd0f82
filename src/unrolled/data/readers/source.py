"""Bytes of a file to checked text, and the message that every reader gives about a place in it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Request:
    """What the caller of `read` wants from a file."""

    path: Path
    task: str
    labelled: bool

    @property
    def name(self) -> str:
        return self.path.name

    def fail(self, place: object, wanted: object, found: object, way_out: str = "") -> DataError:
        """The error about a place: a line number, a phrase such as `row 3`, or None for the whole file."""
        where = self.name if place is None else f"{self.name}:{place}"
        return DataError(expected(where, wanted, found, way_out))


def read_bytes(request: Request) -> bytes:
    path = request.path
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        way_out = "Check the name; `unrolled data list` shows the embedded examples."
        raise DataError(expected(str(path), "a file", "nothing there", way_out)) from None
    except IsADirectoryError:
        raise DataError(expected(str(path), "a file", "a folder", "Name one file in it.")) from None
    except OSError as error:
        raise DataError(expected(str(path), "a readable file", error.strerror or str(error))) from None
    if not data.strip():
        size = f"an empty file ({len(data)} bytes)"
        raise request.fail(None, "at least one item", size, "Check that it was written to the end.")
    return data


def decode(request: Request, data: bytes) -> str:
    """UTF-8, with or without a byte-order mark."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            way_out = f"Save the file as UTF-8, for example: iconv -f {encoding} -t UTF-8."
            raise request.fail(1, "UTF-8 text", f"a byte-order mark of {encoding}", way_out)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start + (3 if data.startswith(codecs.BOM_UTF8) else 0)
        line = data.count(b"\n", 0, start) + 1
        column = start - (data.rfind(b"\n", 0, start) + 1) + 1
        found = f"byte 0x{data[start]:02x} at byte {column} of the line (byte offset {start} of the file)"
        way_out = "Save the file as UTF-8, for example: iconv -f GB18030 -t UTF-8, with the encoding it has."
        raise request.fail(line, "UTF-8 text", found, way_out) from None


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Line number from 1, and the line without its end. Only line feed and carriage return end a line."""
    body = text.replace("\r\n", "\n").replace("\r", "\n")
    return enumerate(body.removesuffix("\n").split("\n"), start=1)


def check_features(request: Request, place: object, array: np.ndarray, wanted: str = "finite numbers") -> None:
    """Raise for NaN or infinity, naming the time step and the channel."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        step, channel = int(bad[0, 0]), int(bad[0, 1])
        found = f"{array[step, channel]} at time step {step + 1}, channel {channel + 1}"
        way_out = "Remove the row, or fill the gap before training (too large for float32 counts as infinity)."
        raise request.fail(place, wanted, found, way_out)


def to_dataset(request: Request, items: list[Item], empty: list[str], notes: list[str] | None = None) -> Dataset:
    """Finish a reading: count what was skipped, refuse a file in which nothing is left."""
    notes = list(notes or [])
    if empty:
        kind = _EMPTY[items[0].kind] if items else "empty text"
        many = "s" if len(empty) > 1 else ""
        line = "" if empty[0].startswith("row") else f"line{many} "
        notes.append(f"{request.name}: {len(empty)} {kind}{many} skipped: {line}{listed(empty)}")
    if not items:
        found = f"{len(empty)} empty ones" if empty else "no rows below the header"
        raise request.fail(None, "at least one item", found, "Check that it was written to the end.")
    if request.task == "classify":
        notes += [f"{request.name}: {note}" for note in label_notes(items)]
    return Dataset(items, request.name, notes)
