"""V12, the training report: the numbers on the page are those of the run, in both languages, on screen and on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_pages import LANGUAGES, Shown

from small_data import documents
from small_runs import TASKS
from unrolled.insight.packing import unpack
from unrolled.training import Recipe, train
from unrolled.training.reporting import notebook, rewrite


def report_of(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found.group(1))["report"]


@pytest.fixture
def report(page_of: Callable[..., Shown], reports: Path) -> Callable[..., tuple[Shown, dict[str, Any]]]:
    def open_report(task: str, address: str = "view=V12&lang=en", width: int = 1280) -> tuple[Shown, dict[str, Any]]:
        path = reports / task / "report.html"
        return page_of(path, address, width), report_of(path)

    return open_report


@pytest.mark.parametrize("task", TASKS)
def test_the_page_shows_the_numbers_of_the_run(report: Callable[..., Any], task: str) -> None:
    shown, made = report(task)
    for name, _, value, _ in made["result"]["rows"]:
        assert shown.value(f"metric-{name}") == value
    assert shown.value("parameters") == made["training"]["parameters"]
    assert shown.value("seed") == made["seed"]
    assert shown.value("loss-step-last") == made["curves"]["loss"]["last"][1]
    assert shown.value("loss-valid-last") == made["epochs"]["steps"]["nats"]["last"][1]
    assert shown.value("gradient-before-last") == made["curves"]["gradient_norm"]["last"][1]
    assert shown.value("gradient-after-last") == made["curves"]["clipped_norm"]["last"][1]
    assert shown.value("rate-rate-last") == made["curves"]["learning_rate"]["last"][1]
    for one in made["parameters"]:
        assert shown.value(f"parameter-{one['name']}") == one["count"]
    for one in made["weights"]:
        for gate, radius in one["radius"].items():
            assert shown.value(f"radius-{one['name']}-{one['layer']}-{one['direction']}-{gate}") == radius
    for name, version in made["versions"].items():
        assert shown.text(f"version-{name}") == version
    assert shown.page.locator("main [data-finding]").count() == len(made["findings"])


@pytest.mark.parametrize("task", TASKS)
def test_each_task_in_both_languages_and_three_widths(report: Callable[..., Any], task: str) -> None:
    shown, made = report(task)
    texts = {}
    for language in LANGUAGES:
        shown.go(f"view=V12&lang={language}")
        shown.page.wait_for_selector(f'html[lang="{"zh-Hans" if language == "zh" else "en"}"]')
        texts[language] = shown.page.locator("main").inner_text()
        for width in (375, 768, 1280):
            shown.page.set_viewport_size({"width": width, "height": 900})
            shown.page.wait_for_timeout(60)
            assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (language, width)
    assert "训练过程" in texts["zh"]
    assert "How it trained" in texts["en"]
    assert shown.page.locator(".samples > *").count() == len(made["samples"])


def test_errors_of_labels(report: Callable[..., Any]) -> None:
    shown, made = report("classify")
    counts = np.array(made["errors"]["counts"])
    for row, column in np.ndindex(*counts.shape):
        assert shown.value(f"confusion-{row}-{column}") == counts[row, column]


@pytest.mark.parametrize(
    ("task", "name", "wanted"),
    [
        ("lm", "token-0", lambda errors: errors["tokens"][0]["mean"]),
        ("seq2seq", "edit-0", lambda errors: errors["edits"][0]["count"]),
        ("forecast", "ahead-3", lambda errors: errors["steps"][2]["mae"]),
        ("forecast", "coverage-1", lambda errors: errors["steps"][0]["coverage"]),
    ],
)
def test_errors_of_other_tasks(report: Callable[..., Any], task: str, name: str, wanted: Callable[..., Any]) -> None:
    shown, made = report(task)
    assert shown.value(name) == wanted(made["errors"])


def test_gates_and_gradients_at_the_looks(report: Callable[..., Any]) -> None:
    shown, made = report("classify")
    looks = made["looks"]
    figure = shown.page.locator('[data-figure="gates"]')
    figure.locator('[data-do="table"]').click()
    layer = looks["layers"][0]
    for gate, ends in layer["saturated"].items():
        for index in range(len(looks["steps"])):
            assert shown.value(f"ends-{gate}-high-{index}") == ends["high"][index]
            assert shown.value(f"ends-{gate}-low-{index}") == ends["low"][index]
    shown.page.locator('[data-figure="flow"] [data-do="table"]').click()
    table = unpack(layer["gradient"])
    for row, column in ((0, 0), (1, 0), (1, len(looks["steps"]) - 1)):
        np.testing.assert_allclose(shown.value(f"flow-{row}-{column}"), table[row, column], atol=1e-9)


def test_another_layer_and_gate_are_chosen_and_kept_in_the_address(report: Callable[..., Any]) -> None:
    shown, made = report("classify")
    last = made["looks"]["layers"][-1]
    place = f"{last['name']}/{last['layer']}/{last['direction']}"
    shown.page.locator('select[name="layer"]').select_option(place)
    shown.page.locator('input[name="gate"][value="o"]').check()
    title = shown.page.locator('[data-figure="histogram"] figcaption').inner_text()
    assert "output gate" in title
    assert f"layer {last['layer']}, backward" in title
    address = shown.address()
    again, _ = report("classify", address.removeprefix("#"))
    assert again.page.locator('[data-figure="histogram"] figcaption').inner_text() == title


def test_a_curve_is_saved_with_all_its_points(report: Callable[..., Any], tmp_path: Path) -> None:
    shown, made = report("lm")
    with shown.page.expect_download() as waiting:
        shown.page.locator('[data-figure="gradient"] [data-do="csv"]').click()
    waiting.value.save_as(tmp_path / "gradient.csv")
    rows = (tmp_path / "gradient.csv").read_text("utf-8-sig").splitlines()
    assert len(rows) == 1 + 2 * made["curves"]["gradient_norm"]["count"]
    assert float(rows[1].split(",")[-1]) == made["curves"]["gradient_norm"]["y"][0]


OPEN = "() => [...document.querySelectorAll('details[data-print]')].map((one) => one.open)"
CUT = """() => [...document.querySelectorAll('main .table-box')].filter((box) => box.checkVisibility()
    && box.scrollHeight > box.clientHeight + 1).length"""


def wait_until(shown: Shown, state: list[bool]) -> None:
    """The page's own rules allow no eval, which wait_for_function would need."""
    for _ in range(100):
        if shown.page.evaluate(OPEN) == state:
            return
        shown.page.wait_for_timeout(20)
    raise AssertionError(f"expected {state}, found {shown.page.evaluate(OPEN)}")


@pytest.mark.parametrize("task", ["tag", "lm"])
def test_paper_has_every_table_open(report: Callable[..., Any], task: str) -> None:
    shown, _ = report(task)
    before = shown.page.evaluate(OPEN)
    assert before
    assert not all(before)
    shown.page.emulate_media(media="print")
    wait_until(shown, [True] * len(before))
    assert shown.page.evaluate(CUT) == 0
    assert not shown.page.locator(".toolbar").first.is_visible()
    shown.page.emulate_media(media="screen")
    wait_until(shown, before)
    paper = shown.page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 3


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of 256 units; a metrics.jsonl as long as that of a long run: 50,000 logged steps with one spike."""
    folder = tmp_path_factory.mktemp("large")
    data = documents(folder / "a.txt", count=30)
    common: dict[str, Any] = {"task": "lm", "data": str(data), "format": "documents", "min_count": 1, "epochs": 1}
    train(Recipe(**common, hidden=256, layers=2, embedding=16, log_every=1, inspect_every=1), out=folder / "run")
    metrics = folder / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    step = next(line for line in lines if line["event"] == "step")
    look = next(line for line in lines if line["event"] == "insight")
    grown = [step | {"step": i, "loss": 3 - i / 50_000, "gradient_norm": 0.5} for i in range(1, 50_001)]
    grown[31_006]["gradient_norm"] = 777.0
    grown[-1]["loss"] = 2.0345
    looks = [look | {"step": 500 * i} for i in range(1, 101)]
    kept = [line for line in lines if line["event"] in ("epoch", "end")]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in [*grown, *looks, *kept]), "utf-8")
    return rewrite(folder / "run")


def test_a_large_run_is_one_small_page_that_opens_at_once(page_of: Callable[..., Shown], large: Path) -> None:
    assert large.stat().st_size <= 2_000_000
    times = []
    for _ in range(4):
        shown = page_of(large, "view=V12&lang=en")
        shown.page.wait_for_selector('[data-chart="rate"] svg')
        times.append(shown.page.evaluate("performance.now()"))
    assert min(times) < 1500, times
    assert shown.value("loss-step-last") == 2.0345
    made = report_of(large)
    assert made["curves"]["gradient_norm"]["count"] == 50_000
    assert len(made["curves"]["gradient_norm"]["x"]) <= 2000
    assert [31_007, 777.0] in [list(p) for p in zip(*(made["curves"]["gradient_norm"][k] for k in "xy"), strict=True)]
    assert len(made["looks"]["steps"]) == 60


def test_a_notebook_shows_the_report_in_a_frame(reports: Path, page_of: Callable[..., Shown], tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    frame = notebook((reports / "tag" / "report.html").read_text("utf-8"))
    path.write_text(f'<!doctype html><html lang="en"><title>n</title><main>{frame}</main></html>', "utf-8")
    shown = page_of(path, "")
    inside = shown.page.frame_locator("iframe")
    inside.locator('[data-chart="loss"] svg').wait_for()
    assert inside.locator("main h1").inner_text() in ("Training report", "训练报告")
    inside.locator(".language").click()
    inside.locator('[data-figure="loss"] [data-do="table"]').click()
    assert inside.locator('[data-figure="loss"] table').count() == 1
