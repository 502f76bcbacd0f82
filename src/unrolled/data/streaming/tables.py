"""Rows of numbers of different lengths in few arrays: what data larger than memory are kept as.

Axes     N rows, T steps of a row, D channels; the steps of all rows stand one after the other, (sum of T, …).
Variant  Whole numbers from 0 on are kept in the narrowest type that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from unrolled.errors import BundleError, expected

__all__ = ["Ragged", "Table"]

ENDS = ".ends"


@dataclass(frozen=True, eq=False)
class Ragged:
    """Arrays (T, …) of different T, one after the other."""

    values: np.ndarray  # (sum of T, …)
    ends: np.ndarray  # (N,) int64: where each row ends

    @classmethod
    def of(cls, arrays: Sequence[np.ndarray]) -> Ragged:
        """Some arrays, each (T, …) and alike but for T; one at least."""
        values = np.concatenate(list(arrays))
        return cls(_narrow(values), np.cumsum([len(array) for array in arrays], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        begin = int(self.ends[row - 1]) if row else 0
        return self.values[begin : int(self.ends[row])]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,) T of each row."""
        return np.diff(self.ends, prepend=0)

    def rows(self, begin: int, end: int) -> Ragged:
        """Some rows that stand together."""
        first = int(self.ends[begin - 1]) if begin else 0
        last = int(self.ends[end - 1]) if end else 0
        return Ragged(self.values[first:last], self.ends[begin:end] - first)

    def taken(self, order: np.ndarray) -> Ragged:
        """Some rows in another order."""
        lengths = self.lengths[order]
        ends = np.cumsum(lengths, dtype=np.int64)
        begins = self.ends[order] - lengths
        places = np.repeat(begins - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        return Ragged(self.values[places], ends)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of one after those of the other."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.values) for part in parts[:-1])])
        ends = np.concatenate([part.ends + shift for part, shift in zip(parts, shifts, strict=True)])
        return cls(np.concatenate([part.values for part in parts]), ends)


@dataclass(frozen=True, eq=False)
class Table:
    """Some rows, each with an entry in every column."""

    columns: Mapping[str, Ragged]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Ragged:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(column.values.nbytes + column.ends.nbytes for column in self.columns.values())

    def rows(self, begin: int, end: int) -> Table:
        """Some rows that stand together."""
        return Table({name: column.rows(begin, end) for name, column in self.columns.items()})

    def taken(self, order: np.ndarray) -> Table:
        """Some rows in another order."""
        return Table({name: column.taken(order) for name, column in self.columns.items()})

    @classmethod
    def joined(cls, parts: Sequence[Table]) -> Table:
        """The rows of one after those of the other; one at least, all with the same columns."""
        return cls({name: Ragged.joined([part[name] for part in parts]) for name in parts[0].columns})

    def split(self, size: int) -> list[Table]:
        """Parts of about `size` bytes, a row at least in each."""
        weights = np.zeros(len(self), np.int64)
        for column in self.columns.values():
            bytes_of_one = column.values.nbytes // max(len(column.values), 1)
            weights += column.lengths * bytes_of_one + column.ends.itemsize
        parts, begin = [], 0
        numbers = np.cumsum(weights) // max(size, 1)
        for end in [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(self)]:
            parts.append(self.rows(begin, end))
            begin = end
        return parts

    def to_bytes(self) -> bytes:
        """As a safetensors file; the ends of a column in which every row has one step go without saying."""
        arrays = {}
        for name, column in self.columns.items():
            arrays[name] = np.ascontiguousarray(_narrow(column.values))
            if not (column.lengths == 1).all():
                arrays[name + ENDS] = _narrow(column.ends)
        return to_bytes(arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Table:
        """The inverse of `to_bytes`.

        Raises:
            BundleError: it is something else.
        """
        try:
            arrays = from_bytes(content)
        except (SafetensorError, ValueError, TypeError) as error:
            raise BundleError(expected("table", "a safetensors file", str(error).splitlines()[0])) from None
        columns = {}
        for name, values in arrays.items():
            if not name.endswith(ENDS):
                ends = arrays.get(name + ENDS, np.arange(1, len(values) + 1))
                columns[name] = Ragged(values, ends.astype(np.int64))
        return cls(columns)


def _narrow(values: np.ndarray) -> np.ndarray:
    """The same whole numbers in as few bytes as hold them; other numbers as they are."""
    if values.dtype.kind not in "iu" or not values.size or int(values.min()) < 0:
        return values
    return values.astype(np.min_scalar_type(int(values.max())), copy=False)
