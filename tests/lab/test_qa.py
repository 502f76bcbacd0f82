"""Questions and answers: all of them open by keyboard, a link opens one, and what they count is true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import torch
import yaml
from lab_pages import LAB, Shown

SOURCE = (LAB / "src" / "views" / "qa.js").read_text(encoding="utf-8")
TEXTS = json.loads((LAB / "i18n" / "en" / "qa.json").read_text(encoding="utf-8"))
IDS = [
    name for line in re.findall(r"^  \w+: \[(.*)\],$", SOURCE, re.MULTILINE) for name in re.findall(r'"(\w+)"', line)
]


def test_every_question_has_an_answer_and_every_text_is_shown() -> None:
    asked = {key.split(".")[1] for key in TEXTS if key.endswith(".question")}
    answered = {key.split(".")[1] for key in TEXTS if key.endswith(".answer")}
    assert set(IDS) == asked == answered
    assert len(IDS) >= 20


def test_all_open_by_keys_one_at_a_time(lab: Callable[..., Shown]) -> None:
    shown = lab("view=qa")
    for name in IDS:
        shown.page.locator(f'[data-question="{name}"] summary').focus()
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_function(
            "name => document.querySelector('details[open][data-question]')?.dataset.question === name", arg=name
        )
        assert shown.page.locator(f'[data-question="{name}"] p').is_visible()
    assert shown.page.locator("main details[open]").count() == 1
    assert shown.address() == f"#view=qa&open={IDS[-1]}&lang=en"


def test_a_link_opens_one(lab: Callable[..., Shown]) -> None:
    page = lab("view=qa&open=clip_vanish").page
    assert page.locator("main details[open]").get_attribute("data-question") == "clip_vanish"


def test_the_counts_that_the_text_names() -> None:
    counts = [sum(p.numel() for p in torch.nn.LSTM(256, 256, bias=biased).parameters()) for biased in (False, True)]
    assert [f"{n:,}".replace(",", " ") for n in counts] == ["524 288", "526 336"]
    assert "524 288, 525 312 or 526 336" in TEXTS["qa.count.answer"]
    assert counts[0] + 4 * 256 == 525312


def test_the_terms_are_those_of_the_glossary(lab: Callable[..., Shown]) -> None:
    glossary = yaml.safe_load((LAB / "glossary.yaml").read_text(encoding="utf-8"))
    rows = lab("view=qa").page.locator("main table tbody tr")
    assert rows.all_inner_texts() == [f"{term['en']}\t{term['zh']}" for term in glossary]
