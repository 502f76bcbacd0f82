"""Small trained bundles in tests/goldens, what they are asked, and what they answered when they were made.

`tools/goldens.py` makes new ones; those that are there are never made again: they stand for files that people keep.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "goldens"
ANSWERS = FOLDER / "answers.json"

TEXTS = ["good fine nice", "the bad sad", "it is a never-seen", ""]
# What every bundle is asked, by its name: the method, what it is given, and options.
QUESTIONS: dict[str, list[tuple[str, Any, dict[str, Any]]]] = {
    "classify": [("predict", TEXTS, {})],
    "classify-int8": [("predict", TEXTS, {})],
    "classify-features": [("predict", [[[0.1, 0.9], [0.2, 0.4]], [[0.3, -0.1], [0.2, 0.5], [0.1, 0.9]]], {})],
    "tag": [("predict", ["to Abcon Xville from bon", "from con"], {})],
    "lm": [("predict", ["abcdef", "hgf", ""], {}), ("generate", "ab", {"length": 12, "temperature": 0.0})],
    "lm-stream": [("predict", ["abcdef", "ddd"], {}), ("generate", "cd", {"length": 12, "temperature": 0.0})],
    "lm-transformer": [("predict", ["abcdefgh", "hgf"], {})],
    "seq2seq": [("predict", ["abc", "dd", "cab"], {})],
    "forecast": [("forecast", None, {"quantiles": (0.1, 0.9)})],
    "forecast-direct": [("forecast", None, {})],
}


def answers(model: Any, name: str) -> list[Any]:
    """What a model says to the questions of its name, as JSON has it."""
    said = []
    for method, given, options in QUESTIONS[name]:
        told = options if given is None else {**options, "inputs" if method == "predict" else "prompt": given}
        said.append(getattr(model, method)(**told))
    return json.loads(json.dumps(said, default=lambda array: array.tolist()))
