"""`unrolled forecast`: from where a run left its series, as JSON lines, as CSV, and as a picture."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrolled import bundle
from unrolled.cli.show import console, notes, say
from unrolled.errors import RunError, expected, require
from unrolled.pictures import new_figure, save

if TYPE_CHECKING:
    from unrolled.data import Dataset, Item
    from unrolled.training import Trained

PANELS = 6  # series in one picture


def forecast(
    run: Path,
    file: Path | None,
    *,
    horizon: int | None,
    levels: Sequence[float],
    ids: Sequence[str],
    paths: int | None,
    seed: int,
    plot: Path | None,
    as_csv: bool,
    keep: bool,
) -> None:
    from unrolled.cli.opening import Light, open_model

    trained = open_model(run)
    if keep and isinstance(trained, Light):
        require("torch", "train")  # the file is written by it
    rows = None if file is None else _open(trained, file)
    if plot is not None:
        require("matplotlib.figure", "plot")  # before any work
    history = trained.histories(rows) if plot is not None else []
    answers = trained.forecast(rows, horizon=horizon, quantiles=levels, paths=paths, seed=seed, keep=keep)
    chosen = _chosen([answer["id"] for answer in answers], ids)
    answers = [answers[i] for i in chosen]
    _print_csv(answers) if as_csv else _print_lines(answers)
    if plot is not None:
        draw([history[i] for i in chosen], answers, plot)
        say(f"plot: {plot}" + (f" (the first {PANELS} of {len(answers)} series)" if len(answers) > PANELS else ""))
    if keep:
        _keep(trained, run / "model.safetensors" if run.is_dir() else run)


def _keep(trained: Trained, file: Path) -> None:
    header = bundle.read_header(file)
    trained.save(file, **{name: header[name] for name in ("epoch", "valid") if name in header})
    say(f"kept: {file} goes on after these rows")


def _open(trained: Trained, file: Path) -> Dataset:
    from unrolled.training.sources import read_file

    rows = read_file(file, trained.recipe)
    notes(rows.notes)
    return rows


def _chosen(there: Sequence[str], ids: Sequence[str]) -> list[int]:
    for name in ids:
        if name not in there:
            raise RunError(expected("id", f"one of the {len(there)} series", repr(name), "Leave out --id to see all."))
    return [i for i, name in enumerate(there) if not ids or name in ids]


def _print_lines(answers: Sequence[dict[str, Any]]) -> None:
    from unrolled.cli.jobs import rounded

    for answer in answers:
        print(json.dumps(rounded(answer), ensure_ascii=False, allow_nan=False), flush=True)


def _print_csv(answers: Sequence[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    levels = list(answers[0].get("quantiles", {})) if answers else []
    writer.writerow(["id", "time", "forecast", *levels])
    for answer in answers:
        columns = [answer["forecast"], *(answer["quantiles"][level] for level in levels)]
        for time, *values in zip(answer["time"], *columns, strict=True):
            writer.writerow([answer["id"], time, *(f"{value:.6g}" for value in values)])


def show_first(trained: Trained, item: Item) -> None:
    """One forecast from the saved model: the first of the part, beside what came."""
    series = item.series
    assert series is not None
    begin = series.begin
    cut = replace(item, series=replace(series, target=series.target[:begin], past=series.past[:begin], begin=0))
    (answer,) = trained.predict([cut])
    out = console()
    out.print(f"one forecast from the saved model, series {series.id}, after {series.time(begin - 1)}:", markup=False)
    for step, (time, value) in enumerate(list(zip(answer["time"], answer["forecast"], strict=True))[:3]):
        between = ""
        if levels := list(answer.get("quantiles", {})):
            low, high = (answer["quantiles"][level][step] for level in (levels[0], levels[-1]))
            between = f" ({low:.5g} to {high:.5g})"
        came = series.target[begin + step : begin + step + 1]
        said = f"; the data say {came[0]:.5g}" if len(came) and np.isfinite(came[0]) else ""
        out.print(f"  {time}  {value:.5g}{between}{said}", markup=False)


def draw(histories: Sequence[tuple[np.ndarray, np.ndarray]], answers: Sequence[dict[str, Any]], path: Path) -> None:
    """A PNG: history, forecast, and the intervals between pairs of quantiles, one panel a series."""
    require("matplotlib", "plot")
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    shown = list(zip(histories, answers, strict=True))[:PANELS]
    figure = new_figure(8, 2.6 * len(shown) + 0.4)
    for panel, (history, answer) in zip(np.atleast_1d(figure.subplots(len(shown))), shown, strict=True):
        if not answer["time"][0].lstrip("-").isdigit():  # dates, not step numbers
            locator = AutoDateLocator()
            panel.xaxis.set_major_locator(locator)
            panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        _draw_one(panel, history, answer)
    notes(save(figure, path))


def _draw_one(panel: Any, history: tuple[np.ndarray, np.ndarray], answer: dict[str, Any]) -> None:
    steps = answer["time"][0].lstrip("-").isdigit()
    ahead = np.array([int(time) if steps else np.datetime64(time, "s") for time in answer["time"]])
    last = max(3 * len(ahead), 24)
    times, values = (part[-last:] for part in history)
    panel.plot(times if steps else times.astype("datetime64[s]"), values, color="black", linewidth=1, label="history")
    lines = list(answer.get("quantiles", {}).items())
    for number, (low, high) in enumerate(zip(lines[: len(lines) // 2], lines[::-1], strict=False)):
        label = f"quantiles {low[0]} to {high[0]}, and those between" if number == 0 else None
        panel.fill_between(ahead, low[1], high[1], color="tab:blue", alpha=0.15, linewidth=0, label=label)
    marker = {"marker": "o", "markersize": 3} if len(ahead) < 8 else {}
    panel.plot(ahead, answer["forecast"], color="tab:blue", linewidth=1.5, label="forecast", **marker)
    panel.set_title(str(answer["id"]), loc="left", fontsize=10)
    panel.legend(fontsize=7, loc="upper left")
