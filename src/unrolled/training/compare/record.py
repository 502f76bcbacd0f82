"""The record of a comparison without what a page does not draw."""

from __future__ import annotations

from typing import Any

__all__ = ["slim"]

_KEPT = ("format", "date", "versions", "machine", "task", "data", "scored", "score", "budget", "baselines", "findings")
_OF_A_CELL = ("cell", "parameters", "hidden", "layers", "epochs", "learning_rate", "score", "growth")
_OF_A_RUN = ("seed", "score", "seconds", "resident_bytes", "engine")


def slim(record: dict[str, Any]) -> dict[str, Any]:
    """The same record, smaller: recipes and the metrics of each run are left out. What is kept has its place."""
    found = {name: record[name] for name in _KEPT if name in record}
    found["cells"] = [
        {name: cell[name] for name in _OF_A_CELL if name in cell}
        | {"runs": [{name: run.get(name) for name in _OF_A_RUN} for run in cell["runs"]]}
        for cell in record["cells"]
    ]
    return found
