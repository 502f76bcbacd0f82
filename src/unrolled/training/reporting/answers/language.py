"""Answers of `lm`: the tokens that cost most, the cost by the distance from the start, and text that it writes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from unrolled.data import Dataset
from unrolled.insight.packing import number
from unrolled.training.reporting.answers.common import part_of_text

__all__ = ["answers"]

MOST_TOKENS = 20_000
COSTLY = 20
TEMPERATURES = (0.5, 0.8, 1.0)
WRITTEN = 240  # tokens of a sample
PROMPT = 12  # characters of the data that a sample begins with


def answers(trained: Any, dataset: Dataset) -> dict[str, Any]:
    """Nats of the data's tokens, summed by token and by position; samples are texts at some temperatures."""
    task, notes = trained.task, []
    rows, cut = _first_rows(task.encode(dataset).rows)
    if cut:
        notes.append(f"errors: of the first {MOST_TOKENS:,} tokens")
    nats = task._nats(trained.model, rows)
    errors = {"kind": "tokens", "scored": sum(map(len, nats))}
    errors |= {"tokens": _costly(task, rows, nats), "positions": _by_position(nats)}
    begin = next((item.text[:PROMPT] for item in dataset if item.text), "")
    return {"errors": errors, "samples": [_sample(trained, begin, heat) for heat in TEMPERATURES], "notes": notes}


def _first_rows(rows: Any) -> tuple[list[Any], bool]:
    kept: list[Any] = []
    left = MOST_TOKENS
    for row in rows:
        if left <= 0:
            return kept, True
        kept.append(type(row)(*(part[:left] for part in row)))
        left -= len(row.targets)
    return kept, left < 0


def _costly(task: Any, rows: list[Any], nats: list[np.ndarray]) -> list[dict[str, Any]]:
    """[{token, count, mean: nats each, share: of all nats}], those that cost most together first."""
    size = len(task.vocabulary)
    counts, sums = np.zeros(size), np.zeros(size)
    for row, cost in zip(rows, nats, strict=True):
        counts += np.bincount(row.targets, minlength=size)
        sums += np.bincount(row.targets, weights=cost, minlength=size)
    order = [int(i) for i in np.argsort(-sums, kind="stable")[:COSTLY] if counts[i]]
    total = float(sums.sum()) or 1.0
    return [
        {
            "token": task.vocabulary.tokens[i],
            "count": int(counts[i]),
            "mean": number(sums[i] / counts[i]),
            "share": number(sums[i] / total),
        }
        for i in order
    ]


def _by_position(nats: list[np.ndarray]) -> list[dict[str, Any]]:
    """[{from, to, count, mean}]: nats of the tokens from..to of their row (from 0), in buckets that double."""
    buckets: defaultdict[int, list[np.ndarray]] = defaultdict(list)
    for cost in nats:
        begin, bucket = 0, 0
        while begin < len(cost):
            end = 2 ** (bucket + 1) - 1
            buckets[bucket].append(cost[begin:end])
            begin, bucket = end, bucket + 1
    found = []
    for bucket, parts in sorted(buckets.items()):
        joined = np.concatenate(parts)
        ends = {"from": 2**bucket - 1, "to": 2 ** (bucket + 1) - 2}
        found.append(ends | {"count": len(joined), "mean": number(joined.mean())})
    return found


def _sample(trained: Any, prompt: str, temperature: float) -> dict[str, Any]:
    text = trained.generate(prompt, WRITTEN, temperature=temperature, seed=trained.recipe.seed)
    about = {"kind": "text", "prompt": prompt, "temperature": temperature, "seed": trained.recipe.seed}
    return about | {"text": part_of_text(text, 4 * WRITTEN)}
