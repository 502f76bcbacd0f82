"""The page under test: which views it has, what it is given, and how a test asks it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Request

from unrolled.lab import with_demo

ROOT = Path(__file__).parents[2]
LAB = ROOT / "lab"
INDEX = (LAB / "src" / "views" / "index.js").read_text(encoding="utf-8")
VIEWS = re.findall(r'^import \{ view as (\w+) \} from "\./\1\.js";$', INDEX, re.MULTILINE)
LANGUAGES = ("en", "zh")


class Shown:
    """A page that is open, and what tests ask of it."""

    def __init__(self, page: Page, problems: list[str]) -> None:
        self.page = page
        self.problems = problems

    @classmethod
    def of(cls, page: Page) -> Shown:
        """A new page, watched from now on."""
        return cls(page, watch(page))

    def go(self, address: str) -> Shown:
        """Follow a link inside the page: "view=V1&step=2"."""
        self.page.evaluate("address => { location.hash = address; }", address)
        view = re.search(r"view=(\w+)", address)
        self.page.wait_for_selector(f'main[data-view="{view[1] if view else ""}"]')
        return self.drawn()

    def drawn(self) -> Shown:
        """Wait until every chart is there: it is drawn once its width is known."""
        self.page.wait_for_function("() => [...document.querySelectorAll('.chart')].every((chart) => chart.firstChild)")
        return self

    def value(self, name: str) -> float:
        """The exact number behind what carries this name."""
        return float(self.page.locator(f'main [data-name="{name}"]').first.get_attribute("data-value") or "nan")

    def text(self, name: str) -> str:
        return self.page.locator(f'main [data-name="{name}"]').first.inner_text()

    def shown(self, name: str) -> str:
        """Text inside a picture."""
        return self.page.locator(f'main [data-name="{name}"]').first.text_content() or ""

    def do(self, name: str, times: int = 1) -> None:
        """Press the button that does this."""
        for _ in range(times):
            self.page.locator(f'main [data-do="{name}"]').first.click()

    def slide(self, name: str, value: float) -> None:
        """Set a slider or a number field."""
        self.page.locator(f'main input[name="{name}"]').first.fill(str(value))

    def spoken(self) -> str:
        return self.page.locator("#spoken").inner_text()

    def address(self) -> str:
        """The hash once it has been written, which is 200 ms after a change by the clock of the page."""
        return str(self.page.evaluate("() => new Promise((done) => setTimeout(() => done(location.hash), 250))"))

    def sound(self) -> None:
        """No error and no request so far."""
        assert not self.problems, "\n".join(self.problems)


def watch(page: Page) -> list[str]:
    """Everything that must not happen on this page, as it happens."""
    problems: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"console {message.type}: {message.text}")

    def request(asked: Request) -> None:
        if not asked.url.startswith(("file:", "data:", "blob:")):
            problems.append(f"request: {asked.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("request", request)
    return problems


def lab_data() -> dict[str, Any]:
    """What `unrolled lab` puts into a page that no run was given for."""
    return with_demo({"page": "lab", "version": "0.1.0"})
