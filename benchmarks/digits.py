"""Pictures of digits (8 × 8, scikit-learn) spelled as words, letter by letter: one vector in, a sequence out."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, run_seeds, save

NAMES = {
    "English": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "pinyin": ("líng", "yī", "èr", "sān", "sì", "wǔ", "liù", "qī", "bā", "jiǔ"),
}
RECIPE: dict[str, Any] = {
    "task": "seq2seq",
    "source": "vector",
    "target_tokenizer": "chars",
    "cell": "gru",
    "hidden": 64,
    "embedding": 16,
    "output_dropout": 0.2,
    "feature_noise": 0.3,
    "learning_rate": 3e-3,
    "batch_size": 32,
    "epochs": 30,
    "beam": 1,
}


def write(path: Path, names: tuple[str, ...]) -> str:
    """JSON lines: 64 pixels and the digit's name."""
    digits = importlib.import_module("sklearn.datasets").load_digits()
    with path.open("w", encoding="utf-8") as file:
        for image, digit in zip(digits.images, digits.target, strict=True):
            file.write(json.dumps({"source": image.tolist(), "target": names[digit]}, ensure_ascii=False) + "\n")
    return str(path)


if __name__ == "__main__":
    options = arguments(__doc__)
    runs = {}
    with tempfile.TemporaryDirectory() as scratch:
        for language, names in NAMES.items():
            data = write(Path(scratch) / f"{language}.jsonl", names)
            runs[language] = run_seeds(RECIPE | {"data": data}, options)
    aim = "a decoder that is started from one vector spells what it sees; beside it the nearest training picture's name"
    save("digits", title="Digits, spelled", aim=aim, runs=runs, recipes=dict.fromkeys(runs, RECIPE))
