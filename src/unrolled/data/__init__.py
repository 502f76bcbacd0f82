"""Sequences from files: readers, splits, vocabularies, tokenizers and batches, and the embedded examples.

Needs NumPy alone; the readers of tables, CoNLL-U and subword pieces import their library when they are called. Names
are fetched when they are first used: who only wants a vocabulary does not wait for the readers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrolled.data import examples
    from unrolled.data.batching import batch_indices, pad, streams
    from unrolled.data.items import Columns, Dataset, Item, check_answers, check_labels, duplicates
    from unrolled.data.readers import FORMATS, TASKS, read
    from unrolled.data.reading import Reading, Row
    from unrolled.data.scaling import Scaler
    from unrolled.data.splitting import split, split_by_position
    from unrolled.data.tokenizer import Tokenizer
    from unrolled.data.vocabulary import Vocabulary

_HOME = {
    "batching": ("batch_indices", "pad", "streams"),
    "items": ("Columns", "Dataset", "Item", "check_answers", "check_labels", "duplicates"),
    "reading": ("Reading", "Row"),
    "readers": ("FORMATS", "TASKS", "read"),
    "scaling": ("Scaler",),
    "splitting": ("split", "split_by_position"),
    "tokenizer": ("Tokenizer",),
    "vocabulary": ("Vocabulary",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "FORMATS",
    "TASKS",
    "Columns",
    "Dataset",
    "Item",
    "Reading",
    "Row",
    "Scaler",
    "Tokenizer",
    "Vocabulary",
    "batch_indices",
    "check_answers",
    "check_labels",
    "duplicates",
    "examples",
    "pad",
    "read",
    "split",
    "split_by_position",
    "streams",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(importlib.import_module(f"unrolled.data.{_MODULE[name]}"), name)
    if name == "examples":
        return importlib.import_module("unrolled.data.examples")
    raise AttributeError(f"module 'unrolled.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
