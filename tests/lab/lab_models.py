"""Pages about real models: not trained, since a number is as right in a model that knows nothing."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import torch

from unrolled.data import Dataset, Item
from unrolled.insight import describe, gates
from unrolled.insight.packing import heat
from unrolled.lab import with_demo
from unrolled.training import Recipe
from unrolled.training.inspection.lab_data import lab_data
from unrolled.training.tasks import find
from unrolled.training.trained import Trained

TEXT = "abcd efgh abcd ef"
ODD = "<b>&amp;</script>🙂 שלום"
CHINESE = "床前明月光疑是地上霜"
CELLS = ("rnn", "gru", "lstm")


def language_model(cell: str, texts: list[str], seed: int = 0) -> Trained:
    """A model of some texts with its first weights."""
    recipe = Recipe(task="lm", data="made-up", cell=cell, hidden=7, embedding=5, min_count=1, chunk=12)  # type: ignore[arg-type]
    torch.manual_seed(seed)
    items = [Item(f"text {number}", text=text) for number, text in enumerate(texts, 1)]
    task = find("lm").prepare(recipe, Dataset(items, "made-up"))
    model = task.build()
    with torch.no_grad():
        for parameter in model.parameters():  # first weights are small: gates would all stand near one half
            parameter.copy_(torch.randn(parameter.shape) * 0.6)
    return Trained(recipe, task, model.eval())


@cache
def trained(cell: str) -> Trained:
    return language_model(cell, [TEXT])


def page_data(models: dict[str, Trained], items: list[Any]) -> dict[str, Any]:
    """As `unrolled lab RUN…` makes it, with the demo behind."""
    return with_demo(lab_data(list(models.items()), items, language="en"))


def built_lstm(forget_bias: float) -> dict[str, Any]:
    """The counts of an LSTM whose weights are 0 and whose forget gates have only their bias."""
    layer = torch.nn.LSTM(3, 5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.bias_ih_l0[5:10] = forget_bias
    (trace,) = gates(layer, torch.randn(9, 1, 3))
    return describe.statistics_json([trace], fine=True)


def wide_states(model: dict[str, Any], units: int = 128, steps: int = 400) -> dict[str, Any]:
    """The same model with a large table of states."""
    made = copy.deepcopy(model)
    (item,) = made["items"]
    rng = np.random.default_rng(0)
    item |= {"tokens": list("abcd" * (steps // 4)), "steps": steps, "attributions": [], "text": "abcd" * (steps // 4)}
    item["states"] = [
        item["states"][0] | {"units": list(range(units)), "h": heat(rng.normal(size=(units, steps))), "gates": {}}
    ]
    return made
