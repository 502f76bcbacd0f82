"""V0: the tour, the list of views, and a file of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_pages import VIEWS, Shown


def test_the_tour_by_space_and_by_its_handle(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V0")
    for stop in range(1, 7):
        shown.page.wait_for_selector(f'[data-stop="{stop}"]')
        assert shown.value("stop") == stop
        shown.page.keyboard.press(" ")
    assert shown.value("stop") == 6
    shown.page.keyboard.press("Home")
    assert shown.value("stop") == 1
    shown.slide("stop", 4)
    assert shown.page.locator(".stop h3").inner_text() == "4. A memory that is added to"
    assert shown.address() == "#view=V0&stop=4&lang=en"


def test_every_view_of_the_lab_can_be_reached(lab: Callable[..., Shown]) -> None:
    page = lab("view=V0").page
    linked = page.locator(".cards a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    listed = page.locator("nav a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert set(listed) == {*linked, "#view=V0"}
    assert set(listed) == {f"#view={view}" for view in VIEWS if view != "V12"}
    page.locator('.cards a[href="#view=V1"]').click()
    page.wait_for_selector('main[data-view="V1"]')
    page.go_back()
    page.wait_for_selector('main[data-view="V0"]')


def test_the_language_is_chosen(lab: Callable[..., Shown]) -> None:
    page = lab("view=V0&stop=3").page
    page.locator('input[value="zh"]').check()
    page.wait_for_selector('html[lang="zh-Hans"]')
    assert page.locator(".stop").get_attribute("data-stop") == "3"


def file_of(folder: Path, content: str) -> Path:
    path = folder / "own.json"
    path.write_text(content, encoding="utf-8")
    return path


INSPECTION = {"kind": "inspection", "format": 1, "cell": "lstm", "name": "mine"}


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (json.dumps({"models": [INSPECTION]}), "own.json is loaded: 1 models."),
        (json.dumps(INSPECTION), "own.json is loaded: 1 models."),
        ("{", "own.json cannot be used: it is not JSON."),
        ("null", "own.json cannot be used: it holds neither the data of a lab nor"),
        ('{"models": [{"kind": "other"}]}', "own.json cannot be used: it holds neither the data of"),
        (json.dumps(INSPECTION | {"format": 2}), "own.json cannot be used: it has format 2; this page reads"),
        (json.dumps(INSPECTION | {"format": "<b>"}), "own.json cannot be used: it has format <b>; this"),
    ],
)  # fmt: skip
def test_a_file_of_one_s_own(lab: Callable[..., Shown], tmp_path: Path, content: str, answer: str) -> None:
    shown = lab("view=V0")
    shown.page.locator('input[type="file"]').set_input_files(file_of(tmp_path, content))
    shown.page.wait_for_selector('[data-name="loaded"]')
    assert shown.text("loaded").startswith(answer)


def test_a_file_is_dropped(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V0")
    given: dict[str, Any] = INSPECTION | {"name": "dropped"}
    shown.page.evaluate(
        """(text) => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], "dropped.json", {type: "application/json"}));
            const options = {dataTransfer: carried, bubbles: true, cancelable: true};
            document.querySelector(".drop").dispatchEvent(new DragEvent("drop", options));
        }""",
        json.dumps(given),
    )
    shown.page.wait_for_selector('[data-name="loaded"]')
    assert shown.text("loaded") == "dropped.json is loaded: 1 models."
