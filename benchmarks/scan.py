"""SCAN: commands to actions. Exact match on the simple split, on longer actions, and on a verb seen only alone."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, run_seeds, save

RECIPE: dict[str, Any] = {
    "task": "seq2seq",
    "tokenizer": "spaces",
    "cell": "lstm",
    "hidden": 128,
    "embedding": 64,
    "attention": "general",
    "input_dropout": 0.1,
    "output_dropout": 0.2,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "batch_size": 64,
    "epochs": 25,
    "test_share": 0.0,
    "beam": 1,
}
SPLITS = {"simple": "simple", "length": "length", "add jump": "addprim_jump"}


def to_pairs(packed: Path, out: Path) -> str:
    """`IN: run twice OUT: I_RUN I_RUN` as a source, a tab and a target."""
    lines = []
    for line in gzip.decompress(packed.read_bytes()).decode().splitlines():
        command, _, actions = line.removeprefix("IN: ").partition(" OUT: ")
        lines.append(f"{command}\t{actions}\n")
    out.write_text("".join(lines), encoding="utf-8")
    return str(out)


if __name__ == "__main__":
    options = arguments(__doc__, folder="the folder with tasks_train_simple.txt.gz and its sisters")
    aim = (
        "exact match of 99.5 % or more on the simple split; the others fail in the published systems as well "
        "(Lake and Baroni 2018: length 13.8 to 20.8 %, add jump about 1 %)"
    )
    runs, recipes = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, stem in SPLITS.items():
            train, test = (
                to_pairs(options.folder / f"tasks_{part}_{stem}.txt.gz", Path(scratch) / f"{part}_{stem}.tsv")
                for part in ("train", "test")
            )
            runs[name] = run_seeds(RECIPE | {"data": train, "test": test}, options)
            recipes[name] = RECIPE
            save("scan", title="SCAN, commands to actions", aim=aim, runs=runs, recipes=recipes)
