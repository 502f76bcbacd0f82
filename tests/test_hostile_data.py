"""Data files from strangers: each kind of fault that the fuzzer has found, and what it must end in now."""

from __future__ import annotations

import io
import json
import resource
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from unrolled import convert
from unrolled.data import read
from unrolled.data.calendar import parse_times
from unrolled.data.readers.series import SeriesColumns, read_series
from unrolled.errors import DataError, UnrolledError, expected
from unrolled.training import Recipe

MEGABYTES = 2**20


def refused(path: Path, match: str, task: str = "classify", **options: Any) -> None:
    """One line of ours, within a second of processor time and in little memory."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(DataError, match=match) as caught:
        read(path, task=task, **options)
    assert str(caught.value).isprintable()
    assert time.process_time() - start < 1
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 200 * MEGABYTES


class TestWords:
    def test_what_a_terminal_would_obey_is_escaped(self) -> None:
        said = expected("a.csv:1", "a number", "\x1b[2J\x1b]0;owned\x07\n\u202eevil\ud800", "Not \x00 so.")
        assert said.isprintable()
        assert r"\x1b[2J" in said
        assert r"\u202eevil\ud800" in said
        assert said.encode()

    def test_other_scripts_are_as_they_are(self) -> None:
        assert expected("深圳", "שלום", "é") == "深圳: expected שלום, found é."

    def test_a_label_with_an_escape_reaches_no_terminal(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("te\x1b[31mxt,label\na,b\n", encoding="utf-8")
        refused(tmp_path / "a.csv", r"\\x1b\[31m")


class TestJsonLines:
    @pytest.mark.parametrize(
        ("line", "match"),
        [
            ('{"text": "\\ud800", "label": "x"}', "text of Unicode, found half a character"),
            ('{"text": "a", "label": "\\uDFFFb"}', "text of Unicode"),
            ('{"text": "a", "label": ' + "9" * 5000 + "}", "digits"),
            ('{"text": ' + "[" * 100_000, "nested too deep"),
        ],
    )
    def test_lines(self, line: str, match: str, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text(f'{{"text": "b", "label": "y"}}\n{line}\n', encoding="utf-8")
        refused(tmp_path / "a.jsonl", match)

    def test_both_halves_are_a_character(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude42", "label": "x"}\n', encoding="utf-8")
        assert read(tmp_path / "a.jsonl", task="classify")[0].text == "🙂"

    def test_pairs_of_two_kinds(self, tmp_path: Path) -> None:
        rows = '{"source": [[1, 2]], "target": "a"}\n{"source": "b", "target": "a"}\n'
        (tmp_path / "a.jsonl").write_text(rows, encoding="utf-8")
        refused(tmp_path / "a.jsonl", "sources of one kind", "seq2seq")


def table(path: Path, **columns: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


class TestParquet:
    def test_damage_in_the_header_of_a_page(self, tmp_path: Path) -> None:
        """pyarrow raises OSError of it, which would have been taken for a fault of the disk."""
        whole = table(tmp_path / "a.parquet", text=["a", "b"], label=["x", "y"]).read_bytes()
        seen = 0
        for place in range(4, len(whole) - 8):
            (tmp_path / "a.parquet").write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
            try:
                read(tmp_path / "a.parquet", task="classify")
            except UnrolledError as error:
                seen += "thrift" in str(error).lower()
        assert seen

    @pytest.mark.parametrize("kind", ["duration", "timestamp"])
    def test_values_that_python_does_not_have(self, kind: str, tmp_path: Path) -> None:
        type_ = pyarrow.duration("s") if kind == "duration" else pyarrow.timestamp("us")
        column = pyarrow.array([2**62], pyarrow.int64()).cast(type_)
        refused(table(tmp_path / "a.parquet", text=["a"], label=column), "numbers, texts and lists|a label")

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        column = pyarrow.array([b"\xff\xfe"]).cast(pyarrow.string(), safe=False)
        refused(table(tmp_path / "a.parquet", text=column, label=["x"]), "numbers, texts and lists")

    def test_a_bomb(self, tmp_path: Path) -> None:
        """Some kilobytes that say ten million rows, each of which would become an object of Python."""
        parquet.write_table(pyarrow.table({"text": pyarrow.nulls(10_000_000)}), tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 30_000
        refused(tmp_path / "a.parquet", "10 rows a byte, found 10,000,000 rows", "lm")

    def test_a_packed_bomb(self, tmp_path: Path) -> None:
        text = pyarrow.array(["a" * (100 * MEGABYTES)])
        parquet.write_table(
            pyarrow.table({"text": text}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False
        )
        refused(tmp_path / "a.parquet", "at most 200 times the file's size", "lm")


class TestTables:
    @pytest.mark.parametrize("content", ["\ufeff", "\ufeff\n\n", "\x1c\n", "\x85"])
    def test_pairs_without_a_line(self, content: str, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_text(content, encoding="utf-8")
        refused(tmp_path / "a.tsv", "expected", "seq2seq")


def test_a_number_beyond_float32_is_no_warning(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("@classLabel true x\n@data\n1,1e308:x\n", encoding="utf-8")
    refused(tmp_path / "a.ts", "too large for float32")


class TestSeries:
    COLUMNS = SeriesColumns(id="id")

    def read(self, path: Path, text: str | bytes, **options: Any) -> Any:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_series(path, self.COLUMNS, **options)

    def test_names_that_differ_by_a_zero_byte(self, tmp_path: Path) -> None:
        rows = [{"time": t, "target": 1, "id": name} for name in ("a", "a\0", "\0") for t in (1, 2)]
        found = self.read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
        assert [len(item.series) for item in found] == [2, 2, 2]

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="UTF-8 text, found byte 0xf5"):
            self.read(tmp_path / "a.jsonl", b'{"time": 1, "target": 2, "id": "\xf5"}\n')

    def test_lines_that_are_cut_off(self, tmp_path: Path) -> None:
        """pyarrow's reader of JSON ended the process at the first of these, now and then."""
        for text in (' null, "id": "a", "k": 1}\n{"time": 3, "target": 1, "id": "a", "k": 1}\n', '{"time": 3, "tar'):
            with pytest.raises(DataError, match=r"a.jsonl:1: expected one JSON object"):
                self.read(tmp_path / "a.jsonl", text)

    def test_a_list_is_no_number(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a.jsonl:2: expected a flat table .* found a list in column 'k'"):
            self.read(tmp_path / "a.jsonl", '{"time": 1, "target": 2}\n{"time": 2, "target": 2, "k": []}\n')

    @pytest.mark.parametrize("gaps", ["mask", "fill"])
    def test_one_wrong_time_does_not_take_all_memory(self, gaps: str, tmp_path: Path) -> None:
        rows = "time,target,id\n1,1,a\n2,1,a\n3,1,a\n4000000000,1,a\n"
        with pytest.raises(DataError, match=r"a.csv:5: .*at most 1000 steps .* between 3 and 4000000000"):
            self.read(tmp_path / "a.csv", rows, gaps=gaps)

    def test_times_out_of_every_calendar(self, tmp_path: Path) -> None:
        assert parse_times(["1", str(2**62)]) == 1
        for far in ("0001-01-01T00:00+23:59", "9999-12-31T23:59-23:59"):
            assert parse_times(["2024-01-01", far]) == 1
        with pytest.raises(DataError, match=r"a.csv:2: expected a time"):
            self.read(tmp_path / "a.csv", f"time,target,id\n-{2**62},1,a\n{2**62},1,a\n")


def test_a_header_of_python_2_is_no_warning(tmp_path: Path) -> None:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3L,), }"
    member = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(12)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("cell/kernel.npy", member)
    with pytest.raises(UnrolledError, match="kernel"):
        convert.load(tmp_path / "a.npz", source="tf1")


def test_a_zip_with_a_name_that_is_no_text(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("é.npy", b"x")
    (tmp_path / "a.npz").write_bytes(buffer.getvalue().replace("é".encode(), b"\xf8\xf8"))
    with pytest.raises(UnrolledError, match="a whole file"):
        convert.load(tmp_path / "a.npz", source="equinox")


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 100_000, "task = " + "9" * 5000, "a." * 50_000 + "b = 1", "\ufeff",
     "x" * 900_000 + " = 1", "[" + "'a' . \"b\"." * 20_000 + "c]", "#" * 2**21, "a = {b = " * 50_000, "'" * 900_000],
)  # fmt: skip
def test_recipes(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(UnrolledError):
        Recipe.load(tmp_path / "a.toml")
    assert time.process_time() - start < 1
