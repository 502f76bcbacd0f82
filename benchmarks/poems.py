"""Tang quatrains: how many free samples have four lines of five characters, and how many lines are copied."""

from __future__ import annotations

from typing import Any

from harness import arguments, run_seeds, save
from unrolled.training.examples import FIELDS

SAMPLES = 200


def judge_samples(result: Any) -> dict[str, float]:
    """Samples at temperature 1 with nothing forbidden: the share in form, and the share of lines known by heart."""
    from unrolled.data import examples
    from unrolled.training import load

    model = load(result.run)
    known = {line for poem in examples.load("poems").train for line in poem.text.split("\n")}
    lines: list[str] = []
    in_form = 0
    for seed in range(SAMPLES):
        poem = model.generate("", 60, temperature=1.0, seed=seed).rstrip("\n").split("\n")
        in_form += [len(line) for line in poem] == [5, 5, 5, 5]
        lines += poem
    copied = sum(line in known for line in lines)
    return {"in_form": in_form / SAMPLES, "lines_copied": copied / len(lines)}


if __name__ == "__main__":
    options = arguments(__doc__)
    recipe = {"data": "poems", **FIELDS["poems"]}
    runs = {"LSTM": run_seeds(recipe, options, judge_samples)}
    aim = "at least 95 % of free samples have four lines of five characters; the share of copied lines is stated"
    save("poems", title="Tang quatrains", aim=aim, runs=runs, recipes={"LSTM": recipe})
