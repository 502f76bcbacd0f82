"""What a person does with a run: train it, go on with it, score it, ask it.

result = train(Recipe(task="classify", data="speakers"), out="runs/speakers")
print(result.report)
load("runs/speakers").predict([features])
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unrolled.data import Dataset
from unrolled.data.examples import Splits
from unrolled.errors import DataError, RecipeError, expected
from unrolled.training.caching import prepare
from unrolled.training.folder import RunFolder
from unrolled.training.loop import Loop, Progress, Silent
from unrolled.training.ranks import Ranks
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers, Report
from unrolled.training.sources import in_memory, open_inputs, open_parts, published
from unrolled.training.tasks import Task
from unrolled.training.tracking import Tracking
from unrolled.training.trained import Trained, find_device

__all__ = ["Result", "evaluate", "generate", "load", "predict", "resume", "train", "translate"]

# What may differ when a run goes on: nothing that the weights so far depend on.
CHANGEABLE = (
    *("epochs", "patience", "device", "threads", "backend", "log_every", "inspect_every", "report"),
    *("checkpoint_every", "checkpoint_minutes", "track", "processes", "workers", "cache"),
)


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run: Path
    report: Report  # on the test part, or on the validation part where there is no test part
    valid: Numbers  # of the best epoch
    best_epoch: int
    epochs: int  # that were trained; fewer than asked for where patience ended
    seconds: float
    notes: list[str]  # on the data

    def __str__(self) -> str:
        return (
            f"{self.report}\nbest epoch {self.best_epoch} of {self.epochs}, {self.seconds:.0f} s; saved in {self.run}"
        )

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the run's report in a frame; its plain text where there is none."""
        from unrolled.training.reporting import notebook

        page = self.run / "report.html"
        return notebook(page.read_text(encoding="utf-8")) if page.is_file() else None


def train(recipe: Recipe, *, out: str | Path, progress: Progress | None = None) -> Result:
    """Train a model and score it on the test part.

    Args:
        out: the run folder, which must not exist; it is made when the data are read and training begins.
        progress: who watches; see `loop.Progress`.

    Raises:
        RunError: the folder exists, or the loss or a gradient is no longer finite.
        DataError: the data cannot be used.
    """
    ranks = Ranks.join(recipe.processes, recipe.device)
    folder = RunFolder(ranks.exchange(str(out))[0])
    if ranks.first:
        folder.check_free()
    ranks.exchange("free")
    with _machine(recipe):
        parts = open_parts(recipe)
        task = prepare(recipe, parts, ranks, _watcher(progress, ranks).note)
        loop = _loop(task, parts, folder, progress, ranks)
        if ranks.first:
            folder.create(recipe)
        ranks.exchange("made")
        try:
            return _finish(loop, parts)
        finally:
            folder.lock.give_back()


def resume(run: str | Path, *, progress: Progress | None = None, **changes: Any) -> Result:
    """Go on with a run from its last checkpoint, as if it had not stopped.

    Args:
        changes: fields of the recipe that may differ from here on, such as more `epochs`.

    Raises:
        RunError: it is not a run folder, another process works on it, it cannot be written to, none of its checkpoints
            can be used, or the data are not those that the run began with.
    """
    folder = RunFolder(run)
    folder.check_run()
    before = Recipe.load(folder.recipe_file)
    ranks = Ranks.join(changes.get("processes", before.processes), before.device)
    if ranks.first:
        folder.open_again()
    ranks.exchange("opened")
    try:
        return _resume(folder, before, progress, changes, ranks)
    finally:
        folder.lock.give_back()


def _resume(
    folder: RunFolder, recipe: Recipe, progress: Progress | None, changes: dict[str, Any], ranks: Ranks
) -> Result:
    for name in changes:
        if name not in CHANGEABLE:
            way_out = "Start another run with --recipe and --out."
            raise RecipeError(
                expected(name, f"as in the run; only {', '.join(CHANGEABLE)} may change", changes[name], way_out)
            )
    recipe = recipe.replace(**changes)
    with _machine(recipe):
        parts = open_parts(recipe)
        task = prepare(recipe, parts, ranks, _watcher(progress, ranks).note)
        loop = _loop(task, parts, folder, progress, ranks)
        loop.restore()
        ranks.exchange("restored")
        if ranks.first:
            folder.keep_recipe(recipe)
        return _finish(loop, parts)


def load(run: str | Path, device: str = "auto") -> Trained:
    """The model of a run folder or of a bundle."""
    return Trained.load(run, device)


def evaluate(run: str | Path, data: str | Path) -> Report:
    """Score a run on labelled data (a file, or an embedded set's name for its test part)."""
    return load(run).evaluate(data)


def predict(run: str | Path, inputs: Iterable[Any] | str | Path) -> Iterator[dict[str, Any]]:
    """Answers in the order of the inputs: texts, lists of tokens, arrays of features; or the path of a file."""
    trained = load(run)
    if isinstance(inputs, str | Path):
        inputs = open_inputs(inputs, trained.recipe)
    return trained.predict_each(inputs)


def generate(
    run: str | Path,
    prompt: str = "",
    length: int = 200,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: str | None = None,
) -> str:
    """Continue a text with a language model.

    Args:
        length: tokens to add; fewer where the model ends the document, or writes `stop`.
        temperature: below 1 sharper, above 1 flatter; 0 takes the likeliest.
        seed: the same seed gives the same text.
    """
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "stop": stop}
    return load(run).generate(prompt, length, **options)


def translate(
    run: str | Path,
    inputs: Iterable[Any],
    *,
    beam: int | None = None,
    n_best: int = 1,
    length_penalty: float | None = None,
    coverage_penalty: float | None = None,
    sample: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    attention: bool = False,
) -> list[list[dict[str, Any]]]:
    """The targets of some sources with an encoder–decoder: for each its hypotheses, best first.

    Args:
        run: a run folder, a bundle, or the name of an embedded model.
        beam: hypotheses side by side, 1 is greedy; this and the two penalties: None: as the recipe says.
        n_best: hypotheses of each source.
        sample: draw them instead of searching; `temperature`, `top_k`, `top_p` and `seed` are for this.
        limit: the most tokens, the end symbol included. None: as the recipe says.
        attention: bring the weights of the attention.
    """
    options: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    given = {name: value for name, value in options.items() if value is not None}
    given |= {"n_best": n_best, "sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    return load(run).translate(inputs, **given, seed=seed, limit=limit, attention=attention)


def _loop(task: Task, parts: Splits, folder: RunFolder, progress: Progress | None, ranks: Ranks) -> Loop:
    torch.manual_seed(task.recipe.seed)
    model = task.build().to(find_device(ranks.device(task.recipe.device)))
    train, valid = task.encode(parts.train), task.encode(parts.valid)
    watcher = _watcher(progress, ranks)
    for note in [*parts.train.notes, *(f"{parts.valid.name}: {note}" for note in valid.notes)]:
        watcher.note(note)
    tracking = Tracking(task.recipe.track if ranks.first else None, watcher.note)
    return Loop(task, model, train, valid, folder, watcher, tracking, ranks)


def _watcher(progress: Progress | None, ranks: Ranks) -> Progress:
    return progress if progress is not None and ranks.first else Silent()


def _finish(loop: Loop, parts: Splits) -> Result:
    """Run the loop, then score the best weights."""
    loop.tracking.start(loop.folder.path, loop.recipe.model_dump())
    try:
        return _finished(loop, parts)
    finally:
        loop.tracking.finish()


def _finished(loop: Loop, parts: Splits) -> Result:
    started = time.perf_counter()
    loop.run()
    seconds = time.perf_counter() - started
    scored = parts.scored
    loop.ranks.exchange("trained")
    best = Trained.load(loop.folder.model_file, loop.ranks.device(loop.recipe.device))
    best.task.ranks = loop.ranks
    loop.ranks.exchange("loaded")
    best.task.calibrate(best.model, parts.valid)
    report = best.task.report(best.model, scored, lambda: in_memory(parts.train))
    if best.task.remember(best.model, parts[:3]) and loop.ranks.first:
        best.save(loop.folder.model_file, epoch=loop.counters.best_epoch, valid=loop.counters.best_valid)
    report = replace(report, published=published(loop.recipe) if scored is parts.test else ())
    counters = loop.counters
    loop.log(
        event="end",
        step=counters.step,
        best_epoch=counters.best_epoch,
        seconds=round(seconds, 3),
        test=report.to_dict(),
    )
    if loop.recipe.report and loop.ranks.first:
        from unrolled.training import reporting  # the page is drawn by modules that training itself does not need

        reporting.write(loop.folder.path, _shown(scored), loop.progress.note)
    notes = list(parts.train.notes)
    return Result(loop.folder.path, report, counters.best_valid, counters.best_epoch, counters.epoch, seconds, notes)


def _shown(scored: Dataset) -> Dataset | None:
    """What the report looks at; None where the file is gone: the report then says so."""
    try:
        return scored.shown()
    except DataError:
        return None


@contextmanager
def _machine(recipe: Recipe) -> Iterator[None]:
    """The recipe's threads, and random numbers of its own: the caller's are as they were afterwards."""
    device = find_device(recipe.device)
    threads = torch.get_num_threads()
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads)
