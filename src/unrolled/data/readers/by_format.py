"""The pieces of a file, for each format: where it may be cut, and what a piece must know of those before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from unrolled.data.items import Columns
from unrolled.data.readers import conll
from unrolled.data.readers.cutter import Cutter, boundary
from unrolled.data.readers.cutting import (
    Find,
    after_blank_line,
    after_character,
    after_first_line,
    after_header,
    after_line,
    after_row,
    line_begins,
)
from unrolled.data.readers.longformat import channels_of
from unrolled.data.readers.pairs import has_no_header, pair_columns
from unrolled.data.readers.records import about_parquet, parquet_columns, read_records, readable
from unrolled.data.readers.rows import Place, choose_kind
from unrolled.data.readers.seen import Seen
from unrolled.data.readers.source import Piece, Request, check_filled, opened
from unrolled.data.readers.tables import read_cells
from unrolled.errors import require

STREAMED = ("csv", "tsv", "jsonl", "parquet", "conll", "conllu", "text", "documents")
HEAD = 1 << 16  # bytes at least from which the fields of JSON lines are taken
PROBED, MOST_ROWS = 256, 1 << 16  # rows of Parquet that tell how long a row is, and that a piece has at most
BUFFER = 1 << 18  # bytes of a column of Parquet that are read from the file at once

Pieces = Iterator[tuple[Piece, Columns]]


def pieces_of(request: Request, format: str, columns: Columns, size: int, shares: Sequence[float]) -> Pieces:
    """The pieces, each with the columns that its reader is given."""
    if format == "parquet":
        yield from _of_parquet(request, columns, size)
        return
    check_filled(request)
    with opened(request) as file:
        if format == "text" and request.task == "lm":
            yield from _of_text(request, file, columns, size, shares)
        elif format in ("csv", "tsv"):
            yield from _of_table(Cutter(request, file), columns, "," if format == "csv" else "\t", size)
        elif format == "jsonl":
            yield from _of_json_lines(Cutter(request, file), columns, size)
        elif format in ("conll", "conllu"):
            yield from _of_sentences(Cutter(request, file), columns, format, size)
        else:
            yield from _each(Cutter(request, file), columns, after_line if format == "text" else after_blank_line, size)


def _each(cutter: Cutter, columns: Columns, find: Find, size: int) -> Pieces:
    while cutter.look(1):
        yield cutter.take(cutter.end(find, size)), columns


def _of_text(request: Request, file: BinaryIO, columns: Columns, size: int, shares: Sequence[float]) -> Pieces:
    """The consecutive parts of one text."""
    total = file.seek(0, 2)
    ends: list[int] = []
    for share in shares:
        start, wanted = ends[-1] if ends else 0, round(share * total)
        ends.append(min(boundary(file, start, wanted), total) if wanted > start else start)
    cutter = Cutter(request, file)
    for part, end in enumerate([*ends, total]):
        cutter.know(part=part)
        while cutter.before.offset < end and cutter.look(1):
            left = end - cutter.before.offset
            if left <= size:
                cutter.look(left)
            yield cutter.take(left if left <= size else min(left, cutter.end(after_character, size))), columns


def _of_json_lines(cutter: Cutter, columns: Columns, size: int) -> Pieces:
    """A field that one piece lacks may stand in another: which there are is told by the beginning."""
    head = replace(cutter.request, piece=cutter.peek(cutter.end(after_line, max(size, HEAD))))
    cutter.know(names=tuple(read_records(head, "jsonl")[0]))
    yield from _each(cutter, columns, after_line, size)


def _of_sentences(cutter: Cutter, columns: Columns, format: str, size: int) -> Pieces:
    while cutter.look(1):
        piece = cutter.take(cutter.end(after_blank_line, size))
        yield piece, columns
        width, group = conll.after(replace(cutter.request, piece=piece), format)
        cutter.know(width=width, group=group)


# tables


def _of_table(cutter: Cutter, columns: Columns, delimiter: str, size: int) -> Pieces:
    request = cutter.request
    if request.task == "seq2seq" and delimiter == "\t":
        first = cutter.peek(cutter.end(after_first_line, 0))
        cutter.know(bare=has_no_header(replace(request, piece=first), columns))
        if cutter.before.bare:
            yield from _each(cutter, columns, after_line, size)
            return
    header = cutter.take(cutter.end(after_header(delimiter), 0)).content
    if header.endswith(b"\r"):  # before a piece that begins with a line feed it would be half of one line end
        header = header[:-1] + b"\n"
    cutter.know(header=header)
    if not cutter.look(1):
        yield cutter.peek(0), columns
    elif _is_long(cutter, columns, delimiter):
        yield from _of_sequences(cutter, columns, delimiter, size)
    else:
        yield from _each(cutter, columns, after_row(delimiter), size)


def _is_long(cutter: Cutter, columns: Columns, delimiter: str) -> bool:
    """Whether a row is a time step. Where its column for sequences is missing, the reader says so."""
    if cutter.request.task == "seq2seq":
        return False
    header = replace(cutter.request, piece=cutter.peek(0))
    names = read_cells(header, delimiter)[0].column_names
    return choose_kind(header, columns, names) == "features" and columns.id in names


def _of_sequences(cutter: Cutter, columns: Columns, delimiter: str, size: int) -> Pieces:
    """Cut where the id changes. The channels are those of the first piece; no id comes back in a later one."""
    assert columns.id is not None
    seen, find = Seen(), after_row(delimiter)
    while cutter.look(1):
        end, table, places, ids = _some_sequences(cutter, columns.id, delimiter, find, size)
        again = seen.add(list(ids))
        if again is not None:
            wanted = (
                f"the rows of sequence {again!r} together in a file that is read in pieces, being larger than `memory`"
            )
            way_out = f"Sort the file by column {columns.id!r}, or raise --memory."
            raise cutter.request.fail(places[ids[again]], wanted, "more of them after those of others", way_out)
        yield cutter.take(end), columns
        if ids and not columns.features:
            columns = replace(columns, features=tuple(channels_of(cutter.request, columns, table, places)[0]))


def _some_sequences(
    cutter: Cutter, name: str, delimiter: str, find: Find, size: int
) -> tuple[int, Any, list[Place], dict[str, int]]:
    """The length of a piece of whole sequences, a table that begins with it, the places of its rows, and the ids in
    the piece with the first row of each.
    """
    wanted = size
    while True:
        end = cutter.end(find, wanted)
        piece = cutter.peek(end)
        table, places, _, _ = read_cells(replace(cutter.request, piece=piece), delimiter)
        column = table.column(name).combine_chunks().dictionary_encode()
        codes = np.asarray(column.indices)  # (rows,) places in the dictionary, in which names stand as they first come
        first = dict(zip(column.dictionary.to_pylist(), np.unique(codes, return_index=True)[1].tolist(), strict=True))
        changes = np.flatnonzero(np.diff(codes)) + 1
        last = cutter.whole and end == len(cutter.rest)
        if last and (wanted == size or not len(changes)):
            return end, table, places, first
        change = 0 if not len(changes) else int(changes[-1 if wanted == size else 0])
        place = places[change] if change else None
        if isinstance(place, int):
            ids = {one: row for one, row in first.items() if row < change}
            return line_begins(piece.content, place - 1 - piece.lines), table, places, ids
        cutter.refuse_beyond(end, size)
        wanted = 2 * max(wanted, end)


# Parquet


def _of_parquet(request: Request, columns: Columns, size: int) -> Pieces:
    about = about_parquet(request)
    schema = about.schema.to_arrow_schema()
    names = list(schema.names)
    if request.task == "seq2seq":
        wanted = pair_columns(columns, names)
    else:
        wanted = parquet_columns(request, columns, names)[1]
    chosen = [name for name in names if name in wanted]
    known = Piece(None, names=tuple(names))
    if not about.num_rows or not chosen:
        empty = require("pyarrow", "train").RecordBatch.from_pylist([], schema=schema)
        yield replace(known, content=empty), columns
        return
    row = 0
    for batch in _batches(request, chosen, size):
        behind = (row + batch.num_rows) / about.num_rows
        yield replace(known, content=batch, lines=row, behind=behind), columns
        row += batch.num_rows


def _batches(request: Request, chosen: list[str], size: int) -> Iterator[Any]:
    """Batches of about `size` bytes. The file does not say how long a row is once unpacked, so some are tried."""
    parquet = require("pyarrow.parquet", "train")
    with (
        readable(request, "a Parquet file"),
        parquet.ParquetFile(request.path, pre_buffer=False, buffer_size=BUFFER) as file,
    ):
        probe = next(file.iter_batches(PROBED, columns=chosen, use_threads=False))
        rows = max(1, min(MOST_ROWS, int(size * probe.num_rows / max(probe.nbytes, 1))))
        for batch in file.iter_batches(rows, columns=chosen, use_threads=False):
            parts = min(batch.num_rows, max(1, round(batch.nbytes / size)))
            for some in np.array_split(np.arange(batch.num_rows), parts) if parts > 1 else ():
                yield batch.take(some)
            if parts == 1:
                yield batch
