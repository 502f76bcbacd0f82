"""V2a: powers of one factor, said exactly, and where number formats lose them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab_pages import Shown


@pytest.mark.parametrize(
    ("c", "text"), [(0.8, "2.04e−10"), (1.5, "4.07e+17"), (1, "1"), (0.99, "0.366"), (1.01, "2.7"), (0, "0")]
)
def test_after_a_hundred_steps(lab: Callable[..., Shown], c: float, text: str) -> None:
    shown = lab("view=V2a&n=100")
    shown.slide("c", c)
    assert shown.text("power-c") == text
    assert shown.value("power-c") == pytest.approx(c**100, rel=1e-12)


def test_where_formats_end(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2a&c=0.8&d=1.5&n=500")
    found = {(name, kind): shown.value(f"lost-{name}-{kind}") for name in "cd" for kind in ("float16", "float32")}
    assert found == {("c", "float16"): 78, ("c", "float32"): 466, ("d", "float16"): 28, ("d", "float32"): 219}
    marks = shown.page.locator("[data-chart=powers] svg").text_content() or ""
    for text in ("0 in float16 from 78", "0 in float32 from 466", "∞ in float16 from 28", "∞ in float32 from 219"):
        assert text in marks


@pytest.mark.parametrize("address", ["c=0.8&d=1.5&n=100", "c=0.01&d=2&n=500", "c=1&d=1&n=1", "c=0&d=0&n=7"])
@pytest.mark.parametrize("width", [375, 1280])
def test_ticks_are_powers_of_ten_and_none_is_cut(lab: Callable[..., Shown], address: str, width: int) -> None:
    page = lab(f"view=V2a&{address}", width).page
    page.wait_for_selector("[data-chart=powers] svg")
    labels = page.locator('[data-chart=powers] g[aria-label="y-axis tick label"] text').all_text_contents()
    assert labels
    assert all(label.startswith("10") and set(label[2:]) <= set("⁻⁰¹²³⁴⁵⁶⁷⁸⁹") and label[2:] for label in labels)
    cut = page.locator("[data-chart=powers] svg").evaluate(
        """(svg) => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const own = text.getBoundingClientRect();
                return own.width && (own.left < box.left - 1 || own.right > box.right + 1
                    || own.top < box.top - 1 || own.bottom > box.bottom + 1);
            }).map((text) => text.textContent);
        }"""
    )
    assert cut == []


def test_the_curves_differ_by_pattern_too(lab: Callable[..., Shown]) -> None:
    page = lab("view=V2a").page
    page.wait_for_selector("[data-chart=powers] svg")
    dashes = page.locator('[data-chart=powers] g[aria-label="line"]').evaluate_all(
        "groups => groups.map((group) => group.getAttribute('stroke-dasharray'))"
    )
    assert len(set(dashes)) == 2


def test_by_keys(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2a&n=100")
    slider = shown.page.locator('input[name="n"]')
    slider.press("ArrowRight")
    assert shown.value("n") == 101
    slider.press("End")
    assert shown.value("n") == 500
    assert slider.get_attribute("aria-valuetext") == "500"


def test_the_table_has_the_logarithms(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V2a&c=0.8&n=100")
    shown.do("table")
    last = shown.page.locator("main table tr").last.locator("td").first
    assert float(last.get_attribute("data-value") or "nan") == pytest.approx(-9.691001300805642)
    assert last.inner_text() == "2.04e−10"
