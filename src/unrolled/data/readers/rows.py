"""From the cells of one row to an item; shared by tables and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Columns, Item, Kind, listed
from unrolled.data.readers.source import Request, check_features
from unrolled.errors import DataError

Place = int | str
RAGGED = "Every time step of every sequence has the same channels: fill the gap, or remove the row."


def missing_column(request: Request, name: str, role: str, found: Sequence[str]) -> DataError:
    way_out = f"Rename it, or name the column that holds the {role}."
    names = listed([repr(f) for f in found], 30) or "no columns"
    return request.fail(None, f"a column {name!r} for the {role}", f"columns {names}", way_out)


def choose_kind(request: Request, columns: Columns, found: Sequence[str]) -> Kind:
    """What the rows hold, and an error where a column that the task needs is not there."""
    feature_column = columns.features[0] if columns.features else "features"
    if request.task == "lm":
        kind: Kind = "text"
    elif columns.features or (columns.id is not None and columns.text not in found):
        kind = "features"
    elif request.task == "tag":
        kind = "features" if columns.tokens not in found and feature_column in found else "tokens"
    else:
        present = [k for k in (columns.text, columns.tokens, feature_column) if k in found]
        named: dict[str, Kind] = {columns.text: "text", columns.tokens: "tokens", feature_column: "features"}
        kind = named[present[0]] if present else "text"
    if kind != "features" and getattr(columns, kind) not in found:
        raise missing_column(request, getattr(columns, kind), kind, found)
    if request.labelled and request.task == "classify" and columns.label not in found:
        raise missing_column(request, columns.label, "label", found)
    if request.labelled and request.task == "tag" and columns.tags not in found:
        raise missing_column(request, columns.tags, "tags", found)
    if columns.group is not None and columns.group not in found:
        raise missing_column(request, columns.group, "group", found)
    return kind


def to_item(
    request: Request, columns: Columns, kind: Kind, place: Place, row: Mapping[str, Any], file_line: str
) -> Item | None:
    """An item, or None where the row is empty."""
    text = tokens = features = None
    if kind == "text":
        text = text_of(request, place, columns.text, row.get(columns.text))
        if not text.strip():
            return None
    elif kind == "tokens":
        tokens = tokens_of(request, place, columns.tokens, row.get(columns.tokens))
        if not tokens:
            return None
    else:
        name = columns.features[0] if columns.features else "features"
        features = features_of(request, place, name, row.get(name))
        if not len(features):
            return None
    label = _label(request, columns, place, row) if request.task == "classify" else None
    tags = _tags(request, columns, place, row, _length(tokens, features)) if request.task == "tag" else None
    group = None if columns.group is None else row.get(columns.group)
    return Item(file_line, text, tokens, features, label, tags, None if group is None else str(group))


def text_of(request: Request, place: Place, name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        found = f"{type(value).__name__} {str(value)[:40]}"
        raise request.fail(place, f"a string in column {name!r}", found)
    return value


def tokens_of(request: Request, place: Place, name: str, value: Any) -> tuple[str, ...]:
    """A list of strings, or a string that is split at white space."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        found = f"{type(value).__name__} {str(value)[:40]}"
        raise request.fail(place, f"a list of strings, or one string, in column {name!r}", found)
    if "" in value:
        found = f"an empty one at position {value.index('') + 1}"
        raise request.fail(place, f"no empty string in column {name!r}", found)
    return tuple(value)


def _label(request: Request, columns: Columns, place: Place, row: Mapping[str, Any]) -> str | None:
    value = row.get(columns.label)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)) and str(value).strip():
        return str(value).strip()
    if value is None or value == "":
        if not request.labelled:
            return None
        wanted = f"a label in column {columns.label!r}"
        raise request.fail(place, wanted, "an empty cell", "Fill it, or remove the row.")
    found = f"{type(value).__name__} {str(value)[:40]!r}"
    way_out = "Classes are names or whole numbers; write them as strings."
    raise request.fail(place, f"a label in column {columns.label!r}", found, way_out)


def _tags(
    request: Request, columns: Columns, place: Place, row: Mapping[str, Any], length: int
) -> tuple[str, ...] | None:
    tags = tokens_of(request, place, columns.tags, row.get(columns.tags))
    if not tags and not request.labelled:
        return None
    if len(tags) != length:
        wanted = f"as many tags in column {columns.tags!r} as there are tokens ({length})"
        raise request.fail(place, wanted, len(tags), "Give each token exactly one tag.")
    return tags


def features_of(request: Request, place: Place, name: str, value: Any) -> np.ndarray:
    """Nested list (T, D) to float32; a flat list is one channel."""
    if value is None or value == []:
        return np.zeros((0, 0), np.float32)
    if not isinstance(value, list):
        found = f"{type(value).__name__} {str(value)[:40]}"
        raise request.fail(place, f"a list of time steps in column {name!r}", found)
    steps = [step if isinstance(step, list) else [step] for step in value]
    for i, step in enumerate(steps, start=1):
        if len(step) != len(steps[0]):
            wanted = f"{len(steps[0])} numbers at every time step of column {name!r}"
            raise request.fail(place, wanted, f"{len(step)} at time step {i}", RAGGED)
        for j, number in enumerate(step, start=1):
            if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
                found = f"{number!r} at time step {i}, channel {j}"
                raise request.fail(place, f"numbers in column {name!r}", found)
    array = _float32([[np.nan if number is None else number for number in step] for step in steps])
    check_features(request, place, array, f"finite numbers in column {name!r}")
    return array


def _float32(values: Any) -> np.ndarray:
    """Too large a number becomes infinity without a warning; the check that follows names it."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


def check_alike(request: Request, items: Sequence[Item], first: Item | None = None) -> None:
    """All items are of the kind of the first, and have its channels. Of a piece this is asked when its turn comes."""
    first = first or (items[0] if items else None)
    if first is None or request.piece is not None:
        return
    odd = next((item for item in items if item.kind != first.kind), None)
    if odd is not None:
        found = f"{odd.kind} in {odd.where}"
        raise request.fail(None, f"sources of one kind, {first.kind} as in {first.where}", found)
    for item in items if first.features is not None else ():
        assert first.features is not None
        assert item.features is not None
        if item.features.shape[1] != first.features.shape[1]:
            wanted = f"{first.features.shape[1]} channels as in {first.where}"
            raise request.fail(item.where.rpartition(":")[2], wanted, item.features.shape[1], RAGGED)


def _length(tokens: tuple[str, ...] | None, features: np.ndarray | None) -> int:
    return len(features) if features is not None else len(tokens or ())
