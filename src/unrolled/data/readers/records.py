"""JSON lines and Parquet: one record an item; tokens, tags and features are lists.

JSON lines are parsed with the standard library, not pyarrow: only line by line can an error name its line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from unrolled.data.items import Columns, Dataset, Item, Kind
from unrolled.data.readers.rows import check_alike, choose_kind, missing_column, to_item
from unrolled.data.readers.source import Request, check_filled, decode, numbered_lines, read_bytes, to_dataset
from unrolled.errors import UnrolledError, require

SMALL = 64 * 2**20  # bytes that any file may unfold to; of rows, a hundredth
Record = tuple[int | str, dict[str, Any]]
LOOSEST = 200  # times its size that a larger one may; text seldom packs better than 20 times
DENSEST = 10  # rows in a byte


Choose = Callable[[list[str]], Collection[str]]  # from the names of all columns those that are read; none: all


def read_records(request: Request, format: str, choose: Choose = set) -> tuple[list[str], list[Record]]:
    """The names of all fields of a file, `jsonl` or `parquet`, and its records with the place of each."""
    if format == "jsonl":
        lines = numbered_lines(request, decode(request, read_bytes(request)))
        records: list[Record] = [(number, _parse(request, number, line)) for number, line in lines if line.strip()]
        return list(dict.fromkeys([*request.names, *(name for _, record in records for name in record)])), records
    names: list[str] = []

    def chosen(found: list[str]) -> Collection[str]:
        names.extend(found)
        return choose(found)

    rows = _to_rows(request, read_parquet_table(request, chosen))
    return names, [(f"row {number}", row) for number, row in enumerate(rows, start=request.line(1))]


# Parquet


def read_parquet_table(request: Request, choose: Choose = set) -> Any:
    """The table of a file, with the columns that `choose` picks by their names; none: all.

    Raises:
        DataError: the file is not Parquet, is damaged, or would unfold to far more than its size.
    """
    if request.piece is not None:
        choose(list(request.names))
        return request.piece.content
    names = list(about_parquet(request).schema.to_arrow_schema().names)
    wanted = choose(names)
    with readable(request, "a Parquet file"):
        read_table = require("pyarrow.parquet", "train").read_table
        return read_table(request.path, columns=[n for n in names if n in wanted] if wanted else None)


def about_parquet(request: Request) -> Any:
    """What the end of the file says of it; the errors of `read_parquet_table`."""
    check_filled(request)
    with readable(request, "a Parquet file"):
        about = require("pyarrow.parquet", "train").read_metadata(request.path)
        about.schema.to_arrow_schema()
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        unfolded, rows = sum(group.total_byte_size for group in groups), about.num_rows
    size = request.path.stat().st_size
    if unfolded > max(SMALL, LOOSEST * size) or rows > max(SMALL // 100, DENSEST * size):
        found = f"{rows:,} rows in {unfolded:,} bytes, packed into {size:,}"
        wanted = f"at most {LOOSEST} times the file's size, and {DENSEST} rows a byte"
        raise request.fail(None, wanted, found, "Write it unpacked.")
    return about


def _to_rows(request: Request, table: Any) -> list[dict[str, Any]]:
    with readable(request, "numbers, texts and lists of them", "Leave the other columns out of the file."):
        return list(table.to_pylist())


@contextmanager
def readable(request: Request, wanted: str, way_out: str = "Write it again.") -> Iterator[None]:
    """A block in which pyarrow reads: what it raises of a damaged or odd table becomes an error of ours.

    Beside its own kinds it raises OSError where its parser stops, and the others of values that Python does not have.
    """
    try:
        yield
    except UnrolledError:
        raise
    except (require("pyarrow", "train").ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        said = str(error).splitlines() or [type(error).__name__]
        raise request.fail(None, wanted, said[0][:120].rstrip("."), way_out) from None


def read_jsonl(request: Request, columns: Columns) -> Dataset:
    names, records = read_records(request, "jsonl")
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
    check_alike(request, items)
    return to_dataset(request, items, empty)


def _parse(request: Request, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        found = f"{error.msg.lower()} at column {error.colno}: {line[max(0, error.colno - 10) : error.colno + 20]!r}"
        way_out = "One object a line; a file that is one big list must be rewritten, for example with jq -c '.[]'."
        raise request.fail(number, "one JSON object", found, way_out) from None
    except (RecursionError, ValueError) as error:  # the second: a whole number of thousands of digits
        found = "lists nested too deep" if isinstance(error, RecursionError) else str(error)[:80]
        raise request.fail(number, "one JSON object", found) from None
    if "\\ud" in line.lower():  # half of a pair: no text of Unicode, and nothing could write it
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            found, way_out = f"half a character, {error.object[error.start]!a}", "Write both halves, or the character."
            raise request.fail(number, "text of Unicode", found, way_out) from None
    if not isinstance(record, dict):
        found = f"a {type(record).__name__}"
        raise request.fail(number, "a JSON object with named fields", found, 'For example {"text": "…"}.')
    return record


def read_parquet(request: Request, columns: Columns) -> Dataset:
    kind: Kind = "text"

    def choose(names: list[str]) -> Collection[str]:
        nonlocal kind
        kind, wanted = parquet_columns(request, columns, names)
        return wanted

    items: list[Item] = []
    empty: list[str] = []
    for place, row in read_records(request, "parquet", choose)[1]:
        item = to_item(request, columns, kind, place, row, f"{request.name}:{place}")
        if item is None:
            empty.append(str(place))
        else:
            items.append(item)
    check_alike(request, items)
    return to_dataset(request, items, empty)


def parquet_columns(request: Request, columns: Columns, names: list[str]) -> tuple[Kind, set[str]]:
    """What the rows hold, and the columns that are read for it."""
    kind = choose_kind(request, columns, names)
    main = (columns.features or ("features",))[0] if kind == "features" else getattr(columns, kind)
    if main not in names:
        raise missing_column(request, main, kind, names)
    wanted = (main, columns.label, columns.tags, columns.group)
    return kind, {name for name in names if name in wanted}
