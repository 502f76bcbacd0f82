"""A report as one JSON object: what a run was asked, how it went, what came of it, and what to look at."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unrolled import __version__
from unrolled.data import Dataset
from unrolled.errors import UnrolledError
from unrolled.insight.packing import number, numbers
from unrolled.training.inspection import inspect
from unrolled.training.inspection.metrics import events
from unrolled.training.recipe import Recipe, defaults
from unrolled.training.report import title_of
from unrolled.training.reporting.answers import answers_of
from unrolled.training.reporting.curves import curves_of, epochs_of
from unrolled.training.reporting.findings import finding, findings_of
from unrolled.training.reporting.looks import looks_json
from unrolled.training.reporting.tables import parameters_of
from unrolled.training.sources import open_parts, published
from unrolled.training.trained import Trained

__all__ = ["FORMAT", "make"]

FORMAT = 1


def make(
    run: str | Path, *, scored: Dataset | None = None, inside: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The report of a run folder, and the inspection that belongs to it (None where the model has no recurrent layer).

    What cannot be made is left out, and the report says why: data that have moved, a model that cannot be looked into.

    Args:
        scored: the part that the run was scored on; None: it is read again.
        inside: an inspection of the run that is there already; None: a brief one, of the first items of `scored`.

    Raises:
        RunError: there is no model in the folder.
    """
    begun = time.perf_counter()
    folder = Path(run)
    trained = Trained.load(folder, "cpu")
    entries = events(folder / "metrics.jsonl")
    said: list[dict[str, Any]] = []
    if scored is None:
        scored = _attempt("data", said, lambda: _scored_part(trained))
    if inside is None and scored is not None:
        shown = [scored[i] for i in range(min(LOOKED_AT, len(scored)))]
        inside = _attempt("inside", said, lambda: inspect(folder, shown, brief=True, fine=True))
    found = _about(folder, trained) | _course(trained, entries)
    found |= {"parameters": parameters_of(trained.model), "weights": None if inside is None else inside["weights"]}
    answers = None if scored is None else _attempt("answers", said, lambda: answers_of(trained, scored))
    found |= {"errors": None, "samples": [], "notes": []} | (answers or {})
    found["findings"] = said + findings_of(
        model=trained.model, inside=inside, entries=entries, report=found["result"], score=_direction(found)
    )
    found["seconds"] = number(round(time.perf_counter() - begun, 3))
    return numbers(found), inside


LOOKED_AT = 8


def _attempt(what: str, said: list[dict[str, Any]], action: Any) -> Any:
    """A part of the report, or None and a finding that says why it is not there."""
    try:
        return action()
    except UnrolledError as error:
        said.append(finding(f"no_{what}", f"{_PARTS[what]}: {error}", why=str(error)))
        return None


_PARTS = {
    "data": "The data cannot be read again, so errors and samples are missing",
    "inside": "The network was not looked into",
    "answers": "Errors and samples could not be made",
}


def _scored_part(trained: Trained) -> Dataset:
    return open_parts(trained.recipe).scored.shown()


def _about(folder: Path, trained: Trained) -> dict[str, Any]:
    recipe = trained.recipe
    fields = {name: value for name, value in recipe.model_dump(mode="json").items() if recipe.has(name)}
    usual = Recipe.model_construct(**defaults(recipe.task)).model_dump(mode="json", warnings=False)
    versions = {"unrolled": __version__, "python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "system": f"{platform.system()} {platform.machine()}"}
    found: dict[str, Any] = {"format": FORMAT, "kind": "report", "version": __version__, "run": folder.resolve().name}
    found |= {"task": recipe.task, "cell": recipe.cell, "recipe": fields}
    found["changed"] = [name for name, value in fields.items() if name in usual and value != usual[name]]
    return found | {
        "seed": recipe.seed,
        "versions": versions,
        "threads": torch.get_num_threads(),
        "engine": _engine(trained),
    }


def _engine(trained: Trained) -> str:
    from unrolled.kernels import choose

    if trained.recipe.cell == "transformer":
        return "torch"
    return choose(f"{trained.recipe.cell}_scan", torch.zeros(2, 2, 2), backend=trained.recipe.backend).name


def _course(trained: Trained, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What metrics.jsonl says: the curves, the looks, the end."""
    recipe = trained.recipe
    epochs = [e for e in entries if e.get("event") == "epoch"]
    end = next((e for e in reversed(entries) if e.get("event") == "end"), None)
    best = [e for e in epochs if e.get("best")]
    found: dict[str, Any] = {"result": None if end is None else _result(trained, end.get("test"))}
    found["score"] = _score(trained, best[-1].get("valid") or {}) if best else None
    found["training"] = {
        "steps": max((e.get("step", 0) for e in entries), default=0),
        "epochs": len(epochs),
        "asked_epochs": recipe.epochs,
        "best_epoch": best[-1]["epoch"] if best else None,
        "seconds": sum(e.get("seconds", 0) for e in epochs),
        "parameters": sum(p.numel() for p in trained.model.parameters()),
    }
    found |= {"curves": curves_of(entries, recipe.clip), "clip": recipe.clip, "epochs": epochs_of(entries)}
    return found | {"looks": looks_json(entries)}


def _score(trained: Trained, valid: dict[str, Any]) -> dict[str, Any] | None:
    """What early stopping looked at; its metric has the name with underscores."""
    try:
        name, value, more = trained.task.score(valid)
    except KeyError:  # a number that was not finite is not in metrics.jsonl
        return None
    return {"name": name.replace(" ", "_"), "value": value, "more_is_better": more}


def _direction(found: dict[str, Any]) -> tuple[str, bool] | None:
    score = found["score"]
    return None if score is None else (score["name"], score["more_is_better"])


def _result(trained: Trained, test: Any) -> dict[str, Any] | None:
    """The evaluation that ended the run, with the titles of its rows."""
    if not isinstance(test, dict) or not isinstance(test.get("metrics"), dict):
        return None
    baselines = test.get("baselines") or {}
    rows = [
        [name, title, value, [numbers_of.get(name) for numbers_of in baselines.values()]]
        for name, value in test["metrics"].items()
        if (title := title_of(name)) is not None
    ]
    recipe = trained.recipe
    nominal = recipe.quantiles[-1] - recipe.quantiles[0] if "coverage" in test["metrics"] else None
    said = {"rows": rows, "published": [list(one) for one in published(recipe)], "nominal": nominal}
    return {"metrics": test["metrics"], "baselines": baselines} | test | said
