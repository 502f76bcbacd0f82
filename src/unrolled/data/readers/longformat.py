"""Features in the long format: one row a time step, an `id` column that says which rows form a sequence.

The rows of a sequence may stand apart in the file; with a `time` column they must be in order of time, each time once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.data.items import Columns, Dataset, Item, listed
from unrolled.data.readers.rows import Place, missing_column
from unrolled.data.readers.source import Request, to_dataset
from unrolled.errors import require


def read_long(request: Request, columns: Columns, table: Any, places: list[Place]) -> Dataset:
    names: list[str] = table.column_names
    if columns.id is None:
        way_out = "Name the column that says which rows form one sequence."
        raise request.fail(None, "an id column for features in a table", "none named", way_out)
    for name, role in [(columns.id, "id"), (columns.time, "time"), *((f, "features") for f in columns.features)]:
        if name is not None and name not in names:
            raise missing_column(request, name, role, names)
    if not table.num_rows:
        return to_dataset(request, [], [])
    channels, notes = channels_of(request, columns, table, places)
    values = np.stack([_numbers(request, table, name, places) for name in channels], axis=1)
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    _check_finite(request, table, values, channels, places)
    ids = np.array(table.column(columns.id).to_pylist(), dtype=object)
    order, bounds = _groups(ids)
    if columns.time is not None:
        _check_time(request, table, columns.time, ids, order, bounds, places)
    sides = _sides(columns, table)
    items = [_item(request, columns, values[rows], rows, sides, places) for rows in np.split(order, bounds[1:])]
    return to_dataset(request, items, [], notes)


def channels_of(request: Request, columns: Columns, table: Any, places: list[Place]) -> tuple[list[str], list[str]]:
    """The named feature columns, or each column that begins with a number and has no other role."""
    if columns.features:
        return list(columns.features), []
    roles = {columns.id, columns.time, columns.label, columns.tags, columns.group}
    others = [name for name in table.column_names if name not in roles]
    first = {name: table.column(name)[0].as_py() for name in others}
    channels = [name for name in others if _is_number(first[name])]
    if not channels:
        found = f"columns {listed([repr(name) for name in table.column_names], 30)}"
        way_out = "Name the feature columns."
        raise request.fail(None, "at least one column of numbers", found, way_out)
    left_out = [f"{name!r} ({first[name]!r} at {places[0]})" for name in others if name not in channels]
    notes = [f"{request.name}: features are {', '.join(channels)}"]
    if left_out:
        notes.append(f"{request.name}: not numbers, and so left out: {listed(left_out)}")
    return channels, notes


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(request: Request, table: Any, name: str, places: list[Place]) -> np.ndarray:
    """(rows,) float64. An empty cell becomes NaN, which the next check reports as such."""
    compute = require("pyarrow.compute", "train")
    arrow = require("pyarrow", "train")
    cells = compute.utf8_trim_whitespace(table.column(name))
    filled = compute.if_else(compute.equal(cells, ""), "nan", cells)
    try:
        return np.asarray(compute.cast(filled, arrow.float64()).to_numpy())
    except arrow.ArrowInvalid:
        for place, cell in zip(places, filled.to_pylist(), strict=True):
            if not _is_number(cell):
                way_out = "Correct it, or leave the column out of the features."
                raise request.fail(place, f"a number in column {name!r}", repr(cell[:40]), way_out) from None
        return np.array([float(cell) for cell in filled.to_pylist()])  # what Python reads and pyarrow does not


def _check_finite(request: Request, table: Any, values: np.ndarray, channels: list[str], places: list[Place]) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, channel = int(bad[0, 0]), int(bad[0, 1])
        cell = table.column(channels[channel])[row].as_py().strip()
        found = f"{cell!r}" if cell else "an empty cell"
        more = f" ({len(bad)} such cells in all)" if len(bad) > 1 else ""
        way_out = "Remove the row, or fill the gap before training (too large for float32 counts as infinity)."
        wanted = f"a finite number in column {channels[channel]!r}"
        raise request.fail(places[row], wanted, found + more, way_out)


def _groups(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers by sequence, in the order in which sequences first appear; and where each begins."""
    first: dict[Any, int] = {}
    codes = np.array([first.setdefault(name, len(first)) for name in ids], dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(len(first)))


def _check_time(
    request: Request,
    table: Any,
    name: str,
    ids: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    places: list[Place],
) -> None:
    """Raise at the first row whose time is not after that of the row before it in its sequence."""
    cells = table.column(name).to_pylist()
    numeric = all(_is_number(cell) for cell in cells)
    times = np.array([float(c) for c in cells]) if numeric else np.array(cells, dtype=object)
    begins = set(bounds.tolist())
    for at in range(1, len(order)):
        row, before = int(order[at]), int(order[at - 1])
        if at in begins or times[row] > times[before]:
            continue
        what = "again" if times[row] == times[before] else "out of order"
        wanted = f"a time in column {name!r} after {cells[before]!r} (line {places[before]})"
        found = f"{cells[row]!r}, {what}, in sequence {ids[row]!r}"
        way_out = "Sort the rows by time and keep each time once"
        way_out += "." if numeric else "; times that are not numbers are compared as text, so write 2024-01-31."
        raise request.fail(places[row], wanted, found, way_out)


def _sides(columns: Columns, table: Any) -> dict[str, list[str]]:
    roles = (columns.label, columns.tags, columns.group)
    return {name: table.column(name).to_pylist() for name in table.column_names if name in roles}


def _item(
    request: Request,
    columns: Columns,
    features: np.ndarray,
    rows: np.ndarray,
    sides: dict[str, list[str]],
    places: list[Place],
) -> Item:
    def one(name: str | None, role: str) -> str | None:
        """The value of a column that is the same in all rows of the sequence."""
        if name is None or name not in sides:
            return None
        cells = sides[name]
        value = cells[rows[0]].strip()
        for row in rows:
            if cells[row].strip() != value:
                wanted = f"one {role} a sequence: {value!r} as on line {places[rows[0]]}"
                raise request.fail(places[row], wanted, repr(cells[row]), "Check the id column.")
        return value or None

    label = one(columns.label, "label") if request.task == "classify" else None
    if label is None and request.task == "classify" and request.labelled:
        wanted = f"a label in column {columns.label!r}"
        raise request.fail(places[rows[0]], wanted, "an empty cell", "Fill it, or remove the sequence.")
    tags = None
    if request.task == "tag" and columns.tags in sides:
        tags = tuple(sides[columns.tags][row].strip() for row in rows)
        if "" in tags and request.labelled:
            place = places[rows[tags.index("")]]
            raise request.fail(place, f"a tag in column {columns.tags!r}", "an empty cell")
        tags = None if "" in tags else tags
    where = f"{request.name}:{places[rows[0]]}"
    return Item(where, features=features, label=label, tags=tags, group=one(columns.group, "group"))
