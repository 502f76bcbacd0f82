"""Copy and reverse random strings: by length, with attention and without, up to twice the longest of training."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness import arguments, run_seeds, save

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 20  # of the training part
ROWS = {"train": 20_000, "valid": 1_000, "test": 1_000}
BY_LENGTH = (5, 10, 15, 20, 25, 30, 40)
PER_LENGTH = 200

RECIPE: dict[str, Any] = {
    "task": "seq2seq",
    "tokenizer": "chars",
    "cell": "lstm",
    "hidden": 128,
    "decoder_hidden": 256,
    "embedding": 32,
    "output_dropout": 0.0,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "batch_size": 64,
    "epochs": 8,
    "beam": 1,
}
KINDS = {"copy": slice(None), "reverse": slice(None, None, -1)}
VARIANTS = {
    "with attention": {"attention": "general", "input_feeding": True},
    "without attention": {"attention": "none"},
}


def draw(rng: np.random.Generator, length: int) -> str:
    """A random string."""
    return "".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=length))


def write_parts(folder: Path, turn: slice) -> dict[str, str]:
    """Strings of 1 to LONGEST letters, and for each length of BY_LENGTH a part of its own."""
    rng = np.random.default_rng(2024)
    texts = {part: [draw(rng, n) for n in rng.integers(1, LONGEST + 1, size=rows)] for part, rows in ROWS.items()}
    texts |= {f"length{n}": [draw(rng, n) for _ in range(PER_LENGTH)] for n in BY_LENGTH}
    for part, rows in texts.items():
        (folder / f"{part}.tsv").write_text("".join(f"{s}\t{s[turn]}\n" for s in rows), encoding="utf-8")
    return {
        name: str(folder / f"{part}.tsv") for name, part in (("data", "train"), ("valid", "valid"), ("test", "test"))
    }


def by_length(result: Any) -> dict[str, float]:
    """Exact match at each length: the curve."""
    from unrolled.training import load

    trained = load(result.run)
    folder = Path(trained.recipe.data).parent
    reports = {n: trained.evaluate(folder / f"length{n}.tsv") for n in BY_LENGTH}
    return {f"exact_match_at_length_{n}": report.metrics["exact_match"] for n, report in reports.items()}


if __name__ == "__main__":
    options = arguments(__doc__)
    aim = (
        f"exact match of 99 % or more at the training lengths (1 to {LONGEST}) with attention; without it, the fall "
        "with length; beyond the training lengths whatever it is"
    )
    runs, recipes = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind, turn in KINDS.items():
            folder = Path(scratch) / kind
            folder.mkdir()
            files = write_parts(folder, turn)
            for variant, more in VARIANTS.items():
                recipes[f"{kind}, {variant}"] = RECIPE | more
                runs[f"{kind}, {variant}"] = run_seeds(RECIPE | more | files, options, by_length)
                save("copying", title="Copy and reverse", aim=aim, runs=runs, recipes=recipes)
