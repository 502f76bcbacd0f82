"""Short series, a recipe for them, and a task that has measured them."""

from __future__ import annotations

import numpy as np
import torch

from unrolled.data import Dataset, Item
from unrolled.data.calendar import Frequency
from unrolled.data.series import Series
from unrolled.training import Recipe
from unrolled.training.tasks.forecast import Forecast

SMALL = {
    "task": "forecast", "horizon": 3, "lookback": 8, "hidden": 6, "batch_size": 8, "epochs": 2, "epoch_windows": 16,
    "log_every": 1, "paths": 20, "compare_with": "none", "schedule": "constant", "output_dropout": 0.0, "season": 4,
    "quantiles": (0.1, 0.5, 0.9),
}  # fmt: skip


def recipe(**changes):
    return Recipe(**{"data": "loads.csv", **SMALL, **changes})


def series(values, name="a", known=None, past=None, **changes):
    values = np.asarray(values, np.float64)
    known = np.zeros((len(values), 0)) if known is None else np.asarray(known, np.float64)[:, None]
    past = np.zeros((len(values), 0)) if past is None else np.asarray(past, np.float64)[:, None]
    fields = {"start": 0, "frequency": Frequency(1, "steps"), "dates": False}
    return Series(
        **{
            "id": name,
            "where": f"loads.csv:{name}",
            "target": values,
            "known": known,
            "past": past,
            **fields,
            **changes,
        }
    )


def walk(steps, seed=0):
    return 10 + np.random.default_rng(seed).normal(size=steps).cumsum()


def ready(parts, **changes):
    """A task that has measured these training parts, and its untrained model with random weights everywhere."""
    data = Dataset([Item(one.where, series=one) for one in parts], "loads.csv[train]")
    task = Forecast.prepare(recipe(**changes), data)
    torch.manual_seed(1)
    model = task.build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return task, model


def write(tmp_path, many, columns=("promo", "temp"), name="loads.csv"):
    lines = [",".join(["place", "day", "y", *columns])]
    for one in many:
        for step in range(len(one.known)):
            value = f"{one.target[step]:.6f}" if step < len(one) and np.isfinite(one.target[step]) else ""
            past = f"{one.past[step, 0]:.6f}" if step < len(one) and one.past.size else ""
            row = [one.id, str(one.start + step), value, *([f"{one.known[step, 0]:g}", past][: len(columns)])]
            lines.append(",".join(row))
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def many(count=3, steps=60, ahead=0):
    rng = np.random.default_rng(3)
    found = []
    for i in range(count):
        size = steps + 7 * i
        one = series(walk(size, i) * (i + 1), "abcdef"[i], rng.integers(0, 2, size + ahead), rng.normal(size=size))
        found.append(one)
    return found


COLUMNS = {"id": "place", "time": "day", "target": "y", "known": ("promo",), "past": ("temp",)}
