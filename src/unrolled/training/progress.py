"""Who watches a run."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """Who watches a run. The command line draws a bar; the default does nothing."""

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None:
        """Training begins: `epochs` in all, of which `done` are behind; `steps` an epoch."""

    def step(self, *, epoch: int, step: int, loss: float) -> None:
        """A step is done. `loss` is the mean of the epoch so far, in nats a position."""

    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None:
        """An epoch is done and validated: `score` names the validation score, `value` is it."""

    def note(self, text: str) -> None:
        """A line that the person should see."""

    def stop(self) -> None:
        """Training is over, in whatever way; called once for each `start`."""


class Silent:
    """Watches, and says nothing."""

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None: ...
    def step(self, *, epoch: int, step: int, loss: float) -> None: ...
    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None: ...
    def note(self, text: str) -> None: ...
    def stop(self) -> None: ...
