"""One function, `read`, for all formats of files."""

from __future__ import annotations

from pathlib import Path

from unrolled.data.items import Columns, Dataset
from unrolled.data.readers.conll import read_conll, read_conllu
from unrolled.data.readers.pairs import read_pairs
from unrolled.data.readers.records import read_jsonl, read_parquet
from unrolled.data.readers.source import Request
from unrolled.data.readers.tables import read_table
from unrolled.data.readers.text import read_text
from unrolled.data.readers.ts import read_ts
from unrolled.errors import DataError, expected

FORMATS = ("csv", "tsv", "jsonl", "parquet", "conll", "conllu", "text", "documents", "ts")
TASKS = ("classify", "tag", "lm", "seq2seq")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
    ".bio": "conll",
    ".conllu": "conllu",
    ".txt": "text",
    ".text": "text",
    ".ts": "ts",
}
_FOR_TASK = {
    "classify": ("csv", "tsv", "jsonl", "parquet", "ts", "text"),
    "tag": ("csv", "tsv", "jsonl", "parquet", "conll", "conllu", "text"),
    "lm": ("csv", "tsv", "jsonl", "parquet", "text", "documents"),
    "seq2seq": ("csv", "tsv", "jsonl", "parquet", "text"),
}


def read(
    path: str | Path,
    *,
    task: str,
    format: str = "auto",
    columns: Columns | None = None,
    labelled: bool = True,
) -> Dataset:
    """Read a file for a task.

    Args:
        path: the file. UTF-8 where it is text.
        task: classify (a label a sequence), tag (a tag a token), lm (text alone) or seq2seq (pairs).
        format: one of FORMATS, or auto: by the suffix of the file.
        columns: the names of the columns where they are not the usual ones.
        labelled: False reads inputs to predict; labels are then taken where they are, and not asked for.

    Raises:
        DataError: with the file, the line, the column, what was wanted, what was found and what to do.
    """
    request = Request(Path(path), task, labelled)
    return read_as(request, choose_format(request, format), columns or Columns())


def read_as(request: Request, chosen: str, columns: Columns) -> Dataset:
    """Read a file, or a piece of one, whose format is known."""
    if request.task == "seq2seq" and chosen != "text":
        return read_pairs(request, columns, chosen)
    if chosen in ("csv", "tsv"):
        return read_table(request, columns, "," if chosen == "csv" else "\t")
    if chosen == "jsonl":
        return read_jsonl(request, columns)
    if chosen == "parquet":
        return read_parquet(request, columns)
    if chosen == "conll":
        return read_conll(request)
    if chosen == "conllu":
        return read_conllu(request, columns)
    if chosen == "ts":
        return read_ts(request)
    return read_text(request, documents=chosen == "documents")


def choose_format(request: Request, format: str) -> str:
    """One of FORMATS: the one named, or that of the suffix, if the task can read it."""
    if request.task not in TASKS:
        raise DataError(expected("task", f"one of {', '.join(TASKS)}", repr(request.task)))
    if format == "auto":
        suffix = request.path.suffix.lower()
        if suffix == ".txt" and request.task == "tag" and request.labelled:
            return "conll"
        if suffix not in SUFFIXES:
            wanted = f"a suffix that names the format ({', '.join(SUFFIXES)})"
            way_out = f"Pass format: one of {', '.join(FORMATS)}."
            raise request.fail(None, wanted, repr(suffix) if suffix else "none", way_out)
        format = SUFFIXES[suffix]
    if format not in FORMATS:
        raise DataError(expected("format", f"auto or one of {', '.join(FORMATS)}", repr(format)))
    if format not in _FOR_TASK[request.task]:
        wanted = f"a format for task {request.task} ({', '.join(_FOR_TASK[request.task])})"
        raise request.fail(None, wanted, format)
    return format
