"""V1: the numbers of the chain, what is not shown yet, and the two weights that are the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from lab_pages import Shown

STATES = (0.5370, 0.6228, -0.1014, 0.8072, 0.5688)


def states(W: float = 0.6, U: float = 0.8, inputs: tuple[float, ...] = (1, 0.5, -1, 2, 0)) -> list[float]:
    h, found = 0.0, []
    for x in inputs:
        h = math.tanh(W * x + U * h)
        found.append(h)
    return found


def test_the_states_of_the_example(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    shown.do("next", 5)
    for place, (exact, known) in enumerate(zip(states(), STATES, strict=True), start=1):
        assert shown.value(f"h{place}") == pytest.approx(exact, abs=1e-12)
        assert shown.shown(f"h{place}") == f"{known:.4f}".replace("-", "−")
    assert shown.spoken() == "Step 5: h is 0.5688."


def test_the_future_is_not_shown(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    shown.do("next", 2)
    shown.do("table")
    assert [shown.shown(f"h{place}") for place in range(1, 6)] == ["0.5370", "0.6228", "?", "?", "?"]
    assert "0.1014" not in shown.page.locator("main").inner_html()
    assert shown.page.locator(".arithmetic").inner_text() == "h₂ = tanh(0.8·0.5370 + 0.6·0.5) = tanh(0.7296) = 0.6228"


def test_back_restores_exactly(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=2")
    before = shown.page.locator("main").inner_html()
    shown.do("next")
    assert shown.page.locator("main").inner_html() != before
    shown.do("back")
    assert shown.page.locator("main").inner_html() == before


def test_by_keys(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    press = shown.page.keyboard.press
    for key, step in (("ArrowRight", 1), (" ", 2), ("End", 5), ("ArrowRight", 5), ("ArrowLeft", 4), ("Home", 0)):
        press(key)
        assert shown.value("step") == step
    shown.page.locator('[data-do="next"]').focus()
    press(" ")
    assert shown.value("step") == 1, "a button takes Space for itself, once"


def test_play_stops_at_the_end(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=4")
    shown.do("play")
    shown.page.wait_for_selector('[data-name="step"][data-value="5"]')
    shown.page.wait_for_selector('[data-do="play"][aria-pressed="false"]')


def test_the_weights_are_the_same_two_everywhere(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=5")
    shown.do("shared")
    for kind in "WU":
        arrows = shown.page.locator(f'[data-w="{kind}"]')
        assert arrows.locator("text").all_text_contents() == [kind] * 5
        looks = arrows.locator("line").evaluate_all(
            "lines => lines.map((line) => getComputedStyle(line).stroke + getComputedStyle(line).strokeDasharray)"
        )
        assert len(set(looks)) == 1
    assert shown.text("sharing").startswith("same 2 numbers used 5×")
    shown.page.locator('[data-w="U"] line').nth(2).hover(force=True)
    assert shown.page.locator(".arrow.pulse").count() == 5
    shown.page.mouse.move(5, 5)
    assert shown.page.locator(".arrow.pulse").count() == 0
    shown.page.locator('input[name="W"]').focus()
    shown.page.wait_for_selector('.arrow.pulse[data-w="W"]')
    assert shown.page.locator('.arrow.pulse[data-w="W"]').count() == 5
    shown.slide("U", 0.5)
    shown.page.wait_for_selector('.arrow.pulse[data-w="U"]')
    assert shown.page.locator('.arrow.pulse[data-w="U"]').count() == 5
    for place, exact in enumerate(states(U=0.5), start=1):
        assert shown.value(f"h{place}") == pytest.approx(exact, abs=1e-12)


def test_weights_of_their_own_grow_with_the_length(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    shown.do("own")
    assert shown.value("sharing") == 10
    shown.do("longer")
    assert shown.value("sharing") == 12
    names = shown.page.locator('[data-w="W"] text').all_text_contents()
    assert names == ["W₁", "W₂", "W₃", "W₄", "W₅", "W₆"]


def test_a_past_cell_is_inspected(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=4")
    shown.page.locator('[data-cell="2"]').click()
    assert shown.value("h") == pytest.approx(states()[1])
    assert shown.value("step") == 4
    shown.page.locator('[data-cell="3"]').press("Enter")
    assert shown.value("sum") == pytest.approx(math.atanh(states()[2]))


def test_the_copied_link_is_the_state(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    shown.do("next", 2)
    shown.slide("x3", 0.5)
    address = shown.address()
    assert address == "#view=V1&step=2&x=1,0.5,0.5,2,0&lang=en"
    shown.page.reload()
    shown.page.wait_for_selector("main")
    assert shown.value("step") == 2
    assert shown.shown("h3") == "?"
    shown.do("next")
    assert shown.value("h3") == pytest.approx(states(inputs=(1, 0.5, 0.5))[2])
    shown.do("reset")
    assert shown.address() == "#view=V1&lang=en"


def test_a_number_that_is_none_is_marked_and_not_taken(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=1")
    field = shown.page.locator('input[name="x1"]')
    field.fill("99")
    assert field.get_attribute("aria-invalid") == "true"
    assert shown.value("h1") == pytest.approx(states()[0])


def test_who_asks_for_less_motion_gets_none(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    moving = "() => document.getAnimations().filter((one) => one.effect.target.matches('.token')).length"
    shown.do("next")
    shown.page.wait_for_function(f"() => ({moving})() === 1")
    shown.page.emulate_media(reduced_motion="reduce")
    shown.page.wait_for_function(f"() => ({moving})() === 0")
    shown.do("next", 2)
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate(moving) == 0
    assert shown.value("step") == 3
    shown.page.emulate_media(reduced_motion="null")
