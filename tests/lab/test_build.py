"""The page that is committed is the one that its sources build, it is small, and its texts are whole."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_pages import LAB, LANGUAGES, ROOT, VIEWS, lab_data

import unrolled.lab
from unrolled.lab import render

STATIC = Path(unrolled.lab.__file__).parent / "static"
CONTENT = json.loads((STATIC / "content.json").read_text(encoding="utf-8"))
TEXTS = CONTENT["texts"]


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "build_lab.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    built = sorted(path.name for path in tmp_path.iterdir())
    assert built == sorted(path.name for path in STATIC.iterdir())
    for name in built:
        same = (tmp_path / name).read_bytes() == (STATIC / name).read_bytes()
        assert same, f"{name} is not what lab/ builds: run tools/build_lab.py and commit the result"


def test_the_sums_are_those_of_the_files() -> None:
    for line in (STATIC / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, name = line.split()
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest


def test_sizes() -> None:
    """The script, the page with its models, and what the lab adds to the wheel."""
    assert (STATIC / "lab.js").stat().st_size <= 350_000
    assert len(render(lab_data(), title="lab").encode()) <= 900_000
    files = [path for path in STATIC.parent.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(len(zlib.compress(path.read_bytes(), 6)) for path in files) <= 250 * 1024


def test_the_script_evaluates_no_text() -> None:
    script = (STATIC / "lab.js").read_text(encoding="utf-8")
    for forbidden in ("eval(", "new Function", "</script", "<!--", "fetch(\"http", "importScripts"):  # fmt: skip
        assert forbidden not in script, forbidden


def test_the_licences_of_what_is_inside() -> None:
    text = (STATIC / "THIRD_PARTY.txt").read_text(encoding="utf-8")
    for package in ("preact 10.", "htm 3.", "@preact/signals-core 1."):
        assert f"\n{package}" in text
    for notice in ("Copyright (c) 2015-present Jason Miller", "Copyright 2020-2025 Observable, Inc."):
        assert f"\n{notice}\n" in text
    for licence in (
        "Permission to use, copy, modify, and/or",
        "Permission is hereby granted, free",
        "Apache License\n",
    ):
        assert text.count(licence) == 1, "the same text stands twice"


def test_both_languages_have_the_same_keys_with_the_same_values() -> None:
    assert TEXTS["en"].keys() == TEXTS["zh"].keys()
    for key, english in TEXTS["en"].items():
        chinese = TEXTS["zh"][key]
        assert chinese.strip(), key
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), key
        targets = [sorted(re.findall(r"\]\((#[^)]+)\)", text)) for text in (english, chinese)]
        assert targets[0] == targets[1], f"{key}: links"
        equations = [sorted(re.findall(r"\$(\w+)\$", text)) for text in (english, chinese)]
        assert equations[0] == equations[1], f"{key}: equations"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_a_title_and_a_takeaway(view: str) -> None:
    for language in LANGUAGES:
        assert TEXTS[language][f"view.{view}.title"]
        assert TEXTS[language][f"view.{view}.takeaway"]


def test_texts_point_to_what_there_is() -> None:
    for language in LANGUAGES:
        for key, text in TEXTS[language].items():
            for view in re.findall(r"\]\(#view=(\w+)", text):
                assert view in VIEWS, f"{key} links to {view}"
            for name in re.findall(r"\$(\w+)\$", text):
                assert name in CONTENT["equations"], f"{key}: equation {name}"


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def test_chinese_terms_are_those_of_the_glossary() -> None:
    glossary = yaml.safe_load((LAB / "glossary.yaml").read_text(encoding="utf-8"))
    texts = [*TEXTS["zh"].values(), *strings(CONTENT["quiz"]["zh"])]
    for term in glossary:
        for wrong in term["not"]:
            for text in texts:
                assert wrong not in text, f"{wrong} in {text!r}: say {term['zh']}"


def test_chinese_texts_are_chinese_and_english_ones_are_not() -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    for key, text in TEXTS["en"].items():
        assert key == "shell.other_language" or not chinese.search(text), key
    for key, text in TEXTS["zh"].items():
        words = re.sub(r"`[^`]*`|\$\w+\$|\([^)]*\)|\{\w+\}|\b[A-Z]\w*|\w+_\w+|unrolled", "", text)
        assert key == "shell.other_language" or chinese.search(text) or not re.search(r"[a-z]{4,}", words), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_that_the_source_asks_for_exists(language: str) -> None:
    """Keys in quotes after t( or rich(. Those that are put together are seen when the views are drawn."""
    for path in (LAB / "src").rglob("*.js"):
        source = path.read_text(encoding="utf-8")
        for key in re.findall(r"""\b(?:t|rich)\(\s*["']([\w.]+)["']""", source):
            assert key in TEXTS[language], f"{path.name}: {key}"


class TestRender:
    def test_text_cannot_leave_its_place(self) -> None:
        data = lab_data() | {"note": "</script><script>alert(1)</script><!-- & \u2028 😀 \u05d0"}
        page = render(data, title='a <b> & "c"', language="zh")
        assert page.count("</script>") == 3
        assert "<title>a &lt;b&gt; &amp; &quot;c&quot;</title>" in page
        inside = page.split('id="data">')[1].split("</script>")[0]
        assert json.loads(inside)["note"] == data["note"]

    def test_numbers_that_are_none_are_words(self) -> None:
        page = render(lab_data() | {"x": [float("nan"), float("inf"), -float("inf")]}, title="x")
        assert '"x":["nan","inf","-inf"]' in page

    def test_half_a_character_is_written_as_an_escape(self) -> None:
        assert "\\ud83d" in render(lab_data() | {"x": "\ud83d"}, title="x")

    def test_only_its_own_script_runs_and_nothing_is_fetched(self) -> None:
        page = render(lab_data(), title="x")
        assert "script-src &#x27;sha256-" in page
        assert "connect-src &#x27;none&#x27;" in page
        assert "connect-src &#x27;self&#x27;" in render(lab_data(), title="x", served=True)
        assert not re.search(r'(?:src|href)="http', page)

    def test_what_is_refused(self) -> None:
        with pytest.raises(ValueError, match="page"):
            render({"page": "other"}, title="x")
        with pytest.raises(ValueError, match="language"):
            render(lab_data(), title="x", language="fr")
        with pytest.raises(ValueError, match="data"):
            render(lab_data() | {"x": object()}, title="x")
