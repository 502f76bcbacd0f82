"""How gates and gradients changed while a model trained, from the looks in metrics.jsonl.

Axes     L looks (at most 60, the first and the last among them), bins of the gates' histograms, lags of the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.insight.packing import heat
from unrolled.training.inspection.metrics import looks_of

__all__ = ["looks_json"]


def looks_json(entries: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The looks turned round: a list over time for each quantity. None where training took no look.

    steps      [L] optimizer steps          epochs   [L]
    layers     [PLACE + {saturated: {gate: {low: [L], high: [L]}}, histogram: {gate: HEAT (bins, L)} of shares,
                half_life: [L] or null, norm: {gate: [L]}, gradient: HEAT (lags, L) of log10}]
    gradients  {part of the model: [L] norms}
    """
    looks = [one for one in looks_of(list(entries)) if isinstance(one.get("layers"), list)]
    if not looks:
        return None
    places = list(dict.fromkeys(_key(layer) for look in looks for layer in look["layers"]))
    parts = list(dict.fromkeys(name for look in looks for name in look.get("gradients") or {}))
    return {
        "steps": [look.get("step") for look in looks],
        "epochs": [look.get("epoch") for look in looks],
        "layers": [_layer(looks, place) for place in places],
        "gradients": {name: [(look.get("gradients") or {}).get(name) for look in looks] for name in parts},
    }


def _key(layer: dict[str, Any]) -> tuple[Any, ...]:
    return layer.get("name"), layer.get("layer"), layer.get("direction"), layer.get("kind")


def _layer(looks: Sequence[dict[str, Any]], place: tuple[Any, ...]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [next((one for one in look["layers"] if _key(one) == place), {}) for look in looks]
    found: dict[str, Any] = dict(zip(("name", "layer", "direction", "kind"), place, strict=True))
    gates = list(dict.fromkeys(gate for row in rows for gate in row.get("saturated") or {}))
    ends = {gate: [(row.get("saturated") or {}).get(gate) or [None, None] for row in rows] for gate in gates}
    found["saturated"] = {gate: {"low": [a for a, _ in e], "high": [b for _, b in e]} for gate, e in ends.items()}
    drawn = list(dict.fromkeys(gate for row in rows for gate in row.get("histogram") or {}))
    found["histogram"] = {gate: _table([(row.get("histogram") or {}).get(gate) for row in rows]) for gate in drawn}
    found["half_life"] = [row.get("half_life") for row in rows] if any("half_life" in row for row in rows) else None
    found["norm"] = {}
    for place_of_gate, gate in enumerate(gates):
        norms = [row.get("norm") or [] for row in rows]
        found["norm"][gate] = [norm[place_of_gate] if place_of_gate < len(norm) else None for norm in norms]
    found["gradient"] = _table([row.get("gradient") for row in rows])
    return found


def _table(columns: Sequence[Any]) -> dict[str, Any]:
    """Lists of numbers (or words for what is no number) side by side as a heat; what is not there is empty."""
    longest = max((len(column) for column in columns if column), default=0)
    table = np.full((longest, len(columns)), np.nan)
    for place, column in enumerate(columns):
        for row, value in enumerate(column or ()):
            table[row, place] = float(value) if value is not None else np.nan
    return heat(table)
