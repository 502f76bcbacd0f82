"""Pairs from files: what is read, and the message for each way in which a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from unrolled.data import Columns, Dataset, read, split
from unrolled.errors import DataError


def pairs(path: Path, content: str, *, labelled: bool = True, **columns: Any) -> Dataset:
    path.write_text(content, encoding="utf-8")
    return read(path, task="seq2seq", columns=Columns(**columns), labelled=labelled)


def test_tsv_with_a_header_and_without(tmp_path: Path) -> None:
    bare = pairs(tmp_path / "a.tsv", 'to "be"\têtre\nto be\tsein\n')
    assert [(i.where, i.text, i.target) for i in bare] == [
        ("a.tsv:1", 'to "be"', "être"),
        ("a.tsv:2", "to be", "sein"),
    ]
    assert "no header line" in bare.notes[0]
    headed = pairs(tmp_path / "b.tsv", 'target\tsource\tx\n"two\nlines"\tto be\t1\nsein\tnot\t2\n')
    assert [(i.where, i.text, i.target) for i in headed] == [
        ("b.tsv:2", "to be", "two\nlines"),
        ("b.tsv:4", "not", "sein"),
    ]
    named = pairs(tmp_path / "c.tsv", "en\tfr\nto be\têtre\n", source="en", target="fr")
    assert [(i.text, i.target) for i in named] == [("to be", "être")]


def test_csv_json_lines_and_parquet_give_the_same(tmp_path: Path) -> None:
    rows = [{"source": "a b", "target": "b a"}, {"source": "c", "target": "c"}]
    files = [tmp_path / f"a.{suffix}" for suffix in ("csv", "jsonl", "parquet")]
    files[0].write_text("source,target\na b,b a\nc,c\n")
    files[1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), files[2])
    for file in files:
        assert [(i.text, i.target) for i in read(file, task="seq2seq")] == [("a b", "b a"), ("c", "c")]
    lists = pairs(tmp_path / "b.jsonl", '{"source": ["to", "be"], "target": ["sein", "x y"]}\n')
    assert (lists[0].tokens, lists[0].target) == (("to", "be"), ("sein", "x y"))


def test_numbers_as_sequences_and_as_vectors(tmp_path: Path) -> None:
    line = '{"source": [[1, 2], [3, 4]], "target": "x"}\n'
    np.testing.assert_array_equal(pairs(tmp_path / "a.jsonl", line)[0].features, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(pairs(tmp_path / "a.jsonl", line, vector=True)[0].features, [[1, 2, 3, 4]])
    flat = '{"source": [1, 2, 3], "target": "x"}\n'
    assert pairs(tmp_path / "a.jsonl", flat)[0].features.shape == (3, 1)
    assert pairs(tmp_path / "a.jsonl", flat, vector=True)[0].features.shape == (1, 3)
    table = pairs(tmp_path / "a.csv", "a,b,target\n1,2.5,x\n", features=("b", "a"), vector=True)
    np.testing.assert_array_equal(table[0].features, [[2.5, 1]])
    cell = pairs(tmp_path / "a.tsv", "1 2,3\tx\n[4, 5, 6]\ty\n", vector=True)
    np.testing.assert_array_equal(np.concatenate([item.features for item in cell]), [[1, 2, 3], [4, 5, 6]])


def test_inputs_alone_need_no_target(tmp_path: Path) -> None:
    assert [i.text for i in pairs(tmp_path / "a.tsv", "one\ntwo\n", labelled=False)] == ["one", "two"]
    assert [i.text for i in pairs(tmp_path / "a.csv", "source\none\n", labelled=False)] == ["one"]
    path = tmp_path / "a.txt"
    path.write_text("one\n\ntwo\n")
    assert [i.text for i in read(path, task="seq2seq", labelled=False)] == ["one", "two"]


def test_equal_sources_share_a_part_whatever_their_targets(tmp_path: Path) -> None:
    rows = "".join(f"word{i % 40}\tt{i}\n" for i in range(200))
    parts = split(pairs(tmp_path / "a.tsv", rows))
    sets = [{item.text for item in part} for part in parts]
    assert all(sets)
    assert not sets[0] & sets[1]
    assert not sets[0] & sets[2]
    assert sum(len(part) for part in parts) == 200


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "a\tb\nc d\n", "a.tsv:2: expected a source, a tab and a target, found no tab in 'c d'"),
        ("a.tsv", "a\tb\n\nc\td\n", "a.tsv:2: expected a source, a tab and a target, found an empty line"),
        ("a.tsv", "a\tb\tc\n", "a.tsv:1: expected one tab, between source and target, found 2 tabs"),
        ("a.tsv", "a\tb\n\tc\nd\te\n \tc\n", "a.tsv:2: expected a filled 'source', found an empty one; 2 in all: 2, 4"),
        ("a.tsv", "a\tb\nc\t \n", "a.tsv:2: expected a filled 'target', found an empty one. Fill it, or remove"),
        ("a.csv", "source,goal\na,b\n", "expected a column 'target' for the target, found columns 'source', 'goal'"),
        ("a.csv", "from,target\na,b\n", "expected a column 'source' for the source"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": "a"}\n', "a.jsonl:2: expected a filled 'target'"),
        ("a.jsonl", '{"source": "a", "target": 3}\n', "a.jsonl:1: expected a list of strings, or one string, in col"),
        ("a.jsonl", '{"source": [[1, 2], [3]], "target": "b"}\n', "a.jsonl:1: expected 2 numbers at every time step"),
        ("a.jsonl", '{"source": [[1, NaN]], "target": "b"}\n', "a.jsonl:1: expected finite numbers"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": [[1]], "target": "b"}\n', "sources of one kind"),
        (
            "a.jsonl",
            '{"source": [[1]], "target": "b"}\n{"source": [[1, 2]], "target": "b"}\n',
            "a.jsonl:2: expected 1 c",
        ),
        ("a.txt", "a b\n", "expected a format that holds labels, found plain text"),
        ("a.conll", "a b\n", "expected a format for task seq2seq"),
    ],
)
def test_what_bad_files_get(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        pairs(tmp_path / name, content)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,target\n1,2,x\n1,,y\n", "a.csv:3: expected a number in column 'b', found nothing"),
        ("a,b,target\n1,two,x\n", "a.csv:2: expected a number in column 'b', found 'two'"),
        ("a,b,target\n1,inf,x\n", "a.csv:2: expected finite numbers, found inf at time step 1, channel 2"),
        ("a,target\n1,x\n", "expected a column 'b' for the source"),
    ],
)
def test_what_bad_vectors_get(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        pairs(tmp_path / "a.csv", content, features=("a", "b"), vector=True)
    assert message in str(error.value)
