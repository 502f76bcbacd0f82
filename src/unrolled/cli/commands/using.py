"""Commands that let a trained model answer. A body is one call, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrolled.cli.guard import FormatOption, RunArgument, guarded


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


@guarded
def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, its model.safetensors, or g2p (included).")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Sources; for a vector, a JSON list.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A data file, or a source a line.", show_default=False)
    ] = None,
    format: FormatOption = None,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Hypotheses side by side; 1: greedy.", show_default=False)
    ] = None,
    nbest: Annotated[int, typer.Option("--nbest", min=1, help="Hypotheses to print.")] = 1,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", min=0, help="0: none, 1: full.", show_default=False)
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option("--coverage-penalty", min=0, help="Against sources not looked at.", show_default=False),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")] = False,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="With --sample: below 1 sharper.", show_default=False)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="With --sample: the k likeliest.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="With --sample: of this total probability.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same samples.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The most tokens to write.", show_default=False)
    ] = None,
    attention: Annotated[bool, typer.Option("--attention", help="JSON with the weights of the attention.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a source instead of its target.")] = False,
) -> None:
    """Write the targets of sources with an encoder–decoder. Without TEXT or --file, reads standard input.

    What is not said (beam, penalties, limit) is as the model's recipe says. --nbest above 1 and --attention print JSON.

    \b
    [bold]Examples[/bold]
    unrolled translate g2p tokenizer
    unrolled translate runs/pairs "jump twice" --beam 8 --nbest 3
    unrolled translate runs/pairs --file new.txt > targets.txt
    unrolled translate runs/pairs "jump twice" --sample --temperature 0.7 --seed 3
    """
    from unrolled.cli import translation

    search = {"beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty, "limit": limit}
    filters = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    more = {"n_best": nbest, "sample": sample, "seed": seed, "attention": attention}
    translation.translate(run, text or [], file, format, search, filters, more, as_json=json or attention or nbest > 1)


@guarded
def forecast(
    run: RunArgument,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS", help="New rows of the series, and known covariates of the steps ahead.", show_default=False
        ),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option("--horizon", min=1, help="Steps ahead. Default: as in training.", show_default=False)
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option("--quantile", help="Shares of the values below. Default: as in training.", show_default=False),
    ] = None,
    id: Annotated[list[str] | None, typer.Option("--id", help="Only these series.", show_default=False)] = None,
    paths: Annotated[
        int | None, typer.Option("--paths", min=1, help="Paths drawn. Default: as in training.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same forecast.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PNG", help="Draw history, forecast, intervals.", show_default=False),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="A table instead of JSON lines.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Go on after these rows next time: the run is changed.")] = False,
) -> None:
    """Forecast each series from where the run left it: its history is not needed.

    With ROWS, the rows that came since are read first. Rows at their end that have no target give the known covariates
    of the steps ahead.

    \b
    [bold]Examples[/bold]
    unrolled forecast runs/loads --horizon 48 --plot loads.png
    unrolled forecast runs/loads today.csv --keep
    unrolled forecast runs/loads --quantile 0.05 --quantile 0.95 --csv > loads.csv
    """
    from unrolled.cli import forecasting

    forecasting.forecast(
        run,
        file,
        horizon=horizon,
        levels=quantile or (),
        ids=id or (),
        paths=paths,
        seed=seed,
        plot=plot,
        as_csv=csv,
        keep=keep,
    )


@guarded
def stream(
    run: RunArgument,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="FIELD", help="The field with the id: one state an id.", show_default=False),
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(
            "--reset", metavar="FIELD", help="A field that is true where a stream starts again.", show_default=False
        ),
    ] = None,
    format: Annotated[str, typer.Option("--format", metavar="WORD", help="auto, json, csv or text.")] = "auto",
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Go on from this file, and keep it new.", show_default=False),
    ] = None,
    save_every: Annotated[float, typer.Option("--save-every", min=0, help="Seconds between two writes of it.")] = 10.0,
    lookahead: Annotated[
        int | None,
        typer.Option("--lookahead", min=1, help="For a bidirectional model: steps to wait for.", show_default=False),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="The probabilities of all labels.")] = False,
    go_on: Annotated[bool, typer.Option("--go-on", help="Answer a bad line with its error, and go on.")] = False,
) -> None:
    """Answer line by line as the lines come, without PyTorch: JSON, CSV, or text on standard input.

    A model keeps its state from line to line; with --id, one for each id. A bidirectional model needs --lookahead.

    \b
    [bold]Examples[/bold]
    tail -f sensors.jsonl | unrolled stream runs/sensor --id sensor
    unrolled stream runs/sensor --id sensor --state sensors.state < more.csv
    unrolled stream runs/song < song.txt
    """
    from unrolled.cli import streaming

    wanted = streaming.Wanted(id, reset, format, state, save_every, lookahead, scores, go_on)
    streaming.stream(run, wanted)
