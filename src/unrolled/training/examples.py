"""Recipes for the embedded sets; `unrolled demo` runs them.

The test part chose none of them: the validation part did, but for poems, which was chosen for the form of its free
samples (four lines of five characters).

train(recipe("speakers"), out="runs/speakers")
"""

from __future__ import annotations

from typing import Any

from unrolled.errors import DataError, expected
from unrolled.training.recipe import Recipe

__all__ = ["FIELDS", "recipe"]

FIELDS: dict[str, dict[str, Any]] = {
    # 216 training utterances: noise, dropout and averaged weights against learning them by heart.
    "speakers": {
        "task": "classify",
        "cell": "gru",
        "hidden": 100,
        "pooling": "attention",
        "output_dropout": 0.5,
        "feature_noise": 0.3,
        "label_smoothing": 0.1,
        "average": 0.99,
        "weight_decay": 0.01,
        "batch_size": 16,
        "learning_rate": 3e-3,
        "schedule": "cosine",
        "epochs": 60,
        "patience": None,
    },
    # Words that the training conversations do not have are read letter by letter; word dropout makes room for them.
    "tags": {
        "task": "tag",
        "hidden": 128,
        "embedding": 100,
        "input_dropout": 0.3,
        "output_dropout": 0.3,
        "word_dropout": 0.05,
        "average": 0.999,
        "schedule": "cosine",
        "epochs": 8,
    },
    "poems": {
        "task": "lm",
        "hidden": 256,
        "embedding": 256,
        "tie_weights": True,
        "input_dropout": 0.5,
        "output_dropout": 0.5,
        "weight_decay": 0.1,
        "batch_size": 16,
        "chunk": 44,
        "epochs": 15,
    },
    "plays": {
        "task": "lm",
        "hidden": 256,
        "embedding": 64,
        "batch_size": 32,
        "chunk": 64,
        "learning_rate": 4e-3,
        "epochs": 5,
    },
    "cities": {
        "task": "classify",
        "tokenizer": "chars",
        "hidden": 128,
        "embedding": 32,
        "pooling": "max",
        "output_dropout": 0.3,
        "average": 0.99,
        "schedule": "cosine",
        "epochs": 15,
    },
    "weather": {
        "task": "forecast",
        "target": "temp",
        "past": ("dewp", "humid", "wind_speed", "pressure"),
        "gaps": "mask",
        "horizon": 24,
        "lookback": 168,
        "stride": 6,
        "head": "direct",
        "output": "quantile",
        "forks": 16,
        "hidden": 48,
        "output_dropout": 0.2,
        "average": 0.99,
        "epochs": 10,
    },
}


def recipe(name: str, **changes: Any) -> Recipe:
    """The recipe of an embedded set, with some fields changed.

    Raises:
        DataError: there is no set of that name.
    """
    if name not in FIELDS:
        raise DataError(expected("example", f"one of {', '.join(FIELDS)}", repr(name)))
    if FIELDS[name].get("tie_weights") and "hidden" in changes:
        changes.setdefault("embedding", changes["hidden"])  # one matrix serves both
    return Recipe(**{"data": name, **FIELDS[name], **changes})
