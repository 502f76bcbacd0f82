"""A file of any size as parts that are gone through a block of items at a time, as often as is asked.

Split    by hash, as `splitting.split` does: copies, and all items of a group, share a part; a label is never found
         outside the training part only. Here the first part takes the keys whose hash is below its fraction, so it is
         that fraction but for chance. One long text is cut by its bytes, at line ends.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from unrolled.data.items import Columns, Dataset, Item, Kind, Room, listed
from unrolled.data.readers.pieces import Joint, Raw, parse, raw_pieces
from unrolled.data.readers.source import Request
from unrolled.data.splitting import PARTS, key_of, rank
from unrolled.data.streaming.budget import Budget
from unrolled.data.streaming.store import Store
from unrolled.errors import DataError, expected

__all__ = ["Part", "Source", "Splitter", "Survey", "open_split", "open_whole"]

SHOWN, SHOWN_CHARACTERS = 2_000, 2_000_000  # items, and characters of texts, that a report looks at


@dataclass
class Survey:
    """What a first time through a file finds out."""

    counts: list[int]  # items of each part
    moved: list[str] = field(default_factory=list)  # ranks of what was moved to the training part, hexadecimal
    notes: list[str] = field(default_factory=list)


def rank_of(item: Item) -> bytes:
    """Where an item, with all that must share a part with it, stands among the others."""
    return rank(key_of(item, grouped=True))


@dataclass(frozen=True)
class Splitter:
    """Which part each item of a file is in; small enough to be sent to other processes."""

    fractions: tuple[float, ...]
    by_position: bool
    moved: frozenset[str]  # ranks, hexadecimal

    def parts(self, items: Dataset, number: int) -> list[Dataset]:
        """The items of a piece by part; `number` is that of the stretch between two cuts in which the piece lies."""
        parts = [Dataset([], items.name) for _ in self.fractions]
        if len(parts) == 1 or self.by_position:
            filled = [part for part, fraction in zip(parts, self.fractions, strict=True) if fraction]
            filled[number].items.extend(items)
            return parts
        bounds = list(accumulate(self.fractions))
        for item in items:
            found = rank_of(item)
            share = 0.0 if self.moved and found.hex() in self.moved else int.from_bytes(found[:8], "big") / 2**64
            parts[min(bisect_left(bounds, share), len(parts) - 1)].items.append(item)
        return parts


@dataclass(eq=False)
class Source:
    """One file, and how it is read and split.

    Args:
        fractions: of the parts; (1,) is the whole file.
    """

    request: Request
    format: str
    columns: Columns
    fractions: tuple[float, ...]
    budget: Budget
    survey: Survey | None = None
    watch: Callable[[float], None] = lambda _: None  # told which share of the file is behind

    @property
    def path(self) -> Path:
        """The file."""
        return self.request.path

    @property
    def by_position(self) -> bool:
        """Whether the file is one text, whose items are parts of it."""
        return self.request.task == "lm" and self.format == "text"

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._stamp[0]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        self._check_same()
        found = hashlib.sha256()
        with self.path.open("rb") as file:
            while content := file.read(1 << 22):
                found.update(content)
        return found.hexdigest()

    @cached_property
    def _stamp(self) -> tuple[int, int]:
        return self._stat()

    def _check_same(self) -> None:
        if self._stat() != self._stamp:
            way_out = "Put it back as it was; a file that still grows is copied first."
            raise DataError(
                expected(str(self.path), "the file as it was first read", "one that was changed since", way_out)
            )

    def _stat(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError as error:
            way_out = "Put the file back where it was."
            raise DataError(expected(str(self.path), "the file", error.strerror or str(error), way_out)) from None
        return found.st_size, found.st_mtime_ns

    def split(self) -> Iterator[list[Dataset]]:
        """The file, a piece at a time: for each piece its items by part. The first time through is also the survey.

        Raises:
            DataError: as `read` raises, or the file has changed since it was first read.
        """
        survey, lone, joint, splitter = (
            Survey([0] * len(self.fractions)),
            _LoneLabels(),
            Joint(self.path),
            self.splitter,
        )
        for raw in self.raws():
            items = parse(raw)
            joint.check(items)
            parts = splitter.parts(items, raw.part)
            survey.counts = [count + len(part) for count, part in zip(survey.counts, parts, strict=True)]
            if self.survey is None:
                lone.see(parts)
            self.watch(raw.behind)
            yield parts
        survey.notes += joint.finish()
        if lone.waiting:
            survey.moved = lone.ranks()
            note = "labels found in few items, which were all put into the training part"
            survey.notes.append(f"{self.path.name}: {note}: {listed(sorted(lone.waiting))}")
            yield from self._moved(splitter, survey)
        if self.survey is None:
            self.survey = survey
        self.survey.counts = survey.counts  # those of a second time know what was moved

    def _moved(self, before: Splitter, survey: Survey) -> Iterator[list[Dataset]]:
        """What the training part gets beside what it had, once more through the file."""
        after = replace(before, moved=frozenset(survey.moved))
        for raw in self.raws():
            items = parse(raw)
            had = {id(item) for item in before.parts(items, raw.part)[0]}
            parts = after.parts(items, raw.part)
            new = [item for item in parts[0] if id(item) not in had]
            if new:
                survey.counts[0] += len(new)
                yield [Dataset(new, items.name), *(Dataset([]) for _ in parts[1:])]

    @property
    def splitter(self) -> Splitter:
        """Which part an item is in, as far as is known."""
        moved = frozenset(self.survey.moved if self.survey is not None else ())
        return Splitter(self.fractions, self.by_position, moved)

    def raws(self) -> Iterator[Raw]:
        """The file in pieces that are not parsed.

        Raises:
            DataError: it has changed since it was first read.
        """
        self._check_same()
        bounds = accumulate(self.fractions)
        cuts = sorted({bound for bound in bounds if bound < 1 - 1e-9}) if self.by_position else []
        yield from raw_pieces(
            self.path,
            task=self.request.task,
            format=self.format,
            columns=self.columns,
            labelled=self.request.labelled,
            size=self.budget.read,
            cuts=cuts,
        )
        self._check_same()

    def counted(self) -> Survey:
        """The survey; a first time through the file, if nobody has gone through it."""
        if self.survey is None:
            for _ in self.split():
                pass
        assert self.survey is not None
        return self.survey


@dataclass
class _LoneLabels:
    """Labels that the training part does not have so far, each with the rank of an item that would be moved there."""

    known: set[str] = field(default_factory=set)
    waiting: dict[str, bytes] = field(default_factory=dict)

    def see(self, parts: Sequence[Dataset]) -> None:
        for item in parts[0]:
            self.known.update(item.answers())
        for part in parts[1:]:
            for item in part:
                new = [answer for answer in item.answers() if answer not in self.known]
                if new:
                    found = rank_of(item)
                    self.waiting |= {answer: min(self.waiting.get(answer, found), found) for answer in new}
        for answer in self.waiting.keys() & self.known:
            del self.waiting[answer]

    def ranks(self) -> list[str]:
        """Of the items to be moved, as hexadecimal digits."""
        return sorted({found.hex() for found in self.waiting.values()})


class Part(Dataset):
    """One part of a `Source`. Its items are never all in memory: go through `blocks`."""

    room: ClassVar[Room]

    def __init__(self, source: Source, number: int, name: str) -> None:
        self.source, self.number, self.name = source, number, name
        self.stores: dict[str, Store] = {}  # of its numbers, by the digest of the task that made them
        self.threads = 0  # that read ahead in it
        self.room = source.budget.room  # type: ignore[misc]  # of this data set

    @property
    def notes(self) -> list[str]:  # type: ignore[override]  # read off the survey
        """On the whole file; with the first part alone, and once it has been gone through."""
        survey = self.source.survey
        return list(survey.notes) if survey is not None and not self.number else []

    def remark(self, note: str) -> None:
        self.source.counted().notes.append(note)

    @property
    def items(self) -> list[Item]:  # type: ignore[override]  # never all there
        raise TypeError(expected("items", "data that fit into memory", f"{self.name}, which does not: use blocks()"))

    @property
    def is_empty(self) -> bool:
        survey = self.source.survey
        return not (self.source.fractions[self.number] if survey is None else survey.counts[self.number])

    @property
    def is_one_text(self) -> bool:
        return self.source.by_position

    def blocks(self) -> Iterator[Dataset]:
        for parts in self.source.split():
            if len(parts[self.number]):
                yield replace(parts[self.number], name=self.name)

    def __len__(self) -> int:
        return self.source.counted().counts[self.number]

    def __iter__(self) -> Iterator[Item]:
        return (item for block in self.blocks() for item in block)

    def __getitem__(self, index: int) -> Item:
        """One of the first items, of those in `shown`; for the others go through `blocks`."""
        return self.shown()[index]

    @property
    def kind(self) -> Kind:
        return self.shown().kind

    def shown(self) -> Dataset:
        return self._shown

    @cached_property
    def _shown(self) -> Dataset:
        items: list[Item] = []
        room = SHOWN_CHARACTERS
        for block in self.blocks():
            for item in block:
                items.append(item if item.text is None else replace(item, text=item.text[:room]))
                room -= item.length
                if room <= 0 or len(items) == SHOWN:
                    return Dataset(items, self.name, [f"{self.name}: the first {len(items):,} items"])
        return Dataset(items, self.name)


def open_split(source: Source) -> tuple[Part, Part, Part]:
    """The training, validation and test parts of a file."""
    first, second, third = (Part(source, i, f"{source.path.name}[{name}]") for i, name in enumerate(PARTS))
    return first, second, third


def open_whole(source: Source) -> Part:
    """A file whose fractions are (1,)."""
    return Part(source, 0, source.path.name)
