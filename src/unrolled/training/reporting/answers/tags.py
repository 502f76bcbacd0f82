"""Answers of `tag`: which tags are taken for which, the words that are wrong most often, and some sentences."""

from __future__ import annotations

from collections import Counter
from typing import Any

from unrolled.data import Dataset, Item
from unrolled.training.reporting.answers.common import confusion, first_items

__all__ = ["answers"]

MOST_ITEMS = 1000
WORDS = 20
SAMPLES = 8
STEPS = 60  # of a sample


def answers(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """The confusions of all tags; samples are sentences with one error or more, then some without."""
    notes: list[str] = []
    items = first_items(dataset, MOST_ITEMS, notes)
    said = [answer["tags"] for answer in trained.predict(items)]
    rows = [(item.tags or (), guess) for item, guess in zip(items, said, strict=True)]
    pairs = [pair for right, guess in rows for pair in zip(right, guess, strict=True)]
    errors = confusion(trained.task.tags.tokens, pairs) | {"kind": "tags"}
    errors["words"] = _hard_words(items, said)
    wrong = [i for i, (right, guess) in enumerate(rows) if list(right) != list(guess)]
    fine = [i for i, (right, guess) in enumerate(rows) if list(right) == list(guess) and right]
    shown = [*wrong[: SAMPLES - 2], *fine[:2]]
    return {"errors": errors, "samples": [_sample(items[i], said[i]) for i in shown], "notes": notes}


def _hard_words(items: list[Item], said: list[list[str]]) -> list[dict[str, Any]]:
    """The words that got a wrong tag most often: [{word, right, said, count}]; none for features."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for item, guess in zip(items, said, strict=True):
        if item.tokens is not None:
            counts.update(
                (word, right, tag)
                for word, right, tag in zip(item.tokens, item.tags or (), guess, strict=True)
                if right != tag
            )
    names = ("word", "right", "said", "count")
    return [dict(zip(names, (*key, count), strict=True)) for key, count in counts.most_common(WORDS)]


def _sample(item: Item, said: list[str]) -> dict[str, Any]:
    tags = item.tags or ()
    tokens = list(item.tokens or [])
    return {
        "kind": "tags",
        "where": item.where,
        "tokens": tokens[:STEPS] if tokens else None,
        "right": list(tags[:STEPS]),
        "said": list(said[:STEPS]),
        "steps": len(tags),
        "wrong": sum(a != b for a, b in zip(tags, said, strict=True)),
    }
