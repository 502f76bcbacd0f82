"""Where a file is cut: what a piece holds, how it travels, and the parts of which cutting is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from small_pieces import CLASSIFY, LONG, SIZES, joined, line, same, shown
from unrolled.data import read
from unrolled.data.readers.cutting import after_character, after_row, character_end, line_begins
from unrolled.data.readers.pieces import can_stream, parse, raw_pieces, read_pieces
from unrolled.data.readers.seen import Seen
from unrolled.errors import DataError

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


def test_a_text_without_line_ends_is_cut_behind_a_space_and_a_word_that_is_too_long_at_a_character():
    assert after_character(b"one two three", 9, False) == len(b"one two ")
    assert after_character("早上好".encode(), 7, False) == 6
