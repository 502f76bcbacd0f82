"""What every reader returns: items, and a data set that holds them with its notes.

An item has exactly one kind of input: a text, a tuple of tokens, or an array of features (time, channel). It may have
one label, or one tag a token (or a time step). `where` says which line of which file it came from, for messages.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from unrolled.errors import DataError, expected

if TYPE_CHECKING:
    from unrolled.data.series import Series

Kind = Literal["text", "tokens", "features", "series"]


@dataclass(frozen=True, eq=False, slots=True)
class Item:
    """One sequence."""

    where: str
    text: str | None = None
    tokens: tuple[str, ...] | None = None
    features: np.ndarray | None = None  # (T, D) float32
    label: str | None = None
    tags: tuple[str, ...] | None = None
    group: str | None = None
    series: Series | None = None
    target: str | tuple[str, ...] | None = None  # of a pair: a text, or its tokens

    @property
    def kind(self) -> Kind:
        if self.series is not None:
            return "series"
        if self.features is not None:
            return "features"
        return "tokens" if self.tokens is not None else "text"

    @property
    def length(self) -> int:
        """Number of characters, tokens or time steps."""
        if self.series is not None:
            return len(self.series) - self.series.begin
        content = self.features if self.features is not None else self.tokens
        return len(content if content is not None else self.text or "")

    def content(self) -> bytes:
        """Equal for items that only differ in label, place, Unicode form, or the amount of white space."""
        if self.series is not None:
            return f"{self.series.start}".encode() + self.series.target.tobytes()
        if self.features is not None:
            return f"{self.features.shape}".encode() + self.features.tobytes()
        if self.tokens is not None:
            return "\x1f".join(self.tokens).encode()
        text = self.text or ""
        return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split()).encode()

    def answers(self) -> tuple[str, ...]:
        """The label, or the tags, or nothing."""
        if self.label is not None:
            return (self.label,)
        return self.tags or ()


@dataclass(frozen=True)
class Columns:
    """Which column of a table holds what.

    `features` names the channels of a CSV or TSV file in the long format (one row a time step), or the one column
    of nested lists of a JSON-lines or Parquet file. `id` says which rows form one sequence, `time` orders them.
    """

    text: str = "text"
    label: str = "label"
    tokens: str = "tokens"
    tags: str = "tags"
    features: tuple[str, ...] = ()
    id: str | None = None
    time: str | None = None
    group: str | None = None
    source: str = "source"  # of a pair
    target: str = "target"
    vector: bool = False  # the source is one vector, not a sequence

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            way_out = "Write features=(name,) for one column."
            raise DataError(expected("features", "a tuple of names", repr(self.features), way_out))


class Room(NamedTuple):
    """How much may be held of what is counted in a data set; None: whatever there is."""

    names: int | None = None  # different tokens, labels or targets
    characters: int | None = None  # of texts


@dataclass
class Dataset:
    """Items in the order of their file, and one-line notes on what the reader saw."""

    items: list[Item]
    name: str = "data"
    notes: list[str] = field(default_factory=list)
    room: ClassVar[Room] = Room()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    @property
    def kind(self) -> Kind:
        if not self.items:
            raise DataError(expected(self.name, "at least one item", "none"))
        return self.items[0].kind

    def remark(self, note: str) -> None:
        """One more note."""
        self.notes.append(note)

    @property
    def is_empty(self) -> bool:
        """Whether there is no item; of data larger than memory, without going through them."""
        return not self.items

    @property
    def is_one_text(self) -> bool:
        """Whether the items are one text, be it in several pieces."""
        return len(self.items) <= 1

    def blocks(self) -> Iterator[Dataset]:
        """The same items in parts that each fit into memory, in their order: here one, with all of them."""
        yield self

    def shown(self) -> Dataset:
        """The items that a report looks at: here all, of data larger than memory the first ones."""
        return self

    def subset(self, indices: Iterable[int], name: str | None = None) -> Dataset:
        """Some of the items, in the order given; the notes stay behind."""
        return Dataset([self.items[i] for i in indices], name or self.name, [])


def listed(places: Sequence[object], limit: int = 12) -> str:
    """`3, 17, 90`, and how many more where the list is long."""
    text = ", ".join(str(place) for place in places[:limit])
    return text if len(places) <= limit else f"{text} and {len(places) - limit} more"


def duplicates(dataset: Dataset) -> int:
    """How many items repeat the content of an earlier one."""
    return len(dataset) - len({item.content() for item in dataset})


def label_notes(items: Sequence[Item]) -> list[str]:
    """A note for each thing about the labels that will limit what can be learnt."""
    counts = Counter(item.label for item in items if item.label is not None)
    notes = []
    alone = {label for label, count in counts.items() if count == 1}
    if alone and len(items) > 1:
        places = [f"{item.label!r} ({item.where})" for item in items if item.label in alone]
        notes.append(f"labels with a single item, which cannot be both learnt and tested: {listed(places)}")
    if len(counts) == 1 and len(items) > 1:
        notes.append(f"only one label, {next(iter(counts))!r}: there is nothing to tell apart")
    return notes


def check_labels(train: Dataset, other: Dataset) -> None:
    """Raise where `other` has a label or a tag that `train` does not have, and so no model can give."""
    check_answers({answer for item in train for answer in item.answers()}, other, train.name)


def check_answers(known: Collection[str], other: Dataset, source: str = "training") -> None:
    """Raise where `other` has a label or a tag that is not known; `source` says where the known ones stand."""
    unseen = [(item, answer) for item in other for answer in item.answers() if answer not in known]
    if not unseen:
        return
    item, answer = unseen[0]
    names = sorted({name for _, name in unseen})
    raise DataError(
        expected(
            f"{item.where}: {'label' if item.label is not None else 'tag'}",
            f"one of the {len(known)} seen in {source} ({listed(sorted(known))})",
            f"{answer!r}; labels of {other.name} not seen in training: {listed([repr(n) for n in names])}",
            "Correct the label, remove the rows, or add examples of it to the training data.",
        )
    )
