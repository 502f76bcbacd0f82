"""One small trained run of each task, for tests of what a run folder holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from small_data import documents, reviews, sentences
from unrolled.training import Recipe, train

SMALL: dict[str, Any] = {"hidden": 6, "epochs": 3, "batch_size": 8, "log_every": 1, "inspect_every": 4}
TASKS = ("classify", "tag", "lm", "seq2seq", "forecast")


def loads(path: Path) -> Path:
    """CSV: two places with a day of 24 hours in their values, and noise."""
    rng = np.random.default_rng(0)
    rows = ["place,hour,load"]
    for place in ("north", "south"):
        values = 20 + 5 * np.sin(np.arange(160) / 24 * 2 * math.pi) + rng.normal(0, 1, 160)
        rows += [f"{place},{hour},{value:.3f}" for hour, value in enumerate(values)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def pairs(path: Path) -> Path:
    """CSV: a word of a, b and c, and the word reversed."""
    texts = ["abc", "bca", "cab", "ab", "ba", "ca", "ac", "bc", "aab", "abb", "cca", "bcb"]
    path.write_text("source,target\n" + "".join(f"{text},{text[::-1]}\n" for text in texts), encoding="utf-8")
    return path


def small_recipe(task: str, folder: Path) -> Recipe:
    """Its data are written into the folder."""
    words = SMALL | {"embedding": 5, "min_count": 1}
    if task == "classify":
        return Recipe(task="classify", data=str(reviews(folder / "a.csv")), layers=2, **words)
    if task == "tag":
        return Recipe(task="tag", data=str(sentences(folder / "a.conll")), cell="rnn", **words)
    if task == "lm":
        data = str(documents(folder / "a.txt"))
        return Recipe(task="lm", data=data, cell="gru", format="documents", chunk=4, **words)
    if task == "seq2seq":
        data = str(pairs(folder / "pairs.csv"))
        return Recipe(task="seq2seq", data=data, tokenizer="chars", test_share=0.3, **words)
    columns: dict[str, Any] = {"id": "place", "time": "hour", "target": "load", "horizon": 6, "epoch_windows": 32}
    return Recipe(task="forecast", data=str(loads(folder / "loads.csv")), **columns, **SMALL)


def small_runs(folder: Path, tasks: tuple[str, ...] = TASKS) -> Path:
    """A run folder for each task, named after it."""
    for task in tasks:
        train(small_recipe(task, folder), out=folder / task)
    return folder
