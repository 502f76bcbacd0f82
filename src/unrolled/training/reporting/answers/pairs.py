"""Answers of `seq2seq`: which edits would mend what was written, the error by the source's length, and some pairs.

Source   edits: the path of Levenshtein (1966) through the table of the least edits; of equal paths the one that
         prefers a substitution.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data import Dataset, Item
from unrolled.training.reporting.answers.common import part_of_text
from unrolled.training.transduction import Transduction, edit_distance

__all__ = ["answers", "edits"]

MOST_SOURCES = 300
EDITS = 20
SAMPLES = 12
Edit = tuple[str | None, str | None]  # (right, written): None on one side where a token is missing or too much


def answers(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """Free running with the recipe's beam; a source with several targets is held against the nearest of them."""
    task, notes = trained.task, []
    items, references = _sources(task, dataset)
    if len(items) > MOST_SOURCES:
        notes.append(f"errors and samples: of the first {MOST_SOURCES:,} of {len(items):,} sources")
    items = items[:MOST_SOURCES]
    said = [best[0] for best in trained.translate(items)]
    written = [tuple(answer["tokens"]) for answer in said]
    nearest = [_nearest(references[item.content()], guess) for item, guess in zip(items, written, strict=True)]
    counted: Counter[Edit] = Counter()
    for right, guess in zip(nearest, written, strict=True):
        counted.update(edits(right, guess))
    table = [{"right": a, "said": b, "count": count} for (a, b), count in counted.most_common(EDITS)]
    errors = {"kind": "edits", "edits": table, "total": counted.total(), "scored": len(items)}
    errors["lengths"] = _by_length(trained, items, nearest, written)
    wrong = [i for i, (right, guess) in enumerate(zip(nearest, written, strict=True)) if right != guess]
    fine = [i for i, (right, guess) in enumerate(zip(nearest, written, strict=True)) if right == guess]
    shown = [*wrong[: SAMPLES // 2], *fine[: SAMPLES - min(len(wrong), SAMPLES // 2)]]
    samples = [_sample(task, items[i], nearest[i], said[i]) for i in shown]
    return {"errors": errors, "samples": samples, "notes": notes}


def _nearest(right: list[tuple[str, ...]], guess: tuple[str, ...]) -> tuple[str, ...]:
    return min(right, key=lambda one: edit_distance(guess, one))


def _sources(task: Any, dataset: Dataset) -> tuple[list[Item], dict[bytes, list[tuple[str, ...]]]]:
    """Each source once, and its targets by what it holds."""
    items: dict[bytes, Item] = {}
    references: defaultdict[bytes, list[tuple[str, ...]]] = defaultdict(list)
    for item in dataset:
        items.setdefault(item.content(), item)
        is_text = isinstance(item.target, str)
        target = Item(item.where, text=item.target) if is_text else Item(item.where, tokens=item.target)  # type: ignore[arg-type]
        references[item.content()].append(tuple(task.target.tokens(target)))
    return list(items.values()), references


def edits(right: Sequence[str], written: Sequence[str]) -> list[Edit]:
    """The least edits between two sequences, as pairs (right, written).

    >>> edits("abc", "axcd")
    [('b', 'x'), (None, 'd')]
    """
    rows, columns = len(right), len(written)
    table = np.zeros((rows + 1, columns + 1), int)
    table[:, 0], table[0] = np.arange(rows + 1), np.arange(columns + 1)
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            change = table[i - 1, j - 1] + (right[i - 1] != written[j - 1])
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, change)
    found: list[Edit] = []
    i, j = rows, columns
    while i or j:
        if i and j and table[i, j] == table[i - 1, j - 1] + (right[i - 1] != written[j - 1]):
            i, j = i - 1, j - 1
            if right[i] != written[j]:
                found.append((right[i], written[j]))
        elif i and table[i, j] == table[i - 1, j] + 1:
            i -= 1
            found.append((right[i], None))
        else:
            j -= 1
            found.append((None, written[j]))
    return found[::-1]


def _by_length(trained: Any, items: list[Item], right: list[Any], written: list[Any]) -> list[dict[str, Any]]:
    """[{from, to, items, exact_match, token_error_rate}] by the length of the source, in five groups of one size."""
    lengths = [len(trained.task.reading.encode(item)) for item in items]
    order = np.argsort(lengths, kind="stable")
    found = []
    for part in np.array_split(order, min(5, len(items))):
        scores = Transduction()
        for i in part:
            scores.update(written[i], [right[i]])
        ends = {"from": lengths[part[0]], "to": lengths[part[-1]]}
        found.append(ends | scores.compute())
    return found


def _sample(task: Any, item: Item, right: tuple[str, ...], answer: dict[str, Any]) -> dict[str, Any]:
    source = item.text if item.tokens is None else " ".join(item.tokens)
    return {
        "kind": "pair",
        "where": item.where,
        "source": None if source is None else part_of_text(source),
        "steps": item.length,
        "right": part_of_text(task.target.join(list(right))),
        "said": part_of_text(answer["target"]),
        "ok": tuple(answer["tokens"]) == right,
        "stopped": answer["stopped"],
    }
