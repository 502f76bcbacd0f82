"""From data to a trained model: the recipe, the loop, the run folder, and what a trained model is asked.

    recipe    every option of a run                 tbptt      long sequences in chunks
    run       train, resume, evaluate, predict      losses     means over valid positions
    loop      epochs, steps, early stopping         metrics    the field's numbers, by published libraries
    folder    what stands on the disk               baselines  what a result is held against
    trained   a model with all it needs to be used  gradients  norms, clipping, non-finite numbers named
    tasks/    classify, tag, lm, seq2seq: one file a task    examples   recipes for the embedded sets

Names are fetched when they are first used: the recipe needs no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Recipe": "recipe",
    "defaults": "recipe",
    "Progress": "loop",
    "Report": "report",
    "Result": "run",
    "Trained": "trained",
    "train": "run",
    "resume": "run",
    "evaluate": "run",
    "predict": "run",
    "generate": "run",
    "translate": "run",
    "load": "run",
    "TruncatedBPTT": "tbptt",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"unrolled.training.{_HOME[name]}"), name)
    raise AttributeError(f"module 'unrolled.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
