"""V3: half-lives of a forget gate, and the gate that a bias makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab_pages import Shown


@pytest.mark.parametrize(("f", "text"), [("0.9", "6.6"), ("0.99", "69.0"), ("0.999", "692.8")])
def test_half_lives(lab: Callable[..., Shown], f: str, text: str) -> None:
    shown = lab("view=V3&f=0.5")
    shown.do(f"f-{f}")
    assert shown.text("half") == text
    assert float(f) ** shown.value("half") == pytest.approx(0.5, rel=1e-9)


def test_the_gate_of_a_bias(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V3")
    assert (shown.text("f-of-1"), shown.text("f-of-2")) == ("0.731", "0.881")
    shown.slide("bias", 1)
    assert shown.text("f") == "0.731"


def test_by_keys_in_both_languages(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V3&f=0.9")
    slider = shown.page.locator('input[name="f"]')
    slider.press("ArrowRight")
    assert shown.value("f") == pytest.approx(0.901)
    assert slider.get_attribute("aria-valuetext") == "forget gate 0.901"
    shown.page.locator(".language").click()
    assert slider.get_attribute("aria-valuetext") == "遗忘门 0.901"
