"""V11: every question in both languages, answers that are computed here, and the quiz by keyboard."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import yaml
from lab_pages import LAB, LANGUAGES, VIEWS, Shown

QUIZ: dict[str, list[dict[str, Any]]] = {
    language: yaml.safe_load((LAB / "quiz" / f"{language}.yaml").read_text(encoding="utf-8")) for language in LANGUAGES
}
QUESTIONS = QUIZ["en"]
GATE = torch.tensor(0.99, dtype=torch.float64).logit()


def parameters(layer: torch.nn.Module) -> int:
    return sum(p.numel() for p in layer.parameters())


TRUTH = {
    "shared": sum(name.startswith("weight_ih") for name, _ in torch.nn.RNN(3, 4).named_parameters()),
    "power": 0.8**100,
    "ratio": parameters(torch.nn.GRU(5, 7)) / parameters(torch.nn.LSTM(5, 7)),
    "saturated": torch.autograd.functional.jacobian(torch.sigmoid, GATE).item(),
    "perplexity": torch.nn.functional.cross_entropy(torch.zeros(1, 50), torch.tensor([3])).exp().item(),
    "half": math.log(0.5) / math.log(0.99),
}


def right(question: dict[str, Any]) -> int:
    (place,) = [index for index, choice in enumerate(question["choices"]) if choice.get("right")]
    return place


def test_there_are_enough_and_the_languages_agree() -> None:
    assert len(QUESTIONS) >= 12
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    for english, chinese in zip(QUESTIONS, QUIZ["zh"], strict=True):
        assert (english["id"], english["show"]) == (chinese["id"], chinese["show"])
        assert len(english["choices"]) == len(chinese["choices"]) >= 3
        assert right(english) == right(chinese)
        for question in (english, chinese):
            assert all(choice["text"] and choice["why"] for choice in question["choices"])
        assert re.match(r"#view=(\w+)", english["show"])[1] in VIEWS  # type: ignore[index]


def test_numeric_answers() -> None:
    numeric = {q["id"]: choice for q in QUESTIONS for choice in q["choices"] if "value" in choice}
    assert numeric.keys() == TRUTH.keys()
    for name, choice in numeric.items():
        assert choice["value"] == pytest.approx(TRUTH[name], rel=1e-6), name
        assert choice.get("right")
        shown = choice["text"].split(",")[0].split()[-1].replace("−", "-")
        top, _, bottom = shown.partition("/")
        assert float(top) / float(bottom or 1) == pytest.approx(TRUTH[name], rel=0.02), name


def test_the_answers_are_not_always_in_one_place() -> None:
    places = [right(question) for question in QUESTIONS]
    assert max(places.count(place) for place in range(4)) <= len(places) / 2


def answer(shown: Shown, choice: int) -> None:
    """By keys alone: to the radio buttons, down to the choice, to the button."""
    first = shown.page.locator(".quiz input").first
    first.focus()
    shown.page.keyboard.press(" ")
    for _ in range(choice):
        shown.page.keyboard.press("ArrowDown")
    # The choice is drawn in the next frame; a key that comes before, faster than any hand, finds the page without it.
    shown.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")


def test_the_whole_quiz_by_keyboard(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V11")
    for number, question in enumerate(QUESTIONS, start=1):
        assert shown.page.locator(".quiz").get_attribute("data-question") == question["id"]
        answer(shown, right(question))
        assert shown.text("verdict") == "Right."
        assert shown.spoken().startswith("Right.")
        assert shown.page.locator(".quiz .why").count() == len(question["choices"])
        assert shown.value("score") == number
        shown.do("next")
    assert shown.text("score").startswith(f"{len(QUESTIONS)} right of {len(QUESTIONS)}")


def test_a_wrong_answer_is_explained_and_leads_to_a_view(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V11&at=2")
    answer(shown, 0)
    assert shown.text("verdict") == "Not right."
    assert "Factors multiply" in shown.spoken()
    assert shown.value("score") == 0
    shown.page.locator(".language").click()
    assert shown.text("verdict") == "不对。"
    shown.page.locator(".quiz a", has_text="演示给我看").click()
    shown.page.wait_for_selector('main[data-view="V2a"]')
    shown.go("view=V11&at=2")
    shown.do("again")
    assert shown.page.locator('[data-name="verdict"]').count() == 0


def test_the_score_is_kept_in_memory_only(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V11")
    answer(shown, 1)
    assert shown.value("score") == 1
    kept = shown.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie.length]")
    assert kept == [0, 0, 0]
    shown.page.reload()
    shown.page.wait_for_selector("main")
    assert shown.value("score") == 0


def test_checking_without_a_choice(lab: Callable[..., Shown]) -> None:
    shown = lab("view=V11")
    shown.do("check")
    assert shown.spoken() == "Choose an answer first."
    assert shown.page.locator('[data-name="verdict"]').count() == 0
