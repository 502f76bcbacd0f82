"""The classic long-memory tasks, drawn at random without end: what must be remembered stands far from where it counts.

Axes     B rows, T steps; float32 inputs, targets as each task says.
Source   adding: Hochreiter and Schmidhuber (1997), "Long short-term memory", experiment 4, in the form of Le et al.
         (2015), arXiv:1504.00941: values uniform on (0, 1), the target is the plain sum of the two marked ones.
         copy: Arjovsky et al. (2016), arXiv:1511.06464, section 4.1: ten symbols of an alphabet of eight, T blanks, a
         signal, and the ten symbols again.
Variant  adding: one mark falls into each half of the row, as in Arjovsky et al.; every row has the same length.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unrolled.errors import expected

__all__ = ["ALPHABET", "REMEMBERED", "Rows", "adding", "adding_baseline", "copy", "copy_baseline"]

ALPHABET = 8  # symbols that may have to be remembered; number 8 is the blank, number 9 the signal
REMEMBERED = 10  # how many of them stand at the beginning
BLANK, SIGNAL = ALPHABET, ALPHABET + 1


class Rows(NamedTuple):
    """Some sequences and what a model should say."""

    inputs: np.ndarray  # (B, T, channels) float32
    targets: np.ndarray  # adding: (B,) float32; copy: (B, T) int64


def adding(rng: np.random.Generator, rows: int, length: int) -> Rows:
    """Two channels: values, and a mark at two of the steps. The target is the sum of the two marked values.

    Raises:
        ValueError: fewer than two steps, which have no room for two marks.
    """
    if length < 2:
        raise ValueError(expected("length", "2 steps or more, for two marks", length))
    values = rng.random((rows, length), np.float32)
    marks = np.zeros_like(values)
    every = np.arange(rows)
    first, second = rng.integers(0, length // 2, rows), rng.integers(length // 2, length, rows)
    marks[every, first] = marks[every, second] = 1
    return Rows(np.stack([values, marks], axis=-1), values[every, first] + values[every, second])


def adding_baseline() -> float:
    """Mean squared error of always answering 1, the mean: the variance of two uniform numbers, 2/12.

    >>> round(adding_baseline(), 4)
    0.1667
    """
    return 2 / 12


def copy(rng: np.random.Generator, rows: int, delay: int) -> Rows:
    """One-hot symbols (B, delay + 20, 10): ten symbols, then blanks, with the signal as the last of `delay` steps, then
    ten blanks while the answer is given. The targets are blanks, and the ten symbols at the end.

    Raises:
        ValueError: no step for the signal.
    """
    if delay < 1:
        raise ValueError(expected("delay", "1 step or more, for the signal", delay))
    symbols = rng.integers(0, ALPHABET, (rows, REMEMBERED))
    ids = np.full((rows, delay + 2 * REMEMBERED), BLANK)
    ids[:, :REMEMBERED] = symbols
    ids[:, REMEMBERED + delay - 1] = SIGNAL
    targets = np.full_like(ids, BLANK)
    targets[:, -REMEMBERED:] = symbols
    return Rows(np.eye(ALPHABET + 2, dtype=np.float32)[ids], targets)


def copy_baseline(delay: int) -> float:
    """Nats a step of blanks until the signal and then a guess among the eight: 10 log 8 / (T + 20).

    >>> round(copy_baseline(100), 4)
    0.1733
    """
    return REMEMBERED * math.log(ALPHABET) / (delay + 2 * REMEMBERED)
