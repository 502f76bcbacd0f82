"""From the names in a recipe to data: files, embedded sets, and the split where files do not bring one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unrolled.data import Columns, Dataset, check_labels, examples, read, split
from unrolled.data.examples import Splits
from unrolled.data.readers import choose_format
from unrolled.data.readers.pieces import can_stream
from unrolled.data.readers.source import Request
from unrolled.data.streaming import Budget, Part, Source, open_split, open_whole
from unrolled.errors import DataError, RecipeError, expected
from unrolled.training.recipe import Recipe

__all__ = ["in_memory", "open_data", "open_inputs", "open_parts", "published"]

TIMES_IN_MEMORY = 16  # bytes that items and their numbers take in memory, for each byte of a file


def open_parts(recipe: Recipe) -> Splits:
    """The training, validation and test parts. A part that a file names is that file, whole.

    Raises:
        DataError: a file cannot be read, a part is empty, or a label is not seen in the training part.
        RecipeError: an embedded set is for another task.
    """
    if _is_example(recipe.data):
        train, valid, test, _ = _example(recipe.data, recipe)
        notes = [*train.notes, *valid.notes, *test.notes]
    elif recipe.task == "forecast":
        return _in_time(recipe)
    else:
        train, valid, test = _in_parts(recipe)
        notes = list(train.notes)
    if recipe.valid is not None:
        valid = open_data(recipe.valid, recipe)
        notes += valid.notes
    if recipe.test is not None:
        test = open_data(recipe.test, recipe)
        notes += test.notes
    if isinstance(train, Part):  # its labels and its emptiness show when it is gone through
        return Splits(train, valid, test, recipe.task)
    if not len(train) or not len(valid):
        empty = "train" if not len(train) else "valid"
        raise DataError(expected(f"{recipe.data}: the {empty} part", "at least one item", "none", "Bring more data."))
    for part in (valid, test):
        if part.kind != train.kind if len(part) else False:
            raise DataError(expected(part.name, f"{train.kind}, as {train.name}", part.kind))
        if not isinstance(part, Part):
            check_labels(train, part)
    train.notes[:] = list(dict.fromkeys(notes))
    return Splits(train, valid, test, recipe.task)


def _in_time(recipe: Recipe) -> Splits:
    """Series are cut in time, and what is held out goes on where the training part stops."""
    from unrolled.training.forecasting.parts import series_parts

    parts = series_parts(recipe)
    for name, part in (("train", parts[0]), ("valid", parts[1])):
        if not len(part):
            way_out = "Bring longer series, or hold out less with --valid-steps and --test-steps."
            lengths = {item.series.id: len(item.series) for item in parts[0] if item.series is not None}
            longest = max(lengths, key=lengths.__getitem__, default="")
            found = f"none; the longest, {longest!r}, has {lengths[longest]:,} steps" if lengths else "none"
            wanted = f"a series long enough to hold out {recipe.horizon} steps or more (the horizon) from"
            raise DataError(expected(f"{recipe.data}: the {name} part", wanted, found, way_out))
    return Splits(*parts, recipe.task)


def _in_parts(recipe: Recipe) -> tuple[Dataset, Dataset, Dataset]:
    """The whole file trains, but for the parts that no other file brings."""
    shares = (
        0.0 if recipe.valid is not None else recipe.valid_share,
        0.0 if recipe.test is not None else recipe.test_share,
    )
    fractions = (1 - sum(shares), *shares)
    if _is_large(recipe.data, recipe):
        return open_split(_source(recipe.data, recipe, fractions))
    whole = read_file(recipe.data, recipe)
    if not any(shares):
        return whole, Dataset([]), Dataset([])
    parts = split(whole, fractions)
    parts[0].notes[:0] = whole.notes
    return parts


def _is_large(path: str | Path, recipe: Recipe) -> bool:
    """Whether the items of a file, and its numbers, would take more memory than the data may."""
    file = Path(path)
    if recipe.task == "forecast" or not file.is_file():
        return False
    large = file.stat().st_size * TIMES_IN_MEMORY > Budget(recipe.memory).bytes
    return large and can_stream(file, task=recipe.task, format=recipe.format, columns=_columns(recipe))


def _source(path: str | Path, recipe: Recipe, fractions: tuple[float, ...], *, labelled: bool = True) -> Source:
    request = Request(Path(path), recipe.task, labelled)
    chosen = choose_format(request, recipe.format)
    return Source(request, chosen, _columns(recipe), fractions, Budget(recipe.memory))


def open_data(name: str, recipe: Recipe) -> Dataset:
    """A labelled file, or the test part of an embedded set."""
    if _is_example(name):
        return _example(name, recipe).test
    if _is_large(name, recipe):
        return open_whole(_source(name, recipe, (1.0,)))
    if recipe.task == "forecast":
        from unrolled.training.forecasting.parts import to_score

        return to_score(read_file(name, recipe), recipe)
    return read_file(name, recipe)


def in_memory(part: Dataset) -> Dataset | None:
    """The part, unless it is larger than memory: for what needs all of it at once and can be left out."""
    return None if isinstance(part, Part) else part


def open_inputs(path: str | Path, recipe: Recipe) -> Dataset:
    """A file without labels, to predict."""
    if _is_large(path, recipe):
        source = _source(path, recipe, (1.0,), labelled=False)
        if not source.by_position:  # one text is one item, however long
            return open_whole(source)
    return read_file(path, recipe, labelled=False)


def read_file(path: str | Path, recipe: Recipe, *, labelled: bool = True) -> Dataset:
    if recipe.task == "forecast":
        from unrolled.training.forecasting.parts import open_series

        return open_series(str(path), recipe)
    return read(path, task=recipe.task, format=recipe.format, columns=_columns(recipe), labelled=labelled)


def _columns(recipe: Recipe) -> Columns:
    names = ("text", "label", "tokens", "tags", "features", "id", "time", "group")
    same: dict[str, Any] = {name: getattr(recipe, name) for name in names}
    vector = recipe.source == "vector"
    return Columns(**same, source=recipe.source_column, target=recipe.target_column, vector=vector)


def published(recipe: Recipe) -> list[tuple[str, str, str]]:
    """The figures that others reported on an embedded set's test part."""
    if not _is_example(recipe.data) or recipe.test is not None:
        return []
    return [(entry.what, entry.figure, entry.source) for entry in examples.describe(recipe.data).published]


def _is_example(name: str) -> bool:
    return name in examples.NAMES and not Path(name).is_file()


def _example(name: str, recipe: Recipe) -> Splits:
    example = examples.describe(name)
    if example.task != recipe.task:
        way_out = f"Write: unrolled train {example.task} {name}"
        raise RecipeError(
            expected("task", f"{example.task}, which the embedded set {name} is for", recipe.task, way_out)
        )
    return examples.load(name)
