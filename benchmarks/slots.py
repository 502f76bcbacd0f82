"""SNIPS slots: span F1 of a bidirectional LSTM, with and without the CRF."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import arguments, run_seeds, save

RECIPE = {
    "task": "tag",
    "cell": "lstm",
    "hidden": 128,
    "embedding": 100,
    "characters": True,
    "min_count": 2,
    "input_dropout": 0.3,
    "output_dropout": 0.3,
    "word_dropout": 0.05,
    "average": 0.998,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "batch_size": 32,
    "epochs": 8,
    "patience": None,
}


def to_conll(folder: Path, out: Path) -> None:
    """Two parallel files of words and of tags, as one file of two columns."""
    words = (folder / "seq.in").read_text(encoding="utf-8").splitlines()
    tags = (folder / "seq.out").read_text(encoding="utf-8").splitlines()
    with out.open("w", encoding="utf-8") as file:
        for sentence, slots in zip(words, tags, strict=True):
            for word, slot in zip(sentence.split(), slots.split(), strict=True):
                file.write(f"{word}\t{slot}\n")
            file.write("\n")


if __name__ == "__main__":
    options = arguments(__doc__, folder="the folder with train/, valid/ and test/")
    with tempfile.TemporaryDirectory() as scratch:
        files = {part: Path(scratch) / f"{part}.conll" for part in ("train", "valid", "test")}
        for part, path in files.items():
            to_conll(options.folder / part, path)
        recipe = RECIPE | {"data": str(files["train"]), "valid": str(files["valid"]), "test": str(files["test"])}
        runs = {
            "BiLSTM": run_seeds(recipe, options),
            "BiLSTM-CRF": run_seeds(recipe | {"crf": True}, options),
        }
    aim = "span F1 at least 88.8, the published BiLSTM figure, and the CRF's gain"
    recipes = {"BiLSTM": RECIPE, "BiLSTM-CRF": RECIPE | {"crf": True}}
    save("slots", title="SNIPS, slots", aim=aim, runs=runs, recipes=recipes)
