"""Where a file may be cut into pieces: after a line, a row of a table, a blank line or a character.

Each function looks at the beginning of what is left of the file and returns the length of the next piece: as much as
fits into `size` bytes, or else the least that can stand alone. 0: that cannot be seen yet, more must be read. `whole`
says that the file ends where `data` ends. The two bytes of "\r\n" stay together, so a piece may be a byte longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

__all__ = ["Find", "after_blank_line", "after_character", "after_first_line", "after_header", "after_line", "after_row"]

Find = Callable[[bytes, int, bool], int]  # (data, size, whole)
_END = rb"(?:\r\n|\n|\r)"
_BEGIN = rb"(?:\xef\xbb\xbf)?+" + _END + rb"*+"
_LINE = re.compile(_BEGIN + rb"[^\r\n]*+" + _END)


def after_line(data: bytes, size: int, whole: bool) -> int:
    if whole and len(data) <= size:
        return len(data)
    return last_line_end(data, size) or _first_line_end(data, size, whole)


def after_character(data: bytes, size: int, whole: bool) -> int:
    """After a line if one ends within `size`, else after a space, so that no word is cut, else after a character."""
    if whole and len(data) <= size:
        return len(data)
    end = last_line_end(data, size) or data.rfind(b" ", 0, size) + 1 or character_end(data, size)
    return end if end <= len(data) else len(data) if whole else 0


def after_blank_line(data: bytes, size: int, whole: bool) -> int:
    if whole and len(data) <= size:
        return len(data)
    end = last_line_end(data, size)
    begin = end
    while end:
        start = last_line_end(data, end - (2 if data[end - 2 : end] == b"\r\n" else 1))
        if _is_blank(data[start:end]):
            return end
        end = start
    while end := _first_line_end(data, begin, whole):
        if _is_blank(data[begin:end]):
            return end
        begin = end
    return len(data) if whole else 0


def _is_blank(line: bytes) -> bool:
    return not line.decode(errors="replace").strip()


def last_line_end(data: bytes, size: int) -> int:
    """The length of the whole lines among the first `size` bytes; 0 where no line ends in them."""
    end = max(data.rfind(b"\n", 0, size), data.rfind(b"\r", 0, size)) + 1
    return end + (data[end - 1 : end + 1] == b"\r\n")


def _first_line_end(data: bytes, start: int, whole: bool) -> int:
    """The end of the line that `data[start:]` begins with; 0 where it is not there yet."""
    feed = data.find(b"\n", start) + 1
    back = data.find(b"\r", start, feed or len(data)) + 1
    if back and back == len(data) and not whole:
        return 0  # the second byte of the line's end may follow
    end = back + (data[back : back + 1] == b"\n") if back else feed
    return end or (len(data) if whole and start < len(data) else 0)


def line_begins(data: bytes, lines: int) -> int:
    """Where in `data` the line begins before which so many lines end."""
    if not lines:
        return 0
    values = np.frombuffer(data, np.uint8)
    is_end = (values == ord("\n")) | (values == ord("\r"))
    is_end[:-1] &= (values[:-1] != ord("\r")) | (values[1:] != ord("\n"))  # of the pair the second byte alone
    ends = np.flatnonzero(is_end)
    return int(ends[lines - 1]) + 1


def character_end(data: bytes, size: int) -> int:
    """The length of the whole characters among the first `size` bytes, one at least, perhaps beyond the end of `data`.

    A carriage return and its line feed are one. Bytes that are not UTF-8 are cut so that the first wrong one stands in
    a piece as it does in the file.
    """
    size = min(size, len(data))
    start = next((i for i in range(size - 1, max(size - 5, -1), -1) if data[i] & 0xC0 != 0x80), size - 1)
    length = _length(data[start])
    if start + length > size:
        size = start or length
    if data[size - 1 : size + 1] == b"\r\n":
        size += -1 if size > 1 else 1
    return size


def _length(lead: int) -> int:
    """How many bytes the character has that begins with this one."""
    return 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


# tables


def after_row(delimiter: str) -> Find:
    """After a row of a table: a line end inside quotation marks ends none.

    As for pyarrow, only the first character of a cell opens a quotation.
    """
    row = _row(delimiter)
    one, many = re.compile(row), re.compile(rb"(?:" + row + rb")*+")

    def find(data: bytes, size: int, whole: bool) -> int:
        if whole and len(data) <= size:
            return len(data)
        end = last_line_end(data, size)
        if end and data.find(b'"', 0, end) < 0:
            return end
        found = many.match(data, 0, size)
        if found and found.end():
            return found.end() + (data[found.end() - 1 : found.end() + 1] == b"\r\n")
        return _end_of(one.match(data), data, whole)

    return find


def after_header(delimiter: str) -> Find:
    """After the first row that is not an empty line, whatever the size."""
    header = re.compile(_BEGIN + _row(delimiter))
    return lambda data, _, whole: _end_of(header.match(data), data, whole)


def after_first_line(data: bytes, _: int, whole: bool) -> int:
    """After the first line that is not empty, whatever the size."""
    return _end_of(_LINE.match(data), data, whole)


def _row(delimiter: str) -> bytes:
    mark = re.escape(delimiter.encode())
    rest = rb"[^" + mark + rb"\r\n]*+"
    cell = rb'(?:"(?:[^"]|"")*+"' + rest + rb'|(?!")' + rest + rb")"
    return cell + rb"(?:" + mark + cell + rb")*+" + _END


def _end_of(found: re.Match[bytes] | None, data: bytes, whole: bool) -> int:
    """Where a match ends, if what follows cannot change it."""
    if whole:
        return found.end() if found else len(data)
    certain = found is not None and (found.end() < len(data) or not data.endswith(b"\r"))
    return found.end() if found is not None and certain else 0
