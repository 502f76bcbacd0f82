"""Kill runs with kill -9, go on, and compare every bit with a run that nothing happened to.

    python tools/kill_runs.py                  50 kills: 10 of one run of each task, one after the other
    python tools/kill_runs.py --kills 50 lm    50 kills of one run of one task
    python tools/kill_runs.py --points         instead of random moments: right before each call that changes the disk
    python tools/kill_runs.py --streamed       runs on data larger than memory: classify, tag, documents, text, seq2seq

A run is longer than in the tests (20 epochs), so that it lives to be killed. What is compared: the model, the last
checkpoint with optimizer, average, counters and generators, metrics.jsonl without its clock, the recipe, and the names
of all files. The last line says what came out; the exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from killing import Run, assert_same_run, kill_somewhere, log_of, recipes, streamed_recipes

EPOCHS = 20


def many(fields: dict[str, Any], folder: Path, kills: int, chance: random.Random) -> tuple[int, int]:
    """One run that is killed so many times. Returns the kills and how many processes had ended before theirs."""
    whole, out = folder / "whole", folder / "killed"
    assert Run(fields, whole).end() == 0
    lines, hit, missed = len(log_of(whole)), 0, 0
    while hit < kills:
        begun = Run(None if (out / "recipe.toml").exists() else fields, out)
        # Not far ahead, or a few kills would bring the run to its end.
        ahead = begun.lines() + max(2, (lines - begun.lines()) // (kills - hit))
        code = kill_somewhere(begun, min(ahead, lines), chance)
        hit, missed = hit + (code == -9), missed + (code == 0)
        if code not in (0, -9) or missed > kills:
            raise SystemExit(f"{out}: exit code {code} after {hit} kills, {missed} runs that had ended before")
    assert Run(None if out.exists() else fields, out).end() == 0
    assert_same_run(whole, out)
    return hit, missed


def points(fields: dict[str, Any], folder: Path) -> tuple[int, int]:
    """One run for each call that changes the disk, killed right before it."""
    fields = fields | {"epochs": 2, "checkpoint_every": 5}
    whole, call = folder / "whole", 0
    assert Run(fields, whole).end() == 0
    while True:
        call += 1
        out = folder / f"before-{call}"
        if Run(fields, out, die_at=call).end() == 0:
            return call - 1, 0
        assert Run(None if out.exists() else fields, out).end() == 0
        assert_same_run(whole, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tasks",
        nargs="*",
        help="classify, tag, lm, seq2seq, forecast (documents and text for lm when streamed); all by default",
    )
    parser.add_argument("--kills", type=int, default=50, help="in all, shared out among the tasks")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--points", action="store_true", help="before each call that changes the disk")
    parser.add_argument("--streamed", action="store_true", help="on data larger than memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = (streamed_recipes if given.streamed else recipes)(Path(name))
        epochs = 5 if given.streamed else EPOCHS
        tasks, total = given.tasks or list(made), 0
        for task in tasks:
            started, folder = time.monotonic(), Path(name) / task
            folder.mkdir()
            if given.points:
                hit, missed = points(made[task], folder)
            else:
                fields, kills = made[task] | {"epochs": epochs}, -(-given.kills // len(tasks))
                hit, missed = many(fields, folder, kills, random.Random(f"{task} {given.seed}"))
            total += hit
            late = f" ({missed} processes had ended before they could be killed)" if missed else ""
            print(f"{task}: killed {hit} times{late}, the same to the last bit, {time.monotonic() - started:.0f} s")
    print(f"{total} kills, nothing lost")


if __name__ == "__main__":
    main()
