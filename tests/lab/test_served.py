"""The served page: a text is typed, the model behind it reads it, and every view shows the new text."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import uvicorn
from lab_models import TEXT, page_data, trained
from playwright.sync_api import Browser, Page

from unrolled.cli import serving
from unrolled.insight import gates
from unrolled.lab import render

NEW = "fgab </script>"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    model = trained("gru")
    data = page_data({"mine": model}, [TEXT]) | {"serve": {"path": "/inspect", "name": "mine"}}
    page = render(data, title="x", language="en", served=True)
    with serving.listen(0) as made:
        port = made.getsockname()[1]
        app = serving.application(page, serving.Answers("mine", model), port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/"
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The served page; it may ask its own server, and nothing else."""
    context = browser.new_context()
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else problems.append(asked.url))
    page.goto(f"{address}#view=V6&lang=en&order=number")
    page.wait_for_selector("main form.ask")
    yield page
    assert not problems
    context.close()


def answered(page: Page, letters: int) -> None:
    """Wait for the answer; a function that waits would be a text that the page must not run."""
    page.locator('#spoken:has-text("Done")').wait_for()
    assert page.locator(".shaded span").count() == letters


def test_a_text_is_typed_and_shown(page: Page) -> None:
    page.fill("form.ask textarea", NEW)
    page.click('form.ask [data-do="ask"]')
    answered(page, 14)
    assert "".join(page.locator(".shaded span").all_text_contents()).replace("␣", " ") == NEW
    assert "not in the vocabulary" in page.locator("main").inner_text()
    model = trained("gru")
    ids = torch.from_numpy(model.task.vocabulary.encode(list(NEW)))[None]  # type: ignore[attr-defined]
    (trace,) = gates(model.model, ids)
    page.locator('[data-heatmap="states"] .cells').focus()
    page.keyboard.press("End")
    shown = float(page.locator('[data-name="tip"]').get_attribute("data-value") or "nan")
    table = trace.h[:, 0].numpy()
    np.testing.assert_allclose(shown, table[-1, 0], atol=1e-3 * np.ptp(table))


def test_by_keyboard_and_an_empty_text_is_not_sent(page: Page) -> None:
    page.focus("form.ask textarea")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("form.ask .warning").count() == 0
    page.focus("form.ask textarea")
    page.keyboard.type("abcd")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answered(page, 4)
    assert "Done" in page.locator("#spoken").inner_text()


def test_what_the_server_refuses_is_said(page: Page) -> None:
    page.fill("form.ask textarea", "x" * (serving.LARGEST + 1))
    page.click('form.ask [data-do="ask"]')
    warning = page.locator("form.ask .warning")
    warning.wait_for()
    assert "at most 65,536 bytes" in warning.inner_text()


def test_the_new_text_reaches_other_views(page: Page) -> None:
    page.fill("form.ask textarea", "abcdefgh")
    page.click('form.ask [data-do="ask"]')
    answered(page, 8)
    page.evaluate("location.hash = 'view=V10&lang=en&model=0&step=0'")
    page.wait_for_selector('main[data-view="V10"]')
    assert page.locator(".written .prompt").inner_text().startswith("abcdefgh")
