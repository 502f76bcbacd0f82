"""Forecasts of the runtime are those of PyTorch: from a history, from where a series was left, and further on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_forecasts import COLUMNS, many, ready
from test_runtime import close
from unrolled import runtime
from unrolled.data import Dataset, Item
from unrolled.errors import BundleError, DataError, RunError
from unrolled.runtime.plan import Plan
from unrolled.training.trained import Trained

MODELS: dict[str, dict[str, Any]] = {
    "point": {"output": "point"},
    "quantile": {"output": "quantile", "cell": "lstm", "layers": 2},
    "student-t": {"output": "student-t", "cell": "rnn", "scaler": "window", "skip": False},
    "direct": {"output": "quantile", "head": "direct", "cell": "lstm"},
    "direct student-t": {"output": "student-t", "head": "direct", "learn_initial_state": True},
    "own vectors": {"output": "quantile", "series_embedding": 3, "reset_after": False},
}


def made(folder: Path, name: str) -> tuple[Trained, Any, list[Any]]:
    """A model with random weights that remembers where its series were left, saved; and series that go on."""
    whole = many(3, 60, 3)
    parts = [one.part(0, 50) for one in whole]
    task, model = ready(parts, **COLUMNS | {"data": "x"} | MODELS[name])
    data = Dataset([Item(one.where, series=one) for one in parts], "x")
    task.remember(model, [data])
    trained = Trained(task.recipe, task, model)
    trained.save(folder / "model.safetensors")
    return trained, runtime.load(folder), whole


def later(whole: list[Any], begin: int, end: int) -> Dataset:
    """The rows begin … end of each series, with the known covariates of three steps more."""
    items = []
    for one in whole:
        from dataclasses import replace

        start = int(one.frequency.after(one.start, begin))
        cut = replace(one, start=start, target=one.target[begin:end], known=one.known[begin : end + 3])
        items.append(Item(one.where, series=replace(cut, past=one.past[begin:end], begin=0)))
    return Dataset(items, "x")


@pytest.mark.parametrize("name", MODELS)
def test_forecasts_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    trained, model, whole = made(tmp_path, name)
    histories = [item.series for item in later(whole, 0, 40)]
    given = [Item(one.where, series=one) for one in histories if one is not None]
    for found, wanted in zip(model.predict(given), trained.predict(given), strict=True):
        close(found, wanted, name)
    options: dict[str, Any] = {"horizon": 2, "seed": 4}
    if name != "point":
        options |= {"quantiles": (0.2, 0.5)}
    rows = later(whole, 50, 55)
    for found, wanted in zip(model.forecast(rows, **options), trained.forecast(rows, **options), strict=True):
        close(found, wanted, name)


@pytest.mark.parametrize("name", ["quantile", "direct"])
def test_a_kept_state_goes_on(name: str, tmp_path: Path) -> None:
    _, model, whole = made(tmp_path, name)
    wanted = model.forecast(later(whole, 50, 58))
    model.forecast(later(whole, 50, 54), keep=True)
    for found, right in zip(model.forecast(later(whole, 54, 58)), wanted, strict=True):
        close(found, right, name)
    with pytest.raises(DataError, match="The run has read this series up to 53"):
        model.forecast(later(whole, 50, 54))


def test_what_a_forecaster_does_not_do(tmp_path: Path) -> None:
    _, model, _ = made(tmp_path, "point")
    with pytest.raises(RunError, match="stream: expected a model that answers as its input comes"):
        model.stream()
    with pytest.raises(DataError, match="input 1: expected numbers"):
        model.predict(["text"])
    with pytest.raises(DataError, match="the known covariates of all 3 steps"):
        model.forecast()


def test_a_plan_that_cannot_be(tmp_path: Path) -> None:
    from unrolled import bundle

    made(tmp_path, "point")
    tensors, header = bundle.load(tmp_path / "model.safetensors")
    header.pop("format")
    for part, change in (("layout", {"lags": [10**12]}), ("layout", {"lags": []}), ("scaler", {"ids": []})):
        task = {"plan": header["task"]["plan"] | {part: header["task"]["plan"][part] | change}}
        bundle.save(tmp_path / "bad", tensors, header | {"task": task})
        with pytest.raises(BundleError):
            runtime.load(tmp_path / "bad")
    assert isinstance(Plan.from_dict(header["task"]["plan"]), Plan)
