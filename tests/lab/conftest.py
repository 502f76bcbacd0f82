"""One Chromium for all tests of the page, offline, in which any error on the console and any request is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_pages import Shown, lab_data
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from small_runs import small_runs
from unrolled.lab import render


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium")
    assert executable, "chromium is not installed: apt-get install chromium fonts-wqy-microhei"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(offline=True, accept_downloads=True, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture(scope="session")
def spare() -> list[Shown]:
    """Pages that an earlier test is done with: starting a page anew costs more than most tests."""
    return []


@pytest.fixture
def page_of(context: BrowserContext, spare: list[Shown]) -> Iterator[Callable[..., Shown]]:
    """page_of(path, "view=V1&step=2") opens a file, which must be without fault until the test ends."""
    opened: list[Shown] = []

    def open_page(path: Path, address: str = "lang=en", width: int = 1280) -> Shown:
        shown = spare.pop() if spare else Shown.of(context.new_page())
        opened.append(shown)
        shown.page.set_viewport_size({"width": width, "height": 900})
        shown.page.goto(f"{path.as_uri()}#{address}")
        shown.page.wait_for_selector("main")
        return shown.drawn()

    yield open_page
    for shown in opened:
        shown.sound()
        shown.page.goto("about:blank")
        spare.append(shown)


@pytest.fixture(scope="session")
def lab_html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "lab.html"
    path.write_text(render(lab_data(), title="lab"), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of each task, with its report."""
    return small_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def lab(page_of: Callable[..., Shown], lab_html: Path, request: pytest.FixtureRequest) -> Callable[..., Shown]:
    """lab("view=V1&step=2") opens the lab there, in English unless the address says otherwise; V12 is in a report."""

    def open_lab(address: str, width: int = 1280) -> Shown:
        path = lab_html
        if "view=V12" in address:
            path = request.getfixturevalue("reports") / "classify" / "report.html"
        return page_of(path, address if "lang=" in address else f"{address}&lang=en", width)

    return open_lab
