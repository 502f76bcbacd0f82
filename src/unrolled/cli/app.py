"""The commands: their arguments, their help, and how errors become exit codes.

A command body is one call into `jobs` or `doctor`, imported when the command runs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from unrolled.cli.options import with_recipe_options
from unrolled.errors import RecipeError, UnrolledError

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

FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="WORD", help="The file's format. Default: as in training.", show_default=False),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or its model.safetensors.")]


def complain(message: object) -> None:
    for line in str(message).splitlines() or ["unknown"]:
        print(f"error: {line}", file=sys.stderr)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn our errors into one line and an exit code; other exceptions are bugs and keep their traceback."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            print("\nstopped by Ctrl-C", file=sys.stderr)
            raise typer.Exit(130) from None
        except (UnrolledError, OSError) as error:
            if isinstance(error, BrokenPipeError) or os.environ.get("UNROLLED_TRACEBACK") == "1":
                raise
            complain(error)
            raise typer.Exit(2 if isinstance(error, RecipeError) else 1) from None

    return wrapper


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
    """


@app.command()
@guarded
@with_recipe_options(["epochs", "hidden", "seed", "device", "threads"], defaults=False)
def demo(
    name: Annotated[str, typer.Argument(metavar="NAME", help="speakers, tags, poems, plays or cities.")] = "speakers",
    out: Annotated[
        Path | None, typer.Option("--out", help="The run folder. Default: runs/demo-NAME.", show_default=False)
    ] = None,
    **options: Any,
) -> None:
    """Train on an embedded data set, compare with a baseline, save, and predict.

    \b
    [bold]Examples[/bold]
    unrolled demo               who spoke this vowel? (JapaneseVowels)
    unrolled demo tags          parts of speech of Cantonese words
    unrolled demo poems         Tang quatrains, character by character
    unrolled demo cities --epochs 3 --seed 1
    """
    from unrolled.cli import jobs

    jobs.demo(name, out, options)


@data_app.command("list")
@guarded
def data_list() -> None:
    """List the embedded data sets with their task, size, licence and origin.

    \b
    [bold]Examples[/bold]
    unrolled data list
    """
    from unrolled.cli import jobs

    jobs.list_examples()


@app.command()
@guarded
@with_recipe_options()
def train(
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="classify, tag or lm (next token).", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A file, or an embedded set's name.", show_default=False),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option("--recipe", help="A recipe file (TOML). Flags win over it.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder. Default: runs/ and the data's name.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a stopped run.", show_default=False),
    ] = None,
    **options: Any,
) -> None:
    """Train a recurrent network. Every option is one field of the recipe that the run folder keeps.

    A yes-or-no option has a twin that switches it off: --crf, --no-crf.

    \b
    [bold]Examples[/bold]
    unrolled train classify reviews.csv --text text --label label
    unrolled train tag train.conll --valid dev.conll --crf --bidirectional
    unrolled train lm novel.txt --tokenizer chars --cell gru --chunk 64
    unrolled train classify speakers --hidden 64 --out runs/speakers
    unrolled train --recipe recipe.toml --seed 2 --out runs/again
    unrolled train --resume runs/speakers
    """
    from unrolled.cli import jobs

    if resume is not None:
        jobs.resume(resume, task, data, recipe, out, options)
    else:
        jobs.train(recipe, task, data, out, options)


@app.command()
@guarded
def evaluate(
    run: RunArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, or an embedded set's name.")],
    format: FormatOption = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Score a trained model on labelled data, beside the trivial baseline.

    An embedded set's name means its test part.

    \b
    [bold]Examples[/bold]
    unrolled evaluate runs/reviews test.csv
    unrolled evaluate runs/speakers speakers --json
    """
    from unrolled.cli import jobs

    jobs.evaluate(run, data, format, as_json=json)


@app.command()
@guarded
def predict(
    run: RunArgument,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts; for a tagger, words separated by spaces.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="A data file without labels, or a text a line.", show_default=False),
    ] = None,
    format: FormatOption = None,
) -> None:
    """Predict, one JSON object a line. Without TEXT or --file, reads standard input line by line.

    \b
    [bold]Examples[/bold]
    unrolled predict runs/reviews "the food was cold" "come again"
    unrolled predict runs/reviews --file new.csv > predictions.jsonl
    echo "so slow" | unrolled predict runs/reviews
    """
    from unrolled.cli import jobs

    jobs.predict(run, text or [], file, format)


@app.command()
@guarded
def generate(
    run: RunArgument,
    prompt: Annotated[str, typer.Option("--prompt", help="The text to continue.")] = "",
    length: Annotated[int, typer.Option("--length", min=1, help="Tokens to add.")] = 200,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Below 1 sharper, above 1 flatter; 0 takes the likeliest.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="Keep the k likeliest tokens.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="Keep the likeliest tokens of this total probability.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same text.")] = 0,
    stop: Annotated[
        str | None, typer.Option("--stop", help="End where the model writes this.", show_default=False)
    ] = None,
) -> None:
    """Continue a text with a language model.

    \b
    [bold]Examples[/bold]
    unrolled generate runs/plays --prompt "ROMEO. " --length 300
    unrolled generate runs/poems --temperature 0.8 --top-p 0.95 --seed 3
    """
    from unrolled.cli import jobs

    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "stop": stop}
    jobs.generate(run, prompt, length, **options)


@app.command()
@guarded
def doctor() -> None:
    """Print versions, devices, engines and why each was chosen, and what is missing.

    \b
    [bold]Examples[/bold]
    unrolled doctor
    """
    from unrolled.cli.doctor import report

    report()
