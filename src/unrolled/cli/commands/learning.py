"""Commands that train, score, compare and look inside. A body is one call, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unrolled.cli.completion import recipe_options
from unrolled.cli.guard import FormatOption, RunArgument, guarded


@guarded
@recipe_options(["epochs", "hidden", "seed", "device", "threads"], defaults=False)
def demo(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="speakers, tags, poems, plays, cities or weather.")
    ] = "speakers",
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


@guarded
def data_list() -> None:
    """List the embedded data sets with their task, size, licence and origin.

    \b
    [bold]Examples[/bold]
    unrolled data list
    """
    from unrolled.cli import jobs

    jobs.list_examples()


@guarded
@recipe_options()
def train(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK", help="classify, tag, lm (next token), seq2seq (pairs) or forecast.", show_default=False
        ),
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
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Progress and notes as JSON lines on standard error.")
    ] = False,
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
    from unrolled.cli import jobs, logs

    if log_json:
        logs.begin()
    if resume is not None:
        jobs.resume(resume, task, data, recipe, out, options)
    else:
        jobs.train(recipe, task, data, out, options)


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


@guarded
@recipe_options(without=("task", "data", "cell", "seed"))
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
    open: Annotated[
        bool, typer.Option("--open", help="Write the run's report.html again, with what was seen, and open it.")
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="FOLDER", help="Write the report's pictures there as PNG.", show_default=False),
    ] = None,
) -> None:
    """Look inside a trained model: gates, states, gradients through time, what an answer rests on, and a verdict.

    \b
    [bold]Examples[/bold]
    unrolled inspect runs/reviews --text "the food was cold"
    unrolled inspect runs/speakers --data speakers
    unrolled inspect runs/plays --text "ROMEO. " --at 3 --json > seen.json
    unrolled inspect runs/plays --open
    """
    from unrolled.cli import inspecting

    shown: dict[str, Any] = {"as_json": json, "opened": open, "png": png}
    inspecting.inspect(run, text or [], data, format, at or [], out, anomaly=anomaly, **shown)


@guarded
def lab(
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]…", help="Run folders. Default: small models that are included.", show_default=False
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A text to look at. Default: the run's own test part.", show_default=False),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="What a language model goes on from.", show_default=False)
    ] = None,
    at: Annotated[
        list[int] | None,
        typer.Option("--at", help="An output step to explain. Repeat for several.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: lab.html.", show_default=False)
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="WORD", help="en or zh. Default: as the browser says.", show_default=False),
    ] = None,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    serve: Annotated[
        bool, typer.Option("--serve", help="No file: serve the page on this machine, to type new texts into the model.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="With --serve; 0: a free one.")] = 0,
) -> None:
    """Make the interactive page: how recurrent networks work, and what goes on inside your own.

    It is one HTML file that needs no network. With several runs, they are shown side by side.

    \b
    [bold]Examples[/bold]
    unrolled lab
    unrolled lab runs/plays --text "To be, or not to be" -o plays.html
    unrolled lab runs/plays-lstm runs/plays-gru --no-open
    unrolled lab runs/plays --serve
    """
    from unrolled.cli import laboratory

    options: dict[str, Any] = {"opened": open, "serve": serve, "port": port}
    laboratory.lab(run or [], text or [], prompt, at or [], out, language, **options)


@guarded
def doctor(
    check: Annotated[
        bool, typer.Option("--check", help="Compare every engine with the equations on this machine.")
    ] = False,
) -> None:
    """Print versions, devices, engines and why each was chosen, and what is missing.

    \b
    [bold]Examples[/bold]
    unrolled doctor
    unrolled doctor --check
    """
    from unrolled.cli import doctor as doctors

    if check:
        doctors.check()
    else:
        doctors.report()
