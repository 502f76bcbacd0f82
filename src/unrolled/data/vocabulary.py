"""A vocabulary: tokens in a fixed order, the place of each being its id.

The order never depends on the order of a set or a dict: by count, most frequent first, then by the token itself.
It is saved inside the model, so that a token has the same id wherever the model runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrolled.errors import DataError, expected


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their ids. `unknown` names the entry that stands for all other tokens; None means there is none."""

    tokens: tuple[str, ...]
    unknown: str | None = "<unk>"
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {token: i for i, token in enumerate(self.tokens)}
        if len(ids) != len(self.tokens):
            twice = next(token for token, count in Counter(self.tokens).items() if count > 1)
            raise DataError(expected("tokens", "each token once", f"{twice!r} more than once"))
        if self.unknown is not None and self.unknown not in ids:
            way_out = "Add it, or pass unknown=None for a closed set such as labels."
            raise DataError(expected("unknown", "one of the tokens", repr(self.unknown), way_out))
        object.__setattr__(self, "_ids", ids if self.unknown is None else _Ids(ids, ids[self.unknown]))

    @classmethod
    def build(
        cls,
        sequences: Iterable[Iterable[str]],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        specials: Sequence[str] = (),
        unknown: str | None = "<unk>",
    ) -> Vocabulary:
        """Count tokens and keep the frequent ones; first the unknown, then the specials, then the rest.

        `max_size` is the number of entries in all, the unknown and the specials included.
        """
        counts: Counter[str] = Counter()
        for sequence in sequences:
            counts.update(sequence)
        return cls.of_counts(counts, min_count=min_count, max_size=max_size, specials=specials, unknown=unknown)

    @classmethod
    def of_counts(
        cls,
        counts: Mapping[str, int],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        specials: Sequence[str] = (),
        unknown: str | None = "<unk>",
    ) -> Vocabulary:
        """The same, of tokens that were counted."""
        first = tuple(dict.fromkeys([*([] if unknown is None else [unknown]), *specials]))
        if min_count < 1:
            raise DataError(expected("min_count", "1 or more", min_count))
        if max_size is not None and max_size <= len(first):
            raise DataError(expected("max_size", f"more than the {len(first)} fixed entries", max_size))
        kept = [token for token, count in counts.items() if count >= min_count and token not in first]
        kept.sort(key=lambda token: (-counts[token], token))
        room = None if max_size is None else max_size - len(first)
        return cls(first + tuple(kept[:room]), unknown)

    @classmethod
    def of_labels(cls, labels: Iterable[str]) -> Vocabulary:
        """A closed set in alphabetical order."""
        return cls(tuple(sorted(set(labels))), None)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    @property
    def unknown_id(self) -> int | None:
        return None if self.unknown is None else self._ids[self.unknown]

    def id(self, token: str) -> int:
        """The number of a token; that of the unknown where the vocabulary does not have it."""
        return int(self.encode([token])[0])

    def encode(self, sequence: Iterable[str]) -> np.ndarray:
        """(T,) int64. Without an unknown entry, a token that is not here raises."""
        return np.array(self.numbers(sequence), dtype=np.int64)

    def numbers(self, sequence: Iterable[str]) -> list[int]:
        """The same as a list."""
        try:
            return list(map(self._ids.__getitem__, sequence))
        except KeyError as error:
            some = ", ".join(self.tokens[:12]) + (", …" if len(self) > 12 else "")
            raise DataError(expected("label", f"one of {some}", repr(error.args[0]))) from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of some numbers."""
        size = len(self.tokens)
        out = []
        for i in ids:
            if not 0 <= i < size:
                raise DataError(expected("id", f"0 to {size - 1}", int(i)))
            out.append(self.tokens[i])
        return out

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"tokens": list(self.tokens), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Vocabulary:
        """The inverse of `to_dict`."""
        try:
            return cls(tuple(saved["tokens"]), saved["unknown"])
        except (KeyError, TypeError):
            raise DataError(expected("vocabulary", "a dict with tokens and unknown", repr(saved)[:80])) from None


class _Ids(dict[str, int]):
    """Gives a token that is not in it the number of the unknown, and does not keep it."""

    def __init__(self, ids: dict[str, int], unknown: int) -> None:
        super().__init__(ids)
        self.unknown = unknown

    def __missing__(self, token: str) -> int:
        return self.unknown
