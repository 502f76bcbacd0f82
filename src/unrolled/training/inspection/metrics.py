"""What metrics.jsonl says about clipping, and the looks at gates and gradients that training took."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from unrolled.insight.verdict import Clipping

__all__ = ["MOST_LOOKS", "clipping_of", "events", "looks_of"]

MOST_LOOKS = 60
MOST_STEPS = 200


def events(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; what is cut off or no object is left out; [] where there is no file."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def clipping_of(entries: list[dict[str, Any]], limit: float | None) -> Clipping | None:
    """What clipping touched, of the steps that were logged; None where none was."""
    steps = [e for e in entries if e.get("event") == "step" and isinstance(e.get("gradient_norm"), int | float)]
    if not steps:
        return None
    touched = tuple(int(e["step"]) for e in steps if e.get("clipped"))
    norms = [float(e["gradient_norm"]) for e in steps if math.isfinite(e["gradient_norm"])]
    return Clipping(limit, len(steps), touched, max(norms, default=math.nan))


def looks_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The looks that training took, evenly thinned to a cap; the first and the last are kept."""
    looks = [e for e in entries if e.get("event") == "insight"]
    if len(looks) <= MOST_LOOKS:
        return looks
    kept = {round(i * (len(looks) - 1) / (MOST_LOOKS - 1)) for i in range(MOST_LOOKS)}
    return [looks[i] for i in sorted(kept)]
