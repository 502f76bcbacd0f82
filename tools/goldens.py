"""Train the small bundles of tests/goldens and write down what they answer.

    python tools/goldens.py NAME …       those that are not there yet; every later version must load them

A golden that is there is left as it is: it stands for the files that people have. When a change of the format or of the
numbers is meant, say so in the changelog, raise `bundle.FORMAT`, and add a golden with a new name.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from golden_answers import ANSWERS, FOLDER, QUESTIONS, answers
from killing import recipes
from unrolled.convert.exporting import export
from unrolled.training import Recipe, load, train


def fields_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The recipe of every golden."""
    made = recipes(folder)
    sensor = folder / "sensor.jsonl"
    rng = np.random.default_rng(0)
    lines = []
    for number in range(40):
        slope = rng.choice([-1, 1])
        steps = [[round(float(slope * t / 4 + rng.normal() / 5), 3), round(float(rng.normal()), 3)] for t in range(5)]
        lines.append(json.dumps({"features": steps, "label": "up" if slope > 0 else "down", "id": number}))
    sensor.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stream = {**made["lm"], "format": "text", "context": "continuous", "cell": "rnn", "layers": 2}
    features = {
        **made["classify"],
        "data": str(sensor),
        "features": ["features"],
        "cell": "gru",
        "pooling": "attention",
    }
    del features["embedding"], features["min_count"]
    return made | {
        "classify-int8": made["classify"],
        "classify-features": features,
        "lm-stream": stream,
        "lm-transformer": {**made["lm"], "cell": "transformer", "heads": 2, "learn_initial_state": False},
        "forecast-direct": {**made["forecast"], "head": "direct", "output": "quantile", "cell": "lstm"},
    }


def make(name: str, folder: Path) -> None:
    """Train one golden, and write it and its answers."""
    fields = fields_of(folder)[name] | {"epochs": 4}
    fields["data"] = Path(fields["data"]).name  # a bundle keeps it, and should not tell where it was made
    run = train(Recipe(**fields), out=folder / name).run
    target = FOLDER / f"{name}.safetensors"
    if name.endswith("-int8"):
        export(run, target, to="bundle", int8=True)
    else:
        shutil.copy(run / "model.safetensors", target)
    known = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    known[name] = answers(load(target), name)
    ANSWERS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in sys.argv[1:] or QUESTIONS:
            if (FOLDER / f"{name}.safetensors").exists():
                print(f"{name}: is there and stays")
                continue
            make(name, Path(folder))
            print(f"{name}: {(FOLDER / f'{name}.safetensors').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
