"""The command line put together: which commands there are, in the order in which the help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from unrolled.cli.commands import learning, shipping, using
from unrolled.cli.completion import complete

__all__ = ["build"]

COMMANDS = (
    learning.demo,
    learning.train,
    learning.evaluate,
    using.predict,
    using.generate,
    using.translate,
    using.forecast,
    using.stream,
    learning.compare,
    learning.inspect,
    learning.lab,
    shipping.convert,
    shipping.export,
    learning.doctor,
)


def _version(wanted: bool) -> None:
    if wanted:
        from unrolled import __version__

        print(f"unrolled {__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train recurrent networks (RNN, LSTM, GRU) on sequences, and use them.

    \b
    [bold]Examples[/bold]
    unrolled demo                                  train on data that is included
    unrolled train classify reviews.csv            train on your own file
    unrolled evaluate runs/reviews more.csv
    unrolled predict runs/reviews "a fine place"
    unrolled translate g2p tokenizer
    """


def build(asked: str | None = None) -> typer.Typer:
    """The command line.

    Args:
        asked: the command that will run, the only one whose options are all there; None: of all commands.
    """
    app = typer.Typer(
        name="unrolled",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    data = typer.Typer(no_args_is_help=True, help="Look at the data sets that come with the package.")
    bench = typer.Typer(no_args_is_help=True, help="Measure, on this machine, what the documents claim.")
    app.add_typer(data, name="data")
    app.add_typer(bench, name="bench")
    app.callback()(root)
    for command in COMMANDS:
        app.command()(complete(command) if asked in (None, command.__name__) else command)
    data.command("list")(learning.data_list)
    bench.command("memory")(learning.bench_memory)
    return app
