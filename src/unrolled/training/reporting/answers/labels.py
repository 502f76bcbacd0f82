"""Answers of `classify`: which labels are taken for which, and the items of which the model was wrongly sure."""

from __future__ import annotations

from typing import Any

from unrolled.data import Dataset, Item
from unrolled.insight.packing import number
from unrolled.training.reporting.answers.common import confusion, first_items, part_of_text

__all__ = ["answers"]

MOST_ITEMS = 2000
WRONG, RIGHT = 8, 4
TOP = 3


def answers(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """The confusions of all labels; samples are the errors of the highest probability, then items that are right."""
    notes: list[str] = []
    items = first_items(dataset, MOST_ITEMS, notes)
    said = trained.predict(items)
    pairs = [(item.label or "", answer["label"]) for item, answer in zip(items, said, strict=True)]
    errors = confusion(trained.task.labels.tokens, pairs) | {"kind": "labels"}
    wrong = [i for i, (right, guess) in enumerate(pairs) if right != guess]
    wrong.sort(key=lambda i: -said[i]["probability"])
    right = [i for i, (truth, guess) in enumerate(pairs) if truth == guess]
    shown = [*wrong[:WRONG], *right[:RIGHT]]
    return {"errors": errors, "samples": [_sample(items[i], said[i]) for i in shown], "notes": notes}


def _sample(item: Item, answer: dict[str, Any]) -> dict[str, Any]:
    top = sorted(answer["scores"].items(), key=lambda pair: -pair[1])[:TOP]
    text = item.text if item.tokens is None else " ".join(item.tokens)
    return {
        "kind": "label",
        "where": item.where,
        "text": None if text is None else part_of_text(text),
        "steps": item.length,
        "right": item.label,
        "said": answer["label"],
        "ok": item.label == answer["label"],
        "top": [[name, number(probability)] for name, probability in top],
    }
