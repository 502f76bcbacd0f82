"""Data larger than memory: read a piece at a time, kept as blocks of numbers, and shuffled by blocks."""

from __future__ import annotations

from unrolled.data.streaming.budget import Budget
from unrolled.data.streaming.laid import Laid, Segment, stream_bounds
from unrolled.data.streaming.order import Piece, pieces_of, read_ahead, shuffled
from unrolled.data.streaming.parts import Part, Source, Splitter, Survey, open_split, open_whole
from unrolled.data.streaming.store import Store, Writer
from unrolled.data.streaming.tables import Ragged, Table
from unrolled.data.streaming.workers import spread_out

__all__ = [
    "Budget",
    "Laid",
    "Part",
    "Piece",
    "Ragged",
    "Segment",
    "Source",
    "Splitter",
    "Store",
    "Survey",
    "Table",
    "Writer",
    "open_split",
    "open_whole",
    "pieces_of",
    "read_ahead",
    "shuffled",
    "spread_out",
    "stream_bounds",
]
