"""The long-memory tasks over cells, starts and clipping: benchmarks/results/memory.json and docs/memory-tasks.md.

Each network is written down as it ends, and one that is written down already is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from datetime import date
from typing import Any

from harness import RESULTS, spread

PATH = RESULTS / "memory.json"
PAGE = RESULTS.parent.parent / "docs" / "memory-tasks.md"
TEXT = RESULTS / "memory.md"  # what the page says in words; {tables} is where the tables go
GATED = [("gru", "chrono"), ("lstm", "chrono"), ("gru", "torch"), ("lstm", "torch")]

# task, length, (cell, start), clip, seeds: the most wanted first.
GRID: list[tuple[str, int, list[tuple[str, str]], float | None, range]] = [
    ("adding", 400, GATED, 1.0, range(1)),
    ("adding", 400, GATED[:3], 1.0, range(1, 3)),
    ("adding", 600, GATED[:3], 1.0, range(1)),
    ("adding", 200, GATED, 1.0, range(1)),
    ("adding", 400, [("gru", "chrono"), ("lstm", "chrono")], None, range(1)),
    ("copy", 100, [("gru", "chrono"), ("lstm", "chrono"), ("gru", "torch")], 1.0, range(1)),
    ("adding", 400, [("lstm", "forget"), ("lstm", "keras"), ("gru", "keras")], 1.0, range(1)),
    ("adding", 200, [("rnn", "irnn"), ("rnn", "torch"), ("rnn", "keras")], 1.0, range(1)),
    ("adding", 200, [("rnn", "irnn"), ("rnn", "torch")], None, range(1)),
    ("copy", 100, [("lstm", "torch"), ("rnn", "torch"), ("rnn", "irnn")], 1.0, range(1)),
]
SETTINGS = {"hidden": 64, "batch_size": 32, "learning_rate": 3e-3, "steps": 4000, "threads": 1}


def wanted() -> Iterator[dict[str, Any]]:
    for task, length, kinds, clip, seeds in GRID:
        for seed in seeds:
            for cell, init in kinds:
                yield {"task": task, "length": length, "cell": cell, "init": init, "clip": clip, "seed": seed}


def train_all() -> dict[str, Any]:
    import numpy
    import torch

    from unrolled.training.memory import PROBLEMS, Settings, Trial, train

    record: dict[str, Any] = {
        "title": "Long-memory tasks",
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__},
        "settings": SETTINGS,
        "metrics": {name: problem.metric for name, problem in PROBLEMS.items()},
        "outcomes": [],
    }
    if PATH.exists() and (before := json.loads(PATH.read_text()))["settings"] == SETTINGS:
        record["outcomes"] = before["outcomes"]
    done = [outcome["trial"] for outcome in record["outcomes"]]
    for trial in wanted():
        if trial not in done:
            outcome = train(Trial(**trial), Settings(**SETTINGS))
            record["outcomes"].append(outcome.to_dict())
            PATH.write_text(json.dumps(record, indent=1) + "\n")
            print(outcome.trial, outcome.score, outcome.solved_at, f"{outcome.seconds:.0f} s", flush=True)
    return record


def tables(record: dict[str, Any]) -> str:
    """One table a task and length, one row a kind of network."""
    kinds: dict[tuple[str, int], dict[tuple[str, str, str], list[dict[str, Any]]]] = {}
    for outcome in record["outcomes"]:
        trial = outcome["trial"]
        clip = "none" if trial["clip"] is None else f"{trial['clip']:g}"
        row = kinds.setdefault((trial["task"], trial["length"]), {})
        row.setdefault((trial["cell"], trial["init"], clip), []).append(outcome)
    lines = []
    for (task, length), rows in sorted(kinds.items()):
        baseline = next(iter(rows.values()))[0]["baseline"]
        lines += [f"## {task.capitalize()}, T = {length}", ""]
        lines += [f"Without memory: {baseline:.4f} {record['metrics'][task]}.", ""]
        lines += [f"| cell | start | clip | {record['metrics'][task]} | solved | at step | gradients cut |"]
        lines += ["|---|---|--:|--:|--:|--:|--:|"]
        lines += [_row(*kind, outcomes) for kind, outcomes in rows.items()]
        lines.append("")
    return "\n".join(lines)


def _row(cell: str, init: str, clip: str, outcomes: list[dict[str, Any]]) -> str:
    scores = [outcome["score"] for outcome in outcomes if outcome["score"] is not None]
    steps = [outcome["solved_at"] for outcome in outcomes if outcome["solved_at"] is not None]
    cut = max(outcome["clipped"] for outcome in outcomes)
    score = _spread(scores, "{:.4f}") if scores else "not finite"
    at = _spread(steps, "{:,.0f}") if steps else "–"
    shown = [score, f"{len(steps)} of {len(outcomes)}", at, f"{cut:.0%}"]
    return f"| {cell} | {init} | {clip} | " + " | ".join(shown) + " |"


def _spread(values: list[float], form: str) -> str:
    low, middle, high = (form.format(value) for value in spread(values))
    return middle if low == high else f"{middle} ({low} to {high})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the page, from the results that are there")
    only_page = parser.parse_args().page
    found = json.loads(PATH.read_text()) if only_page else train_all()
    versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
    measured = f"{found['date']}, {found['machine']}, {versions}."
    PAGE.write_text(TEXT.read_text(encoding="utf-8").format(tables=tables(found), measured=measured), encoding="utf-8")
    print(f"wrote {PAGE.name}")
