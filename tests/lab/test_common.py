"""What holds for every view: both languages, the keyboard alone, three widths, axe, no error, no request."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_pages import LAB, LANGUAGES, VIEWS, Shown

AXE = (LAB / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
HEADING = {"en": "en", "zh": "zh-Hans"}

# Everything in the view that answers a click must also answer the keyboard.
REACH = """() => {
    const shown = (element) => element.checkVisibility();
    const stops = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
    const all = [...document.querySelectorAll("main " + stops.split(", ").join(", main "))].filter(shown);
    const groups = new Set();
    return all.filter((element) => {
        if (element.type !== "radio") return true;
        if (groups.has(element.name)) return false;
        groups.add(element.name);
        return true;
    }).length;
}"""
DEAF = """() => [...document.querySelectorAll("main *")].filter((element) =>
    element.l && Object.keys(element.l).some((name) => name.startsWith("click")) && element.tabIndex < 0
).map((element) => element.outerHTML.slice(0, 120))"""
FOCUS = """() => {
    const element = document.activeElement;
    if (!element || !element.closest("main")) return null;
    if (element.id === "main") return {key: "main", seen: true};
    if (!element.dataset.stop) element.dataset.stop = String(window.stops = (window.stops ?? 0) + 1);
    const styles = [element, ...element.querySelectorAll("rect, circle, path")].map((one) => getComputedStyle(one));
    const outlined = styles.some((style) => style.outlineStyle !== "none" || parseFloat(style.strokeWidth) >= 3);
    return {key: element.dataset.stop, seen: outlined, what: element.outerHTML.slice(0, 120)};
}"""
WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("view", VIEWS)
def test_in_both_languages_and_three_widths_without_fault(lab: Callable[..., Shown], view: str) -> None:
    shown = lab(f"view={view}&lang=en")
    page = shown.page
    page.evaluate(AXE)  # a script tag would be refused by the page itself
    titles = {}
    for language in LANGUAGES:
        shown.go(f"view={view}&lang={language}")
        page.wait_for_selector(f'html[lang="{HEADING[language]}"]')
        titles[language] = page.locator("main h1").inner_text()
        assert page.locator("main .takeaway").inner_text().strip()
        for width in (375, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(60)
            assert page.evaluate(WIDE) <= 0, f"{view} {language}: scrolls sideways at {width}"
        assert_accessible(page, f"{view} {language}")
    assert titles["en"] != titles["zh"]


def assert_accessible(page: Any, where: str) -> None:
    found = page.evaluate("() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})")
    faults = [
        f"{fault['id']}: {node['html'][:160]}\n    {node['failureSummary']}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]
    assert not faults, f"{where}:\n" + "\n".join(faults)


@pytest.mark.parametrize("view", VIEWS)
def test_by_keyboard_alone(lab: Callable[..., Shown], view: str) -> None:
    """Tab comes to everything that can be used, each stop can be seen, and nothing needs a pointer."""
    page = lab(f"view={view}").page
    page.wait_for_timeout(60)
    assert page.evaluate(DEAF) == [], "answers a click and cannot have the focus"
    wanted = page.evaluate(REACH)
    page.locator("#main").focus()
    reached: dict[str, Any] = {}
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        if stop is None:
            break
        reached[stop["key"]] = stop
    hidden = [stop["what"] for stop in reached.values() if not stop["seen"]]
    assert not hidden, f"focus cannot be seen on {hidden}"
    assert len(reached) == wanted


def test_the_language_changes_without_losing_the_state(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1&step=3&U=0.5")
    before = shown.value("h3")
    shown.page.locator(".language").click()
    shown.page.wait_for_selector('html[lang="zh-Hans"]')
    assert shown.value("h3") == before
    assert shown.address() == "#view=V1&step=3&U=0.5&lang=zh"
    shown.page.locator(".language").click()
    shown.page.wait_for_selector('html[lang="en"]')
    assert shown.value("h3") == before


@pytest.mark.parametrize("width", [375, 1280])
def test_another_view_begins_at_its_top_and_says_its_name(lab: Callable[..., Shown], width: int) -> None:
    shown = lab("view=V2a", width)
    shown.page.evaluate("scrollTo(0, 500)")
    if width < 900:
        shown.page.locator("nav summary").click()
    shown.page.locator('nav a[href="#view=V3"]').click()
    shown.page.wait_for_selector('main[data-view="V3"]:focus')
    assert shown.spoken() == "How long a forget gate remembers"
    assert shown.page.evaluate("scrollY") == 0
    assert shown.page.locator('nav a[href="#view=V3"]').is_visible() == (width >= 900)
    shown.page.locator('main a[href="#view=V3&f=0.99"]').click()
    assert shown.page.evaluate("document.activeElement.textContent") == "2", "a link within a view keeps the focus"


def test_a_hand_written_address_breaks_nothing(lab: Callable[..., Shown]) -> None:
    for address in (
        "view=nowhere", "view=V1&step=1e9&U=NaN&W=&x=a,b", "view=V1&step=-3&weights=%3Cscript%3E",
        "lang=fr&hide=everything",
        "view=V1&x=" + ",".join(["1"] * 500), "view=__proto__&step=1", "view=V1&constructor=2",
    ):  # fmt: skip
        shown = lab(address)
        assert shown.page.locator("main h1").inner_text()
        shown.sound()


DEFAULTS = re.compile(r"^const DEFAULTS = \{(.*?)\};", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("view", VIEWS)
def test_no_value_in_an_address_breaks_a_view(lab: Callable[..., Shown], view: str) -> None:
    source = (LAB / "src" / "views" / f"{view}.js").read_text(encoding="utf-8")
    values = DEFAULTS.search(source)
    names = re.findall(r"(\w+):", values[1]) if values else []
    shown = lab(f"view={view}")
    for bad in ("0.5", "-1", "1e99", "NaN", "", "%3Cb%3E", "1,2,3", "__proto__"):
        shown.go("&".join([f"view={view}", *(f"{name}={bad}" for name in names)]))
        shown.page.wait_for_timeout(30)
        shown.sound()


def test_inside_a_notebook_s_frame(page_of: Callable[..., Shown], lab_html: Path, tmp_path: Path) -> None:
    """A frame made of text has no address of its own: links and values work all the same, and no link is offered."""
    inside = html.escape(lab_html.read_text(encoding="utf-8"), quote=True)
    outer = tmp_path / "notebook.html"
    outer.write_text(f'<main><iframe width="1000" height="900" srcdoc="{inside}"></iframe></main>', encoding="utf-8")
    frame = page_of(outer).page.frame_locator("iframe")
    frame.locator('nav a[href="#view=V1"]').click()
    frame.locator('[data-do="next"]').click()
    assert frame.locator('[data-name="h1"]').get_attribute("data-value") == "0.5370495669980353"
    assert frame.locator('[data-do="link"]').count() == 0
    assert frame.locator('[data-do="csv"]').count() == 1


def test_what_a_link_hides(lab: Callable[..., Shown]) -> None:
    page = lab("view=V1&step=2&hide=controls,prose,navigation").page
    assert page.locator("main .controls").count() == 0
    assert page.locator("main .prose").count() == 0
    assert page.locator("nav").count() == 0
    assert page.locator("main svg.unrolled").count() == 1


def test_an_exercise_is_prepared_by_ticking(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V1")
    shown.page.locator(".exercise summary").click()
    shown.page.locator(".exercise input").first.check()
    assert shown.address() == "#view=V1&lang=en&hide=controls"
    assert shown.page.locator("main .controls").count() == 0


@pytest.mark.parametrize(
    ("kind", "start"), [("csv", b"\xef\xbb\xbfstep,x"), ("svg", b"<svg"), ("png", b"\x89PNG\r\n\x1a\n")]
)
def test_a_picture_is_saved(lab: Callable[..., Shown], tmp_path: Path, kind: str, start: bytes) -> None:
    shown = lab("view=V1&step=2")
    with shown.page.expect_download() as waiting:
        shown.do(kind)
    path = tmp_path / "saved"
    waiting.value.save_as(path)
    assert waiting.value.suggested_filename == f"unrolled.{kind}"
    content = path.read_bytes()
    assert content.startswith(start)
    if kind == "csv":
        assert b"0.62284484" in content
        assert b"-0.101" not in content, "a state that has not been reached"
    if kind == "svg":
        assert b"0.6228" in content
        assert b"stroke:" in content, "the styles are inside"
        assert b"http" not in content.replace(b"http://www.w3.org", b"")


def test_the_check_of_requests_can_fail(page_of: Callable[..., Shown], tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text('<main>x</main><img src="http://127.0.0.1:9/x.png">', encoding="utf-8")
    shown = page_of(tmp_path / "bad.html")
    shown.page.wait_for_timeout(100)
    with pytest.raises(AssertionError, match="request"):
        shown.sound()
    shown.problems.clear()


def test_the_check_of_the_keyboard_can_fail(lab: Callable[..., Shown]) -> None:
    page = lab("view=V1").page
    heard = page.evaluate(
        "() => [...document.querySelectorAll('main button')].filter((one) => one.l?.clickfalse).length"
    )
    assert heard == page.locator("main button").count(), "Preact keeps listeners elsewhere: mend DEAF"
    page.evaluate("() => { document.querySelector('main h1').l = {clickfalse: () => 0}; }")
    assert page.evaluate(DEAF)
