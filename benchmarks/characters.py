"""tinyshakespeare: nats a character on the last 5 % of the text, after training on the first 90 %."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import arguments, run_seeds, save

RECIPE = {
    "task": "lm",
    "tokenizer": "chars",
    "cell": "lstm",
    "hidden": 512,
    "embedding": 128,
    "output_dropout": 0.3,
    "batch_size": 32,
    "chunk": 100,
    "optimizer": "adam",
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "warmup": 0.2,
    "clip": 1.0,
    "epochs": 5,
    "patience": None,
}

if __name__ == "__main__":
    options = arguments(__doc__, file="the text")
    text = options.file.read_text(encoding="utf-8")
    cuts = [0, int(0.9 * len(text)), int(0.95 * len(text)), len(text)]
    with tempfile.TemporaryDirectory() as scratch:
        files = {part: Path(scratch) / f"{part}.txt" for part in ("train", "valid", "test")}
        for path, start, stop in zip(files.values(), cuts, cuts[1:], strict=False):
            path.write_text(text[start:stop], encoding="utf-8")
        recipe = RECIPE | {"data": str(files["train"]), "valid": str(files["valid"]), "test": str(files["test"])}
        runs = {"LSTM 512": run_seeds(recipe, options)}
    aim = "at most 1.55 nats a character on the last 5 % within an hour on two cores"
    save("characters", title="tinyshakespeare, characters", aim=aim, runs=runs, recipes={"LSTM 512": RECIPE})
