"""Train, valid and test parts by hash: the same for any order of the rows, on any machine, in any process.

Items of the same content always share a part; where items have a group (a speaker, a conversation, a patient), so do
all items of the group. A label is never found outside the training part only.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unrolled.data.items import Dataset, Item, duplicates, listed
from unrolled.errors import DataError, expected

PARTS = ("train", "valid", "test")
SALT = "unrolled"


def split(
    dataset: Dataset,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    group: bool = True,
    salt: str = SALT,
) -> tuple[Dataset, Dataset, Dataset]:
    """Three parts of about the given fractions of the items. A single long text is cut by position instead."""
    _check_fractions(fractions)
    if not dataset.items:
        raise DataError(expected(dataset.name, "at least one item", "none"))
    if len(dataset) == 1 and dataset.kind == "text" and dataset[0].label is dataset[0].target is None:
        return split_by_position(dataset, fractions)
    grouped = group and any(item.group is not None for item in dataset)
    keys: dict[bytes, list[int]] = defaultdict(list)
    for i, item in enumerate(dataset):
        keys[key_of(item, grouped=grouped)].append(i)
    parts = _assign(keys, fractions, salt, "groups" if grouped else "different items", dataset.name)
    moved = _move_lone_labels(parts, keys, dataset.items, salt)
    results = [
        dataset.subset(sorted(i for key in part for i in keys[key]), f"{dataset.name}[{name}]")
        for name, part in zip(PARTS, parts, strict=True)
    ]
    _note(dataset, results, grouped, moved)
    return results[0], results[1], results[2]


def split_by_position(dataset: Dataset, fractions: Sequence[float]) -> tuple[Dataset, Dataset, Dataset]:
    """Cut every text at line ends (or at characters where it has no lines): beginning, middle, end."""
    _check_fractions(fractions)
    results = [Dataset([], f"{dataset.name}[{name}]") for name in PARTS]
    bounds = np.cumsum(np.asarray(fractions, dtype=float) / sum(fractions))
    for item in dataset:
        text, start = item.text or "", 0
        for result, bound in zip(results, bounds, strict=True):
            end = len(text) if bound > 1 - 1e-9 else _line_end(text, start, round(bound * len(text)))
            if end > start:
                result.items.append(replace(item, where=f"{item.where}[{start}:{end}]", text=text[start:end]))
            start = end
    results[0].notes.append("split by position: the beginning trains, the end tests")
    return results[0], results[1], results[2]


def _line_end(text: str, start: int, wanted: int) -> int:
    before = text.rfind("\n", start, wanted) + 1
    return before if before > start else wanted


def _check_fractions(fractions: Sequence[float]) -> None:
    valid = len(fractions) == 3 and all(f >= 0 for f in fractions) and fractions[0] > 0
    if not valid or abs(sum(fractions) - 1) > 1e-6:
        wanted = "three numbers that sum to 1, the first above 0"
        raise DataError(expected("fractions", wanted, tuple(fractions), "For example (0.8, 0.1, 0.1)."))


def key_of(item: Item, *, grouped: bool) -> bytes:
    """Equal for items that must share a part."""
    if grouped and item.group is not None:
        return b"group\0" + item.group.encode()
    return b"item\0" + item.content()


def rank(key: bytes, salt: str = SALT) -> bytes:
    """What the keys are ordered by: SHA-256."""
    return hashlib.sha256(salt.encode() + b"\0" + key).digest()


def _assign(
    keys: dict[bytes, list[int]], fractions: Sequence[float], salt: str, what: str, name: str
) -> list[list[bytes]]:
    """Keys in the order of their hash, cut where the items reach the fractions; no wanted part is left empty."""
    order = sorted(keys, key=lambda key: rank(key, salt))
    wanted = [fraction > 0 for fraction in fractions]
    if len(order) < sum(wanted):
        way_out = "Bring a file for each part, or ask for fewer parts."
        raise DataError(expected(name, f"at least {sum(wanted)} {what} to split", len(order), way_out))
    total = sum(len(rows) for rows in keys.values())
    parts: list[list[bytes]] = []
    taken, start, share = 0, 0, 0.0
    for i, fraction in enumerate(fractions):
        share += fraction
        later = sum(wanted[i + 1 :])
        end = start
        while wanted[i] and end < len(order) - later:
            size = len(keys[order[end]])
            if end > start and later and taken + size / 2 > share * total:
                break
            taken += size
            end += 1
        parts.append(order[start:end])
        start = end
    return parts


def _move_lone_labels(
    parts: list[list[bytes]], keys: dict[bytes, list[int]], items: Sequence[Item], salt: str
) -> list[str]:
    """Give the training part one key of each label it lacks; no part is emptied by it. Returns the labels."""
    answers = {key: {a for i in rows for a in items[i].answers()} for key, rows in keys.items()}
    known = {answer for key in parts[0] for answer in answers[key]}
    moved: list[str] = []
    for part in parts[1:]:
        held = len(part)
        for key in sorted(part, key=lambda key: rank(key, salt)):
            new = answers[key] - known
            if new:
                part.remove(key)
                parts[0].append(key)
                known |= answers[key]
                moved += sorted(new)
        if held and not part:
            _give_back(parts[0], part, answers)
    return moved


def _give_back(train: list[bytes], part: list[bytes], answers: dict[bytes, set[str]]) -> None:
    """Move to an emptied part the last key of the training part that it can spare, if there is one."""
    counts = Counter(answer for key in train for answer in answers[key])
    for key in reversed(train[1:]):
        if all(counts[answer] > 1 for answer in answers[key]):
            train.remove(key)
            part.append(key)
            return


def _note(dataset: Dataset, results: Sequence[Dataset], grouped: bool, moved: Sequence[str]) -> None:
    notes = results[0].notes
    sizes = " / ".join(str(len(result)) for result in results)
    notes.append(f"split by hash of the {'group' if grouped else 'content'}: {sizes} items")
    if moved:
        notes.append(f"labels found in few items, which were all put into the training part: {listed(moved)}")
    count = duplicates(dataset)
    if count and not grouped:
        notes.append(f"{count} of {len(dataset)} items repeat an earlier one; copies share a part")
    elif count:
        seen = {item.content() for item in results[0]}
        crossing = sum(item.content() in seen for result in results[1:] for item in result)
        notes.append(f"{count} items repeat an earlier one; {crossing} valid and test items also stand in train")
