"""Lines that are one row of measurements each, read and answered all together, with no object for each of them.

Axes     N lines, R streams, D channels, C classes.
Law      what stands here is what `Lines.read` and `Session.answers` say of the same lines. A block that is anything
         else, or that holds anything wrong, is left to them: they name the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrolled.cli.lines import LARGEST, Lines, is_unicode

__all__ = ["Plain", "Wave", "read", "waves"]

PADDING = 2  # steps of a call, padding included, for each line in it; more would waste memory, less make more calls


class Plain(NamedTuple):
    """Some lines."""

    keys: list[Any]  # (N,) ids, or None
    values: np.ndarray  # (N, D) float32, finite


class Wave(NamedTuple):
    """Lines that go together: no stream has so many more than the others that most would be padding."""

    lines: np.ndarray  # (n,) their places, stream by stream
    rows: np.ndarray  # (R,) streams
    counts: np.ndarray  # (R,) lines of each


def read(lines: Lines, block: Sequence[bytes]) -> Plain | None:
    """The lines of a block, or None where they are not all JSON of one step each."""
    texts = [line for line in block if line.strip()]
    if not lines.features or lines.reset is not None or not texts or lines.format not in ("json", "auto"):
        return None
    if lines.format == "auto" and texts[0].lstrip()[:1] not in (b"[", b"{"):
        return None
    try:
        # A raw line end may not stand in a string of JSON, so no value goes from one line into the next.
        found = json.loads(b"[[" + b"],\n[".join(texts) + b"]]")
        if len(found) != len(texts) or any(len(one) != 1 for one in found):
            return None
        keys, contents = _parts(lines, [one[0] for one in found])
        values = np.array(contents, np.float64)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    if values.shape != (len(texts), lines.channels) or not (np.abs(values) <= LARGEST).all():
        return None
    lines.format = "json"
    lines.number += len(block)
    return Plain(keys, values.astype(np.float32))


def _parts(lines: Lines, found: list[Any]) -> tuple[list[Any], list[Any]]:
    """The ids and the measurements of JSON values. Raises KeyError or TypeError where they are not there."""
    name = lines.id
    if name is None:
        keys: list[Any] = [None] * len(found)
        if set(map(type, found)) == {list}:
            return keys, found
    else:
        keys = [one[name] for one in found]
        if not set(map(type, keys)) <= {str, int} or not is_unicode("".join(map(str, keys))):
            raise TypeError(name)
    if set(map(type, found)) != {dict}:
        raise TypeError(lines.column)
    if lines.named:
        return keys, [[one[column] for column in lines.named] for one in found]
    column = lines.column
    return keys, [one[column] for one in found]


def waves(rows: np.ndarray) -> Iterator[Wave]:
    """The lines of streams `rows` (N,), each stream's in order, in as few calls as padding allows."""
    order = np.argsort(rows, kind="stable")
    while len(order):
        streams = rows[order]
        starts = np.flatnonzero(np.diff(streams, prepend=-1))
        counts = np.diff(starts, append=len(order))
        place = np.arange(len(order)) - np.repeat(starts, counts)
        size = max(1, PADDING * len(order) // len(starts))
        now = place < size
        yield Wave(order[now], streams[starts], np.minimum(counts, size))
        order = order[~now]
