"""The tasks. A new one is a file here with a subclass of `Task`, a line in `_HOME`, and its name in the recipe."""

from __future__ import annotations

import importlib

from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task

__all__ = ["Encoded", "Place", "StepLoss", "Task", "find"]

_HOME = {
    "classify": "Classify",
    "tag": "Tag",
    "lm": "LanguageModelling",
    "seq2seq": "SequenceToSequence",
    "forecast": "Forecast",
}


def find(name: str) -> type[Task]:
    """The class of a task."""
    return getattr(importlib.import_module(f"unrolled.training.tasks.{name}"), _HOME[name])
