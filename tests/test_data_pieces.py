"""A file in pieces is the file: the same items, the same errors on the same lines, whatever the size of a piece."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from small_pieces import CLASSIFY, FEW, LONG, SIZES, cell, count, joined, line, same, same_error, table, words
from unrolled.data import Columns, Dataset, read
from unrolled.data.readers.pieces import read_pieces
from unrolled.errors import DataError

# Random files


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("seed", range(10))
def test_tables(tmp_path: Path, delimiter: str, seed: int) -> None:
    rng, path = np.random.default_rng([seed, ord(delimiter)]), tmp_path / "a.table"
    format = "csv" if delimiter == "," else "tsv"
    path.write_bytes(table(rng, delimiter, ("text", "label", "who"), lambda name: "L" if name == "label" else "t"))
    same(path, FEW, task="classify", format=format, columns=Columns(group="who"))
    path.write_bytes(table(rng, delimiter, ("text",), lambda _: "t" if rng.random() < 0.8 else ""))
    if read_or_none(path, task="lm", format=format):
        same(path, FEW, task="lm", format=format)
    path.write_bytes(table(rng, delimiter, ("source", "other", "target"), lambda _: "t"))
    same(path, FEW, task="seq2seq", format=format)


def read_or_none(path: Path, **options: Any) -> Dataset | None:
    try:
        return read(path, **options)
    except DataError:
        return None


@pytest.mark.parametrize("seed", range(15))
def test_pairs_without_a_header(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.tsv"
    path.write_bytes(joined(rng, [f'"s{line(rng)}\tt{line(rng)}' for _ in range(20)]))
    assert len(same(path, task="seq2seq")) == 20
    assert count(path, 1, task="seq2seq") == 20


@pytest.mark.parametrize("seed", range(15))
def test_json_lines(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.jsonl"

    def lines(*records: Callable[[], dict[str, Any]]) -> bytes:
        made = [records[int(rng.integers(len(records)))]() for _ in range(20)]
        return joined(rng, [json.dumps(one, ensure_ascii=bool(rng.integers(2))) for one in made], blanks=0.2)

    path.write_bytes(
        lines(lambda: {"text": words(rng) or "t", "label": 3}, lambda: {"text": " ", "label": "b", "who": 1})
    )
    if read_or_none(path, task="classify"):
        same(path, task="classify")
    path.write_bytes(lines(lambda: {"tokens": ["a", "b"], "tags": "X Y"}, lambda: {"tokens": []}))
    if read_or_none(path, task="tag", labelled=False):
        same(path, task="tag", labelled=False)
    path.write_bytes(lines(lambda: {"features": rng.random((int(rng.integers(1, 4)), 2)).tolist(), "label": "a"}))
    same(path, task="classify")
    path.write_bytes(lines(lambda: {"source": ["a", "b"], "target": "t"}, lambda: {"source": ["c"], "target": ["t"]}))
    same(path, task="seq2seq")


@pytest.mark.parametrize("seed", range(15))
def test_text(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.txt"
    path.write_bytes(joined(rng, [line(rng) for _ in range(30)] + ["end"], blanks=0.4))
    same(path, task="lm", format="documents")
    same(path, task="classify", labelled=False)
    same(path, task="tag", labelled=False)
    whole = read(path, task="lm")[0].text
    for size in SIZES:
        parts = [item for part in read_pieces(path, task="lm", size=size) for item in part]
        text = ""
        for item in parts:
            assert item.where == f"a.txt:{text.count(chr(10)) + 1}"
            assert item.text
            text += item.text
        assert text == whole


@pytest.mark.parametrize("seed", range(15))
def test_sentences(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.conll"
    columns = int(rng.integers(2, 5))

    def sentence() -> list[str]:
        some = ["w\t" + "\t".join(["N"] * (columns - 1)) for _ in range(rng.integers(1, 4))]
        return (
            ["-DOCSTART- -X-"] * int(rng.random() < 0.3) + ([""] if rng.random() < 0.3 else []) + [*some, " \t\u3000"]
        )

    lines = [one for _ in range(12) for one in sentence()]
    path.write_bytes(joined(rng, lines, blanks=0.2))
    same(path, task="tag")
    assert count(path, 1, task="tag") > 8


@pytest.mark.parametrize("seed", range(12))
def test_conllu(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.conllu"
    heads = ["# newdoc", "# newdoc id = d1", "# newdoc id = d2", "# text = newdoc", "# sent_id = 1", "# newdoc id"]

    def sentence() -> list[str]:
        rows = [f"{i}\tw{i}\t_\tNOUN\tNN\t_\t0\troot\t_\t_" for i in range(1, int(rng.integers(2, 4)))]
        return [str(rng.choice(heads)) for _ in range(rng.integers(0, 3))] + [*rows, ""]

    path.write_bytes(joined(rng, [one for _ in range(10) for one in sentence()], blanks=0.2))
    same(path, task="tag")


@pytest.mark.parametrize("seed", range(15))
def test_the_long_format(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.csv"
    rows = []
    for sequence in range(8):
        note = cell(rng, ",", "n")
        rows += [f'"s{sequence}",{step},{step / 4},{note},L' for step in range(rng.integers(1, 7))]
    path.write_bytes(joined(rng, ["who,at,x,note,label", *rows], blanks=0.2))
    columns = Columns(id="who", time="at")
    assert len(same(path, task="classify", columns=columns)) == 8
    assert count(path, 1, task="classify", columns=columns) == 8
    same(path, FEW, task="classify", columns=Columns(id="who", features=("x", "at")))


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_parquet(tmp_path: Path, rows: int) -> None:
    rng, path = np.random.default_rng(rows), tmp_path / "a.parquet"

    def write(records: list[dict[str, Any]]) -> None:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=100)

    write(
        [{"text": f"{i} {words(rng)}" if i % 5 else "", "label": i % 3, "rest": "x" * 99} for i in range(1, rows + 1)]
    )
    same(path, task="classify")
    assert count(path, 1, task="classify") == rows
    write([{"features": rng.random((2, 3)).tolist(), "label": "a"} for _ in range(rows)])
    same(path, task="classify")
    write([{"source": ["a", f"{i}"], "target": "t", "who": i} for i in range(rows)])
    same(path, task="seq2seq", columns=Columns(group="who"))


# Errors

BAD: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("a.csv", "", CLASSIFY, "0 bytes"),
    ("a.csv", " \r\n" * 9, CLASSIFY, "an empty file (27 bytes)"),
    ("a.csv", "text,label\n", CLASSIFY, "no rows below the header"),
    ("a.csv", "text,label", CLASSIFY, "no rows below the header"),
    ("a.csv", "source,target\n", {"task": "seq2seq"}, "no rows below the header"),
    ("a.csv", "text,label\n ,x\n\n ,y\n", CLASSIFY, "2 empty ones"),
    ("a.csv", "text,lable\na,b\n", CLASSIFY, "a column 'label'"),
    ("a.csv", '\n\n"text",label\na,b\n"c\n\nd",e\nf\ng,h\n', CLASSIFY, "a.csv:8: expected 2 columns"),
    ("a.csv", 'text,label\r\na,b\r\n"c\r\n\r\nd",e\r\nf,\r\n', CLASSIFY, "a.csv:6: expected a label"),
    ("a.csv", 'text,label\na,b\nc,d\ne,f\n"g,h\ni,j\n', CLASSIFY, "a.csv:5: expected every quoted cell closed"),
    (
        "a.csv",
        b"text,label\na,b\nc,d\ne,f\xff\ng,h\n",
        CLASSIFY,
        "a.csv:4: expected UTF-8 text, found byte 0xff at byte 4",
    ),
    ("a.csv", b"te\xfft,label\na,b\n", CLASSIFY, "offset 2 of"),
    ("a.csv", b"\xef\xbb\xbftext,label\na,b\n\xe6,d\n", CLASSIFY, "offset 18 of"),
    ("a.csv", b"text,label\ra,b\rc,d\xff\n", CLASSIFY, "a.csv:1: expected UTF-8 text, found byte 0xff at byte 19"),
    ("a.csv", "text,label\na,b\n".encode("utf-16"), CLASSIFY, "UTF-16"),
    ("a.csv", "text\tlabel\na\tb\n", CLASSIFY, "format='tsv'"),
    ("a.tsv", "s\tt\ns\tt\n\ns\tt\n", {"task": "seq2seq"}, "a.tsv:3: expected a source, a tab"),
    ("a.tsv", "s\tt\ns\tt\ns\n", {"task": "seq2seq"}, "a.tsv:3: expected a source, a tab"),
    ("a.tsv", "source\ttarget\na\tb\n\nc\t\n", {"task": "seq2seq"}, "a.tsv:4: expected a filled 'target'"),
    ("a.csv", "who,x,label\n1,1,a\n2,2,a\n\n2,x,a\n", LONG, "a.csv:5: expected a number in column 'x'"),
    ("a.csv", "who,x,label\n1,1,a\n2,2,a\n2,2,b\n", LONG, "a.csv:4: expected one label a sequence"),
    ("a.csv", "who,x,label\n1,1,a\n2,2,a\n2,2\n", LONG, "a.csv:4: expected 3 columns"),
    ("a.csv", "who,x,label\n", LONG, "no rows below"),
    ("a.csv", "who,x,label\n\n\n", LONG, "no rows below"),
    ("a.csv", "whom,x,label\n1,2,3\n", LONG, "a column 'who' for the id"),
    ("a.csv", "who,x,label\n1,b,a\n2,3,a\n", LONG, "at least one column of numbers"),
    ("a.csv", "x,label\n1,A\n2,B\n", {"task": "classify", "columns": Columns(features=("x",))}, "id column"),
    (
        "a.jsonl",
        '{"text": "a", "label": "x"}\n' * 3 + '\n{"text": "b" "label": 1}\n',
        CLASSIFY,
        "a.jsonl:5: expected one",
    ),
    ("a.jsonl", '{"text": "a", "label": "x"}\n' * 3 + '{"text": "b"}\n' * 2, CLASSIFY, "a.jsonl:4: expected a label"),
    (
        "a.jsonl",
        '{"text": "a", "label": "x"}\n' * 3 + '{"label": "b"}\n',
        CLASSIFY,
        "a.jsonl:4: expected a field 'text'",
    ),
    ("a.jsonl", '{"text": "", "label": "x"}\n' * 15, CLASSIFY, "15 empty ones"),
    ("a.jsonl", '{"words": "a"}\n' * 2, CLASSIFY, "a column 'text'"),
    (
        "a.jsonl",
        '{"features": [[1]], "label": "x"}\n' * 3 + '{"features": [[1, 2]], "label": "x"}\n',
        CLASSIFY,
        "a.jsonl:4: expected 1 channels as in a.jsonl:1, found 2",
    ),
    (
        "a.jsonl",
        '{"source": [[1]], "target": "x"}\n' * 2 + '{"source": "b", "target": "x"}\n',
        {"task": "seq2seq"},
        "sources of one kind, features as in a.jsonl:1, found text in a.jsonl:3",
    ),
    ("a.conll", "a N\n\nb N\n\nc N M\n", {"task": "tag"}, "a.conll:5: expected 2 columns"),
    ("a.conll", "-DOCSTART- x y\n\na N\n\nb N\nc\n", {"task": "tag"}, "a.conll:6: expected a token and its tag"),
    ("a.conll", "-DOCSTART-\n\n-DOCSTART-\n\n", {"task": "tag"}, "no rows"),
    ("a.conllu", "# a\n\n# b\n\n1\ta\n", {"task": "tag"}, "a.conllu:5: expected ten columns"),
    ("a.txt", "a\nb\n", CLASSIFY, "a format that holds labels"),
    ("a.txt", b"a\nb\xc3\xa9\xe6\x97\nc\n", {"task": "lm"}, "a.txt:2: expected UTF-8 text, found byte 0xe6 at byte 4"),
    (
        "a.txt",
        "é".encode() * 9 + b"\x80\x80\x80\x80\x80\x80",
        {"task": "lm"},
        "0x80 at byte 19 of the line (byte offset 18",
    ),
    ("a.txt", "🙂".encode() * 9 + b"\xf0\x9f\x99", {"task": "lm"}, "0xf0 at byte 37"),
    ("a.txt", b"a\nb\n\xff\xfec", {"task": "lm"}, "a.txt:3: expected UTF-8 text, found byte 0xff at byte 1"),
    ("a.txt", " \n" * 40000, {"task": "lm", "format": "documents"}, "80000 bytes"),
]


@pytest.mark.parametrize(("name", "content", "options", "say"), BAD)
def test_errors(tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], say: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert say in same_error(path, **options)


@pytest.mark.parametrize(
    ("records", "say"),
    [
        ([{"text": "a", "label": "x"}] * 5 + [{"text": "b", "label": ""}], "a.parquet:row 6: expected a label"),
        (
            [{"features": [[1.0]], "label": "x"}] * 3 + [{"features": [[1.0, 2.0]], "label": "x"}],
            "a.parquet:1 channels",
        ),
        ([{"text": "a"}], "a column 'label'"),
        ([{"text": "", "label": "x"}] * 3, "3 empty ones"),
    ],
)
def test_errors_of_parquet(tmp_path: Path, records: list[dict[str, Any]], say: str) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    found = same_error(path, **CLASSIFY)
    assert say.replace("a.parquet:1 channels", "a.parquet:row 4: expected 1 channels as in a.parquet:row 1") in found


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pyarrow.array([], pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": text, "source": text}), path)
    assert "no rows" in same_error(path, task="lm")
    assert "a column 'label'" in same_error(path, **CLASSIFY)
    assert "'target'" in same_error(path, task="seq2seq")
    assert "no rows" in same_error(path, task="seq2seq", labelled=False)
    path.write_bytes(b"PAR1 no PAR1")
    assert "a Parquet file" in same_error(path, task="lm")


def test_no_file(tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        assert "nothing there" in same_error(tmp_path / name, **CLASSIFY)
    (tmp_path / "folder.csv").mkdir()
    assert "a folder" in same_error(tmp_path / "folder.csv", **CLASSIFY)
