"""Lines of a stream: JSON, CSV or text, each with its id and what the model reads of it.

json   an object with the columns of the recipe, or with `features`, `text` or `tokens`; or what they hold by itself
csv    the first line names the columns
text   the line; for a tagger, its words
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unrolled.errors import DataError, RecipeError, expected

if TYPE_CHECKING:
    from unrolled.data import Row
    from unrolled.runtime import Model

__all__ = ["FORMATS", "Given", "Lines", "is_unicode"]

FORMATS = ("auto", "json", "csv", "text")
PLACE = "standard input"
LARGEST = float(np.finfo(np.float32).max)


def is_unicode(text: str) -> bool:
    """Whether it can be written: JSON may hold half of a pair of surrogates, and UTF-8 may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Given(NamedTuple):
    """One line."""

    where: str
    id: Any  # a text, a number, or None
    value: Any  # one step of features as a list (D,), or an encoded row and its tokens
    reset: bool = False
    error: str = ""  # why the line cannot be used, where that does not stop the stream


class Lines:
    """Reads blocks of lines; remembers their number, and the columns of a CSV."""

    def __init__(self, model: Model, id: str | None, reset: str | None, format: str) -> None:
        if format not in FORMATS:
            raise RecipeError(expected("--format", "one of " + ", ".join(FORMATS), repr(format)))
        self.model, self.id, self.reset, self.format = model, id, reset, format
        self.features = model.features
        recipe = model.recipe
        self.named = [str(name) for name in recipe.get("features") or ()]
        if model.features:
            self.channels = len(model.reading.scaler.mean)  # type: ignore[union-attr]  # reads features
            self.column = "features"
            if len(self.named) != self.channels:  # one column of nested lists, or none that is named
                self.column, self.named = (self.named or ["features"])[0], []
        else:
            self.column = str(recipe.get("tokens" if model.task == "tag" else "text") or "text")
        self.line_end = "\n" if self._keeps_line_ends() else ""
        self.number = 0
        self.header: list[str] | None = None

    def _keeps_line_ends(self) -> bool:
        """Whether the model has read line ends while it was trained, so that they belong to the text."""
        vocabulary, tokenizer = self.model.reading.vocabulary, self.model.reading.tokenizer
        if self.model.task != "lm" or vocabulary is None or tokenizer is None:
            return False
        return all(token in vocabulary for token in tokenizer.tokenize("\n"))

    def read(self, block: Sequence[bytes], *, go_on: bool = False) -> tuple[list[Given], DataError | None]:
        """The lines up to one that cannot be used, and its error; with `go_on`, all of them, with its error in it."""
        given: list[Given] = []
        stopped: DataError | None = None
        for raw in block:
            self.number += 1
            try:
                one = self._line(raw)
            except DataError as error:
                if not go_on:
                    stopped = error
                    break
                one = Given(self.where, None, None, error=str(error))
            if one is not None:
                given.append(one)
        if self.features and not self._are_numbers(given):
            return self._checked(given, go_on, stopped)
        return given, stopped

    def _are_numbers(self, given: Sequence[Given]) -> bool:
        """Whether all single steps are numbers that a float32 can hold; looked at together, as one by one is slow."""
        try:
            steps = np.array([one.value for one in given if type(one.value) is list], np.float64)
        except (TypeError, ValueError, OverflowError):
            return False
        return bool((np.abs(steps) <= LARGEST).all())  # false for NaN

    def _checked(
        self, given: list[Given], go_on: bool, stopped: DataError | None
    ) -> tuple[list[Given], DataError | None]:
        """The same lines, each by itself: the first bad one is now named."""
        for place, one in enumerate(given):
            if type(one.value) is not list:
                continue
            try:
                self._encoded([one.value], one.where)
            except DataError as error:
                if not go_on:
                    return given[:place], error
                given[place] = Given(one.where, None, None, error=str(error))
        return given, stopped

    def _made(self, value: Any, key: Any = None, reset: bool = False) -> Given:
        """A line, its value encoded; a single step of features stays a list until `read` has looked at all of them."""
        where = self.where
        if not (self.features and type(value) is list and len(value) == self.channels and type(value[0]) is not list):
            value = self._encoded(value, where)
        return Given(where, key, value, reset)

    def _encoded(self, value: Any, where: str) -> tuple[Row, list[str]]:
        if self.features and np.ndim(value) == 1 and len(value):
            value = [value]
        item = self.model.item(value, where)
        return self.model.reading.encode(item), ([] if self.features else self.model.reading.tokens(item))

    @property
    def where(self) -> str:
        return f"{PLACE}:{self.number}"

    def _line(self, raw: bytes) -> Given | None:
        try:
            text = raw.decode("utf-8-sig" if self.number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            found = f"byte 0x{raw[error.start]:02x} at place {error.start + 1}"
            raise DataError(expected(self.where, "UTF-8 text", found, "Convert it, for example with iconv.")) from None
        if not text.strip():
            if self.format == "text" and self.line_end:
                return self._made(self.line_end)
            return None
        if self.format == "auto":
            self.format = self._guess(text)
        if self.format == "text":
            return self._made(text + self.line_end)
        return self._json(text) if self.format == "json" else self._csv(text)

    def _guess(self, text: str) -> str:
        """By the first line: JSON where it begins like it, else columns, else plain text."""
        begins = text.lstrip()[0]
        if self.features:
            return "json" if begins in "[{" else "csv"
        if self.id is None and self.reset is None:
            return "json" if begins == "{" and self._is_json(text) else "text"
        return "json" if begins == "{" else "csv"

    def _is_json(self, text: str) -> bool:
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    def _json(self, text: str) -> Given:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(expected(self.where, "a JSON value", f"{text[:40]!r} ({error})")) from None
        if not isinstance(value, dict):
            if self.id is not None or self.reset is not None:
                wanted = f"a JSON object with the field {self.id or self.reset!r}"
                raise DataError(expected(self.where, wanted, text[:40]))
            return self._made(value)
        if self.named:
            content: Any = [self._field(value, name) for name in self.named]
        else:
            content = self._field(value, self.column)
        return self._made(content, self._key(value), self._resets(value))

    def _csv(self, text: str) -> Given | None:
        cells = next(csv.reader([text]))
        if self.header is None:
            self.header = [cell.strip() for cell in cells]
            self._check_header()
            return None
        if len(cells) != len(self.header):
            wanted = f"{len(self.header)} columns ({', '.join(self.header)})"
            raise DataError(expected(self.where, wanted, f"{len(cells)}"))
        row: dict[str, Any] = dict(zip(self.header, cells, strict=True))
        if not self.features:
            return self._made(self._field(row, self.column), self._key(row), self._resets(row))
        numbers = [self._number(row, name) for name in self.named]
        return self._made(numbers, self._key(row), self._resets(row))

    def _check_header(self) -> None:
        assert self.header is not None
        if self.features and not self.named:  # the columns as they come
            self.named = [name for name in self.header if name not in (self.id, self.reset)]
            if len(self.named) != self.channels:
                found = f"{len(self.named)} ({', '.join(self.named)})"
                raise DataError(expected(self.where, f"{self.channels} columns of features", found))
        asked = [*(self.named if self.features else [self.column]), self.id, self.reset]
        for name in asked:
            if name is not None and name not in self.header:
                found = ", ".join(self.header)[:60]
                way_out = "Without a line of names, write JSON lists." if self.features else ""
                raise DataError(expected(self.where, f"a column {name!r}", found, way_out))

    def _field(self, row: dict[str, Any], name: str) -> Any:
        try:
            return row[name]
        except KeyError:
            raise DataError(expected(self.where, f"a field {name!r}", ", ".join(row)[:60] or "none")) from None

    def _number(self, row: dict[str, Any], name: str) -> float:
        try:
            return float(row[name])
        except ValueError:
            raise DataError(expected(f"{self.where}, column {name!r}", "a number", repr(row[name])[:40])) from None

    def _key(self, row: dict[str, Any]) -> Any:
        if self.id is None:
            return None
        key = self._field(row, self.id)
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            wanted = "a text or a whole number"
            raise DataError(expected(f"{self.where}, field {self.id!r}", wanted, repr(key)[:40]))
        if isinstance(key, str) and not is_unicode(key):
            raise DataError(expected(f"{self.where}, field {self.id!r}", "whole characters", ascii(key)[:40]))
        return key

    def _resets(self, row: dict[str, Any]) -> bool:
        if self.reset is None:
            return False
        value = row.get(self.reset, False)
        return value.strip().lower() in ("1", "true", "yes") if isinstance(value, str) else bool(value)
