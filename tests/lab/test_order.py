"""The order example: a reader without order, and one with a state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
from lab_pages import Shown

INPUTS = {"dog": 0.9 - 0.7 * 0.2, "bites": 0.09 - 0.7, "man": -0.72 - 0.28}


def end(words: tuple[str, ...]) -> float:
    h = 0.0
    for word in words:
        h = math.tanh(INPUTS[word] + 0.8 * h)
    return h


def test_all_six_orders(lab: Callable[..., Shown]) -> None:
    shown = lab("view=order")
    shown.do("table")
    for words in itertools.permutations(INPUTS):
        key = "-".join(words)
        assert shown.value(f"bag-{key}") == pytest.approx(math.tanh(sum(INPUTS.values())), rel=1e-9)
        assert shown.value(f"end-{key}") == pytest.approx(end(words), rel=1e-9)


def test_turning_a_sentence_round_changes_only_the_reader_with_a_state(lab: Callable[..., Shown]) -> None:
    shown = lab("view=order")
    before = shown.value("bag"), shown.value("h3")
    shown.do("turn")
    assert shown.page.locator("main .big").inner_text() == "man bites dog"
    assert shown.value("bag") == pytest.approx(before[0], rel=1e-12)
    assert abs(shown.value("h3") - before[1]) > 0.5
    assert shown.spoken().startswith("man bites dog: adding up gives −0.6911")
    assert shown.address() == "#view=order&order=man-bites-dog&lang=en"


def test_by_keys_in_chinese(lab: Callable[..., Shown]) -> None:
    shown = lab("view=order&lang=zh")
    shown.page.locator('input[name="order"]').first.focus()
    shown.page.keyboard.press("ArrowRight")
    assert shown.page.locator("main .big").inner_text() == "人咬狗"
    assert shown.value("h3") == pytest.approx(end(("man", "bites", "dog")), rel=1e-9)
