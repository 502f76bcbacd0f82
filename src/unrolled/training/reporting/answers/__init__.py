"""What a trained model says beside what is right: a table of its errors and some samples, a file a task.

    labels      classify: confusions, the most confident errors     tags      tag: confusions, hard words, sentences
    language    lm: costly tokens, cost by position, written text   pairs     seq2seq: edits, error by length, pairs
    series      forecast: error a step ahead, forecasts beside what came

Each has `answers(trained, dataset)`, which returns {"errors": …, "samples": […], "notes": […]}; the shapes are in
`unrolled.training.reporting`. Only the first items are asked, so that a report costs little; a note says how many.
"""

from __future__ import annotations

import importlib
from typing import Any

from unrolled.data import Dataset

__all__ = ["answers_of"]

_HOME = {"classify": "labels", "tag": "tags", "lm": "language", "seq2seq": "pairs", "forecast": "series"}


def answers_of(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """Errors and samples of a model on labelled data."""
    module = importlib.import_module(f"unrolled.training.reporting.answers.{_HOME[trained.recipe.task]}")
    return module.answers(trained, dataset)
