"""The table of parameters: every weight with its size and range, those of recurrent layers by named blocks of gates."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unrolled.insight import describe
from unrolled.insight.packing import number

__all__ = ["parameters_of"]


def parameters_of(model: nn.Module) -> list[dict[str, Any]]:
    """One dict a parameter; `blocks` are the rows of each gate, in the order in which they are stored."""
    weights = dict(model.named_parameters())
    rows = []
    for entry in describe.parameters_json(model):
        value = weights[entry["name"]].detach()
        gates = entry["blocks"]
        rows.append(entry | _spread(value) | {"blocks": None if gates is None else _blocks(value, gates)})
    return rows


def _spread(value: Tensor) -> dict[str, Any]:
    flat = value.double().reshape(-1)
    there = flat[flat.isfinite()]
    found: dict[str, Any] = {"dtype": str(value.dtype).removeprefix("torch."), "finite": len(there)}
    names = ("smallest", "largest", "mean", "deviation")
    if not len(there):
        return found | dict.fromkeys(names)
    parts = (there.min(), there.max(), there.mean(), there.std(unbiased=False))
    return found | {name: number(part) for name, part in zip(names, parts, strict=True)}


def _blocks(value: Tensor, gates: list[str]) -> list[dict[str, Any]]:
    """Gate by gate: its rows from (included) to (not included), the Frobenius norm and the deviation of its weights."""
    size = value.shape[0] // len(gates)
    found = []
    for place, gate in enumerate(gates):
        part = value[place * size : (place + 1) * size].double()
        entry = {"gate": gate, "rows": [place * size, (place + 1) * size], "mean": number(part.mean())}
        found.append(entry | {"norm": number(part.norm()), "deviation": number(part.std(unbiased=False))})
    return found
