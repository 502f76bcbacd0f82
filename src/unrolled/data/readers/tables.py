"""CSV and TSV, read by pyarrow with every cell as the string that stands in the file.

Strings, because a label 01 is not 1 and a text NA is not missing. pyarrow does not say on which line a row begins, and
a quoted cell may hold line ends, so the starts of the rows are found beside it: a pass over the quoted cells marks
which line ends are inside one. If the two ever disagree on the number of rows, messages say `row 5` for lines.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Columns, Dataset, Item, listed
from unrolled.data.readers.longformat import read_long
from unrolled.data.readers.rows import choose_kind, to_item
from unrolled.data.readers.source import Request, decode, read_bytes, to_dataset
from unrolled.errors import require

BLOCK = 1 << 30  # the largest that pyarrow takes is just under 2 GB


def read_cells(request: Request, delimiter: str) -> tuple[Any, list[int | str], np.ndarray, int]:
    """A pyarrow table of strings, the place of each row, the blank lines, and the line of the header."""
    text = decode(request, read_bytes(request)).replace("\r\n", "\n").replace("\r", "\n")
    data = text.encode() + (b"" if text.endswith("\n") else b"\n")  # pyarrow finds no columns in an unfinished header
    starts, blanks = row_starts(request, data, delimiter)
    table = _parse(request, data, delimiter, starts)
    places: list[int | str] = list(request.line(starts[1:]).tolist())
    if len(places) != table.num_rows:
        places = [f"row {number}" for number in range(1, table.num_rows + 1)]
    return table, places, request.line(blanks), int(starts[0])


def read_table(request: Request, columns: Columns, delimiter: str) -> Dataset:
    table, places, blanks, header = read_cells(request, delimiter)
    names: list[str] = table.column_names
    kind = choose_kind(request, columns, names)
    if kind == "features":
        return read_long(request, columns, table, places)
    used = {getattr(columns, kind), columns.label, columns.tags, columns.group} & set(names)
    # In a table of one column a blank line is an empty cell; pyarrow passes over it, we count it.
    empty = [str(line) for line in blanks if line > header] if len(names) == 1 else []
    cells: dict[str, list[str]] = {name: table.column(name).to_pylist() for name in used}
    items: list[Item] = []
    keys = list(cells)
    for place, values in zip(places, zip(*cells.values(), strict=True), strict=True):
        row = dict(zip(keys, values, strict=True))
        item = to_item(request, columns, kind, place, row, f"{request.name}:{place}")
        if item is None:
            empty.append(str(place))
        else:
            items.append(item)
    return to_dataset(request, items, sorted(empty, key=_line_number))


def _line_number(place: str) -> int:
    return int(place.removeprefix("row "))


def row_starts(request: Request, data: bytes, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """The line of `data` on which each row begins, first the header; and blank lines, which are no rows for pyarrow."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    spans = array("q")  # where each quoted cell begins and ends
    # The mark stands first in the pattern, and what must stand before it second: a search for a fixed byte is fast.
    quoted = re.compile(rb'"(?<![^\n' + re.escape(delimiter.encode()) + rb']")(?:[^"]|"")*+("?)')
    for match in quoted.finditer(data):
        if not match[1]:
            line = int(np.searchsorted(ends, match.start())) + 1
            found = "an opening quotation mark that nothing closes"
            way_out = 'Close it; inside a quoted cell write a quotation mark as "".'
            raise request.fail(request.line(line), "every quoted cell closed", found, way_out)
        spans.extend(match.span())
    opened, closed = np.searchsorted(ends, np.array(spans, dtype=np.int64).reshape(-1, 2)).T
    depth = np.bincount(opened, minlength=len(ends) + 1) - np.bincount(closed, minlength=len(ends) + 1)
    inside = depth.cumsum()[:-1] > 0
    lines = np.concatenate([[1], np.flatnonzero(~inside) + 2])
    begins = np.concatenate([[0], ends[~inside] + 1])
    stops = np.concatenate([ends[~inside], [len(data)]])
    blank = (stops == begins) & (begins < len(data))
    return lines[stops > begins], lines[blank]


def _parse(request: Request, data: bytes, delimiter: str, starts: np.ndarray) -> Any:
    """A pyarrow table of strings."""
    csv = require("pyarrow.csv", "train")
    arrow = require("pyarrow", "train")
    bad: list[Any] = []

    def keep_bad(row: Any) -> str:
        bad.append(row)
        return "skip"

    options = csv.ReadOptions(use_threads=False, block_size=min(len(data) + 1, BLOCK))  # threads: no row numbers
    parse = csv.ParseOptions(
        delimiter=delimiter,
        newlines_in_values=True,
        invalid_row_handler=keep_bad,
    )
    try:
        content = _owned_by_arrow(data)
        first = arrow.BufferReader(content.slice(0, _header_end(data, starts)))
        header = csv.read_csv(
            first, options, csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        ).column_names
        _check_header(request, header, delimiter, int(starts[0]))
        convert = csv.ConvertOptions(column_types=dict.fromkeys(header, arrow.string()), strings_can_be_null=False)
        table = csv.read_csv(arrow.BufferReader(content), options, parse, convert)
    except arrow.ArrowException as error:
        raise request.fail(None, "a table", str(error).splitlines()[0][:160]) from None
    if bad:
        raise _wrong_width(request, bad, starts, delimiter)
    return table


def _owned_by_arrow(data: bytes) -> Any:
    """A copy that Arrow's threads may free by themselves: one that frees bytes of Python while Python exits aborts."""
    sink = require("pyarrow", "train").BufferOutputStream()
    sink.write(data)
    return sink.getvalue()


def _header_end(data: bytes, starts: np.ndarray) -> int:
    """Where the second row begins, in bytes."""
    if len(starts) < 2:
        return len(data)
    end = 0
    for _ in range(int(starts[1]) - 1):
        end = data.index(b"\n", end) + 1
    return end


def _check_header(request: Request, header: Sequence[str], delimiter: str, line: int) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        found = f"more than one {listed([repr(name) for name in twice])}"
        raise request.fail(line, "a header with each name once", found, "Rename one of them.")
    other = "\t" if delimiter == "," else ","
    if len(header) == 1 and other in header[0]:
        sort = "tsv" if delimiter == "," else "csv"
        found = f"one column, {header[0][:60]!r}"
        raise request.fail(line, f"columns parted by {delimiter!r}", found, f"Pass format={sort!r}.")
    if len(header) == 1 and ";" in header[0]:
        way_out = "Save it with commas between cells and points in numbers, or with tabs as .tsv."
        raise request.fail(line, f"columns parted by {delimiter!r}", f"one column, {header[0][:60]!r}", way_out)


def _wrong_width(request: Request, bad: Sequence[Any], starts: np.ndarray, delimiter: str) -> Exception:
    row = bad[0]
    number = row.number  # 1 is the header
    place: int | str = f"row {number - 1}" if number else "a row"
    if number is not None and number <= len(starts):
        place = request.line(int(starts[number - 1]))
    found = f"{row.actual_columns}: {row.text[:80]!r}" + (f" and {len(bad) - 1} more such rows" if len(bad) > 1 else "")
    way_out = f'Put a cell that holds {delimiter!r} into quotation marks ("…").'
    return request.fail(place, f"{row.expected_columns} columns as in the header", found, way_out)
