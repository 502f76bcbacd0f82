"""Readers: what they return, and the message for each way in which a file can be wrong."""

from __future__ import annotations

import csv
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrolled.data import Columns, Dataset, read
from unrolled.errors import DataError

Write = Callable[[str, "str | bytes"], Path]
STEPS = Columns(id="who", time="at")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def parquet(path: Path, rows: list[dict]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def wheres(dataset: Dataset) -> list[str]:
    return [item.where for item in dataset]


# What works


def test_csv_rows_know_their_lines(write: Write) -> None:
    content = '\ufefftext,label\r\n"two\r\nlines, ""quoted""",01\r\n\r\n5" disk,NA\r\n  ,x\r\nlast,01'
    data = read(write("a.csv", content), task="classify")
    assert [(i.where, i.text, i.label) for i in data] == [
        ("a.csv:2", 'two\nlines, "quoted"', "01"),
        ("a.csv:5", '5" disk', "NA"),
        ("a.csv:7", "last", "01"),
    ]
    assert data.kind == "text"
    assert data.notes[0] == "a.csv: 1 empty text skipped: line 6"
    assert "'NA' (a.csv:5)" in data.notes[1]


def test_blank_lines_of_a_single_column_are_empty_texts(write: Write) -> None:
    data = read(write("a.csv", 'text\na\n\n"b\n\nc"\n" "\nd\n\n'), task="lm")
    assert [(i.where, i.text) for i in data] == [("a.csv:2", "a"), ("a.csv:4", "b\n\nc"), ("a.csv:8", "d")]
    assert data.notes == ["a.csv: 3 empty texts skipped: lines 3, 7, 9"]


@given(st.lists(st.tuples(st.text('a",\n ', max_size=5), st.text('x"\n,', min_size=1, max_size=3)), min_size=1))
@settings(max_examples=80, deadline=None)
def test_csv_agrees_with_the_standard_library(rows: list[tuple[str, str]]) -> None:
    rows = [(f"t{text}", f"l{label}") for text, label in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("text", "label"), *rows])
        data = read(path, task="classify")
        with path.open(newline="") as file:
            reader = csv.reader(file)
            begins = [1, *(reader.line_num + 1 for _ in reader)]
    assert [(i.text, i.label) for i in data] == [(text, label.strip()) for text, label in rows]
    assert wheres(data) == [f"a.csv:{line}" for line in begins[1:-1]]


def test_tsv_and_named_columns(write: Write) -> None:
    path = write("a.tsv", "body\tkind\twho\na, b\tx\tann\nc\tx\tbob\n")
    data = read(path, task="classify", columns=Columns(text="body", label="kind", group="who"))
    assert [(i.text, i.label, i.group) for i in data] == [("a, b", "x", "ann"), ("c", "x", "bob")]
    assert "only one label" in data.notes[0]


def test_tags_in_csv_and_jsonl(write: Write) -> None:
    table = read(write("a.csv", "tokens,tags\na b,X Y\nc,Z\n"), task="tag")
    lines = [{"tokens": ["a", "b"], "tags": ["X", "Y"]}, {"tokens": "c", "tags": "Z"}]
    records = read(write("a.jsonl", "\n".join(map(json.dumps, lines))), task="tag")
    for data in (table, records):
        assert [(i.tokens, i.tags) for i in data] == [(("a", "b"), ("X", "Y")), (("c",), ("Z",))]


def test_long_format(write: Write) -> None:
    content = "who,at,label,x,y,note\nb,1,B,1,2,hm\na,1,A,3,4,\nb,2,B,5,6e0,\na,10,A,7,8,\na,11,A,-.5,0,\n"
    data = read(write("a.csv", content), task="classify", columns=STEPS)
    assert [(i.where, i.label) for i in data] == [("a.csv:2", "B"), ("a.csv:3", "A")]
    assert data[1].features is not None
    assert data[1].features.dtype == np.float32
    np.testing.assert_array_equal(data[1].features, [[3, 4], [7, 8], [-0.5, 0]])
    assert "features are x, y" in data.notes[0]
    assert "'note'" in data.notes[1]
    one = read(write("a.csv", content), task="classify", columns=Columns(id="who", features=("y",)))
    assert one[0].features is not None
    assert one[0].features.shape == (2, 1)


def test_long_format_with_a_tag_a_step(write: Write) -> None:
    data = read(write("a.csv", "who,x,tags\n1,1,A\n1,2,B\n2,3,A\n"), task="tag", columns=Columns(id="who"))
    assert [i.tags for i in data] == [("A", "B"), ("A",)]


def test_nested_features(write: Write, tmp_path: Path) -> None:
    rows = [{"features": [[1, 2], [3, 4], [5, 6]], "label": 3}, {"features": [[7, 8]], "label": 4}]
    records = read(write("a.jsonl", "\n\n".join(map(json.dumps, rows)) + "\n"), task="classify")
    columns = read(parquet(tmp_path / "a.parquet", rows), task="classify")
    assert wheres(records) == ["a.jsonl:1", "a.jsonl:3"]
    assert wheres(columns) == ["a.parquet:row 1", "a.parquet:row 2"]
    for data in (records, columns):
        assert data.kind == "features"
        assert [i.label for i in data] == ["3", "4"]
        np.testing.assert_array_equal(data[0].features, [[1, 2], [3, 4], [5, 6]])


def test_parquet_texts(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "x"}, {"text": None, "label": "x"}, {"text": "b", "label": "y"}]
    data = read(parquet(tmp_path / "a.parquet", rows), task="classify")
    assert [i.text for i in data] == ["a", "b"]
    assert data.notes[0] == "a.parquet: 1 empty text skipped: row 2"


def test_conll(write: Write) -> None:
    content = "-DOCSTART- O\n\na X\nb  Y\n   \nc X\n\t \n\n\n-DOCSTART- O\nd Y"  # no final newline
    data = read(write("a.conll", content), task="tag")
    assert [(i.where, i.tokens, i.tags) for i in data] == [
        ("a.conll:3", ("a", "b"), ("X", "Y")),
        ("a.conll:6", ("c",), ("X",)),
        ("a.conll:10", ("d",), ("Y",)),
    ]
    assert [i.group for i in data] == ["a.conll:1", "a.conll:1", "a.conll:10"]
    four = read(write("b.conll", "New York\tNNP\tB-LOC\n"), task="tag")
    assert (four[0].tokens, four[0].tags) == (("New York",), ("B-LOC",))
    assert "3 columns" in four.notes[0]
    bare = read(write("c.conll", "a\nb\n\nc\n"), task="tag", labelled=False)
    assert [(i.tokens, i.tags) for i in bare] == [(("a", "b"), None), (("c",), None)]


CONLLU = """# newdoc id = d1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tx\tx\tX\tX\t_\t_\t_\t1:x\t_

# text = ok
1\tok\tok\tINTJ\tI\t_\t0\troot\t_\t_
"""


def test_conllu(write: Write) -> None:
    data = read(write("a.conllu", CONLLU), task="tag")
    assert [(i.where, i.tokens, i.tags, i.group) for i in data] == [
        ("a.conllu:1", ("vamos", "nos"), ("VERB", "PRON"), "d1"),
        ("a.conllu:8", ("ok",), ("INTJ",), "d1"),
    ]
    assert read(write("a.conllu", CONLLU), task="tag", columns=Columns(tags="xpos"))[0].tags == ("V", "P")


def test_text(write: Write) -> None:
    path = write("a.txt", "one\r\ntwo\n\n \nthree\n")
    assert [i.text for i in read(path, task="lm")] == ["one\ntwo\n\n \nthree\n"]
    documents = read(path, task="lm", format="documents")
    assert [(i.where, i.text) for i in documents] == [("a.txt:1", "one\ntwo"), ("a.txt:5", "three")]
    lines = read(path, task="classify", labelled=False)
    assert wheres(lines) == ["a.txt:1", "a.txt:2", "a.txt:5"]
    assert lines.notes == ["a.txt: 2 empty texts skipped: lines 3, 4"]
    assert read(write("b.txt", "a b\nc\n"), task="tag", format="text", labelled=False)[0].tokens == ("a", "b")


HEADER = "#c\n@problemName p\n@dimensions 2\n@equalLength false\n@classLabel true a b\n@data\n"


def test_ts(write: Write) -> None:
    data = read(write("a.ts", HEADER + "1,2,3:4,5,6:a\n7:8:b"), task="classify")
    assert [(i.where, i.label) for i in data] == [("a.ts:7", "a"), ("a.ts:8", "b")]
    np.testing.assert_array_equal(data[0].features, [[1, 4], [2, 5], [3, 6]])
    np.testing.assert_array_equal(data[1].features, [[7, 8]])


def test_inputs_without_labels(write: Write) -> None:
    data = read(write("a.csv", "text\na\n"), task="classify", labelled=False)
    assert data[0].label is None
    data = read(write("a.jsonl", '{"tokens": ["a"]}'), task="tag", labelled=False)
    assert (data[0].tokens, data[0].tags) == (("a",), None)


def test_speed(write: Write) -> None:
    long = "who,at,label,x\n" + "".join(f"{i // 50},{i % 50},A,{i}.5\n" for i in range(100_000))
    quoted = "text,label\n" + "".join(f'"row {i}\nsays ""hi""",{i % 5}\n' for i in range(100_000))
    start = time.perf_counter()
    assert len(read(write("a.csv", long), task="classify", columns=STEPS)) == 2000
    assert read(write("b.csv", quoted), task="classify")[99_999].where == "b.csv:200000"
    assert time.perf_counter() - start < 10  # about one second; a quadratic reader would take minutes


# What does not: (file, content, options of read, what the message must say)

CLASSIFY: dict = {"task": "classify"}
TAG: dict = {"task": "tag"}
LONG: dict = {"task": "classify", "columns": STEPS}
BAD = [
    ("a.csv", "txt,label\na,x\n", CLASSIFY, "a.csv: expected a column 'text'", "'txt', 'label'"),
    ("a.csv", "text,lab\na,x\n", CLASSIFY, "a column 'label'", "'text', 'lab'"),
    ("a.csv", "tokens\na\n", TAG, "a column 'tags'", "'tokens'"),
    ("a.csv", "text,label\na,x\n", {"task": "classify", "columns": Columns(group="g")}, "a column 'g'", "group"),
    ("a.csv", "", CLASSIFY, "a.csv: expected at least one item", "0 bytes"),
    ("a.csv", " \n\n", CLASSIFY, "a.csv", "empty file"),
    ("a.csv", "text,label\n", CLASSIFY, "a.csv", "no rows below the header"),
    ("a.csv", "text,label\n ,x\n", CLASSIFY, "a.csv", "1 empty"),
    ("a.csv", 'text,label\n"a\nb",x\nc,\n', CLASSIFY, "a.csv:4", "'label'.*an empty cell"),
    ("a.csv", 'text,label\n"a\nb",x\n\nc,d,e\n', CLASSIFY, "a.csv:5: expected 2 columns", "3: 'c,d,e'"),
    ("a.csv", 'text,label\na,x\n"b,y\nc,d\n', CLASSIFY, "a.csv:3", "nothing closes"),
    ("a.csv", "text,text\na,b\n", CLASSIFY, "a.csv:1", "more than one 'text'"),
    ("a.csv", "text\tlabel\na\tx\n", CLASSIFY, "a.csv:1", "format='tsv'"),
    ("a.csv", b"text,label\na,x\nb\xff,y\n", CLASSIFY, "a.csv:3", "0xff at byte 2 .*offset 16"),
    ("a.csv", "text,label\na,x\n".encode("utf-16"), CLASSIFY, "a.csv:1", "UTF-16.*UTF-8"),
    ("a.csv", "tokens,tags\na b,X\n", TAG, "a.csv:2", r"'tags'.*\(2\), found 1"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,1,A,2\n", LONG, "a.csv:3", "'1', again, in sequence '1'"),
    ("a.csv", "who,at,label,x\n1,2,A,1\n2,9,A,0\n1,1,A,2\n", LONG, "a.csv:4", "out of order.*Sort"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,A,\n", LONG, "a.csv:3", "'x', found an empty cell"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,A,nan\n", LONG, "a.csv:3", "'x', found 'nan'"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,A,-inf\n", LONG, "a.csv:3", "'x', found '-inf'"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,A,1e40\n", LONG, "a.csv:3", "'1e40'.*float32"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,A,one\n", LONG, "a.csv:3", "a number in column 'x', found 'one'"),
    ("a.csv", "who,at,label,x\n1,1,A,1\n1,2,B,1\n", LONG, "a.csv:3", "one label a sequence.*'B'"),
    ("a.csv", "who,at,label,x\n1,1,,1\n", LONG, "a.csv:2", "a label.*empty"),
    ("a.csv", "who,at,label,x\n1,1,A,b\n", LONG, "a.csv", "column of numbers"),
    ("a.csv", "who,label,x\n1,A,1\n", LONG, "a.csv: expected a column 'at' for the time", "'who'"),
    ("a.csv", "who,at,label,x\n", LONG, "a.csv", "no rows below"),
    ("a.csv", "\n\ntext,label\na,x\n\nb\n", CLASSIFY, "a.csv:6", "1: 'b'"),
    ("a.csv", "x,label\n1,A\n", {"task": "classify", "columns": Columns(features=("x",))}, "a.csv", "id column"),
    ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b" "label": 1}\n', CLASSIFY, "a.jsonl:2", "column 14"),
    ("a.jsonl", '[{"text": "a"}]\n', CLASSIFY, "a.jsonl:1", "a list"),
    ("a.jsonl", '{"text": "a", "label": "x"}\n{"label": "x"}\n', CLASSIFY, "a.jsonl:2", "'text', found fields label"),
    ("a.jsonl", '{"text": 3, "label": "x"}\n', CLASSIFY, "a.jsonl:1", "a string in column 'text', found int"),
    ("a.jsonl", '{"text": "a", "label": 1.5}\n', CLASSIFY, "a.jsonl:1", "float"),
    ("a.jsonl", '{"text": "a", "label": null}\n', CLASSIFY, "a.jsonl:1", "empty"),
    ("a.jsonl", '{"tokens": ["a", ""], "tags": ["X", "Y"]}\n', TAG, "a.jsonl:1", "position 2"),
    ("a.jsonl", '{"tokens": ["a"], "tags": ["X", "Y"]}\n', TAG, "a.jsonl:1", r"\(1\), found 2"),
    ("a.jsonl", '{"features": [[1, 2], [3]], "label": "x"}\n', CLASSIFY, "a.jsonl:1", "1 at time step 2"),
    ("a.jsonl", '{"features": [[1, NaN]], "label": "x"}\n', CLASSIFY, "a.jsonl:1", "nan at time step 1, channel 2"),
    ("a.jsonl", '{"features": [[1, null]], "label": "x"}\n', CLASSIFY, "a.jsonl:1", "time step 1, channel 2"),
    ("a.jsonl", '{"features": [[1, "2"]], "label": "x"}\n', CLASSIFY, "a.jsonl:1", "'2' at time step 1, channel 2"),
    (
        "a.jsonl",
        '{"features": [[1]], "label": "x"}\n{"features": [[1, 2]], "label": "x"}\n',
        CLASSIFY,
        "a.jsonl:2",
        "1 channels as in a.jsonl:1, found 2",
    ),
    ("a.parquet", b"PAR1 no PAR1", CLASSIFY, "a.parquet", "a Parquet file"),
    ("a.conll", "a X\n\nb\n", TAG, "a.conll:3", "one column, 'b'"),
    ("a.conll", "a X\nb X Y\n", TAG, "a.conll:2", "2 columns.*3: b | X | Y"),
    ("a.conll", "a\tX\nb\t\n", TAG, "a.conll:2", "a token and its tag"),
    ("a.conllu", "a X\n", TAG, "a.conllu:1", "ten columns"),
    ("a.conllu", CONLLU.replace("VERB", "_"), TAG, "a.conllu:1", "upos.*'vamos'"),
    ("a.conllu", CONLLU.replace("2\tnos", "x\tnos"), TAG, "a.conllu:1-6", "'x'"),
    ("a.ts", "1,2:3,4:a\n", CLASSIFY, "a.ts:1", "header"),
    ("a.ts", "@data\n1,2:3,4:a\n", CLASSIFY, "a.ts:1", "@classLabel before @data"),
    ("a.ts", "@classLabel true a\n", CLASSIFY, "a.ts", "a line @data"),
    ("a.ts", "@classLabel false\n@data\n1:2\n", CLASSIFY, "a.ts:2", "@classLabel true"),
    ("a.ts", "@timeStamps true\n@data\n", CLASSIFY, "a.ts:1", "@timeStamps false"),
    ("a.ts", HEADER + "1,2:3:a\n", CLASSIFY, "a.ts:7", "2 values.*1 in channel 2"),
    ("a.ts", HEADER + "1,2:a\n", CLASSIFY, "a.ts:7", "2 channels"),
    ("a.ts", HEADER + "1,2:3,4:c\n", CLASSIFY, "a.ts:7", r"a label of the header \(a, b\), found 'c'"),
    ("a.ts", HEADER + "1,?:3,4:a\n", CLASSIFY, "a.ts:7", "'?' at time step 2 of channel 1.*missing"),
    ("a.ts", HEADER + "1,2:3,NaN:a\n", CLASSIFY, "a.ts:7", "nan at time step 2, channel 2"),
    ("a.txt", "hello\n", CLASSIFY, "a.txt", "a format that holds labels"),
    ("a.dat", "hello\n", CLASSIFY, "a.dat", "suffix.*csv, tsv"),
    ("a.ts", HEADER, TAG, "a.ts", "a format for task tag"),
    ("a.csv", "text\n", {"task": "sort"}, "task", "classify, tag, lm"),
    ("a.csv", "text\n", {"task": "lm", "format": "xls"}, "format", "auto or one of"),
]


@pytest.mark.parametrize(
    ("name", "content", "say"),
    [
        ("a.jsonl", '{"features": [[1, NaN]], "label": "a"}\n', "column 'features'"),
        ("a.jsonl", '{"features": [[1, 2], [3]], "label": "a"}\n', "the same channels"),
        ("a.jsonl", '{"features": [[1, 2]], "label": "a"}\n{"features": [[3]], "label": "a"}\n', "the same channels"),
        ("a.csv", "text,label\n", "Check that it was written"),
        ("a.csv", "text,text\na,b\n", "Rename one"),
    ],
)
def test_bad_input_says_the_column_and_what_to_do(write: Write, name: str, content: str, say: str) -> None:
    with pytest.raises(DataError, match=say):
        read(write(name, content), task="classify")


def test_arrow_frees_no_bytes_of_python(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    """A thread of Arrow that does so while Python exits aborts the process (code 134 in 1 of 15 runs)."""
    given: list[object] = []
    reader = pyarrow.BufferReader

    def watched(content: object) -> object:
        given.append(content)
        return reader(content)

    monkeypatch.setattr(pyarrow, "BufferReader", watched)
    read(write("a.csv", "text,label\na,b\n"), task="classify")
    assert given
    assert all(isinstance(content, pyarrow.Buffer) for content in given)


def test_a_header_of_two_lines(write: Write) -> None:
    dataset = read(write("a.csv", '\n"te\nxt",label\na,b\n'), task="classify", columns=Columns(text="te\nxt"))
    assert wheres(dataset) == ["a.csv:4"]


@pytest.mark.parametrize(("name", "content", "options", "place", "say"), BAD)
def test_bad_input(write: Write, name: str, content: str | bytes, options: dict, place: str, say: str) -> None:
    with pytest.raises(DataError) as caught:
        read(write(name, content), **options)
    message = str(caught.value)
    assert place in message, message
    assert say in message or re.search(say, message), message
    assert ": expected " in message
    assert "found" in message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing there"):
        read(tmp_path / "none.csv", task="classify")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="a folder"):
        read(tmp_path / "folder.csv", task="classify")


def test_features_are_a_tuple() -> None:
    with pytest.raises(DataError, match=r"features=\(name,\)"):
        Columns(features="x")  # type: ignore[arg-type]


def test_parquet_missing_column(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.parquet: expected a column 'text'.*'txt'"):
        read(parquet(tmp_path / "a.parquet", [{"txt": "a", "label": "x"}]), task="classify")
