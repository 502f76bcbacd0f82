"""Bundles of every kind with random weights, made in a moment: what the runtime is compared on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from small_data import documents, reviews, sentences
from unrolled.data import Dataset, Item
from unrolled.training import Recipe
from unrolled.training.sources import read_file
from unrolled.training.tasks import find
from unrolled.training.trained import Trained

CHANNELS = 3


def rows_of_features(rows: int = 40, seed: int = 0, labels: str = "abc", tags: bool = False) -> Dataset:
    """Unequal lengths, channels far from zero mean and of unequal scale."""
    rng = np.random.default_rng(seed)
    items = []
    for i in range(rows):
        steps = int(rng.integers(1, 12))
        features = (rng.normal(size=(steps, CHANNELS)) * [1, 10, 0.1] + [5, -3, 0]).astype(np.float32)
        marks = tuple(labels[j] for j in rng.integers(0, len(labels), steps)) if tags else None
        label = None if tags else labels[i % len(labels)]
        items.append(Item(f"row {i}", features=features, label=label, tags=marks))
    return Dataset(items, "features")


def pairs(rows: int = 40, seed: int = 0, *, vectors: bool = False, series: bool = False) -> Dataset:
    """Letters, a vector or measurements, and letters in another order and number."""
    rng = np.random.default_rng(seed)
    items = []
    for i in range(rows):
        text = "".join("abcdef"[j] for j in rng.integers(0, 6, rng.integers(1, 8)))
        source: dict[str, Any] = {"text": text}
        if vectors:
            source = {"features": rng.normal(size=(1, 4)).astype(np.float32)}
        if series:
            source = {"features": (rng.normal(size=(len(text), 4)) * 3 + 9).astype(np.float32)}
        items.append(Item(f"pair {i}", **source, target=text[::-1] + "x"))
    return Dataset(items, "pairs")


def data(kind: str, folder: Path) -> tuple[str, Dataset, dict[str, Any]]:
    """(the task, the training part, what the recipe needs to read it) of a kind of data."""
    if kind == "features":
        return "classify", rows_of_features(), {}
    if kind == "tagged features":
        return "tag", rows_of_features(tags=True), {"characters": False}
    if kind in ("pairs", "vectors", "series"):
        return "seq2seq", pairs(vectors=kind == "vectors", series=kind == "series"), {"tokenizer": "chars"}
    path = {"text": reviews, "spans": sentences, "documents": documents}[kind](folder / f"{kind}.data")
    task, form = {"text": ("classify", "csv"), "spans": ("tag", "conll"), "documents": ("lm", "documents")}[kind]
    recipe = Recipe(task=task, data=str(path), format=form)
    return task, read_file(path, recipe), {"format": form, "data": str(path)}


def make(folder: Path, kind: str, seed: int = 0, **fields: Any) -> Trained:
    """A model with random weights, large enough that every part of it counts, saved as folder/model.safetensors."""
    task_name, dataset, more = data(kind, folder)
    options = {"data": "x", "hidden": 5, "output_dropout": 0.0, "min_count": 1} | more | fields
    if kind == "vectors":
        options["source"] = "vector"
    if task_name != "lm" and "bidirectional" not in options:
        options["bidirectional"] = True
    recipe = Recipe(task=task_name, **options)
    task = find(task_name).prepare(recipe, dataset)
    torch.manual_seed(seed)
    model = task.build()
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(std=1.0 if "bias" in name or "initial" in name else 0.6)
    trained = Trained(recipe, task, model.eval())
    trained.save(folder / "model.safetensors")
    return trained


def inputs(kind: str, seed: int = 1) -> list[Any]:
    """Things to predict, of unequal length, words and letters that are not known among them."""
    if "features" in kind:
        return [item.features for item in rows_of_features(9, seed)]
    if kind == "vectors":
        return [item.features[0].tolist() for item in pairs(5, seed, vectors=True) if item.features is not None]
    if kind == "series":
        return [item.features for item in pairs(6, seed, series=True) if item.features is not None]
    if kind == "pairs":
        return ["abc", "f", "abcdefabcdef", "xyz"]
    if kind == "documents":
        return ["abc", "a", "hgfedcba" * 3, "bxq", "abcdefgh" * 20]
    return ["good it is", "to Aon Xville from zzz", "the", "a bad unheard thing is poor a sad", "é 詩 fine"]


def chained(lists: Iterable[list[Any]]) -> list[Any]:
    """Lists one after the other."""
    return list(itertools.chain.from_iterable(lists))
