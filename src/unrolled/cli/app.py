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
bench_app = typer.Typer(no_args_is_help=True, help="Measure, on this machine, what the documents claim.")
app.add_typer(bench_app, name="bench")

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
    unrolled translate g2p tokenizer
    """


@app.command()
@guarded
@with_recipe_options(["epochs", "hidden", "seed", "device", "threads"], defaults=False)
def demo(
    name: Annotated[str, typer.Argument(metavar="NAME", help="speakers, tags, poems, plays, cities or weather.")] = "speakers",
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
        typer.Argument(metavar="TASK", help="classify, tag, lm (next token) or seq2seq (pairs).", show_default=False),
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
    unrolled train seq2seq pairs.tsv --attention additive
    unrolled train classify speakers --hidden 64 --out runs/speakers
    unrolled train forecast loads.csv --id place --time hour --target load --horizon 24
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
@with_recipe_options(without=("task", "data", "cell", "seed"))
def compare(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="As for train.", show_default=False)] = None,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="A file, or an embedded set's name.", show_default=False)
    ] = None,
    cells: Annotated[
        str, typer.Option("--cells", help="Of rnn, lstm, gru, transformer; parted by commas.")
    ] = "rnn,lstm,gru,transformer",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each cell.")] = 3,
    parameters: Annotated[
        int | None,
        typer.Option("--parameters", help="Of each model. Default: as the first cell has.", show_default=False),
    ] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", min=0, max=1, help="Share they may differ by.")] = 0.03,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Training time of each run. Default: the epochs.", show_default=False),
    ] = None,
    learning_rates: Annotated[
        str,
        typer.Option("--learning-rates", help="Parted by commas; each cell takes the best.", show_default=False),
    ] = "",
    longest: Annotated[
        int, typer.Option("--longest", min=0, help="Measure growth from 128 steps to this; 0: do not.")
    ] = 8192,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", help="A recipe file (TOML). Flags win over it.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A new folder. Default: runs/compare- and the data's name.", show_default=False),
    ] = None,
    **options: Any,
) -> None:
    """Which cell? The same data, parameters and epochs or minutes for each, over several seeds.

    Prints scores with their spread, training time and memory, then how time and memory of a training step and of one
    more step grow with the length, with fitted exponents. Writes compare.json and compare.png beside the runs.

    \b
    [bold]Examples[/bold]
    unrolled compare lm plays --cells lstm,gru,transformer --minutes 5
    unrolled compare classify reviews.csv --cells lstm,gru --seeds 5 --longest 0
    unrolled compare tag train.conll --parameters 200000 --epochs 5
    """
    from unrolled.cli.compare import compare as run

    budget = {"parameters": parameters, "tolerance": tolerance, "minutes": minutes, "learning_rates": learning_rates}
    run(recipe, task, data, cells, seeds, out, longest, budget, options)


@app.command()
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


@bench_app.command("memory")
@guarded
def bench_memory(
    task: Annotated[str, typer.Option("--task", metavar="WORD", help="adding or copy.")] = "adding",
    length: Annotated[
        list[int] | None,
        typer.Option(
            "--length",
            min=3,
            help="Steps of a row; for copy, the delay. Repeat for several. Default: 200 400 600; copy: 100.",
            show_default=False,
        ),
    ] = None,
    cells: Annotated[str, typer.Option("--cells", help="Cells, parted by commas.")] = "rnn,lstm,gru",
    init: Annotated[
        str, typer.Option("--init", help="Starts, parted by commas: torch, keras, forget, chrono, irnn.")
    ] = "torch,chrono,irnn",
    clip: Annotated[
        str, typer.Option("--clip", help="Largest norms of the gradient, parted by commas; none: as it is.")
    ] = "1",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Networks of each kind.")] = 1,
    hidden: Annotated[int | None, typer.Option("--hidden", help="Units. Default: 64.", show_default=False)] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Optimizer steps at most. Default: 6000.", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Rows a step. Default: 32.", show_default=False)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Of Adam. Default: 0.003.", show_default=False)
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Default: as torch chooses.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write everything to this JSON file.", show_default=False)
    ] = None,
) -> None:
    """Can a cell carry something over hundreds of steps? The adding problem and the copy task, beside their baselines.

    Every start and every clipping is tried with every cell for which it has a meaning. A network stops when it has
    solved its task (adding: mean squared error below 0.01; copy: a tenth of the baseline).

    \b
    [bold]Examples[/bold]
    unrolled bench memory --length 400 --cells lstm,gru --init chrono
    unrolled bench memory --cells rnn --init torch,irnn --clip none,1,10
    unrolled bench memory --task copy --length 100 --seeds 3 --out copy.json
    """
    from unrolled.cli import bench

    settings: dict[str, Any] = {"hidden": hidden, "steps": steps, "batch_size": batch_size}
    settings |= {"learning_rate": learning_rate, "threads": threads}
    bench.memory(task, length or (), cells, init, clip, seeds, out, settings)


@app.command()
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


@app.command()
@guarded
def inspect(
    run: RunArgument,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A text to look at. Repeat for several.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="A file, or an embedded set's name. Default: the run's own.", show_default=False),
    ] = None,
    format: FormatOption = None,
    at: Annotated[
        list[int] | None,
        typer.Option("--at", help="An output step to explain. Repeat for several.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write everything to this JSON file.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object instead of a summary.")] = False,
    anomaly: Annotated[
        bool, typer.Option("--anomaly", help="Where a number is not finite, find the operation that made it.")
    ] = False,
) -> None:
    """Look inside a trained model: gates, states, gradients through time, what an answer rests on, and a verdict.

    \b
    [bold]Examples[/bold]
    unrolled inspect runs/reviews --text "the food was cold"
    unrolled inspect runs/speakers --data speakers
    unrolled inspect runs/plays --text "ROMEO. " --at 3 --json > seen.json
    """
    from unrolled.cli import inspecting

    inspecting.inspect(run, text or [], data, format, at or [], out, as_json=json, anomaly=anomaly)


@app.command()
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


@app.command()
@guarded
def export(
    run: RunArgument,
    to: Annotated[str, typer.Option("--to", metavar="WORD", help="onnx or bundle.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Of a bundle: weights as int8, a quarter of the size.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: beside the model.", show_default=False)
    ] = None,
) -> None:
    """Write a trained model as one ONNX file, checked against ONNX Runtime, or as a smaller bundle. Needs no PyTorch.

    \b
    [bold]Examples[/bold]
    unrolled export runs/sensor --to onnx
    unrolled export runs/sensor --to bundle --int8 -o sensor.safetensors
    """
    from unrolled.cli import exporting

    exporting.run(run, to, out, int8=int8)


@app.command()
@guarded
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A file of weights, or a run folder.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file to write.")],
    read: Annotated[
        str | None, typer.Option("--from", metavar="NAME", help="SRC's framework. Default: by its name.", show_default=False)
    ] = None,
    write: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="DST's framework. Default: by its name.", show_default=False)
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Run the frameworks themselves too.")] = False,
    nonlinearity: Annotated[
        str | None, typer.Option("--nonlinearity", help="Of an RNN whose file does not say: tanh or relu.", show_default=False)
    ] = None,
    reset_after: Annotated[
        bool | None,
        typer.Option("--reset-after/--reset-before", help="Of a GRU whose file does not say.", show_default=False),
    ] = None,
    forget_bias: Annotated[
        float | None,
        typer.Option("--forget-bias", help="What TensorFlow 1 adds to f at run time, often 1.", show_default=False),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="What a dense head reads: every step, or the last.", show_default=False)
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="NAME", help="The recurrent layers, first to last; repeat it.", show_default=False),
    ] = None,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Neighbouring cells are two directions of a layer.")
    ] = False,
    single_bias: Annotated[bool, typer.Option("--single-bias", help="bias_hh is left out on purpose.")] = False,
    variant: Annotated[
        str, typer.Option("--variant", metavar="WORD", help="optimized: Flax's packed LSTM cell.", show_default=False)
    ] = "",
    lengths: Annotated[bool, typer.Option("--lengths", help="Give an ONNX file an input for the rows' lengths.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="WORD", help="What may be lost: stateful, activation, mask_zero.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Convert weights: torch, keras, flax-linen, flax-nnx, equinox, haiku, onnx, tf1, rtneural, unrolled.

    Every conversion is checked against the conventions of both sides before the file is written.

    \b
    [bold]Examples[/bold]
    unrolled convert model.keras model.pt
    unrolled convert lstm.pt lstm.onnx --verify
    unrolled convert model.npz model.keras --from tf1 --forget-bias 1
    unrolled convert runs/reviews reviews.onnx
    """
    from unrolled.cli import converting

    options = {"nonlinearity": nonlinearity, "reset_after": reset_after, "forget_bias": forget_bias, "head": head}
    options |= {"order": order, "bidirectional": bidirectional, "single_bias": single_bias, "variant": variant}
    options |= {"lengths": lengths, "accept": accept}
    converting.convert(source, target, read, write, options, verify=verify, as_json=json)


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
