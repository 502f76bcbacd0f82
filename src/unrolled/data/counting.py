"""Counts of names in bounded memory, for data of any size.

Source   lossy counting, Manku and Motwani (2002), "Approximate frequency counts over data streams"; the bound is the
         size of the table, and the error follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from unrolled.errors import expected

__all__ = ["Counts"]

Name = TypeVar("Name", bound=Hashable)


class Counts(Generic[Name]):
    """How often each name occurs; where there are more names than `most`, the rarest are forgotten.

    A count is never too large, and too small by `lost` at most: 0 while nothing was forgotten. What is forgotten
    depends on the order of the data, and on nothing else.

    >>> counts = Counts(most=None)
    >>> counts.add("abca")
    >>> counts.table["a"], counts.lost
    (2, 0)
    """

    def __init__(self, most: int | None = None) -> None:
        if most is not None and most < 2:
            raise ValueError(expected("most", "2 names or more", most))
        self.most, self.lost = most, 0
        self.table: Counter[Name] = Counter()

    def add(self, names: Iterable[Name]) -> None:
        """Count some names, in their order."""
        self.table.update(names)
        if self.most is not None and len(self.table) > self.most:
            self._forget(self.most)

    def _forget(self, most: int) -> None:
        """Keep half of the room at most, so that this is seldom done; of equal counts all go or all stay."""
        values = np.fromiter(self.table.values(), np.int64, len(self.table))
        least = int(np.partition(values, len(values) - most // 2)[len(values) - most // 2])
        self.lost += least
        self.table = Counter({name: count for name, count in self.table.items() if count > least})
