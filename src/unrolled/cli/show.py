"""What a person sees: the progress bar, tables, notes. Only words and numbers come from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """A console that writes to the stream of this moment. Numbers and paths keep their plain colour."""
    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def table(title: str, *headings: str) -> Table:
    """A table that stays narrow: rules between head and body only, long cells wrap."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_style="bold")
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def say(text: str) -> None:
    """A line for the person who watches; it goes to standard error, so that results can be piped."""
    print(text, file=sys.stderr, flush=True)


def notes(lines: Iterable[str]) -> None:
    for line in lines:
        say(f"note: {line}")
