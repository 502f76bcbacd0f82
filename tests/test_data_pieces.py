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

from unrolled.data import Columns, Dataset, Item, read
from unrolled.data.readers.cutting import after_character, after_row, character_end, line_begins
from unrolled.data.readers.pieces import Joint, can_stream, parse, raw_pieces, read_pieces
from unrolled.data.readers.seen import Seen
from unrolled.errors import DataError

SIZES = (1, 2, 7, 30, 200, 1 << 20)
FEW = (1, 30, 200, 1 << 20)  # pyarrow takes two milliseconds for the smallest table
WORDS = ("a", "bb", "时间", "🙂🙂", "naïve", "x\u2028y", "\u3000", "\ufeff", '5"', "", " ", "\x85", "\t-", "#")
ENDS = ("\n", "\r\n", "\r")
STEPS = Columns(id="who")


def shown(item: Item) -> tuple[Any, ...]:
    features = None if item.features is None else (item.features.dtype.str, item.features.tolist())
    return item.where, item.text, item.tokens, features, item.label, item.tags, item.group, item.target


def same(path: Path, sizes: tuple[int, ...] = SIZES, **options: Any) -> Dataset:
    """`read` and `read_pieces` agree on a file, in items and notes; the data set."""
    whole = read(path, **options)
    for size in sizes:
        joint, items = Joint(path), []
        behind = [0.0]
        for raw in raw_pieces(path, size=size, **options):
            part = parse(raw)
            joint.check(part)
            items += part.items
            behind.append(raw.behind)
        assert [shown(item) for item in items] == [shown(item) for item in whole], size
        assert joint.finish() == [note for note in whole.notes if "label" not in note]
        assert behind[-1] == 1
        assert (np.diff(behind) > 0).all()
    return whole


def same_error(path: Path, sizes: tuple[int, ...] = SIZES, **options: Any) -> str:
    """`read` and `read_pieces` raise the same; the message."""
    with pytest.raises(DataError) as whole:
        read(path, **options)
    for size in sizes:
        with pytest.raises(DataError) as pieces:
            list(read_pieces(path, size=size, **options))
        assert str(pieces.value) == str(whole.value), size
    return str(whole.value)


def count(path: Path, size: int, **options: Any) -> int:
    return len(list(raw_pieces(path, size=size, **options)))


# Random files


def words(rng: np.random.Generator, most: int = 4) -> str:
    return " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(0, most + 1)))


def line(rng: np.random.Generator) -> str:
    """Words without anything that ends a line or parts columns."""
    return words(rng).replace("\t", "")


def cell(rng: np.random.Generator, delimiter: str, filled: str = "") -> str:
    text = filled + words(rng)
    way = rng.integers(4)
    if way == 0:
        text = text.replace('"', "") + str(rng.choice(["\n", "\r\n", "\r", '"', delimiter, '""\n"']))
    if way == 0 or text.startswith('"') or any(mark in text for mark in (delimiter, "\n", "\r")):
        return '"' + text.replace('"', '""') + '"' + ("junk" if rng.random() < 0.1 else "")
    return text


def joined(rng: np.random.Generator, lines: list[str], blanks: float = 0.0) -> bytes:
    """Lines with ends of one sort or of all sorts, blank lines among them, perhaps a mark, perhaps no end."""
    sort = int(rng.integers(4))
    text = "\ufeff" if rng.random() < 0.3 else ""
    for number, one in enumerate(lines):
        end = ENDS[sort] if sort < 3 else str(rng.choice(ENDS))
        text += one + ("" if number == len(lines) - 1 and rng.random() < 0.3 else end)
        while rng.random() < blanks:
            text += end
    return text.encode()


def table(rng: np.random.Generator, delimiter: str, names: tuple[str, ...], fill: Callable[[str], str]) -> bytes:
    rows = [delimiter.join(cell(rng, delimiter, fill(name)) for name in names) for _ in range(rng.integers(1, 25))]
    header = delimiter.join(f'"{name}"' if rng.random() < 0.3 else name for name in names)
    return joined(rng, [*[""] * int(rng.integers(3)), header, *rows], blanks=0.2)


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

CLASSIFY = {"task": "classify"}
LONG = {"task": "classify", "columns": STEPS}
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


# What pieces are


def test_a_piece_holds_all_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "aaaa,bbbb\n" * 10)
    assert [len(part) for part in read_pieces(path, task="classify", size=30)] == [3, 3, 3, 1]
    assert [len(part) for part in read_pieces(path, task="classify", size=29)] == [2, 2, 2, 2, 2]
    assert [len(part) for part in read_pieces(path, task="classify", size=100)] == [10]
    path.write_text("text,label\n" + "aaaa,bbbb\n" * 2 + '"' + "long\n" * 50 + '",b\n' + "aaaa,bbbb\n" * 2)
    assert [len(part) for part in read_pieces(path, task="classify", size=20)] == [2, 1, 2]


def test_raw_pieces_can_go_to_another_process(tmp_path: Path) -> None:
    import multiprocessing.reduction as reduction

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [f"text {i}" for i in range(5000)]}), path)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n' * 2000)
    for made in (path, tmp_path / "a.jsonl"):
        raws = list(raw_pieces(made, task="lm", size=10_000))
        assert len(raws) > 2
        sent = [bytes(reduction.ForkingPickler.dumps(raw)) for raw in raws]
        assert max(map(len, sent)) < 40_000
        items = [item for one in sent for item in parse(reduction.ForkingPickler.loads(one))]
        assert [shown(item) for item in items] == [shown(item) for item in read(made, task="lm")]


def test_an_id_that_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,x,label\n" + "1,1,a\n2,2,b\n" + "3,3,c\n" * 9 + "1,1,a\n4,4,d\n")
    with pytest.raises(DataError, match=r"a\.csv:13: expected the rows of sequence '1' together.*Sort.*--memory"):
        list(read_pieces(path, size=20, **LONG))
    assert sum(len(part) for part in read_pieces(path, size=1000, **LONG)) == 4  # all in one piece: as `read`


def test_a_header_and_a_blank_line_are_two_lines(tmp_path: Path) -> None:
    """A carriage return ends the header; the line feed before a later row is not the second half of that end."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\raaa,b\n\nc,d\n\r\n\ne,f\n")
    assert [item.where for item in same(path, (1, 6, 9), **CLASSIFY)] == ["a.csv:2", "a.csv:4", "a.csv:7"]


def test_the_channels_are_those_of_the_first_piece(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,x,y,label\n1,1,none,a\n2,2,5,a\n3,3,6,a\n")
    assert [item.features.shape for item in same(path, **LONG) if item.features is not None] == [(1, 1)] * 3


def test_what_can_be_cut(tmp_path: Path) -> None:
    assert can_stream("a.csv", task="classify")
    assert can_stream("a.txt", task="lm", format="documents")
    assert can_stream("a.conllu", task="tag")
    assert not can_stream("a.ts", task="classify")
    assert not can_stream("a.csv", task="forecast")
    assert not can_stream("a.conll", task="lm")
    assert not can_stream("a.dat", task="lm")
    assert not can_stream(tmp_path, task="lm", format="text")
    with pytest.raises(DataError, match="read in pieces"):
        raw_pieces("a.ts", task="classify")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="size: expected 1 byte or more"):
        raw_pieces("a.txt", task="lm", size=0)
    for cuts in ((0.5, 0.2), (0.0,), (1.0,), (float("nan"),)):
        with pytest.raises(ValueError, match="cuts: expected rising shares"):
            raw_pieces("a.txt", task="lm", cuts=cuts)
    with pytest.raises(ValueError, match="cuts: expected none"):
        raw_pieces("a.csv", task="lm", cuts=(0.5,))


def test_a_row_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrolled.data.readers.cutter.LEAST", 1000)
    path = tmp_path / "a.csv"
    path.write_text('text,label\na,b\n"' + "c,d\n" * 3000)
    with pytest.raises(DataError, match=r"a\.csv:3: expected no row.*quotation mark"):
        list(read_pieces(path, size=10, **CLASSIFY))
    path.write_text("who,x,label\n0,1,a\n" + "1,2,b\n" * 3000)
    with pytest.raises(DataError, match=r"a\.csv:3: expected no row"):
        list(read_pieces(path, size=10, **LONG))


# Cuts


def parts(path: Path, cuts: tuple[float, ...], size: int) -> list[str]:
    """The text between two cuts."""
    found = [""] * (len(cuts) + 1)
    for raw in raw_pieces(path, task="lm", size=size, cuts=cuts):
        found[raw.part] += "".join(item.text or "" for item in parse(raw))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_cuts_at_lines(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.txt"
    data = joined(rng, [line(rng) + "x" * int(rng.integers(9)) for _ in range(40)])
    path.write_bytes(data)
    cuts = (0.5, 0.7)
    ends = [i for i in range(1, len(data)) if data[i - 1] in b"\r\n" and data[i - 1 : i + 1] != b"\r\n"]
    first, second = (max(end for end in ends if end <= round(cut * len(data))) for cut in cuts)
    wanted = [data[:first], data[first:second], data[second:]]
    text = [one.decode("utf-8-sig" if i == 0 else "utf-8") for i, one in enumerate(wanted)]
    for size in SIZES:
        assert parts(path, cuts, size) == [one.replace("\r\n", "\n").replace("\r", "\n") for one in text]


def test_cuts_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n" + "时间" * 60_000)  # lines end far from the cuts
    for size in (1000, 1 << 20):
        first, second, rest = parts(path, (0.5, 0.6), size)
        assert first == "x\n"  # the last line end before the cut, however far
        assert len(second.encode()) == round(0.6 * (2 + 360_000)) // 3 * 3 - 3  # the last whole character before it
        assert set(rest) == set("时间")
        assert parts(path, (1e-9, 2e-9, 4.1e-6, 4.2e-6, 1e-5), size)[:5] == [
            "",
            "",
            "x",
            "\n",
            "时",
        ]  # room for no more


# The parts it is made of


def test_characters_are_never_cut() -> None:
    text = "aé时🙂\r\n" * 3
    data = text.encode()
    for size in range(1, len(data) + 1):
        end = character_end(data, size)
        data[:end].decode()
        data[end:].decode()
        assert 1 <= end <= max(size, 4)
        assert data[end - 1 : end + 1] != b"\r\n"
    assert after_character(data, 15, False) == 12
    assert after_character(data, 11, False) == 12  # the pair of a line end stays together


@pytest.mark.parametrize("seed", range(60))
def test_rows_end_where_pyarrow_sees_them_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytes(rng.choice(list(b'ab"",\n\n'), 60)) + b"\n"
    ends, inside, start = [], False, True
    for place in range(len(data)):
        letter = data[place : place + 1]
        if inside:
            inside = letter != b'"'
            start = False
        elif start is None:
            inside, start = letter == b'"', False
        elif start and letter == b'"':
            inside, start = True, False
        else:
            start = letter in b",\n"
            if letter == b"\n":
                ends.append(place + 1)
            continue
        if not inside and letter == b'"' and data[place + 1 : place + 2] == b'"':
            start = None  # a doubled mark: the next one goes on with the cell
    find = after_row(",")
    for size in range(1, len(data)):
        fitting = [end for end in ends if end <= size] or [end for end in ends if end > size][:1]
        assert find(data, size, False) == (fitting[-1] if fitting else 0), (data, size)


def test_where_lines_begin() -> None:
    data = b"a\r\nb\rc\n\n\r\r\nd"
    begins = [0, 3, 5, 7, 8, 9, 11]
    assert [line_begins(data, lines) for lines in range(7)] == begins


def test_seen() -> None:
    seen = Seen()
    for start in range(0, 3000, 30):
        assert seen.add([str(number) for number in range(start, start + 30)]) is None
    assert seen.add(["new", "2999", "0"]) == "2999"
    assert seen.add(["new"]) is None
    assert seen.add(["new"]) == "new"
    assert seen.add([]) is None
    assert len(seen._runs) < 15
