"""What an evaluation found: the field's metrics, those of trivial baselines beside them, and how much was scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Report", "Row", "title_of"]

Numbers = dict[str, float]

_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "token_accuracy": "token accuracy",
    "span_f1": "span F1",
    "span_precision": "span precision",
    "span_recall": "span recall",
    "perplexity": "perplexity",
    "nats_per_token": "nats per token",
    "exact_match": "exact match",
    "token_error_rate": "token error rate",
    "bleu": "BLEU",
    "chrf": "chrF",
    "bits_per_character": "bits per character",
    "mase": "MASE",
    "smape": "sMAPE, %",
    "mae": "MAE",
    "crps": "CRPS, scaled",
    "coverage": "coverage",
}


def title_of(metric: str) -> str | None:
    """What a metric is called in a table; None for a number that is no metric, such as a count."""
    return _TITLES.get(metric)


class Row(NamedTuple):
    """One metric of the model and of each baseline; None where a baseline does not have it."""

    metric: str
    value: float
    baselines: tuple[float | None, ...]

    @property
    def title(self) -> str:
        return _TITLES.get(self.metric, self.metric)


@dataclass(frozen=True)
class Report:
    """The result of one evaluation."""

    data: str
    metrics: Numbers  # by name, in the order of the table
    baselines: dict[str, Numbers]  # by the name of the baseline
    items: int
    unit: str  # what the items are, such as "utterances" or "tokens"
    notes: Sequence[str] = ()
    published: Sequence[tuple[str, str, str]] = field(default=())  # what, figure, source

    @property
    def rows(self) -> list[Row]:
        """The table, one row a metric."""
        return [
            Row(name, value, tuple(baseline.get(name) for baseline in self.baselines.values()))
            for name, value in self.metrics.items()
            if name in _TITLES
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "data": self.data,
            "items": self.items,
            "unit": self.unit,
            "metrics": dict(self.metrics),
            "baselines": {name: dict(numbers) for name, numbers in self.baselines.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        heading = f"{self.data}: {self.items:,} {self.unit} scored"
        names = ["", "model", *self.baselines]
        table = [[row.title, *(_number(value) for value in (row.value, *row.baselines))] for row in self.rows]
        widths = [max(len(line[column]) for line in [names, *table]) for column in range(len(names))]
        lines = [heading]
        for line in [names, *table]:
            cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            lines.append("  ".join([line[0].ljust(widths[0]), *cells]).rstrip())
        lines += [f"published, {what}: {figure} ({source})" for what, figure, source in self.published]
        return "\n".join([*lines, *self.notes])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
