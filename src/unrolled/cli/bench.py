"""`unrolled bench memory`: train on the long-memory tasks, print each result as it comes, then the table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrolled.cli.show import console, say, table
from unrolled.errors import RecipeError, expected

if TYPE_CHECKING:
    from unrolled.training.memory import Outcome

LENGTHS = {"adding": (200, 400, 600), "copy": (100,)}


def memory(
    task: str,
    lengths: Sequence[int],
    cells: str,
    inits: str,
    clips: str,
    seeds: int,
    out: Path | None,
    settings: dict[str, Any],
) -> None:
    """Run the bench and write what came out of it to `out`."""
    from unrolled.training import memory as bench

    if out is not None and not out.parent.is_dir():
        raise RecipeError(expected("--out", "a file in a folder that is there", str(out)))
    chosen = bench.Settings(**{name: value for name, value in settings.items() if value is not None})
    every = bench.trials(
        task, lengths or LENGTHS.get(task, (100,)), words(cells), words(inits), clips_of(clips), range(seeds)
    )
    say(f"note: {len(every)} networks, at most {chosen.steps:,} steps each")
    outcomes = bench.run(every, chosen, lambda outcome: say(f"note: {outcome.trial}: {verdict(outcome)}"))
    show(outcomes, bench.PROBLEMS[task].metric)
    if out is not None:
        record = {"settings": vars(chosen), "outcomes": [outcome.to_dict() for outcome in outcomes]}
        out.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        say(f"\nwritten: {out}")


def words(text: str) -> list[str]:
    """`lstm, gru` → ["lstm", "gru"], each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def clips_of(text: str) -> list[float | None]:
    """`none,1` → [None, 1.0].

    Raises:
        RecipeError: a word that is neither a number nor none.
    """
    try:
        return [None if word == "none" else float(word) for word in words(text)]
    except ValueError:
        raise RecipeError(expected("--clip", "numbers or the word none, parted by commas", repr(text))) from None


def verdict(outcome: Outcome) -> str:
    """What a person wants to know of one trial."""
    if outcome.failed:
        return f"ended at step {outcome.steps:,}: {outcome.failed}"
    how = f"not solved in {outcome.steps:,} steps"
    if outcome.solved_at is not None:
        how = f"solved at step {outcome.solved_at:,}"
    return f"{outcome.score:.4f} ({outcome.baseline:.4f} without memory), {how}, {outcome.seconds:.0f} s"


def show(outcomes: Iterable[Outcome], metric: str) -> None:
    """The table: one row a trial."""
    rows = table("", "T", "cell", "init", "clip", "seed", metric, "without memory", "solved at", "cut", "seconds")
    for column in rows.columns[4:]:
        column.justify = "right"
    for outcome in outcomes:
        trial = outcome.trial
        clip = "none" if trial.clip is None else f"{trial.clip:g}"
        solved = "–" if outcome.solved_at is None else f"{outcome.solved_at:,}"
        score = "not finite" if outcome.failed else f"{outcome.score:.4f}"
        rows.add_row(
            *(str(trial.length), trial.cell, trial.init, clip, str(trial.seed), score, f"{outcome.baseline:.4f}"),
            *(solved, f"{outcome.clipped:.0%}", f"{outcome.seconds:.0f}"),
        )
    console().print(rows)
