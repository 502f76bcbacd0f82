"""What the looks of training cost: the processor time of a look beside that of an optimizer step.

    python benchmarks/looks.py [NAME…]

For each embedded set (its own recipe; speakers, plays, poems and cities where none is named) the optimizer steps of an
epoch are taken one by one, each tenth with a look, on one thread. A step's time is the median of those without a look;
a look's is the median of what the steps with one take longer. Training looks once in `inspect_every` steps (100), so
the share is their ratio divided by that. Processor time, so that other work on the machine counts little.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from unrolled.insight.summaries import Watcher
from unrolled.training import examples
from unrolled.training.gradients import clip_gradients
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find

NAMES = ("speakers", "plays", "poems", "cities")
STEPS, EACH = 120, 10


def cost(name: str) -> tuple[float, float, int]:
    """(seconds of a step, seconds of a look, steps between two looks)."""
    recipe = examples.recipe(name)
    part = open_parts(recipe).train
    task = find(recipe.task).prepare(recipe, part)
    torch.manual_seed(0)
    model = task.build().train()
    watcher = Watcher(model, EACH)
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate)
    plain, looked, data = [], [], task.encode(part)
    watcher.arm(1)
    for epoch in range(STEPS):
        start = time.process_time()
        for piece in task.steps(model, data, np.random.default_rng(epoch)):
            done = len(plain) + len(looked)
            if done == STEPS:
                return median(plain[2:]), median(looked[1:]) - median(plain[2:]), recipe.inspect_every or 0
            optimizer.zero_grad(set_to_none=True)
            piece.loss.backward()
            clip_gradients(model, recipe.clip, step=done + 1)
            optimizer.step()
            found = watcher.take(model)
            now = time.process_time()
            (looked if found else plain).append(now - start)
            watcher.arm(done + 2)
            start = now  # the next step's forward pass runs when the loop asks for it
    raise AssertionError("an epoch without steps")


def main() -> None:
    print("| set | a step, ms | a look, ms | share of training |\n|---|---|---|---|")
    for name in sys.argv[1:] or NAMES:
        step, look, every = cost(name)
        print(f"| {name} | {1e3 * step:.1f} | {1e3 * look:.1f} | {look / (every * step):.2%} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
