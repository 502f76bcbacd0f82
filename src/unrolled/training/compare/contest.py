"""The runs of a comparison, and the one record that the table, the pictures and the lab's page are made from.

Each run is a run folder like any other, trained by the same loop in a process of its own. The record (compare.json)
holds what was asked, each run's scores, seconds and memory, and the growth with the length.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from unrolled import __version__
from unrolled.bundle import write_atomically
from unrolled.errors import RecipeError, RunError, expected
from unrolled.training.caching import prepare
from unrolled.training.compare import growth
from unrolled.training.compare.child import ask
from unrolled.training.compare.sizes import Sized, count, for_cell, sized
from unrolled.training.recipe import Recipe
from unrolled.training.sources import open_parts
from unrolled.training.tasks import Task

__all__ = ["CELLS", "FORMAT", "Entry", "Plan", "compare"]

CELLS = ("rnn", "lstm", "gru", "transformer")
FORMAT = 1  # of compare.json
Note = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is compared, and under which budget."""

    recipe: Recipe  # its cell does not matter
    cells: Sequence[str] = CELLS
    seeds: Sequence[int] = (0, 1, 2)
    parameters: int | None = None  # None: those of the recipe with the first cell
    tolerance: float = 0.03
    minutes: float | None = None  # for each run; None: the recipe's epochs
    learning_rates: Sequence[float] = ()  # each cell takes the one that validates best; empty: the recipe's
    lengths: Sequence[int] = growth.LENGTHS  # of the growth; empty: none

    def check(self) -> None:
        """Raise where nothing can come of it."""
        for cell in self.cells:
            if cell not in CELLS:
                raise RecipeError(expected("cells", f"some of {', '.join(CELLS)}", repr(cell)))
            if cell == "transformer" and self.recipe.task == "forecast":
                way_out = "Write --cells rnn,lstm,gru."
                raise RecipeError(expected("cells", "recurrent ones for task forecast", cell, way_out))
        if not self.cells or not self.seeds:
            raise RecipeError(expected("cells" if not self.cells else "seeds", "at least one", "none"))
        if self.minutes is not None and not self.minutes > 0:
            raise RecipeError(expected("minutes", "a number above 0", self.minutes))
        for rate in self.learning_rates:
            if not 0 < rate < float("inf"):
                raise RecipeError(expected("learning_rates", "numbers above 0", rate))
        if self.parameters is not None and self.parameters < 1:
            raise RecipeError(expected("parameters", "1 or more", self.parameters))


@dataclass
class Entry:
    """One cell of the comparison."""

    cell: str
    recipe: Recipe
    parameters: int
    width: int  # of a step of the layer's input
    layer: dict[str, Any]  # keywords of `models.build`
    runs: list[dict[str, Any]] = field(default_factory=list)
    growth: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """For the record."""
        values = [run["score"]["value"] for run in self.runs]
        spread = {"least": min(values), "median": statistics.median(values), "largest": max(values)}
        names = ("hidden", "layers", "epochs", "learning_rate")
        sizes = {name: getattr(self.recipe, name) for name in names}
        found = {"score": spread, "runs": self.runs, "growth": self.growth}
        return (
            {"cell": self.cell, "parameters": self.parameters}
            | sizes
            | found
            | {"recipe": self.recipe.model_dump(mode="json")}
        )


def compare(plan: Plan, *, out: str | Path, note: Note = lambda _: None) -> dict[str, Any]:
    """Size the cells, train each with each seed, measure how they grow, and write OUT/compare.json.

    Args:
        out: a folder that must not exist; the runs stand in it too, as CELL-SEED.
        note: called with each line that a person who waits should see.

    Returns:
        What compare.json holds.

    Raises:
        RecipeError: an option is not valid, or no size of a cell comes near the number of parameters.
        RunError: the folder exists, or a run failed.
    """
    plan.check()
    folder = Path(out)
    if folder.exists():
        raise RunError(expected("out", "a folder that does not exist yet", str(folder), "Choose another with --out."))
    entries = _entries(plan)
    folder.mkdir(parents=True)
    for entry in entries:
        entry.recipe = _within_time(entry, plan.minutes, note)
        entry.recipe = _at_its_rate(entry, plan.learning_rates)
        note(f"{entry.cell}: {_described(entry)}")
    for seed in plan.seeds:  # all cells with a seed before the next one: a comparison that is stopped is still one
        for entry in entries:
            entry.runs.append(_run(entry, seed, folder))
            score = entry.runs[-1]["score"]
            note(f"{entry.cell}, seed {seed}: {score['name']} {score['value']:.4g}, {entry.runs[-1]['seconds']:.0f} s")
    record = _record(plan, entries)
    _write(folder, record)
    if plan.lengths:
        _measure_growth(plan, entries, record, note)
        _write(folder, record)
    return record


def _measure_growth(plan: Plan, entries: Sequence[Entry], record: dict[str, Any], note: Note) -> None:
    """Put each cell's growth into the record."""
    for entry, told in zip(entries, record["cells"], strict=True):
        note(f"{entry.cell}: time and memory at {plan.lengths[0]:,} to {plan.lengths[-1]:,} steps")
        told["growth"] = entry.growth = growth.measure(
            *(entry.layer, entry.width),
            lengths=plan.lengths,
            tokens=not entry.recipe.bidirectional or entry.recipe.task == "seq2seq",
            threads=entry.recipe.threads,
            note=note,
        )


def _entries(plan: Plan) -> list[Entry]:
    """Each cell at its size. The data are read once."""
    recipes = {cell: for_cell(plan.recipe, cell) for cell in plan.cells}
    first = recipes[plan.cells[0]]
    task = prepare(first, open_parts(first))
    wanted = plan.parameters or count(first, task)
    entries = []
    for cell, recipe in recipes.items():
        fits = Sized(recipe, count(recipe, task))
        if fits.parameters != wanted:
            fits = sized(recipe, task, wanted, plan.tolerance)
        entries.append(_entry(cell, fits, task))
    return entries


def _entry(cell: str, fits: Sized, task: Task) -> Entry:
    import torch

    from unrolled.training.tasks import find

    recipe = fits.recipe
    start = {"init": "torch"} if recipe.has("init") else {}
    with torch.device("meta"):
        model = find(recipe.task).from_dict(recipe.replace(**start), task.to_dict()).build()
    names = ("cell", "hidden", "layers", "bidirectional", "single_bias", "reset_after", "heads", "feedforward")
    layer = {name: getattr(recipe, name) for name in names}
    layer |= {"dropout": 0.0, "learn_initial_state": False, "init": "torch", "forget_bias": None, "backend": "auto"}
    compared = next(part for name in ("recurrent", "encoder", "decoder") if (part := getattr(model, name, None)))
    return Entry(cell, recipe, fits.parameters, int(compared.input_size), layer)


def _within_time(entry: Entry, minutes: float | None, note: Note) -> Recipe:
    """The recipe with as many epochs as the time allows, judged by one epoch; a schedule then ends with the run."""
    if minutes is None:
        return entry.recipe
    with tempfile.TemporaryDirectory() as scratch:
        probe = entry.recipe.replace(epochs=1, seed=0)
        seconds = ask({"kind": "train", "recipe": probe.model_dump(mode="json"), "out": f"{scratch}/run"})["seconds"]
    epochs = max(1, int(60 * minutes / seconds))
    if seconds > 60 * minutes:
        note(f"{entry.cell}: one epoch takes {seconds / 60:.1f} minutes, more than the {minutes:g} that were given")
    return entry.recipe.replace(epochs=epochs, patience=None)


def _at_its_rate(entry: Entry, rates: Sequence[float]) -> Recipe:
    """The recipe with the learning rate of the best validation score, of seed 0: cells do not share a best one."""
    if len(rates) < 2:
        return entry.recipe.replace(learning_rate=rates[0]) if rates else entry.recipe
    found = {}
    for rate in rates:
        recipe = entry.recipe.replace(learning_rate=rate, seed=0)
        with tempfile.TemporaryDirectory() as scratch:
            answer = ask({"kind": "train", "recipe": recipe.model_dump(mode="json"), "out": f"{scratch}/run"})
        score = answer["score"]
        found[rate] = answer["valid"][score["name"]] * (1 if score["more_is_better"] else -1)
    return entry.recipe.replace(learning_rate=max(found, key=lambda rate: found[rate]))


def _described(entry: Entry) -> str:
    recipe = entry.recipe
    sizes = f"hidden {recipe.hidden}, {entry.parameters:,} parameters"
    return f"{sizes}, {recipe.epochs} epochs, learning rate {recipe.learning_rate:g}"


def _run(entry: Entry, seed: int, folder: Path) -> dict[str, Any]:
    recipe = entry.recipe.replace(seed=seed)
    job = {"kind": "train", "recipe": recipe.model_dump(mode="json"), "out": str(folder / f"{entry.cell}-{seed}")}
    return {"seed": seed} | ask(job)


def _record(plan: Plan, entries: Sequence[Entry]) -> dict[str, Any]:
    import numpy
    import torch

    first = entries[0].runs[0]
    versions = {"unrolled": __version__, "python": platform.python_version()}
    versions |= {"torch": torch.__version__, "numpy": numpy.__version__}
    return {
        "format": FORMAT,
        "date": date.today().isoformat(),
        "versions": versions,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "task": plan.recipe.task,
        "data": plan.recipe.data,
        "scored": first["scored"],
        "score": {name: first["score"][name] for name in ("name", "more_is_better")},
        "budget": {"parameters": plan.parameters, "tolerance": plan.tolerance, "minutes": plan.minutes},
        "learning_rates": list(plan.learning_rates),
        "baselines": first["baselines"],
        "cells": [entry.to_dict() for entry in entries],
        "findings": _findings(entries, bool(first["score"]["more_is_better"])),
        "memory": {
            "resident_bytes": "largest resident size of the run's own process (VmHWM; elsewhere ru_maxrss)",
            "saved_bytes": "storages that autograd keeps for the backward pass, without weights and input: exact",
        },
    }


def _findings(entries: Sequence[Entry], more: bool) -> list[str]:
    """For each two cells, whether the seeds tell them apart. No test is claimed: with a few seeds none is honest."""
    told = []
    for number, one in enumerate(entries):
        for other in entries[number + 1 :]:
            a, b = ([run["score"]["value"] for run in entry.runs] for entry in (one, other))
            if len(a) < 2:
                told.append(f"{one.cell} or {other.cell}: one seed says nothing about the spread")
            elif max(a) < min(b) or max(b) < min(a):
                winner = one if (min(a) > max(b)) == more else other
                told.append(f"{one.cell} or {other.cell}: {winner.cell}, with every seed better than any of the other")
            else:
                told.append(f"{one.cell} or {other.cell}: their seeds overlap, no difference is shown")
    return told


def _write(folder: Path, record: dict[str, Any]) -> None:
    text = json.dumps(_finite(record), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / "compare.json", (text + "\n").encode())


def _finite(value: Any) -> Any:
    """JSON has no word for infinity and NaN but null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and value - value != 0 else value
