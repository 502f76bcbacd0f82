"""The small models that come with the lab, as what the page shows of them: without weights, so without PyTorch.

`tools/train_lab_models.py` trains them and writes demo.json, which `unrolled.training.inspection.lab_data` describes;
`tools/lab_tasks.py` writes tasks.json: an encoder–decoder step by step, and the record of `unrolled compare`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

__all__ = ["demo", "with_demo"]


def demo() -> dict[str, Any]:
    """models, generation, tasks and compare of the models that come with the lab."""
    found, shown = (
        json.loads((resources.files("unrolled.lab") / name).read_text(encoding="utf-8"))
        for name in ("demo.json", "tasks.json")
    )
    return found | {"tasks": {**found["tasks"], "pairs": shown["pairs"]}, "compare": shown["compare"]}


def with_demo(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a page with the demo behind what it has already: a person's own models come first."""
    found, own = demo(), dict(data)
    for name in ("models", "generation"):
        own[name] = [*own.get(name, []), *found[name]]
    own["tasks"] = {**found["tasks"], **own.get("tasks", {})}
    if own.get("compare") is None:
        own["compare"] = found["compare"]
    return own
