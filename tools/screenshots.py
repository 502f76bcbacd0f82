"""Pictures of every view of the lab, in both languages, wide and narrow, for a human eye.

    python tools/screenshots.py OUT            every view
    python tools/screenshots.py OUT V1 V2a     these
    python tools/screenshots.py OUT --page lab.html --links view=V1&step=3
    python tools/screenshots.py OUT --page RUN/report.html --links view=V12

Needs playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (1280, 375)
# States worth a picture beside the first one.
STATES = {
    "V1": "step=3&weights=shared", "V4": "gate=f", "V5": "role=keep", "V11": "at=2",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the PNG files")
    parser.add_argument("views", nargs="*", help="ids of views; all where none is named")
    parser.add_argument("--page", type=Path, help="a lab.html; made from the tests' data where none is given")
    parser.add_argument("--links", nargs="*", default=[], help="states to picture instead, as in a link")
    arguments = parser.parse_args()
    executable = shutil.which("chromium") or sys.exit("screenshots: chromium is not installed")
    views = arguments.views or view_ids()
    links = arguments.links or [f"view={view}" + (f"&{STATES[view]}" if view in STATES else "") for view in views]
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        shoot(browser, arguments.page or lab_page(Path(scratch)), links, arguments.out)
        browser.close()


def view_ids() -> list[str]:
    index = (ROOT / "lab" / "src" / "views" / "index.js").read_text(encoding="utf-8")
    return [view for view in re.findall(r'from "\./(\w+)\.js"', index) if view != "V12"]  # V12 is a page of its own


def lab_page(folder: Path) -> Path:
    """The page that the tests open."""
    sys.path.insert(0, str(ROOT / "tests" / "lab"))
    from lab_pages import lab_data

    from unrolled.lab import render

    path = folder / "lab.html"
    path.write_text(render(lab_data(), title="lab"), encoding="utf-8")
    return path


def shoot(browser: Browser, page_file: Path, links: list[str], out: Path) -> None:
    for width in WIDTHS:
        page = browser.new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
        for language in ("en", "zh"):
            for link in links:
                page.goto("about:blank")
                page.goto(f"{page_file.resolve().as_uri()}#{link}&lang={language}")
                page.wait_for_selector("main h1")
                page.wait_for_timeout(150)
                name = re.sub(r"[^\w=.-]+", "_", link.removeprefix("view="))[:60]
                page.screenshot(path=out / f"{name}-{language}-{width}.png", full_page=True)
        page.close()


if __name__ == "__main__":
    main()
