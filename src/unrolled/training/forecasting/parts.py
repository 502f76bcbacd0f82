"""From files of series to training, validation and test parts, and the refusal of what cannot be learnt from.

Variant  Each series is cut in time: the first steps train, the next validate, the last test. A file that is named for a
         part goes on where the one before it stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unrolled.data import Dataset, Item
from unrolled.data.items import listed
from unrolled.data.readers.series import SeriesColumns, only_series, read_series
from unrolled.data.series import Series, join, split_in_time
from unrolled.errors import DataError, expected
from unrolled.runtime import plan as measured
from unrolled.training.forecasting.plan import lookback_of, season_of
from unrolled.training.recipe import Recipe

__all__ = ["check_training_part", "check_values", "open_series", "series_parts", "to_score"]

Parts = tuple[Dataset, Dataset, Dataset]


def open_series(path: str, recipe: Recipe) -> Dataset:
    """Read a file of series by the recipe's columns."""
    columns = SeriesColumns(recipe.time or "time", recipe.target, recipe.id, recipe.known, recipe.past)
    format = recipe.format if recipe.format in ("csv", "tsv", "jsonl", "parquet") else "auto"
    return read_series(path, columns, format=format, frequency=recipe.frequency, gaps=recipe.gaps)


def series_parts(recipe: Recipe) -> Parts:
    """The three parts; those that a file names are that file.

    Raises:
        DataError: a file cannot be used, or a named file does not go on where the series stop.
    """
    whole = open_series(recipe.data, recipe)
    notes = list(whole.notes)
    valid_steps = 0 if recipe.valid is not None else None
    test_steps = 0 if recipe.test is not None else None
    lists: list[list[Series]] = [[], [], []]
    for series in only_series(whole):
        _check_known(recipe, series)
        for part, found in zip(_cut(series, recipe, valid_steps, test_steps), lists, strict=True):
            if len(part) > part.begin:
                found.append(part)
    names = [f"{whole.name}[{name}]" for name in ("train", "valid", "test")]
    for place, path in ((1, recipe.valid), (2, recipe.test)):
        if path is not None:
            before = {part.id: part for found in lists[:place] for part in found}
            more = open_series(path, recipe)
            for series in only_series(more):
                _check_known(recipe, series)
            lists[place] = [_after(before, series, more.name) for series in only_series(more)]
            names[place] = more.name
            notes += more.notes
    parts = [Dataset([Item(s.where, series=s) for s in found], name) for found, name in zip(lists, names, strict=True)]
    parts[0].notes[:] = notes
    return parts[0], parts[1], parts[2]


def _cut(series: Series, recipe: Recipe, valid: int | None, test: int | None) -> tuple[Series, Series, Series]:
    """The parts of one series; all of it trains where it is too short to be cut."""

    def steps(said: int | None, share: float) -> int:
        if said is not None:
            return said
        return max(recipe.horizon, round(share * len(series))) if share else 0

    held = steps(recipe.valid_steps if valid is None else valid, recipe.valid_share)
    tested = steps(recipe.test_steps if test is None else test, recipe.test_share)
    if len(series) - held - tested < 2:
        held = tested = 0
    return split_in_time(series, held, tested)


def _after(before: dict[str, Series], series: Series, name: str) -> Series:
    if series.id not in before:
        found = f"series {series.id!r}, which the training file does not have"
        raise DataError(expected(series.where, "a series that goes on", found, f"Remove it from {name}."))
    return join(before[series.id], series)


def to_score(dataset: Dataset, recipe: Recipe) -> Dataset:
    """A file by itself: all that has a context before it is scored, and at least one horizon."""
    items = []
    for series in only_series(dataset):
        _check_known(recipe, series)
        context = lookback_of(recipe, season_of(recipe, series.frequency)[0])
        begin = max(1, min(context, len(series) - recipe.horizon))
        items.append(Item(series.where, series=replace(series, begin=min(begin, len(series)))))
    return Dataset(items, dataset.name, list(dataset.notes))


# what cannot be learnt from


def check_training_part(recipe: Recipe, dataset: Dataset) -> Dataset:
    """The training part without the series that the recipe drops.

    Raises:
        DataError: a series is too short, constant or empty, or has values that the output cannot have.
    """
    series = only_series(dataset)
    context = lookback_of(recipe, season_of(recipe, series[0].frequency)[0]) if series else 0
    needed = context + recipe.horizon
    short = [one for one in series if len(one) < needed]
    flat = [one for one in series if len(one) >= 2 and _is_constant(one.target)]
    nothing = [one for one in series if not np.isfinite(one.target).any()]
    if nothing:
        way_out = "Remove these rows, or check the column that --target names."
        raise _refusal(nothing, "at least one value in the training part", "none", way_out)
    if short and recipe.short == "error":
        found = f"{len(short[0])}"
        wanted = f"{needed} training steps or more, a context of {context} and a horizon of {recipe.horizon}"
        way_out = "Use --short mask (read what is there), --short drop, or a smaller --lookback or --horizon."
        raise _refusal(short, wanted, found, way_out)
    if flat and recipe.constant == "error":
        value = flat[0].target[np.isfinite(flat[0].target)][0]
        way_out = "Use --constant drop, or --constant keep if the value may change later."
        raise _refusal(flat, "values that differ", f"{value:g} at every step of the training part", way_out)
    for one in series:
        check_values(recipe, one)
    gone = {one.id for one in short if recipe.short == "drop"} | {one.id for one in flat if recipe.constant == "drop"}
    kept = [item for item, one in zip(dataset, series, strict=True) if one.id not in gone and len(one) >= 2]
    if not kept:
        raise DataError(expected(dataset.name, "a series to learn from", "none that is long enough"))
    notes = list(dataset.notes)
    if len(kept) < len(series):
        names = {item.series.id for item in kept if item.series is not None}
        lost = [one.id for one in series if one.id not in names]
        notes.append(f"{len(lost):,} series dropped, too short or constant: {listed(lost)}")
    if short and recipe.short == "mask":
        notes.append(f"{len(short):,} series are shorter than {needed} steps and read from where they begin")
    return Dataset(kept, dataset.name, notes)


def _check_known(recipe: Recipe, series: Series) -> None:
    """Raise where a covariate that is known in advance is not. With gaps = mask it may be missing, as its row may."""
    holes = ~np.isfinite(series.known[:, : len(recipe.known)])
    if recipe.gaps == "mask" or not holes.any():
        return
    step, column = (int(place) for place in np.argwhere(holes)[0])
    wanted = f"a number in column {recipe.known[column]!r}, known in advance, at every step"
    found = f"none at {series.time(step)}" + (f" and {holes.sum() - 1:,} more" if holes.sum() > 1 else "")
    way_out = "Fill it in, name the column under --past, or use --gaps mask, which then takes its mean."
    raise DataError(expected(f"{series.where}: series {series.id!r}", wanted, found, way_out))


def _refusal(series: Sequence[Series], wanted: str, found: str, way_out: str) -> DataError:
    more = f" ({len(series):,} such series: {listed([one.id for one in series])})" if len(series) > 1 else ""
    return DataError(expected(f"{series[0].where}: series {series[0].id!r}", wanted, found + more, way_out))


def _is_constant(values: np.ndarray) -> bool:
    there = values[np.isfinite(values)]
    return len(there) > 1 and bool((there == there[0]).all())


def check_values(recipe: Recipe, series: Series) -> None:
    """Raise where a value is one that the output or the transform cannot have."""
    measured.check_values(recipe.output, recipe.transform == "log", series)
