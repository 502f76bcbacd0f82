"""Ctrl-C and the signals that end a process, while a run trains: a checkpoint first, then the end.

Variant  A signal is only noted, so that no step is left half done; the loop asks between steps and leaves. Where
         nothing of the run changes (`at_once`), it leaves in the middle. A second signal ends the process without a
         checkpoint: the last one stays. Signals that whoever started the process chose to ignore (nohup) stay ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

__all__ = ["Leave", "Signals"]

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Leave(BaseException):
    """The run is asked to end. Nothing but the loop catches it, and writes a checkpoint."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = signal.Signals(number)

    @property
    def name(self) -> str:
        """What the person calls it."""
        return "Ctrl-C" if self.number == signal.SIGINT else self.number.name

    @property
    def ending(self) -> BaseException:
        """What the caller sees: KeyboardInterrupt, or SystemExit with 128 and the signal's number, as shells count."""
        return KeyboardInterrupt() if self.number == signal.SIGINT else SystemExit(128 + self.number)


class Signals:
    """Takes the signals over for as long as the block runs, if this is the main thread."""

    def __init__(self) -> None:
        self.asked: int | None = None  # the signal that came
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked is not None:
            raise Leave(number).ending
        self.asked = number
        if self._at_once:
            raise Leave(number)

    def check(self) -> None:
        """Leave, if a signal has come.

        Raises:
            Leave: one has.
        """
        if self.asked is not None:
            raise Leave(self.asked)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While this block runs, which changes nothing of the run, a signal leaves in the middle."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
