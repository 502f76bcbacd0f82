"""The shapes on the way through are those that torch makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lab_pages import Shown
from test_math import javascript

SIZES = {
    "batch": 2, "time": 5, "target": 4, "width": 6, "hidden": 3, "layers": 2, "vocabulary": 11, "classes": 7,
}  # fmt: skip
LAYERS = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


def made(task: str, cell: str, both: bool) -> dict[str, Any]:
    """Run a network of torch's and note the shapes."""
    batch, time, target, width, hidden, layers, vocabulary, classes = SIZES.values()
    both = both and task != "language"
    tokens = torch.zeros(batch, time, dtype=torch.long)
    embedded = torch.nn.Embedding(vocabulary, width)(tokens)
    layer = LAYERS[cell](width, hidden, layers, batch_first=True, bidirectional=both)
    outputs, state = layer(embedded)
    h, c = state if cell == "lstm" else (state, None)
    found = {"tokens": tokens, "embedded": embedded, "outputs": outputs, "state": h}
    if c is not None:
        found["memory"] = c
    wide = outputs.shape[-1]
    if task == "classify":
        found["last"] = outputs[torch.arange(batch), torch.tensor([4, 2])]
        found["scores"] = torch.nn.Linear(wide, classes)(found["last"])
    elif task == "tag":
        found["tags"] = torch.nn.Linear(wide, classes)(outputs)
    elif task == "language":
        found["next"] = torch.nn.Linear(wide, vocabulary)(outputs)
    else:
        joined = h.view(layers, -1, batch, hidden).permute(0, 2, 1, 3).flatten(2)
        found["bridge"] = torch.nn.Linear(joined.shape[-1], hidden)(joined)
        found["prefix"] = torch.zeros(batch, target, dtype=torch.long)
        found["prefix_embedded"] = torch.nn.Embedding(vocabulary, width)(found["prefix"])
        decoder = LAYERS[cell](width, hidden, layers, batch_first=True)
        start = (found["bridge"], found["bridge"]) if cell == "lstm" else found["bridge"]
        found["decoded"], _ = decoder(found["prefix_embedded"], start)
        found["next_target"] = torch.nn.Linear(hidden, vocabulary)(found["decoded"])
    return {key: list(tensor.shape) for key, tensor in found.items()}


def test_whole_networks() -> None:
    cases = list(itertools.product(("classify", "tag", "language", "translate"), LAYERS, (False, True)))
    calls = [("shapesOf", [task, cell, SIZES | {"bidirectional": both}]) for task, cell, both in cases]
    for (task, cell, both), stations in zip(cases, javascript(calls), strict=True):
        assert {one["key"]: one["shape"] for one in stations} == made(task, cell, both), (task, cell, both)


def test_one_step() -> None:
    for cell, stations in zip(LAYERS, javascript([("shapesOfStep", [cell, SIZES]) for cell in LAYERS]), strict=True):
        found = {one["key"]: one["shape"] for one in stations}
        layer = LAYERS[cell](SIZES["width"], SIZES["hidden"])
        x, h = torch.zeros(found["step_input"]), torch.zeros(found["step_state"])
        assert list(layer.weight_ih_l0.shape) == found["step_weight_ih"]
        assert list(layer.weight_hh_l0.shape) == found["step_weight_hh"]
        sums = x @ layer.weight_ih_l0.T + h @ layer.weight_hh_l0.T
        assert list(sums.shape) == found["step_sums"]
        blocks = sums.shape[1] // SIZES["hidden"]
        assert ("step_gate" in found) == (blocks > 1)
        assert (
            list(sums.chunk(blocks, dim=1)[0].shape) == found["step_new"] == found.get("step_gate", found["step_new"])
        )


def shape(shown: Shown, station: str) -> str:
    return shown.page.locator(f'[data-station="{station}"]').get_attribute("data-shape") or ""


def test_a_translation_of_five_steps_into_four(lab: Callable[..., Shown]) -> None:
    shown = lab("view=shapes")
    shown.page.locator('input[name="task"][value="translate"]').check()
    assert shape(shown, "next_target") == "2,4,100"
    shown.slide("target", 9)
    shown.slide("vocabulary", 50)
    assert shape(shown, "next_target") == "2,9,50"


def test_who_predicts_the_next_token_has_no_reverse_direction(lab: Callable[..., Shown]) -> None:
    shown = lab("view=shapes&task=language")
    shown.do("bidirectional")
    assert shape(shown, "outputs") == "2,5,3"
    assert "no reverse direction" in shown.page.locator("main .warning").inner_text()


@pytest.mark.parametrize(("cell", "rows"), [("rnn", 3), ("gru", 9), ("lstm", 12)])
def test_the_rows_of_a_packed_weight(lab: Callable[..., Shown], cell: str, rows: int) -> None:
    shown = lab("view=shapes")
    shown.page.locator(f'input[name="cell"][value="{cell}"]').check()
    assert shape(shown, "step_weight_hh") == f"{rows},3"
