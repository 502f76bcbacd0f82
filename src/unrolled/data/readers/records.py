"""JSON lines and Parquet: one record an item; tokens, tags and features are lists.

JSON lines are parsed with the standard library, not pyarrow: only line by line can an error name its line.
"""

from __future__ import annotations

import json
from typing import Any

from unrolled.data.items import Columns, Dataset, Item
from unrolled.data.readers.rows import check_channels, choose_kind, missing_column, to_item
from unrolled.data.readers.source import Request, decode, numbered_lines, read_bytes, to_dataset
from unrolled.errors import DataError, require


def read_records(request: Request, format: str) -> list[tuple[int | str, dict[str, Any]]]:
    """The records of a file, `jsonl` or `parquet`, with the place of each."""
    if format == "jsonl":
        lines = numbered_lines(decode(request, read_bytes(request)))
        return [(number, _parse(request, number, line)) for number, line in lines if line.strip()]
    read_bytes(request)  # the messages about a missing or empty file
    try:
        rows = require("pyarrow.parquet", "train").read_table(request.path).to_pylist()
    except require("pyarrow", "train").ArrowException as error:
        raise _no_parquet(request, error) from None
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _no_parquet(request: Request, error: Exception) -> DataError:
    found = str(error).splitlines()[0][:120].rstrip(".")
    return request.fail(None, "a Parquet file", found, "Write it again.")


def read_jsonl(request: Request, columns: Columns) -> Dataset:
    records = read_records(request, "jsonl")
    names = list(dict.fromkeys(name for _, record in records for name in record))
    kind = choose_kind(request, columns, names)
    name = (columns.features or ("features",))[0] if kind == "features" else getattr(columns, kind)
    items: list[Item] = []
    empty: list[str] = []
    for number, record in records:
        if name not in record:
            way_out = "Every line has the same fields; null or an empty string is an empty item."
            raise request.fail(number, f"a field {name!r}", f"fields {', '.join(record) or 'none'}", way_out)
        item = to_item(request, columns, kind, number, record, f"{request.name}:{number}")
        if item is None:
            empty.append(str(number))
        else:
            items.append(item)
    check_channels(request, items)
    return to_dataset(request, items, empty)


def _parse(request: Request, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        found = f"{error.msg.lower()} at column {error.colno}: {line[max(0, error.colno - 10) : error.colno + 20]!r}"
        way_out = "One object a line; a file that is one big list must be rewritten, for example with jq -c '.[]'."
        raise request.fail(number, "one JSON object", found, way_out) from None
    except RecursionError:
        raise request.fail(number, "one JSON object", "lists nested too deep") from None
    if not isinstance(record, dict):
        found = f"a {type(record).__name__}"
        raise request.fail(number, "a JSON object with named fields", found, 'For example {"text": "…"}.')
    return record


def read_parquet(request: Request, columns: Columns) -> Dataset:
    parquet = require("pyarrow.parquet", "train")
    arrow = require("pyarrow", "train")
    read_bytes(request)  # the messages about a missing or empty file
    try:
        names = list(parquet.read_schema(request.path).names)
        kind = choose_kind(request, columns, names)
        main = (columns.features or ("features",))[0] if kind == "features" else getattr(columns, kind)
        if main not in names:
            raise missing_column(request, main, kind, names)
        wanted = {main, columns.label, columns.tags, columns.group} & set(names)
        rows = parquet.read_table(request.path, columns=[n for n in names if n in wanted]).to_pylist()
    except arrow.ArrowException as error:
        raise _no_parquet(request, error) from None
    items: list[Item] = []
    empty: list[str] = []
    for number, row in enumerate(rows, start=1):
        item = to_item(request, columns, kind, f"row {number}", row, f"{request.name}:row {number}")
        if item is None:
            empty.append(f"row {number}")
        else:
            items.append(item)
    check_channels(request, items)
    return to_dataset(request, items, empty)
