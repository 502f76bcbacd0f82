"""What a person sees: the progress bar, tables, notes. Only words and numbers come from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from unrolled.cli import logs

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from unrolled.training.report import Report


def console(*, stderr: bool = False) -> Console:
    """A console that writes to the stream of this moment. Numbers and paths keep their plain colour."""
    return Console(stderr=stderr, highlight=False, emoji=False)


def table(title: str, *headings: str) -> Table:
    """A table that stays narrow: rules between head and body only, long cells wrap."""
    made = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        title_style="bold",
    )
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def say(text: str) -> None:
    """A line for the person who watches; it goes to standard error, so that results can be piped."""
    if logs.is_on():
        return logs.line("note", text=text.strip().removeprefix("note: "))
    print(text, file=sys.stderr, flush=True)


def notes(lines: Iterable[str]) -> None:
    for line in lines:
        say(f"note: {line}")


def number(value: float | None) -> str:
    """Four digits after the point for small numbers, one for large ones, nothing for None."""
    if value is None:
        return ""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def report_table(report: Report) -> Table:
    """The result of an evaluation: the model beside the baselines."""
    rows = table("", "", "model", *report.baselines)
    for column in rows.columns[1:]:
        column.justify = "right"
    for row in report.rows:
        rows.add_row(row.title, *(number(value) for value in (row.value, *row.baselines)))
    return rows


def show_report(report: Report, said: Collection[str] = ()) -> None:
    """The number of items scored, the table, then what others published on the same data, then the notes.

    Args:
        said: notes that the person has read already.
    """
    out = console()
    out.print(f"{report.data}, {report.unit} scored: {report.items:,}", style="bold", markup=False, soft_wrap=True)
    out.print(report_table(report))
    for what, figure, source in report.published:
        out.print(f"published: {figure}  {what} ({source})", markup=False)
    notes(note for note in report.notes if note not in said)


class Watch:
    """Watches a run: a bar with loss and validation score on a terminal, nothing but notes elsewhere.

    The methods are those of `unrolled.training.Progress`.
    """

    def __init__(self) -> None:
        self.console = console(stderr=True)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._steps = self._epochs = 0
        self._loss = self._score = ""

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None:
        self._steps, self._epochs = steps, epochs
        if done >= epochs:
            self.note(f"all {done} epochs are done; train longer with --epochs {2 * done}")
            return
        each = "1 step" if steps == 1 else f"{steps:,} steps"
        self.note(f"{parameters:,} parameters, {each} an epoch, at most {epochs} epochs")
        if self.console.is_terminal:
            self._bar = _bar(self.console)
            self._task = self._bar.add_task(
                f"epoch {done + 1}/{epochs}", total=steps * epochs, completed=steps * done, said=""
            )
            self._bar.start()

    def step(self, *, epoch: int, step: int, loss: float) -> None:
        self._loss = f"loss {loss:.3f}"
        self._show(epoch, (epoch - 1) * self._steps + step)

    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None:
        self._loss = f"loss {loss:.3f}"
        if best:
            self._score = f"best {score.replace('_', ' ')} {number(value)}"
        self._show(epoch, epoch * self._steps)

    def _show(self, epoch: int, completed: int) -> None:
        if self._bar is not None and self._task is not None:
            said = "  ".join(part for part in (self._loss, self._score) if part)
            self._bar.update(self._task, completed=completed, description=f"epoch {epoch}/{self._epochs}", said=said)

    def note(self, text: str) -> None:
        """Above the bar, where there is one."""
        self.console.print(f"note: {text}", markup=False, soft_wrap=True)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar(where: Console) -> Bar:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(compact=True),
        console=where,
        refresh_per_second=4,
    )
