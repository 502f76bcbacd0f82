"""What the commands do. Each is called after the arguments are read and before anything heavy is imported."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrolled.cli import logs
from unrolled.cli.options import given, recipe_from
from unrolled.cli.show import Watch, console, notes, say, show_report
from unrolled.errors import RecipeError, UnrolledError, expected
from unrolled.training.examples import recipe as tuned
from unrolled.training.recipe import Recipe

if TYPE_CHECKING:
    from unrolled.cli.inputs import Input
    from unrolled.data import Item
    from unrolled.training import Progress, Result, Trained

AT_A_TIME = 256  # inputs that are predicted side by side


def list_examples() -> None:
    from rich.table import Table

    from unrolled.data import examples

    out = console()
    for name in examples.NAMES:
        about = examples.describe(name)
        rows = Table.grid(padding=(0, 2))
        rows.add_column(min_width=len("  published"))
        rows.add_column(overflow="fold")
        rows.add_row(name, about.title)
        for what in ("task", "items", "split", "licence", "origin"):
            rows.add_row(f"  {what}", getattr(about, what))
        for published in about.published:
            rows.add_row("  published", f"{published.figure}  {published.what} ({published.source})")
        out.print(rows)
        out.print()
    for name, about_model in examples.MODELS.items():
        out.print(f"{name}, a trained model: {about_model}", markup=False)


def demo(name: str, out: Path | None, options: Mapping[str, Any]) -> None:
    from unrolled.data import examples

    if name not in examples.NAMES:
        way_out = "unrolled data list describes them."
        raise RecipeError(expected("NAME", f"one of {', '.join(examples.NAMES)}", repr(name), way_out))
    about = examples.describe(name)
    say(f"{about.title}\n{about.items}\n")
    _run(tuned(name, **given(options)), out or free_folder(Path("runs") / f"demo-{name}"))


def train(file: Path | None, task: str | None, data: str | None, out: Path | None, options: Mapping[str, Any]) -> None:
    recipe = recipe_from(file, task, data, options)
    _run(recipe, out or free_folder(Path("runs") / Path(recipe.data).stem))


def free_folder(wanted: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that is not there."""
    folder, number = wanted, 1
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def _run(recipe: Recipe, out: Path) -> None:
    from unrolled.training import train as train_run

    _show_result(train_run(recipe, out=out, progress=watch()))


def watch() -> Progress:
    """Who watches a run: a bar on a terminal, notes elsewhere, or the log as JSON."""
    return logs.JsonWatch() if logs.is_on() else Watch()


def is_first() -> bool:
    """Whether this process shows the result: the first of several."""
    from unrolled.training.ranks import is_first as first

    return first()


def resume(
    run: Path,
    task: str | None,
    data: str | None,
    file: Path | None,
    out: Path | None,
    options: Mapping[str, Any],
) -> None:
    for name, value in (("TASK", task), ("DATA", data), ("--recipe", file), ("--out", out)):
        if value is not None:
            way_out = "The run folder has it already; only options such as --epochs may stand beside --resume."
            raise RecipeError(expected(name, "to be left out with --resume", str(value), way_out))
    from unrolled.training import resume as resume_run

    _show_result(resume_run(run, progress=watch(), **given(options)))


def _show_result(result: Result) -> None:
    from unrolled.training import load

    if not is_first():
        return
    if logs.is_on():
        plain = {"best_epoch": result.best_epoch, "epochs": result.epochs, "seconds": round(result.seconds, 3)}
        logs.line("end", run=str(result.run), **plain, test=rounded(result.report.to_dict()))
    out = console()
    show_report(result.report, said=result.notes)
    took = f"{result.seconds:.0f} s" if result.seconds < 120 else f"{result.seconds / 60:.1f} min"
    out.print(f"\nbest epoch {result.best_epoch} of {result.epochs}, {took}; saved in {result.run}", markup=False)
    trained = load(result.run)
    _show_one(trained)
    say(f"\nnext:  {_next_command(trained, result.run)}")


def _show_one(trained: Trained) -> None:
    """One prediction from the saved model, on the first item of the test part."""
    from unrolled.training.sources import open_parts

    out = console()
    try:
        item = open_parts(trained.recipe).scored[0]
    except DataError as error:
        say(f"note: no example from the saved model: {error}")
        return
    if trained.recipe.task == "lm":
        begin = (item.text or "")[:10]
        out.print(f"the saved model goes on from {begin!r}:", markup=False)
        out.print(trained.generate(begin, 100, temperature=0.8, seed=trained.recipe.seed), markup=False)
        return
    if trained.recipe.task == "forecast":
        from unrolled.cli.forecasting import show_first

        return show_first(trained, item)
    (answer,) = trained.predict([item])
    out.print(f"one prediction from the saved model, for {item.where}:", markup=False)
    if item.text is not None:
        out.print(f"  {item.text}", markup=False)
    if trained.recipe.task == "seq2seq":
        out.print(f"  model: {answer['target']}\n  data:  {_text(item.target)}", markup=False)
        return
    if trained.recipe.task == "classify":
        said = f"label {answer['label']}, probability {answer['probability']:.4f}; the data say {item.label}"
        out.print(f"  {said}", markup=False)
        return
    for what, tags in (("model", answer["tags"]), ("data", item.tags or ())):
        words = item.tokens if item.tokens is not None else [""] * len(tags)
        pairs = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
        out.print(f"  {what + ':':6} {pairs}", markup=False)


def _text(target: str | tuple[str, ...] | None) -> str:
    return " ".join(target) if isinstance(target, tuple) else target or ""


def _next_command(trained: Trained, run: Path) -> str:
    if trained.recipe.task == "lm":
        return f"unrolled generate {run} --length 300 --temperature 0.8"
    if trained.recipe.task == "forecast":
        return f"unrolled forecast {run}" + (" FILE" if trained.recipe.known else "")
    if takes_features(trained):
        return f"unrolled predict {run} --file FILE"
    if trained.recipe.task == "seq2seq":
        return f'unrolled translate {run} "some text"'
    return f'unrolled predict {run} "{"some words" if trained.recipe.task == "tag" else "some text"}"'


def evaluate(run: Path, data: str, format: str | None, *, as_json: bool) -> None:
    from unrolled.training import load
    from unrolled.training.sources import open_data

    trained = load(run)
    report = trained.evaluate(open_data(data, reading_as(trained, format)))
    if as_json:
        print(json.dumps(rounded(report.to_dict()), ensure_ascii=False, allow_nan=False))
    else:
        show_report(report)


def reading_as(trained: Trained, format: str | None) -> Recipe:
    """The recipe by which a file is read: that of the run, but for the format where one is named."""
    return trained.recipe if format is None else trained.recipe.replace(format=format)


def takes_features(trained: Trained) -> bool:
    reading = getattr(trained.task, "reading", None)
    return getattr(reading, "scaler", None) is not None


def predict(run: Path, texts: Sequence[str], file: Path | None, format: str | None = None) -> None:
    from unrolled.cli.inputs import from_arguments, from_stream, gathered
    from unrolled.cli.opening import open_model

    if texts and file is not None:
        raise RecipeError(expected("predict", "TEXT or --file", "both", "Leave one of them out."))
    trained = open_model(run)
    features = takes_features(trained)
    if file is not None and str(file) != "-":
        _predict_file(trained, file, format)
    elif texts:
        inputs = list(from_arguments(texts, features=features))
        _print_answers((one.said() for one in inputs), trained.predict_each(_items(trained, inputs)))
    else:
        if sys.stdin.isatty():
            say("reading standard input, one text a line; end with Ctrl-D")
        for batch in gathered(from_stream(sys.stdin.buffer, features=features), AT_A_TIME):
            _print_answers((one.said() for one in batch), trained.predict(_items(trained, batch)))


def _items(trained: Trained, inputs: Iterable[Input]) -> Iterator[Item]:
    """Inputs that know where they came from, for the message if one cannot be used."""
    return (trained.task.item(one.value, one.where) for one in inputs)


def _predict_file(trained: Trained, file: Path, format: str | None) -> None:
    from unrolled.training.sources import open_inputs

    dataset = open_inputs(file, reading_as(trained, format))
    notes(dataset.notes)
    said = ({"where": item.where} | ({} if item.text is None else {"text": item.text}) for item in dataset)
    _print_answers(said, trained.predict_each(dataset))


def _print_answers(said: Iterable[dict[str, Any]], answers: Iterable[dict[str, Any]]) -> None:
    for one, answer in zip(said, answers, strict=True):
        if isinstance(answer.get("tokens"), list):
            one.pop("text", None)  # the tokens say it
        print(json.dumps(one | rounded(answer), ensure_ascii=False, allow_nan=False), flush=True)


def rounded(value: Any) -> Any:
    """Six digits: more would only be noise of the arithmetic. JSON has no word for infinity and NaN but null."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def generate(run: Path, prompt: str, length: int, **options: Any) -> None:
    from unrolled.cli.opening import open_model

    try:
        print(open_model(run).generate(prompt, length, **options))
    except ValueError as error:
        if isinstance(error, UnrolledError):
            raise
        raise RecipeError(str(error)) from None  # an option of `decoding.sample`
