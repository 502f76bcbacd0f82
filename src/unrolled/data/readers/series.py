"""Series from a table: one row a step and a series, columns for time, target, id and covariates.

The rows of a series may stand apart in the file, but their times must rise, each once. An empty cell (or NA, NaN,
null) is a missing value. Rows at the end that have known covariates and no target are the steps ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unrolled.data.calendar import Frequency, infer_frequency, parse_times, show_time
from unrolled.data.items import Dataset, Item, listed
from unrolled.data.readers.records import read_parquet_table, read_records, readable
from unrolled.data.readers.rows import Place, missing_column
from unrolled.data.readers.source import Request, to_dataset
from unrolled.data.readers.tables import read_cells
from unrolled.data.series import Series, fill_forward
from unrolled.errors import DataError, expected, require

__all__ = ["SeriesColumns", "read_series"]

MISSING = {"", "na", "nan", "null", "none", "n/a"}
MOST_STEPS = 1_000_000  # of a series whose rows are fewer than one in SPARSEST
SPARSEST = 1000
FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class SeriesColumns:
    """Which column of a table holds what."""

    time: str = "time"
    target: str = "target"
    id: str | None = None
    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()

    @property
    def roles(self) -> list[tuple[str, str]]:
        """(column, role) of all."""
        one = [(self.time, "time"), (self.target, "target")] + ([] if self.id is None else [(self.id, "id")])
        return one + [(name, "known covariate") for name in self.known] + [(n, "past covariate") for n in self.past]


@dataclass(frozen=True)
class _Rows:
    """The table as numbers, one entry a row of the file."""

    request: Request
    columns: SeriesColumns
    places: list[Place]
    ids: np.ndarray  # (rows,) of str
    times: np.ndarray  # (rows,) int64
    dates: bool
    target: np.ndarray  # (rows,)
    known: np.ndarray  # (rows, K)
    past: np.ndarray  # (rows, P)


def read_series(
    path: str | Path,
    columns: SeriesColumns,
    *,
    format: str = "auto",
    frequency: str = "auto",
    gaps: Literal["error", "mask", "fill"] = "error",
) -> Dataset:
    """Read a file of series.

    Args:
        path: a CSV, TSV, JSON lines or Parquet file.
        frequency: the step, as `Frequency.parse` takes it; auto: the most common one.
        gaps: what to do where rows are missing: an error that names them, `mask` (missing values, as empty cells are),
            or `fill` (the value before is repeated, in empty cells too).

    Raises:
        DataError: with the file, the line, the column, what was wanted, what was found and what to do.
    """
    request = Request(Path(path), "forecast", True)
    table, places = _table(request, format)
    rows = _rows(request, columns, table, places)
    groups = _groups(rows.ids)
    for name, members in groups.items():
        _check_order(rows, name, members)
    step = Frequency.parse(frequency) if frequency != "auto" else None
    step = step or infer_frequency([rows.times[members] for members in groups.values()], rows.dates)
    if (step.unit == "steps") == rows.dates:
        kind = "dates" if rows.dates else "whole numbers"
        way_out = "Write the step in the units of the time column, or leave out --frequency."
        raise request.fail(None, f"a frequency for times that are {kind}", str(step), way_out)
    if frequency == "auto":
        for name, members in groups.items():
            _refuse_another_step(rows, name, members, step)
    notes: list[str] = [f"{request.name}: {len(groups):,} series, step {step}"]
    items = [Item("", series=_series(rows, name, members, step, gaps)) for name, members in groups.items()]
    items = [Item(item.series.where, series=item.series) for item in items if item.series is not None]
    notes += _missing_notes(rows, items, gaps)
    return to_dataset(request, items, [], notes)


# the table


def _table(request: Request, format: str) -> tuple[Any, list[Place]]:
    suffix = request.path.suffix.lower()
    chosen = FORMATS.get(suffix) if format == "auto" else format
    if chosen not in FORMATS.values():
        found = repr(suffix or "none") if format == "auto" else repr(format)
        wanted = f"a format for series ({', '.join(dict.fromkeys(FORMATS.values()))})"
        raise request.fail(None, wanted, found, "Pass --format csv, for example.")
    if chosen in ("csv", "tsv"):
        table, places, _, _ = read_cells(request, "," if chosen == "csv" else "\t")
        return table, places
    arrow = require("pyarrow", "train")
    if chosen == "jsonl":
        return _of_records(request, read_records(request, "jsonl")[1])
    table = read_parquet_table(request)
    with readable(request, "a flat table of numbers and times", "Each cell is a number, a text or a time."):
        columns = [column.cast(arrow.string()).fill_null("") for column in table.columns]
    return arrow.table(columns, names=table.column_names), [f"row {number}" for number in range(1, table.num_rows + 1)]


def _of_records(request: Request, records: Sequence[tuple[Place, Mapping[str, Any]]]) -> tuple[Any, list[Place]]:
    """Records as a table of texts. pyarrow's own reader of JSON crashed on some lines that were cut off."""
    arrow = require("pyarrow", "train")
    cells: dict[str, list[str]] = {name: [] for _, record in records for name in record}
    for place, record in records:
        for name, column in cells.items():
            value = record.get(name)
            if isinstance(value, list | dict):
                found = f"a {type(value).__name__} in column {name!r}"
                raise request.fail(place, "a flat table of numbers and times", found, "Give each value a field.")
            column.append("" if value is None else str(value))
    table = arrow.table({name: arrow.array(column, arrow.string()) for name, column in cells.items()})
    return table, [place for place, _ in records]


def _rows(request: Request, columns: SeriesColumns, table: Any, places: list[Place]) -> _Rows:
    names: list[str] = table.column_names
    for name, role in columns.roles:
        if name not in names:
            raise missing_column(request, name, role, names)
    used = [name for name, _ in columns.roles]
    twice = sorted({name for name in used if used.count(name) > 1})
    if twice:
        roles = " and ".join(role for name, role in columns.roles if name == twice[0])
        raise request.fail(None, "one role a column", f"column {twice[0]!r} as {roles}", "Name it once.")
    if not table.num_rows:
        to_dataset(request, [], [])
    cells = {name: table.column(name).to_pylist() for name in used}
    times = parse_times(cells[columns.time])
    if isinstance(times, int):
        found = repr(cells[columns.time][times][:40])
        wanted = f"a time in column {columns.time!r}, as 2024-01-31, 2024-01-31T05:00 or a whole number"
        raise request.fail(places[times], wanted, found, "Write all times of the file in one of these forms.")
    numbers = {name: _numbers(request, name, cells[name], places) for name, role in columns.roles[1:] if role != "id"}
    ids = cells[columns.id] if columns.id is not None else [columns.target] * len(places)
    if columns.id is not None and "" in (stripped := [name.strip() for name in ids]):
        raise request.fail(places[stripped.index("")], f"an id in column {columns.id!r}", "an empty cell")

    def block(wanted: Sequence[str]) -> np.ndarray:
        return np.stack([numbers[name] for name in wanted], axis=1) if wanted else np.zeros((len(places), 0))

    target = numbers[columns.target]
    known, past = block(columns.known), block(columns.past)
    return _Rows(request, columns, places, np.array(ids, dtype=object), *times, target, known, past)


def _numbers(request: Request, name: str, cells: list[str], places: list[Place]) -> np.ndarray:
    """(rows,) float64, NaN where missing.

    Raises:
        DataError: a cell is not a number, or is infinite.
    """
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if cell.strip().lower() in MISSING:
            continue
        try:
            values[i] = float(cell)
        except ValueError:
            wanted = f"a number in column {name!r}, or an empty cell where it is missing"
            raise request.fail(places[i], wanted, repr(cell[:40]), "Correct it.") from None
        if not np.isfinite(values[i]):
            way_out = "Leave the cell empty where the value is missing."
            raise request.fail(places[i], f"a finite number in column {name!r}", repr(cell.strip()), way_out)
    return values


def _groups(ids: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of each series, in the order in which they first appear."""
    found: dict[str, list[int]] = {}  # NumPy takes "a\0" and "a" for the same text
    for row, name in enumerate(ids.tolist()):
        found.setdefault(name, []).append(row)
    return {name: np.array(members) for name, members in found.items()}


# one series


def _check_order(rows: _Rows, name: str, members: np.ndarray) -> None:
    late = np.flatnonzero(np.diff(rows.times[members]) <= 0)
    if not len(late):
        return
    before, row = members[late[0]], members[late[0] + 1]
    shown = [show_time(int(rows.times[i]), rows.dates) for i in (before, row)]
    again = rows.times[row] == rows.times[before]
    found = f"{shown[1]} {'again' if again else 'out of order'}, in series {name!r}"
    found += f" ({len(late)} such rows in this series)" if len(late) > 1 else ""
    wanted = f"a time in column {rows.columns.time!r} after {shown[0]} (line {rows.places[before]})"
    way_out = "Keep each time once: remove the copy, or name the column that tells series apart with --id."
    raise rows.request.fail(rows.places[row], wanted, found, way_out if again else "Sort the rows of a series by time.")


def _series(rows: _Rows, name: str, members: np.ndarray, step: Frequency, gaps: str) -> Series:
    times, origin = rows.times[members], int(rows.times[members[0]])
    positions = step.positions(times, origin)
    if (positions < 0).any():
        i = int((positions < 0).argmax())
        wanted = f"a time on the grid of one {step} from {show_time(origin, rows.dates)}, series {name!r}"
        way_out = "Correct it, or name the step with --frequency."
        raise rows.request.fail(rows.places[members[i]], wanted, show_time(int(times[i]), rows.dates), way_out)
    _refuse_two_in_one(rows, name, members, positions, step)
    if gaps == "error":
        _refuse_gaps(rows, name, members, positions, step)
    count = int(positions[-1]) + 1
    _refuse_a_wide_gap(rows, name, members, positions, count)

    def on_grid(values: np.ndarray) -> np.ndarray:
        placed = np.full((count, *values.shape[1:]), np.nan)
        placed[positions] = values[members]
        return fill_forward(placed) if gaps == "fill" else placed

    observed = np.full(count, np.nan)
    observed[positions] = rows.target[members]
    end = count
    if rows.columns.known:  # rows at the end without a target are the steps ahead
        end = int(np.flatnonzero(np.isfinite(observed))[-1]) + 1 if np.isfinite(observed).any() else 0
    target, known, past = on_grid(rows.target)[:end], on_grid(rows.known), on_grid(rows.past)[:end]
    where = f"{rows.request.name}:{rows.places[members[0]]}"
    return Series(name, where, origin, target, known, past, step, rows.dates)


def _refuse_a_wide_gap(rows: _Rows, name: str, members: np.ndarray, positions: np.ndarray, count: int) -> None:
    """Raise where the rows that are not there would take memory by the gigabyte: one wrong time is enough."""
    if count <= MOST_STEPS or count <= SPARSEST * len(members):
        return
    widest = int(np.diff(positions).argmax())
    before, after = (show_time(int(rows.times[members[i]]), rows.dates) for i in (widest, widest + 1))
    wanted = f"at most {SPARSEST} steps for each row of series {name!r}"
    found = f"{count:,} for {len(members):,}, most of them between {before} and {after}"
    way_out = "Correct the time, or name a longer step with --frequency."
    raise rows.request.fail(rows.places[members[widest + 1]], wanted, found, way_out)


def _refuse_two_in_one(rows: _Rows, name: str, members: np.ndarray, positions: np.ndarray, step: Frequency) -> None:
    same = np.flatnonzero(np.diff(positions) < 1)
    if not len(same):
        return
    first, second = members[same[0]], members[same[0] + 1]
    shown = [show_time(int(rows.times[i]), rows.dates) for i in (first, second)]
    wanted = f"one row for every {step} of series {name!r}"
    way_out = "Name a shorter step with --frequency, such as 28d, or add up the rows of a step."
    raise rows.request.fail(rows.places[second], wanted, f"{shown[0]} and {shown[1]}", way_out)


def _refuse_another_step(rows: _Rows, name: str, members: np.ndarray, step: Frequency) -> None:
    """Raise where the rows of a series are all further apart than those of the others, and evenly."""
    jumps = np.diff(step.positions(rows.times[members], int(rows.times[members[0]])))
    if len(jumps) > 1 and jumps[0] > 1 and (jumps == jumps[0]).all():
        wanted = f"a row for every {step} of series {name!r}, as in the other series"
        way_out = "Put series of another step into a file of their own, or name the step with --frequency."
        raise rows.request.fail(rows.places[members[1]], wanted, f"one every {jumps[0]} steps", way_out)


def _refuse_gaps(rows: _Rows, name: str, members: np.ndarray, positions: np.ndarray, step: Frequency) -> None:
    jumps = np.diff(positions)
    holes = np.flatnonzero(jumps > 1)
    if not len(holes):
        return
    before, after = members[holes[0]], members[holes[0] + 1]
    shown = [show_time(int(rows.times[i]), rows.dates) for i in (before, after)]
    missing = int(jumps[holes[0]]) - 1
    found = f"{missing} missing between {shown[0]} and {shown[1]}"
    if len(holes) > 1:
        found += f", and {len(holes) - 1} more gaps, {int((jumps[holes] - 1).sum())} steps in all"
    way_out = "Choose --gaps mask (missing values stay missing) or --gaps fill (the value before is repeated), "
    wanted = f"a row for every {step} of series {name!r}"
    raise rows.request.fail(rows.places[after], wanted, found, way_out + "or add the rows.")


def _missing_notes(rows: _Rows, items: Sequence[Item], gaps: str) -> list[str]:
    """Lines of the file with empty cells, and how many rows were not there at all."""
    name, notes = rows.request.name, []
    ahead = _are_ahead(rows)
    if count := int(ahead.sum()):
        said = (
            "1 row at the end has no target and is a step"
            if count == 1
            else f"{count:,} rows at the end have no target and are the steps"
        )
        notes.append(f"{name}: {said} ahead")
    empty = np.flatnonzero(np.isnan(rows.target) & ~ahead)
    words = "repeat the value before" if gaps == "fill" else "are masked"
    if len(empty):
        lines = listed([rows.places[i] for i in empty])
        notes.append(f"{name}: missing values of {rows.columns.target!r} {words}: {len(empty):,}, line {lines}")
    on_grid = sum(max(len(item.series), len(item.series.known)) for item in items if item.series is not None)
    if on_grid > len(rows.places):
        notes.append(f"{name}: rows that are not there {words}: {on_grid - len(rows.places):,}")
    return notes


def _are_ahead(rows: _Rows) -> np.ndarray:
    """(rows,) bool: steps ahead, as no row of the same series has a target from there on and something is known."""
    ids, series = np.unique(rows.ids.astype(str), return_inverse=True)
    last = np.full(len(ids), -1)
    seen = np.flatnonzero(np.isfinite(rows.target))
    np.maximum.at(last, series[seen], seen)
    return (np.arange(len(series)) > last[series]) & bool(rows.columns.known)


def only_series(dataset: Dataset) -> list[Series]:
    """The series of a data set.

    Raises:
        DataError: its items are something else.
    """
    found = [item.series for item in dataset if item.series is not None]
    if len(found) != len(dataset):
        raise DataError(expected(dataset.name, "series", dataset.kind, "Read them with `read_series`."))
    return found
