"""What `predict` reads: arguments, a file, or standard input, line by line as it comes.

A text a line; for a tagger, words separated by spaces; for a model of features, one JSON list of steps a line,
[[0.1, 0.9], [0.0, 0.7]]. A blank line is reported and skipped; bytes that are not UTF-8 are an error with their line.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from unrolled.cli.show import say
from unrolled.errors import DataError, expected

STANDARD_INPUT = "standard input"


class Input(NamedTuple):
    where: str
    value: Any  # str, or a list of steps

    def said(self) -> dict[str, Any]:
        """What an answer repeats of it."""
        return {"where": self.where} | ({"text": self.value} if isinstance(self.value, str) else {})


def from_arguments(texts: Iterable[str], *, features: bool) -> Iterator[Input]:
    for number, text in enumerate(texts, start=1):
        where = f"argument {number}"
        if text.strip():
            yield Input(where, parse(text, where, features))
        else:
            say(f"note: {where} is empty, skipped")


def from_stream(stream: IO[bytes], *, features: bool, name: str = STANDARD_INPUT) -> Iterator[Input]:
    """One input for each line, as soon as the line is there."""
    for number, raw in enumerate(stream, start=1):
        where = f"{name}:{number}"
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            found = f"byte 0x{raw[error.start]:02x} at place {error.start + 1}"
            way_out = "Convert it to UTF-8, for example with iconv."
            raise DataError(expected(where, "UTF-8 text", found, way_out)) from None
        if text.strip():
            yield Input(where, parse(text, where, features))
        else:
            say(f"note: {where} is empty, skipped")


def parse(text: str, where: str, features: bool) -> Any:
    if not features:
        return text
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        wanted = "a JSON list of steps, such as [[0.1, 0.9], [0.0, 0.7]]"
        way_out = "Or name a data file with --file."
        raise DataError(expected(where, wanted, f"{text[:40]!r} ({error.msg})", way_out)) from None
    return value["features"] if isinstance(value, dict) and "features" in value else value


def gathered(inputs: Iterable[Input], limit: int) -> Iterator[list[Input]]:
    """Whatever has come so far, up to `limit` at a time: one where a person types, many where a file is piped in.

    A thread reads ahead. An error that it meets is raised here, after what came before it.
    """
    waiting: queue.Queue[Input | BaseException | None] = queue.Queue(maxsize=4 * limit)

    def read() -> None:
        try:
            for one in inputs:
                waiting.put(one)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    last: BaseException | None = None
    going = True
    while going:
        batch: list[Input] = []
        one = waiting.get()
        while isinstance(one, Input):
            batch.append(one)
            if len(batch) == limit or waiting.empty():
                break
            one = waiting.get()
        if not isinstance(one, Input):
            going, last = False, one
        if batch:
            yield batch
    if last is not None:
        raise last
