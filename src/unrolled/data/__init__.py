"""Sequences from files: readers, splits, vocabularies, tokenizers and batches, and the embedded examples.

Needs NumPy alone; the readers of tables, CoNLL-U and subword pieces import their library when they are called.
"""

from __future__ import annotations

from unrolled.data import examples
from unrolled.data.batching import batch_indices, pad, streams
from unrolled.data.items import Columns, Dataset, Item, check_answers, check_labels, duplicates
from unrolled.data.readers import FORMATS, TASKS, read
from unrolled.data.scaling import Scaler
from unrolled.data.splitting import split, split_by_position
from unrolled.data.tokenizer import Tokenizer
from unrolled.data.vocabulary import Vocabulary

__all__ = [
    "FORMATS",
    "TASKS",
    "Columns",
    "Dataset",
    "Item",
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
