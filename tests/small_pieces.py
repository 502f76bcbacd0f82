"""Random files, and what it means that a file in pieces is the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unrolled.data import Columns, Dataset, Item, read
from unrolled.data.readers.pieces import Joint, parse, raw_pieces, read_pieces
from unrolled.errors import DataError

SIZES = (1, 2, 7, 30, 200, 1 << 20)
FEW = (1, 30, 200, 1 << 20)  # pyarrow takes two milliseconds for the smallest table
WORDS = ("a", "bb", "时间", "🙂🙂", "naïve", "x\u2028y", "\u3000", "\ufeff", '5"', "", " ", "\x85", "\t-", "#")
ENDS = ("\n", "\r\n", "\r")
STEPS = Columns(id="who")
CLASSIFY: dict[str, Any] = {"task": "classify"}
LONG: dict[str, Any] = {"task": "classify", "columns": STEPS}


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
