"""Train a recipe once a seed, and keep what came out where a table can be made of it."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Run = dict[str, Any]


def arguments(description: str, **positional: str) -> argparse.Namespace:
    """The options that all benchmarks share, and the positional ones of one."""
    parser = argparse.ArgumentParser(description=description)
    for name, text in positional.items():
        parser.add_argument(name, type=Path, help=text)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs side by side, one thread each")
    return parser.parse_args()


def run_seeds(
    recipe: dict[str, Any],
    options: argparse.Namespace,
    measure: Callable[[Any], dict[str, float]] | None = None,
) -> list[Run]:
    """One run a seed. `measure` takes the finished `Result` and adds figures of its own; it must be importable."""
    jobs = [(recipe | {"seed": seed, "threads": 1}, measure) for seed in options.seeds]
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited by the workers, before they import torch
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        runs = []
        for run in pool.imap(_run, jobs, chunksize=1):
            runs.append(run)
            shown = {name: round(value, 4) for name, value in run["metrics"].items()}
            print(f"seed {run['seed']}: {shown}, {run['seconds']:.0f} s", flush=True)
    return runs


def _run(job: tuple[dict[str, Any], Callable[[Any], dict[str, float]] | None]) -> Run:
    from unrolled.training import Recipe, train

    fields, measure = job
    with tempfile.TemporaryDirectory() as folder:
        result = train(Recipe(**fields), out=Path(folder) / "run")
        report = result.report
        metrics = dict(report.metrics) | (measure(result) if measure else {})
        return {
            "seed": fields["seed"],
            "metrics": metrics,
            "valid": result.valid,
            "baselines": report.baselines,
            "items": report.items,
            "unit": report.unit,
            "seconds": result.seconds,
            "epochs": result.epochs,
        }


def save(name: str, *, title: str, aim: str, runs: dict[str, list[Run]], recipes: dict[str, dict[str, Any]]) -> None:
    """Write benchmarks/results/NAME.json; `runs` and `recipes` by the name of the variant."""
    import numpy
    import torch

    RESULTS.mkdir(exist_ok=True)
    record = {
        "title": title,
        "aim": aim,
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread a run",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__},
        "recipes": recipes,
        "runs": runs,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    for variant, entries in runs.items():
        for metric in entries[0]["metrics"]:
            low, middle, high = spread([run["metrics"][metric] for run in entries])
            print(f"{name}, {variant}: {metric} {middle:.4f} ({low:.4f} to {high:.4f}), {len(entries)} seeds")


def spread(values: list[float]) -> tuple[float, float, float]:
    """Least, median, largest."""
    return min(values), statistics.median(values), max(values)
