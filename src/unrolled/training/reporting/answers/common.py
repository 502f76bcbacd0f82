"""What the tables of several tasks share: caps, confusions, and texts cut to a length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from unrolled.data import Dataset, Item

__all__ = ["MOST_NAMES", "confusion", "first_items", "part_of_text"]

MOST_NAMES = 24  # rows and columns of a table of confusions
MOST_CHARACTERS = 300


def first_items(dataset: Dataset, most: int, notes: list[str]) -> list[Item]:
    """The first items, and a note where there are more."""
    if len(dataset) > most:
        notes.append(f"errors and samples: of the first {most:,} of {len(dataset):,} items")
    return [dataset[i] for i in range(min(len(dataset), most))]


def part_of_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= most else text[:most] + " …"


def confusion(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """How often each name that is right was answered by each name.

    Args:
        pairs: (right, said).

    Returns:
        names     the rows and columns: those that occur most, in their own order; the others are one, null
        counts    [[pairs with row right and column said]]
        scored    pairs in all; right: those on the diagonal of the whole table
        by_name   [{name, count, precision, recall}] of all names that occur, most frequent first
    """
    counted = Counter(pairs)
    wanted, given = Counter[str](), Counter[str]()
    for (right, said), count in counted.items():
        wanted[right] += count
        given[said] += count
    occurring = [name for name in names if wanted[name] or given[name]]
    most = MOST_NAMES if len(occurring) <= MOST_NAMES else MOST_NAMES - 1
    usual = set(sorted(occurring, key=lambda name: -(wanted[name] + given[name]))[:most])
    shown = [name for name in occurring if name in usual]
    axis: list[str | None] = [*shown] + ([None] if len(occurring) > len(shown) else [])
    place = {name: i for i, name in enumerate(shown)}
    counts = [[0] * len(axis) for _ in axis]
    for (right, said), count in counted.items():
        counts[place.get(right, len(shown))][place.get(said, len(shown))] += count
    by_name = [
        {
            "name": name,
            "count": wanted[name],
            "precision": counted[name, name] / given[name] if given[name] else None,
            "recall": counted[name, name] / wanted[name] if wanted[name] else None,
        }
        for name in sorted(occurring, key=lambda name: -wanted[name])
    ]
    found = {"names": axis, "counts": counts, "scored": counted.total(), "by_name": by_name}
    return found | {"right": sum(count for (one, other), count in counted.items() if one == other)}
