"""The command line put together: which commands there are, in the order in which the help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from unrolled.cli.commands import learning, shipping, using

app = typer.Typer(
    name="unrolled",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(no_args_is_help=True, help="Look at the data sets that come with the package.")
app.add_typer(data_app, name="data")
bench_app = typer.Typer(no_args_is_help=True, help="Measure, on this machine, what the documents claim.")
app.add_typer(bench_app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from unrolled import __version__

        print(f"unrolled {__version__}")
        raise typer.Exit()


@app.callback()
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


for command in (
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
):
    app.command()(command)
data_app.command("list")(learning.data_list)
bench_app.command("memory")(learning.bench_memory)
