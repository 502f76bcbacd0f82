"""Splits and the embedded examples: no leak, the same every time, nothing lost."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrolled.data import Dataset, Item, check_labels, duplicates, examples, split
from unrolled.errors import DataError


def assert_disjoint(sets: Sequence[set]) -> None:
    assert sum(map(len, sets)) == len(set().union(*sets))


def texts(*contents: str, label: str | None = None) -> Dataset:
    return Dataset([Item(f"f:{i}", text=text, label=label) for i, text in enumerate(contents, start=1)], "f")


def test_a_lone_label_empties_no_part() -> None:
    for lone in range(10):
        items = [Item(f"f:{i}", text=f"text {i}", label="xy"[i % 2] if i != lone else "z") for i in range(10)]
        parts = split(Dataset(items, "f"))
        assert all(len(part) for part in parts)
        check_labels(parts[0], parts[1])
        check_labels(parts[0], parts[2])
        assert "z" in {item.label for item in parts[0]}


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=60), st.randoms())
@settings(max_examples=60, deadline=None)
def test_copies_share_a_part_and_order_is_no_matter(contents: list[str], random: Random) -> None:
    if len(set(contents)) < 3:
        return
    parts = split(texts(*contents, label="x"))
    assert sorted(i.where for part in parts for i in part) == sorted(i.where for i in texts(*contents))
    sets = [{item.text for item in part} for part in parts]
    assert all(sets)
    assert_disjoint(sets)
    shuffled = list(contents)
    random.shuffle(shuffled)
    assert [{i.text for i in part} for part in split(texts(*shuffled, label="x"))] == sets


def test_fractions_salt_and_notes() -> None:
    data = texts(*[f"text {i}" for i in range(1000)], "text  1 ")
    parts = split(data, (0.7, 0.2, 0.1))
    assert [len(part) for part in parts] == [pytest.approx(n, abs=2) for n in (700, 200, 100)]
    assert any("1 of 1001 items repeat" in note for note in parts[0].notes)
    assert duplicates(data) == 1
    other = split(data, (0.7, 0.2, 0.1), salt="other")
    assert {i.text for i in other[2]} != {i.text for i in parts[2]}
    assert [len(part) for part in split(data, (0.9, 0.1, 0))] == [
        pytest.approx(901, abs=2),
        pytest.approx(100, abs=2),
        0,
    ]


def test_groups_stay_together() -> None:
    items = [Item(f"f:{i}", text=f"t{i % 50}", label="x", group=f"g{i % 13}") for i in range(300)]
    parts = split(Dataset(items))
    groups = [{item.group for item in part} for part in parts]
    assert sum(map(len, groups)) == 13
    assert len(set().union(*groups)) == 13
    assert any("also stand in train" in note for note in parts[0].notes)


def test_a_rare_label_is_in_train() -> None:
    for rare in range(40):
        items = [Item(f"f:{i}", text=f"t{i}", label="rare" if i == rare else "x") for i in range(40)]
        train, valid, test = split(Dataset(items))
        check_labels(train, valid)
        check_labels(train, test)


def test_one_text_is_cut_by_position() -> None:
    text = "".join(f"line {i}\n" for i in range(1000))
    parts = split(texts(text), (0.9, 0.05, 0.05))
    assert "".join(part[0].text or "" for part in parts) == text
    assert all((part[0].text or "").endswith("\n") for part in parts)
    assert len(parts[2][0].text or "") == pytest.approx(0.05 * len(text), abs=20)


def test_split_refuses() -> None:
    with pytest.raises(DataError, match="at least 3 different items"):
        split(texts("a", "a", "b", label="x"))
    with pytest.raises(DataError, match="at least one item"):
        split(Dataset([]))
    with pytest.raises(DataError, match="at least 3 different items"):  # one pair is no long text to cut
        split(Dataset([Item("p.tsv:1", text="a b", target="x y")], "p.tsv"))
    with pytest.raises(DataError, match="sum to 1"):
        split(texts("a", "b", "c"), (0.5, 0.1, 0.1))


def test_label_only_in_the_test_file() -> None:
    train = texts("a", "b", label="x")
    test = Dataset([Item("test.csv:7", text="c", label="y")], "test.csv")
    with pytest.raises(DataError, match=r"test\.csv:7: label.*x.*'y'.*Correct"):
        check_labels(train, test)
    tagged = Dataset([Item("test.conll:3", tokens=("a",), tags=("B",))], "test.conll")
    with pytest.raises(DataError, match=r"test\.conll:3: tag"):
        check_labels(Dataset([Item("f:1", tokens=("a",), tags=("A",))]), tagged)


SIZES = {
    "speakers": (216, 54, 370),
    "tags": (12444, 2066, 1652),
    "poems": (3061, 354, 376),
    "plays": (5, 5, 5),
    "cities": (7797, 1015, 936),
    "weather": (1, 1, 1),
}


@pytest.mark.parametrize("name", examples.NAMES)
def test_examples(name: str) -> None:
    example, splits = examples.describe(name), examples.load(name)
    assert (example.name, example.task) == (name, splits.task)
    assert all((example.title, example.licence, example.origin, example.items, example.split))
    assert "{" not in example.origin + example.items
    assert len(example.licence_text) > 900
    parts = splits[:3]
    assert tuple(len(part) for part in parts) == SIZES[name]
    check_labels(splits.train, splits.valid)
    check_labels(splits.train, splits.test)
    wheres = [item.where for part in parts for item in part]
    assert len(set(wheres)) == len(wheres)
    if name != "tags":  # "yes" and "what?" are said in every conversation
        contents = [{item.content() for item in part} for part in parts]
        assert_disjoint(contents)
    groups = [{item.group for item in part if item.group} for part in parts]
    if name == "tags":
        assert [len(g) for g in groups] == [39, 5, 5]
        assert len(set().union(*groups)) == 49


def test_speakers_are_the_official_ones() -> None:
    splits = examples.load("speakers")
    assert Counter(item.label for item in splits.train) == {str(i): 24 for i in range(1, 10)}
    assert Counter(item.label for item in splits.valid) == {str(i): 6 for i in range(1, 10)}
    counts = Counter(item.label for item in splits.test)
    assert [counts[str(i)] for i in range(1, 10)] == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    lengths = [item.length for part in splits[:3] for item in part]
    assert (min(lengths), max(lengths)) == (7, 29)
    first = next(item for part in splits[:2] for item in part if item.where == "speakers:1")
    assert first.features is not None
    assert first.features.dtype == np.float32
    np.testing.assert_array_equal(first.features[:3, 0], np.float32([1.860936, 1.891651, 1.939205]))
    assert first.features[0, 1] == np.float32(-0.207383)


def test_poems_share_no_line_between_parts() -> None:
    splits = examples.load("poems")
    lines = []
    for part in splits[:3]:
        assert all([len(line) for line in (item.text or "").split("\n")] == [5] * 4 for item in part)
        lines.append({line for item in part for line in (item.text or "").split("\n")})
    assert_disjoint(lines)


def test_plays_are_whole() -> None:
    splits = examples.load("plays")
    pieces = [[item.text or "" for item in part] for part in splits[:3]]
    whole = ["".join(play) for play in zip(*pieces, strict=True)]
    assert sum(map(len, whole)) == 613_503
    assert whole[0].startswith("HAMLET")
    digest = hashlib.sha256("".join(whole).encode()).hexdigest()
    assert digest[:8] == "67d4db77"


def test_a_name_of_a_city_has_one_part() -> None:
    names = [{(item.text or "").casefold() for item in part} for part in examples.load("cities")[:3]]
    assert_disjoint(names)


def test_the_sets_are_small() -> None:
    folder = Path(examples.__file__).parent
    assert sum(path.stat().st_size for path in (folder / "sets").iterdir()) < 2_500_000
    assert {path.stem for path in (folder / "licences").iterdir()} == {*examples.NAMES, *examples.MODELS}


def test_unknown_example() -> None:
    with pytest.raises(DataError, match="speakers, tags, poems, plays, cities"):
        examples.load("vowels")
    with pytest.raises(DataError, match="'vowels'"):
        examples.describe("vowels")
