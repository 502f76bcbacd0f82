"""Teacher forcing beside free running: what a decoder reads, writes and looks at, step by step, in both.

Axes     T steps of the decoder (the end symbol among them), S positions of the source, V vocabulary.
Source   teacher forcing: Williams & Zipser (1989), Neural Computation 1(2). What goes wrong between the two: Bengio et
         al. (2015), arXiv:1506.03099.
Variant  Free running is greedy: the likeliest token at each step is what the next one reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from unrolled.data import Item
from unrolled.decoding import END
from unrolled.errors import DataError, RecipeError, RunError, expected
from unrolled.insight.packing import heat, number
from unrolled.training.sources import open_parts
from unrolled.training.tasks.seq2seq import Search
from unrolled.training.trained import Trained

__all__ = ["forcing", "own_pairs"]

TOP = 3
SHOWN, LONGEST = 6, 24  # pairs of a person's own run, and tokens of a target that still fit a page


def forcing(trained: Trained, pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """One dict a pair of a source and its right target:

        source   [S tokens]           target   [tokens, then the end symbol]
        forced   ROW, read with the right token before each step
        free     ROW, read with the decoder's own token before each step
        edits    of the tokens that free running wrote
        ROW      {reads: [T tokens], writes: [T tokens], top: [[[token, probability], …3], … T],
                  right: [T probabilities of the right token, null past the target's end], nats: of the right tokens,
                  attention: HEAT (T, S) or null}

    Raises:
        RunError: the run is no encoder–decoder.
    """
    task = trained.task
    if task.name != "seq2seq":
        found = f"one that was trained to {task.name}"
        raise RunError(expected("run", "an encoder–decoder (task seq2seq)", found))
    return [_pair(trained, source, target) for source, target in pairs]


def own_pairs(name: str, trained: Trained) -> dict[str, Any] | None:
    """{name, items}: some pairs of texts of the run's test part; None where there are none, or the data are gone."""
    try:
        parts = open_parts(trained.recipe)
    except (DataError, RecipeError, OSError):
        return None
    part = parts.scored.shown()
    task: Any = trained.task
    chosen: list[tuple[str, str]] = []
    for item in part:
        if item.text and isinstance(item.target, str) and len(chosen) < SHOWN:
            target = task.target.tokens(Item(item.where, text=item.target))
            if 0 < len(target) <= LONGEST and all(token in task.vocabulary for token in target):
                chosen.append((item.text, item.target))
    return {"name": name, "items": forcing(trained, chosen)} if chosen else None


@torch.no_grad()
def _pair(trained: Trained, source: str, target: str) -> dict[str, Any]:
    from unrolled.training.transduction import edit_distance

    task: Any = trained.task
    model = trained.model.eval()
    item = Item(source, text=source)
    row = task.reading.encode(item)
    right = [*task.target.tokens(Item(source, text=target)), END]
    (written,) = task.search(model, [row], Search())[0]
    own = [*task.vocabulary.decode(written.tokens), *([END] if written.stopped == "end" else [])]
    batch = task.reading.batch([row])
    found: dict[str, Any] = {"source": task.reading.tokens(item), "target": right}
    found["forced"] = _row(task, model, batch, right, right)
    found["free"] = _row(task, model, batch, own, right)
    return found | {"edits": edit_distance([t for t in own if t != END], right[:-1])}


def _row(task: Any, model: Any, batch: Any, read: list[str], right: list[str]) -> dict[str, Any]:
    """The decoder over tokens that are given: reading its own, it is what free running is."""
    ids = task.vocabulary.encode(read)
    previous = torch.from_numpy(np.concatenate([[task.end], ids[:-1]]))[None]
    done = model.run(batch, previous)
    probabilities = done.logits[0].double().softmax(-1)
    top = probabilities.topk(min(TOP, probabilities.shape[-1]))
    names = task.vocabulary.tokens
    wanted = task.vocabulary.encode(right)
    shares = [float(probabilities[t, wanted[t]]) if t < len(wanted) else None for t in range(len(read))]
    rows = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return {
        "reads": [names[i] for i in previous[0].tolist()],
        "writes": [names[i] for i in probabilities.argmax(-1).tolist()],
        "top": [[[names[i], number(p)] for i, p in zip(*row, strict=True)] for row in rows],
        "right": [number(p) for p in shares],
        "nats": number(-sum(np.log(p) for p in shares if p)),
        "attention": None if done.weights is None else heat(done.weights[0].double()),
    }
