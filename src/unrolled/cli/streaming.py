"""`unrolled stream`: lines in, one result a line out, the state kept from line to line.

Whatever lines have come are taken together; those of different ids advance side by side in one call of the engine.
Results stand in the order of the lines.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from unrolled.cli import plain
from unrolled.cli.lines import Lines
from unrolled.cli.show import say

if TYPE_CHECKING:
    from unrolled.cli.sessions import Session

READ_AT_ONCE = 1 << 20  # bytes; a pipe rarely holds more than 65,536


@dataclass(frozen=True)
class Wanted:
    """The options of the command."""

    id: str | None = None
    reset: str | None = None
    format: str = "auto"
    state: Path | None = None
    save_every: float = 10.0
    lookahead: int | None = None
    scores: bool = False
    go_on: bool = False  # after a line that cannot be used


def stream(run: Path, wanted: Wanted) -> None:
    """Run the command on standard input."""
    from unrolled.cli.sessions import Session
    from unrolled.runtime import load

    session = Session(load(run), wanted.id is not None, wanted.lookahead, wanted.scores)
    if wanted.state is not None and wanted.state.exists():
        session.restore(wanted.state)
    if sys.stdin.isatty():
        say("reading standard input, one line a result; end with Ctrl-D")
    lines = Lines(session.model, wanted.id, wanted.reset, wanted.format)
    with Stopping() as stopping:
        _serve(session, lines, wanted, sys.stdin.buffer, stopping)


def _serve(session: Session, lines: Lines, wanted: Wanted, source: IO[bytes], stopping: Stopping) -> None:
    saved = time.monotonic()
    try:
        for block in blocks(source, stopping):
            _answer(session, lines, block, wanted.go_on)
            if wanted.state is not None and time.monotonic() - saved >= wanted.save_every:
                session.save(wanted.state)
                saved = time.monotonic()
        if wanted.state is None:
            _write(session.finish())
    finally:
        if wanted.state is not None:
            session.save(wanted.state)


def _answer(session: Session, lines: Lines, block: Sequence[bytes], go_on: bool) -> None:
    """Write the results of a block of lines; then, if one of them cannot be used, raise its error."""
    together = plain.read(lines, block) if session.reads_plain else None
    if together is not None:
        _write(session.plain_answers(together))
        return
    given, error = lines.read(block, go_on=go_on)
    _write(session.answers(given))
    if error is not None:
        raise error


def _write(lines: Sequence[str]) -> None:
    """All of them at once, flushed: a reader waits for the line that it asked for, not for the next."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


def blocks(source: Any, stopping: Stopping) -> Iterator[list[bytes]]:
    """The whole lines that have come, as soon as there is one; a last line without its end counts as well."""
    rest: list[bytes] = []
    while True:
        with stopping.waiting():
            data = source.read1(READ_AT_ONCE)
        if not data:
            break
        *whole, last = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*rest, whole[0]])
            rest = []
            yield whole
        rest.append(last)
    if any(rest):
        yield [b"".join(rest)]


class Stopping:
    """Ctrl-C and SIGTERM stop between two blocks, so that what is saved is what was answered."""

    def __init__(self) -> None:
        self._waits = self._asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._asked = True
        if self._waits:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a call that may wait for ever."""
        self._waits = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._waits = False
