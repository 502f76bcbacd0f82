"""V5: roles that two cells share, and parameter counts that are torch's."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from lab_pages import Shown
from test_math import javascript

LAYERS = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


def test_twenty_random_stacks_have_torch_s_parameters() -> None:
    draw = random.Random(3)
    calls, truth = [], []
    for _ in range(20):
        input_, hidden, layers = draw.randint(1, 40), draw.randint(1, 40), draw.randint(1, 4)
        both, biases = draw.random() < 0.5, draw.choice([0, 1, 2])
        for cell, layer in LAYERS.items():
            module = layer(input_, hidden, num_layers=layers, bidirectional=both, bias=biases > 0)
            named = module.named_parameters()
            truth.append(sum(p.numel() for name, p in named if biases != 1 or not name.startswith("bias_hh")))
            sizes = {"input": input_, "hidden": hidden, "layers": layers, "bidirectional": both, "biases": biases}
            calls.append(("parameterCount", [cell, sizes]))
    assert javascript(calls) == truth


@pytest.mark.parametrize(
    ("biases", "counts"), [("2", (6272, 18816, 25088)), ("1", (6208, 18624, 24832)), ("0", (6144, 18432, 24576))]
)
def test_counts(lab: Callable[..., Shown], biases: str, counts: tuple[int, ...]) -> None:
    shown = lab("view=V5&input=32&hidden=64")
    shown.page.locator(f'input[name="biases"][value="{biases}"]').check()
    assert tuple(shown.value(f"count-{cell}") for cell in ("rnn", "gru", "lstm")) == counts
    assert shown.text("count-lstm").replace("\u202f", "") == str(counts[2])


def test_sizes_are_typed(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V5")
    shown.slide("input", 5)
    shown.slide("hidden", 7)
    shown.slide("layers", 3)
    shown.do("bidirectional")
    module = torch.nn.LSTM(5, 7, 3, bidirectional=True)
    assert shown.value("count-lstm") == sum(p.numel() for p in module.parameters())


def gates_lit(shown: Shown, figure: str) -> set[str]:
    parts = shown.page.locator(f'[data-figure="{figure}"] .part:not(.dim)')
    return set(parts.evaluate_all("parts => parts.map((part) => part.dataset.gate)"))


@pytest.mark.parametrize(
    ("role", "lstm", "gru"),
    [("keep", {"f"}, {"z"}), ("write", {"i"}, {"w"}), ("candidate", {"g"}, {"n"}), ("reset", set(), {"r"}),
     ("output", {"o"}, set()), ("memory", {"c"}, set())],
)  # fmt: skip
def test_a_role_lights_both(lab: Callable[..., Shown], role: str, lstm: set[str], gru: set[str]) -> None:
    shown = lab("view=V5")
    shown.do(f"role-{role}")
    assert (gates_lit(shown, "lstm") - {"in"}, gates_lit(shown, "gru") - {"in"}) == (lstm, gru)
    assert ("∅" in shown.text("role-lstm"), "∅" in shown.text("role-gru")) == (not lstm, not gru)


def test_pointing_at_one_lights_both(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V5")
    shown.page.locator('[data-figure="lstm"] [data-gate="f"][data-part="layer"] rect').hover(force=True)
    assert gates_lit(shown, "gru") == {"z", "in"}
    shown.page.mouse.move(5, 5)
    assert "s" in gates_lit(shown, "gru")


def test_the_blocks_of_the_packed_weight(lab: Callable[..., Shown]) -> None:
    page = lab("view=V5&hidden=64").page
    blocks = page.locator("svg.weight-blocks")
    assert "weight_hh_l0  (256, 64)" in (blocks.nth(0).text_content() or "")
    for number, gates in ((0, "ifgo"), (1, "rzn")):
        found = blocks.nth(number).locator("[data-part=block]")
        assert found.evaluate_all("all => all.map((one) => one.dataset.gate).join('')") == gates
        assert "rows 64–127" in (found.nth(1).text_content() or "")
