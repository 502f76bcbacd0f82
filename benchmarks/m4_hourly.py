"""M4 hourly: 414 series, 48 hours ahead, on the competition's split; sMAPE and MASE as the competition defined them.

Beside each seed stands the mean of the seeds' medians: entries to the competition were ensembles.
"""

from __future__ import annotations

import csv
import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness import Run, arguments, run_seeds, save
from unrolled.training import load
from unrolled.training.forecasting.metrics import ForecastScores, naive_scale
from unrolled.training.forecasting.rolling import Ask, forecast_from
from unrolled.training.sources import open_parts

RECIPE = {
    "task": "forecast",
    "id": "id",
    "target": "value",
    "horizon": 48,
    "season": 24,
    "lookback": 336,
    "lags": (1, 2, 3, 23, 24, 25, 47, 48, 49, 71, 72, 73, 95, 96, 97, 167, 168, 169),
    "valid_steps": 48,
    "scaler": "window",
    "transform": "log",
    "loss_units": "data",  # as sMAPE counts
    "constant": "keep",
    "head": "direct",
    "output": "quantile",
    "hidden": 96,
    "learning_rate": 3e-3,
    "average": 0.99,
    "epochs": 15,
    "calibrate": "validation",  # one origin a series: nothing to follow
    "compare_with": "none",
}


def to_long(source: Path, out: Path, begins: dict[str, int]) -> dict[str, int]:
    """One series a line becomes one value a line; hours are numbered from the start of the training part."""
    ends = {}
    with gzip.open(source, "rt", encoding="utf-8") as given, out.open("w", encoding="utf-8") as file:
        file.write("id,time,value\n")
        rows = csv.reader(given)
        next(rows)
        for name, *cells in rows:
            values = [cell for cell in cells if cell not in ("", "NA")]
            begin = begins.get(name, 0)
            ends[name] = begin + len(values)
            file.writelines(f"{name},{begin + hour},{value}\n" for hour, value in enumerate(values))
    return ends


def keep_forecasts(result: Any) -> dict[str, float]:
    """Leave the forecasts beside the data, and give the sMAPE of the validation part, by which settings are chosen."""
    trained = load(result.run)
    recipe, plan = trained.recipe, trained.task.plan
    parts, ask, kept = open_parts(recipe), Ask(recipe.horizon, recipe.quantiles, 1), {"levels": recipe.quantiles}
    for name in ("valid", "test"):
        rows = trained.task.encode(getattr(parts, name)).rows
        begins = [row.series.begin for row in rows]
        kept[f"{name} found"] = np.array(list(forecast_from(trained.model, plan, rows, begins, ask)))
        kept[f"{name} truth"] = np.array([row.series.target[row.series.begin :] for row in rows])
        kept[f"{name} scale"] = [naive_scale(row.series.target[: row.series.begin], plan.season) for row in rows]
    np.savez(Path(recipe.test).parent / f"seed-{recipe.seed}.npz", **kept)
    return {"smape, validation part": result.valid["smape"]}


def together(folder: Path, runs: list[Run]) -> list[Run]:
    """The scores of the mean of all seeds' quantiles, as one run."""
    kept = [np.load(folder / f"seed-{run['seed']}.npz") for run in runs]
    levels = kept[0]["levels"].tolist()
    metrics = {}
    for name in ("valid", "test"):
        scores, mean = ForecastScores(levels), np.mean([one[f"{name} found"] for one in kept], axis=0)
        for truth, found, scale in zip(kept[0][f"{name} truth"], mean, kept[0][f"{name} scale"], strict=True):
            scores.update(truth, found[:, levels.index(0.5)], found, scale)
        metrics[name] = scores.compute()
    both = metrics["test"] | {"smape, validation part": metrics["valid"]["smape"]}
    same = {name: runs[0][name] for name in ("seed", "baselines", "items", "unit", "epochs")}
    return [same | {"metrics": both, "valid": metrics["valid"], "seconds": sum(run["seconds"] for run in runs)}]


if __name__ == "__main__":
    title = "M4 hourly, 48 hours ahead"
    options = arguments(title, folder="the folder with Hourly-train.csv.gz and Hourly-test.csv.gz")
    with tempfile.TemporaryDirectory() as scratch:
        files = {part: Path(scratch) / f"{part}.csv" for part in ("train", "test")}
        begins: dict[str, int] = {}
        for part, path in files.items():
            begins = to_long(options.folder / f"Hourly-{part}.csv.gz", path, begins)
        recipe = RECIPE | {"data": str(files["train"]), "test": str(files["test"])}
        runs = {"GRU, quantiles": run_seeds(recipe, options, keep_forecasts)}
        runs[f"mean of {len(options.seeds)} seeds"] = together(Path(scratch), runs["GRU, quantiles"])
    recipes = dict.fromkeys(runs, RECIPE)
    aim = "sMAPE below 13.912, the seasonal naive rule, and below 12 if possible; the competition's RNN had 14.698"
    save("m4_hourly", title=title, aim=aim, runs=runs, recipes=recipes)
