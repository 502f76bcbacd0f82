"""The command `unrolled`.

    app       which commands there are
    commands  their arguments and what their help says
    guard     how errors become exit codes
    options   one option for each field of the recipe; completion gives them to the command that is asked for
    jobs      train, evaluate, predict, generate: what the commands do; translation, forecasting, compare, … likewise
    inputs    what `predict` reads: arguments, a file, standard input
    show      progress, tables, notes
    logs      the same as JSON lines
    doctor    versions, devices, engines

Exit codes: 0 done, 1 the run failed, 2 wrong usage; 130, 143 and 129: stopped by Ctrl-C, SIGTERM or SIGHUP. Results
go to standard output, everything else to standard error. Nothing here imports torch or a reader of data before a
command needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    from unrolled.errors import MissingExtra, require

    try:
        for module in ("typer", "rich", "pydantic", "tomli_w"):
            require(module, "cli")
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)

    from unrolled.cli.app import build

    given = sys.argv[1:] if arguments is None else list(arguments)
    asked = next((word for word in given if not word.startswith("-")), "")
    build(asked)(args=given, prog_name="unrolled")
