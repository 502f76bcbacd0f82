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
    from unrolled.data.counting import Counts
    from unrolled.data.items import Columns, Dataset, Item, Room, check_answers, check_labels, duplicates
    from unrolled.data.readers import FORMATS, TASKS, read
    from unrolled.data.readers.pieces import Joint, Raw, can_stream, parse, raw_pieces, read_pieces
    from unrolled.data.reading import Reading, Row
    from unrolled.data.scaling import Moments, Scaler
    from unrolled.data.splitting import split, split_by_position
    from unrolled.data.tokenizer import Tokenizer
    from unrolled.data.vocabulary import Vocabulary

_HOME = {
    "batching": ("batch_indices", "pad", "streams"),
    "counting": ("Counts",),
    "items": ("Columns", "Dataset", "Item", "Room", "check_answers", "check_labels", "duplicates"),
    "reading": ("Reading", "Row"),
    "readers": ("FORMATS", "TASKS", "read"),
    "readers.pieces": ("Joint", "Raw", "can_stream", "parse", "raw_pieces", "read_pieces"),
    "scaling": ("Moments", "Scaler"),
    "splitting": ("split", "split_by_position"),
    "tokenizer": ("Tokenizer",),
    "vocabulary": ("Vocabulary",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "FORMATS",
    "TASKS",
    "Columns",
    "Counts",
    "Dataset",
    "Item",
    "Joint",
    "Moments",
    "Raw",
    "Reading",
    "Room",
    "Row",
    "Scaler",
    "Tokenizer",
    "Vocabulary",
    "batch_indices",
    "can_stream",
    "check_answers",
    "check_labels",
    "duplicates",
    "examples",
    "pad",
    "parse",
    "raw_pieces",
    "read",
    "read_pieces",
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
