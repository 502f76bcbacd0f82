"""Files of any size, a piece at a time, in memory of a few pieces.

`raw_pieces` cuts a file, `parse` reads a piece with the reader of its format, and `read_pieces` does both. The items of
all pieces, one after the other, are those of `read`; so are the errors, each when its piece is parsed, but a message
that counts what is wrong counts within the piece. What no piece can tell alone, such as an empty file, `Joint` tells.

What a file decides once is decided at its beginning: the fields of JSON lines, the channels of the long format, whether
a TSV of pairs has a header. A cut falls after a row, a line, a sentence, a document or a sequence; the one exception is
plain text for a language model, whose pieces are the consecutive parts of one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unrolled.data.items import Columns, Dataset, Item
from unrolled.data.readers import TASKS, choose_format, read_as
from unrolled.data.readers.by_format import STREAMED, pieces_of
from unrolled.data.readers.rows import check_alike
from unrolled.data.readers.source import SHOWN, Part, Piece, Request, nothing_left, skipped
from unrolled.errors import DataError, expected

__all__ = ["Joint", "Raw", "can_stream", "parse", "raw_pieces", "read_pieces"]

SIZE = 4 << 20  # bytes of a piece


@dataclass(frozen=True)
class Raw:
    """A piece of a file, not parsed: all that `parse` needs, in any process."""

    request: Request
    format: str
    columns: Columns

    @property
    def behind(self) -> float:
        """The share of the file behind the end of this piece, in (0, 1]: of its bytes, or the rows of Parquet."""
        return self._piece.behind

    @property
    def part(self) -> int:
        """The number, from 0, of the part of the file between two `cuts` in which the piece lies."""
        return self._piece.part

    @property
    def size(self) -> int:
        """Bytes of the piece."""
        content = self._piece.content
        return len(content) if isinstance(content, bytes) else int(content.nbytes)

    @property
    def _piece(self) -> Piece:
        assert self.request.piece is not None
        return self.request.piece


def can_stream(path: str | Path, *, task: str, format: str = "auto", columns: Columns | None = None) -> bool:
    """Whether `raw_pieces` can cut the file; where it cannot, `read` reads it or says why not."""
    del columns  # no choice of columns stands in the way
    request = Request(Path(path), task, True)
    if task not in TASKS or (request.path.exists() and not request.path.is_file()):
        return False
    try:
        return choose_format(request, format) in STREAMED
    except DataError:
        return False


def raw_pieces(
    path: str | Path,
    *,
    task: str,
    format: str = "auto",
    columns: Columns | None = None,
    labelled: bool = True,
    size: int = SIZE,
    cuts: Sequence[float] = (),
) -> Iterator[Raw]:
    """The file in pieces of about `size` bytes; what cannot be cut makes a longer piece.

    Args:
        path, task, format, columns, labelled: as `read` takes them.
        size: bytes of a piece in the file; of Parquet, of its rows unpacked.
        cuts: for plain text and task lm, shares of the file's bytes where a piece must end too: at the last line end
            before, or if there is none since the cut before, at a character. They do not depend on `size`, and
            `Raw.part` says between which of them a piece lies.

    Raises:
        DataError: the file cannot be read, or not in pieces; a row is far longer than a piece; an id of the long format
            comes back in a later piece.
        ValueError: a size below 1, or cuts that are not rising shares of a text.
    """
    request = Request(Path(path), task, labelled)
    chosen = choose_format(request, format)
    if chosen not in STREAMED:
        raise request.fail(None, f"a format that is read in pieces ({', '.join(STREAMED)})", chosen, "Raise --memory.")
    if size < 1:
        raise ValueError(expected("size", "1 byte or more", size))
    shares = [float(cut) for cut in cuts]
    if any(not 0 < share < 1 for share in shares) or sorted(shares) != shares:
        raise ValueError(expected("cuts", "rising shares between 0 and 1", shares))
    if shares and (chosen, task) != ("text", "lm"):
        raise ValueError(expected("cuts", "none but for plain text and task lm", f"{shares} for {chosen} and {task}"))
    pieces = pieces_of(request, chosen, columns or Columns(), size, shares)
    return (Raw(replace(request, piece=piece), chosen, known) for piece, known in pieces)


def parse(raw: Raw) -> Dataset:
    """The items of a piece, perhaps none."""
    return read_as(raw.request, raw.format, raw.columns)


def read_pieces(
    path: str | Path,
    *,
    task: str,
    format: str = "auto",
    columns: Columns | None = None,
    labelled: bool = True,
    size: int = SIZE,
    cuts: Sequence[float] = (),
) -> Iterator[Dataset]:
    """The items of a file, piece by piece; arguments and errors are those of `raw_pieces` and `read`."""
    joint = Joint(path)
    raws = raw_pieces(path, task=task, format=format, columns=columns, labelled=labelled, size=size, cuts=cuts)
    for raw in raws:
        part = parse(raw)
        joint.check(part)
        yield part
    joint.finish()


class Joint:
    """What only all pieces together can tell. `check` takes them in their order, `finish` comes after the last."""

    def __init__(self, path: str | Path) -> None:
        self.request = Request(Path(path), "", True)
        self.first: Item | None = None
        self.skipped = 0
        self.notes: list[str] = []
        self._places: list[str] = []

    def check(self, part: Dataset) -> None:
        """Raise where the items of a piece are of another kind than the first item, or have other channels."""
        check_alike(self.request, part.items, self.first)
        if self.first is None and part.items:
            self.first = part.items[0]
        if isinstance(part, Part):
            self._places += part.empty[: SHOWN - len(self._places)]
            self.skipped += len(part.empty)
        self.notes += [note for note in part.notes if note not in self.notes]

    def finish(self) -> list[str]:
        """The notes of `read`, but for those on labels; an error if there was no item."""
        if self.first is None:
            raise nothing_left(self.request, self.skipped)
        empty = [skipped(self.request, self.first, self._places, self.skipped)] if self.skipped else []
        return self.notes + empty
