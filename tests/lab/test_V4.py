"""V4: what each gate does to one number, and what is lit when one gate is chosen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab_pages import LAB, ROOT, Shown

OPACITY = """() => Object.fromEntries([...document.querySelectorAll("main .part")].map((part) =>
    [`${part.dataset.gate} ${part.dataset.part} ${part.textContent}`, getComputedStyle(part).opacity]))"""


# The change of opacity takes a moment.
SETTLED = """() => [...document.querySelectorAll("main .part")].every((part) =>
    getComputedStyle(part).opacity === (part.classList.contains("dim") ? "0.25" : "1"))"""


def lit(shown: Shown) -> tuple[set[str], set[str]]:
    """Gate and kind of the parts that are lit, and opacities of the others."""
    shown.page.wait_for_function(SETTLED)
    found = shown.page.evaluate(OPACITY)
    bright = {" ".join(key.split()[:2]) for key, opacity in found.items() if opacity == "1"}
    return bright, {opacity for opacity in found.values() if opacity != "1"}


@pytest.mark.parametrize(
    ("button", "f", "i", "memory"),
    [("keep", 1, 0, 1), ("overwrite", 0, 1, -0.5), ("average", 0.5, 0.5, 0.25), ("add", 1, 1, 0.5)],
)
def test_presets(lab: Callable[..., Shown], button: str, f: float, i: float, memory: float) -> None:
    shown = lab("view=V4")
    shown.do(button)
    assert (shown.value("f"), shown.value("i")) == (f, i)
    assert shown.value("c") == pytest.approx(memory, abs=1e-12)


def test_the_example(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4")
    assert shown.shown("c") == "0.8000"
    assert shown.value("kept") == pytest.approx(0.9)
    assert shown.value("written") == pytest.approx(-0.1)
    line = shown.page.locator(".arithmetic").inner_text()
    assert line.startswith("cₜ = 0.9·1 + 0.2·(−0.5) = 0.9000 + (−0.1000) = 0.8000;")
    bars = shown.page.locator('[data-chart=memory] g[aria-label="bar"] rect')
    widths = [float(bars.nth(place).get_attribute("width") or "0") for place in range(2)]
    assert bars.count() == 2
    assert widths[0] / widths[1] == pytest.approx(9, rel=0.02)


def test_forget_shows_its_path_and_nothing_else(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4")
    bright, others = lit(shown)
    assert others == set()
    shown.do("gate-f")
    bright, others = lit(shown)
    assert bright == {
        "f wire", "f layer", "f node", "f label", "in wire", "in label", "f equation", "f code", "f block",
    }  # fmt: skip
    assert others == {"0.25"}
    assert shown.page.locator('[data-do="gate-f"]').get_attribute("aria-pressed") == "true"
    shown.do("gate-f")
    assert lit(shown)[1] == set()


def test_by_keys(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4")
    for key, gate in (("f", "f"), ("I", "i"), ("g", "g"), ("o", "o"), ("a", "all")):
        shown.page.keyboard.press(key)
        pressed = shown.page.locator('main [data-do^="gate-"][aria-pressed="true"]').get_attribute("data-do")
        assert pressed == f"gate-{gate}"
    assert "All paths" in shown.spoken()


def test_ten_times(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4&f=0.9&i=0")
    shown.do("repeat")
    assert shown.text("repeated") == "0.3487"
    assert shown.value("repeated") == pytest.approx(0.9**10, rel=1e-12)


def test_sliders_speak_the_language(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4")
    shown.slide("f", 0.5)
    slider = shown.page.locator('input[name="f"]')
    assert slider.get_attribute("aria-valuetext") == "forget gate 0.50"
    assert (slider.get_attribute("min"), slider.get_attribute("max"), slider.get_attribute("step")) == (
        "0",
        "1",
        "0.01",
    )
    shown.page.locator(".language").click()
    assert slider.get_attribute("aria-valuetext") == "遗忘门 0.50"


def test_the_code_is_the_library_s(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V4")
    source = (ROOT / "src" / "unrolled" / "equations" / "lstm.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in shown.page.locator("main pre.code").inner_text().splitlines() if line.strip()]
    assert len(lines) == 6
    for line in lines:
        assert line in source
    assert "f = sigmoid" not in (LAB / "src" / "parts" / "CellText.js").read_text(encoding="utf-8")
