"""What bfloat16 gains on this machine: the processor time of a training step beside that of float32.

    python benchmarks/precision.py

LSTMs on embedded sets, one thread. Float32 and bfloat16, on the native engine and on torch's kernels, take their steps
by turns in one process, so that other work on the machine meets all of them; the table has the median of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from unrolled.training import Recipe, examples
from unrolled.training.descent import Descent
from unrolled.training.precision import Precision
from unrolled.training.ranks import Ranks
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find

STEPS = 12
PLAYS = {"cell": "lstm", "hidden": 512, "layers": 1, "dropout": 0.0, "chunk": 64, "batch_size": 32}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plays, next letter": ("plays", PLAYS),
    "plays, next word": ("plays", {**PLAYS, "tokenizer": "words", "vocabulary_size": 10_000, "hidden": 256}),
    "speakers, rows of 7 to 29 steps": ("speakers", {"cell": "lstm", "hidden": 256}),
}
VARIANTS = [("float32", "native"), ("bfloat16", "native"), ("float32", "torch"), ("bfloat16", "torch")]


def steps(recipe: Recipe) -> Iterator[float]:
    """Processor seconds of each optimizer step, epoch after epoch."""
    part = open_parts(recipe).train
    task = find(recipe.task).prepare(recipe, part)
    torch.manual_seed(0)
    model = task.build().train()
    precision = Precision(recipe.precision, torch.device("cpu"))
    precision.apply(model)
    descent, data, done = Descent(recipe, model, Ranks(), precision), task.encode(part), 0
    for epoch in range(1000):
        pieces = task.steps(model, data, np.random.default_rng(epoch))
        while True:
            begin = time.process_time()
            piece = next(pieces, None)
            if piece is None:
                break
            done += 1
            descent.add(piece, done)
            descent.step(recipe.learning_rate, done)
            yield time.process_time() - begin


def main() -> None:
    print("| LSTM on | " + " | ".join(f"{p}, {e}, ms" for p, e in VARIANTS) + " | native: ratio | torch: ratio |")
    print("|---|" + "--:|" * (len(VARIANTS) + 2))
    for name, (data, changes) in CASES.items():
        recipe = examples.recipe(data).replace(**changes)
        running = [steps(recipe.replace(precision=precision, backend=backend)) for precision, backend in VARIANTS]
        rounds = [[next(one) for one in running] for _ in range(STEPS)][2:]
        times = [1e3 * median(column) for column in zip(*rounds, strict=True)]
        ratios = [times[i + 1] / times[i] for i in (0, 2)]
        print(
            f"| {name} | "
            + " | ".join(f"{t:.0f}" for t in times)
            + " | "
            + " | ".join(f"{r:.2f}" for r in ratios)
            + " |"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
