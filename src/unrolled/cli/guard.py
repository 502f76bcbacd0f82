"""How errors become exit codes, and the arguments that several commands take."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from unrolled.cli import logs
from unrolled.errors import RecipeError, UnrolledError

FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="WORD", help="The file's format. Default: as in training.", show_default=False),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or its model.safetensors.")]


def complain(message: object) -> None:
    if logs.is_on():
        return logs.line("error", text=str(message))
    for line in str(message).splitlines() or ["unknown"]:
        print(f"error: {line}", file=sys.stderr)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn our errors into one line and an exit code; other exceptions are bugs and keep their traceback."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            if not logs.is_on():  # the log has it already
                print("\nstopped by Ctrl-C", file=sys.stderr)
            raise typer.Exit(130) from None
        except (UnrolledError, OSError) as error:
            if isinstance(error, BrokenPipeError) or os.environ.get("UNROLLED_TRACEBACK") == "1":
                raise
            complain(error)
            raise typer.Exit(2 if isinstance(error, RecipeError) else 1) from None
        finally:
            logs.end()

    return wrapper
