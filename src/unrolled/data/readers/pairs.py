"""Pairs: a source and a target a row, from TSV, CSV, JSON lines and Parquet.

Text     `source` and `target` are texts, or (JSON lines, Parquet) lists of tokens.
Numbers  the source is a list of time steps, or, for a vector, a list of numbers or an image as a list of its rows; in a
         table, numbers parted by spaces or commas, or the columns that `features` names, one row a vector.
TSV      without a header each line is a source, a tab and a target, and quotation marks are characters like others; it
         has a header if its first line names the two columns.

A source may stand in several rows with different targets. An empty source or target is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrolled.data.items import Columns, Dataset, Item, listed
from unrolled.data.readers.records import read_records
from unrolled.data.readers.rows import Place, check_alike, features_of, missing_column, tokens_of
from unrolled.data.readers.source import Request, check_features, decode, numbered_lines, read_bytes, to_dataset
from unrolled.data.readers.tables import read_cells
from unrolled.errors import DataError

_USUAL = (Columns().source, Columns().target)


class _Row(NamedTuple):
    place: Place
    cells: Mapping[str, Any]


def read_pairs(request: Request, columns: Columns, format: str) -> Dataset:
    """Items with a target each; without, where `request` asks for inputs alone."""
    notes: list[str] = []
    if format in ("csv", "tsv"):
        names, rows = _table(request, columns, "," if format == "csv" else "\t", notes)
    else:
        names, records = read_records(request, format, lambda found: pair_columns(columns, found))
        rows = [_Row(place, record) for place, record in records]
    for name in columns.features if format in ("csv", "tsv") and columns.features else (_source(columns),):
        if name not in names:
            raise missing_column(request, name, "source", names)
    has_target = columns.target in names
    if request.labelled and not has_target:
        raise missing_column(request, columns.target, "target", names)
    _check_filled(request, rows, columns, has_target)
    items = [_item(request, columns, row, has_target, table=format in ("csv", "tsv")) for row in rows]
    check_alike(request, items)
    return to_dataset(request, items, [], notes)


def _source(columns: Columns) -> str:
    return columns.features[0] if columns.features else columns.source


def pair_columns(columns: Columns, names: Collection[str]) -> set[str]:
    """The columns of a Parquet file that are read, of those that it has."""
    return {name for name in names if name in (_source(columns), columns.target, columns.group)}


def _table(request: Request, columns: Columns, delimiter: str, notes: list[str]) -> tuple[list[str], list[_Row]]:
    """The columns of the header, and the rows."""
    if delimiter == "\t" and has_no_header(request, columns):
        notes.append(f"{request.name}: no header line; each line is a {columns.source}, a tab and a {columns.target}")
        rows = list(_bare_lines(request, columns))
        return [columns.source, *([columns.target] if any(len(row.cells) > 1 for row in rows) else [])], rows
    table, places, _, _ = read_cells(request, delimiter)
    names: list[str] = table.column_names
    cells = [table.column(name).to_pylist() for name in names]
    return names, [
        _Row(place, dict(zip(names, row, strict=True)))
        for place, row in zip(places, zip(*cells, strict=True), strict=True)
    ]


def has_no_header(request: Request, columns: Columns) -> bool:
    """Whether the first line is a pair already: the usual names of the columns are not in it."""
    if request.piece is not None and request.piece.bare is not None:
        return request.piece.bare
    if columns.features or (columns.source, columns.target) != _USUAL:
        return False
    _, line = next(numbered_lines(request, decode(request, read_bytes(request)).lstrip("\r\n")))
    first = line.split("\t")
    return columns.source not in [name.strip('"') for name in first]


def _bare_lines(request: Request, columns: Columns) -> Iterator[_Row]:
    for number, line in numbered_lines(request, decode(request, read_bytes(request))):
        fields = line.split("\t")
        if not line.strip():
            found = "an empty line" if not line else "white space alone"
            raise request.fail(number, "a source, a tab and a target", found, "Remove the line.")
        if len(fields) == 1 and request.labelled:
            way_out = "Put a tab between the two; for CSV pass --format csv."
            raise request.fail(number, "a source, a tab and a target", f"no tab in {line[:60]!r}", way_out)
        if len(fields) > 2:
            way_out = f"Give the file a header line with the columns {columns.source!r} and {columns.target!r}."
            raise request.fail(number, "one tab, between source and target", f"{len(fields) - 1} tabs", way_out)
        yield _Row(number, dict(zip((columns.source, columns.target), fields, strict=False)))


def _check_filled(request: Request, rows: Sequence[_Row], columns: Columns, has_target: bool) -> None:
    """Raise for empty cells: the first place, and how many there are."""
    names = [_source(columns), *([columns.target] if has_target and request.labelled else [])]
    for name in names:
        empty = [row.place for row in rows if _is_empty(row.cells.get(name))]
        if empty:
            found = "an empty one" + (f"; {len(empty)} in all: {listed(empty)}" if len(empty) > 1 else "")
            raise request.fail(empty[0], f"a filled {name!r}", found, "Fill it, or remove the row.")


def _is_empty(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _item(request: Request, columns: Columns, row: _Row, has_target: bool, *, table: bool) -> Item:
    text = tokens = features = None
    value = row.cells.get(_source(columns))
    if columns.features and table:
        features = _vector(request, row.place, [row.cells[name] for name in columns.features], columns)
    elif columns.vector or columns.features or (isinstance(value, list) and not isinstance(value[0], str)):
        features = _numbers(request, columns, row.place, value)
    elif isinstance(value, str):
        text = value
    else:
        tokens = tokens_of(request, row.place, columns.source, value)
    where = f"{request.name}:{row.place}"
    group = None if columns.group is None else row.cells.get(columns.group)
    target = _target(request, columns, row) if has_target else None
    return Item(where, text, tokens, features, target=target, group=None if group is None else str(group))


def _target(request: Request, columns: Columns, row: _Row) -> str | tuple[str, ...] | None:
    value = row.cells.get(columns.target)
    if _is_empty(value):
        return None
    return value if isinstance(value, str) else tokens_of(request, row.place, columns.target, value)


def _numbers(request: Request, columns: Columns, place: Place, value: Any) -> np.ndarray:
    """(T, D) float32; for a vector (1, D), an image row by row."""
    name = _source(columns)
    if isinstance(value, str):
        return _vector(request, place, re.split(r"[,\s]+", value.strip(" \t[]")), columns)
    if columns.vector and isinstance(value, list):
        flat = [number for part in value for number in (part if isinstance(part, list) else [part])]
        return features_of(request, place, name, [flat])
    return features_of(request, place, name, value)


def _vector(request: Request, place: Place, cells: Sequence[str], columns: Columns) -> np.ndarray:
    """(1, D) from cells of a table."""
    numbers = []
    for position, cell in enumerate(cells):
        try:
            numbers.append(float(cell))
        except ValueError:
            name = columns.features[position] if columns.features else f"{columns.source}, place {position + 1}"
            raise _no_number(request, place, name, cell) from None
    array = np.array([numbers], dtype=np.float64).astype(np.float32)
    check_features(request, place, array)
    return array


def _no_number(request: Request, place: Place, name: str, cell: str) -> DataError:
    way_out = "A vector's source holds numbers only." if cell.strip() else "Fill it, or remove the row."
    return request.fail(place, f"a number in column {name!r}", repr(cell[:40]) if cell.strip() else "nothing", way_out)
