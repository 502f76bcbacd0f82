"""HKCanCor parts of speech, split by conversation: errors beside those of each word's most frequent tag."""

from __future__ import annotations

from typing import Any

from harness import arguments, run_seeds, save
from unrolled.training.examples import FIELDS


def error_ratio(result: Any) -> dict[str, float]:
    """The model's errors as a share of the baseline's."""
    (baseline,) = result.report.baselines.values()
    errors = 1 - result.report.metrics["token_accuracy"]
    return {"error_ratio": errors / (1 - baseline["token_accuracy"])}


if __name__ == "__main__":
    options = arguments(__doc__)
    recipe = {"data": "tags", **FIELDS["tags"]}
    runs = {"bidirectional LSTM": run_seeds(recipe, options, error_ratio)}
    aim = "at most 65 % of the errors of the most-frequent-tag baseline, half as the aim"
    save("tags", title="HKCanCor, part of speech", aim=aim, runs=runs, recipes={"bidirectional LSTM": recipe})
