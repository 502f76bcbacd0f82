"""Bundles that earlier versions wrote: they load, and say what they said, with PyTorch and without."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from golden_answers import ANSWERS, FOLDER, QUESTIONS, answers
from unrolled import bundle, runtime
from unrolled.errors import BundleError
from unrolled.training import load

SAID = json.loads(ANSWERS.read_text(encoding="utf-8"))
FLOAT = 2e-5  # relative: other machines and engines add up in another order


def assert_alike(got, want, where=""):
    """Words and whole numbers are the same, other numbers nearly."""
    if isinstance(want, dict):
        assert set(got) == set(want), where
        for key in want:
            assert_alike(got[key], want[key], f"{where}.{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            assert_alike(one, other, f"{where}[{i}]")
    elif isinstance(want, float):
        assert math.isclose(got, want, rel_tol=FLOAT, abs_tol=FLOAT), f"{where}: {got}, wanted {want}"
    else:
        assert got == want, f"{where}: {got!r}, wanted {want!r}"


def test_every_golden_is_asked_something():
    assert set(SAID) == set(QUESTIONS) == {path.stem for path in FOLDER.glob("*.safetensors")}
    tasks = {bundle.read_header(path)["recipe"]["task"] for path in FOLDER.glob("*.safetensors")}
    assert tasks == {"classify", "tag", "lm", "seq2seq", "forecast"}
    assert {bundle.read_header(path)["format"] for path in FOLDER.glob("*.safetensors")} == {1, 2}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_old_bundle_says_what_it_said(name, tmp_path):
    file = tmp_path / f"{name}.safetensors"
    shutil.copy(FOLDER / file.name, file)
    assert_alike(answers(load(file), name), SAID[name], name)


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_says_so_without_pytorch(name):
    file = FOLDER / f"{name}.safetensors"
    if name == "lm-transformer":
        with pytest.raises(BundleError, match=r"one of rnn, lstm, gru, found 'transformer'\. Use it with PyTorch"):
            runtime.load(file)
    else:
        assert_alike(answers(runtime.load(file), name), SAID[name], name)


def test_another_answer_is_found():
    for change in (
        lambda text: text.replace("0.", "0.9", 1),
        lambda text: text.replace('"label": "', '"label": "x', 1),
    ):
        text = json.dumps(SAID["classify"])
        assert change(text) != text
        with pytest.raises(AssertionError):
            assert_alike(json.loads(change(text)), SAID["classify"])


@pytest.mark.parametrize("reader", [load, runtime.load], ids=["torch", "runtime"])
def test_a_bundle_of_a_later_format_is_refused_with_the_way_out(reader, tmp_path):
    content = (FOLDER / "classify.safetensors").read_bytes()
    later = content.replace(rb"{\"format\": 1", rb"{\"format\": 9", 1)
    assert later != content
    (tmp_path / "later.safetensors").write_bytes(later)
    with pytest.raises(BundleError, match=rf"format {bundle.FORMAT} or older, found format 9\. Update unrolled: pip"):
        reader(tmp_path / "later.safetensors")
