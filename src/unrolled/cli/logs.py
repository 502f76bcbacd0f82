"""`--log-json`: what a run tells the person, as one JSON object a line on standard error.

Every line has time (UTC, ISO 8601) and event:

    start    epochs, done (epochs behind), steps (an epoch), parameters
    step     epoch, step, loss (the mean of the epoch so far); at most one in `APART` seconds
    epoch    epoch, loss, score (its name), value, best (whether it is the best so far)
    note     text           error    text
    end      run, best_epoch, epochs, seconds, test (the report as JSON)

The results on standard output, and metrics.jsonl in the run folder, which has every step, are as without it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["JsonWatch", "begin", "end", "is_on", "line"]

APART = 10.0

_on = False
_warned: Any = None  # how Python showed its warnings before


def is_on() -> bool:
    """Whether this process writes its log as JSON."""
    return _on


def begin() -> None:
    """Write JSON until the command ends; Python's warnings become notes."""
    import warnings

    global _on, _warned
    _on, _warned = True, warnings.showwarning
    warnings.showwarning = lambda message, category, *_more, **_named: line(
        "note", text=f"{category.__name__}: {message}"
    )


def end() -> None:
    """The command has ended."""
    global _on
    if _on:
        import warnings

        _on, warnings.showwarning = False, _warned


def line(event: str, **values: Any) -> None:
    """One line, at once."""
    import json  # late, as what follows: the help of a command needs none of them
    from datetime import UTC, datetime

    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"time": now, "event": event, **values}, ensure_ascii=False), file=sys.stderr, flush=True)


class JsonWatch:
    """Watches a run. The methods are those of `unrolled.training.Progress`."""

    def __init__(self) -> None:
        self._said = float("-inf")

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None:
        line("start", epochs=epochs, done=done, steps=steps, parameters=parameters)

    def step(self, *, epoch: int, step: int, loss: float) -> None:
        if time.monotonic() - self._said >= APART:
            self._said = time.monotonic()
            line("step", epoch=epoch, step=step, loss=loss)

    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None:
        line("epoch", epoch=epoch, loss=loss, score=score, value=value, best=best)

    def note(self, text: str) -> None:
        line("note", text=text)

    def stop(self) -> None: ...
