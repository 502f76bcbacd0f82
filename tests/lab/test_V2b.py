"""V2b: the factors of the chain and their product."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from lab_pages import Shown

FACTORS = (0.5693, 0.4897, 0.7918, 0.2788, 0.5412)


def test_the_factors_and_their_product(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2b")
    bars = shown.page.locator("[data-pick]")
    assert bars.count() == 5
    for place, known in enumerate(FACTORS):
        bars.nth(place).click()
        assert shown.value("factor") == pytest.approx(known, abs=5e-5)
        assert shown.value("product") == pytest.approx(math.prod(FACTORS[place:]), abs=3e-4)
    assert shown.value("end") == pytest.approx(0.0333, abs=5e-5)
    assert shown.text("end") == "0.0333"


def test_a_bar_shows_its_arithmetic_by_keys(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2b")
    bar = shown.page.locator('[data-pick="1"]')
    bar.focus()
    shown.page.keyboard.press("Enter")
    line = shown.page.locator(".arithmetic").inner_text()
    assert line.startswith("∂h₂/∂h₁ = 0.8·(1 − 0.6228²) = 0.4897")
    assert shown.spoken() == "Step 2: factor 0.4897, product from the end 0.0585."
    focused = shown.page.evaluate("document.activeElement.dataset.pick")
    assert focused == "1", "drawing again must not lose the focus"


def test_the_gradient_of_the_shared_weight_is_the_sum_over_the_steps(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2b")

    def last(U: float) -> float:
        h = 0.0
        for x in (1, 0.5, -1, 2, 0):
            h = math.tanh(0.6 * x + U * h)
        return h

    assert shown.value("total") == pytest.approx((last(0.8 + 1e-6) - last(0.8 - 1e-6)) / 2e-6, rel=1e-6)


def test_the_links_say_what_they_show(lab: Callable[..., Shown]) -> None:
    assert lab("view=V2b&U=1.5&x=0,0,0,0,0").text("end") == "7.5938"
    assert abs(lab("view=V2b&U=1.5&x=2,2,2,2,2").value("end")) < 1e-3
