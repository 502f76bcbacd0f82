"""What an inspection says of layers, as JSON that a page can draw; `insight` documents the whole shape.

Axes     heats are (units, steps) for gates and states, (targets, steps) for gradients; units are those of largest
         variance, named by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.insight.attention import Weights
from unrolled.insight.attribution import Attribution
from unrolled.insight.bounds import recurrent_norms, spectral_radius
from unrolled.insight.cells import KEEPS, cell_of, is_recurrent, twin_of
from unrolled.insight.flow import Flow
from unrolled.insight.gates import CANDIDATES, at_the_ends, half_life, values
from unrolled.insight.jacobians import Products
from unrolled.insight.non_finite import Found
from unrolled.insight.packing import exact, heat, number, numbers
from unrolled.insight.stepping import Trace
from unrolled.insight.verdict import Verdict

__all__ = [
    "attention_json",
    "attribution_json",
    "flow_json",
    "found_json",
    "parameters_json",
    "products_json",
    "states_json",
    "statistics_json",
    "top_units",
    "verdict_json",
    "weights_json",
]

BINS = 20
MOST_EXACT = 16_384  # cells of a triangle that are also given as float32


def place(one: Trace | Flow | Products) -> dict[str, Any]:
    """Which layer and direction an entry is about."""
    return {"name": one.name, "layer": one.layer, "direction": one.direction, "kind": one.kind}


def top_units(traces: Sequence[Trace], most: int) -> list[int]:
    """The `most` units of one layer and direction whose h varies most over all steps of all traces, in order."""
    seen = torch.cat([values(trace, "h") for trace in traces])
    if len(seen) < 2 or seen.shape[1] <= most:
        return list(range(min(most, seen.shape[1])))
    return sorted(seen.var(0).nan_to_num(0).topk(most).indices.tolist())


def states_json(trace: Trace, units: Sequence[int], row: int = 0, *, fine: bool = False) -> dict[str, Any]:
    """h, c and the gates of some units at every step of one row. With a projection, h has units of its own.

    Args:
        fine: two bytes a number for h and c.
    """
    steps = trace.valid[:, row]

    def table(part: Tensor, bits: int = 8) -> dict[str, Any]:
        own = [unit for unit in units if unit < part.shape[-1]]
        return heat(part[steps, row][:, own].T, bits=bits)

    bits = 16 if fine else 8
    found = place(trace) | {"units": list(units), "h": table(trace.h, bits)}
    if trace.c is not None:
        found["c"] = table(trace.c, bits)
    return found | {"gates": {name: table(gate) for name, gate in trace.gates.items()}}


def statistics_json(
    traces: Sequence[Trace], *, low: float = 0.1, high: float = 0.9, fine: bool = False
) -> dict[str, Any]:
    """Counts over all steps of all traces of one layer and direction: whole numbers, so that shares are exact.

    Args:
        fine: also the counts at every edge between two bins, unit by unit, so that a page can move the thresholds.
    """
    first = traces[0]
    found: dict[str, Any] = {}
    for gate in first.gates or ("h",):
        seen = torch.cat([values(trace, gate) for trace in traces])
        left, right = at_the_ends(seen, gate, first.kind, low=low, high=high)
        ends = (-1.0, 1.0) if gate in CANDIDATES else (0.0, 1.0)
        if first.kind == "rnn_relu":
            ends = (0.0, float(seen.nan_to_num(0).max()) or 1.0) if seen.numel() else (0.0, 1.0)
        counts = torch.histc(seen.nan_to_num(0), BINS, *ends).long()
        found[gate] = {
            "count": len(seen),
            "left": left.sum(0).tolist(),
            "right": right.sum(0).tolist(),
            "histogram": {"from": ends[0], "to": number(ends[1]), "counts": counts.tolist()},
        }
        if fine:
            found[gate] |= _counts_at_edges(seen, *ends)
    result = place(first) | {"thresholds": [low, high], "gates": found}
    if first.kind in KEEPS:
        kept = torch.cat([values(trace, KEEPS[first.kind]) for trace in traces])
        lives = half_life(kept.log().mean(0).exp()) if len(kept) else torch.full(kept.shape[1:], torch.nan)
        result["half_life"] = {"gate": KEEPS[first.kind], "units": numbers(lives)}
    return result


def _counts_at_edges(seen: Tensor, start: float, end: float) -> dict[str, Any]:
    """How many steps of each unit lie below each edge of the histogram; how many above, unless that is the rest."""
    edges = [(start * (BINS - k) + end * k) / BINS for k in range(BINS + 1)]
    below = torch.stack([(seen < edge).sum(0) for edge in edges], -1)
    above = torch.stack([(seen > edge).sum(0) for edge in edges], -1)
    found = {"edges": edges, "below": below.tolist()}
    return found if bool((below + above == len(seen)).all()) else found | {"above": above.tolist()}


def products_json(one: Products) -> dict[str, Any]:
    """The medians over the rows, as logarithms to base 10."""
    found: dict[str, Any] = place(one) | {"path": one.path, "lags": list(one.lags), "capped": one.capped}
    for name in ("largest", "median", "frobenius", "bound"):
        found[name] = numbers(_median(getattr(one, name)), digits=9)  # six would leave 1e-4 of 10 ** 20
    return found | {"per_step": numbers(_median(one.per_step))}


def _median(column: Tensor) -> Tensor:
    return column.nanmedian(1).values if column.numel() else column.sum(1)


def flow_json(one: Flow, *, fine: bool = False) -> dict[str, Any]:
    """The triangle of log10 of the norms, and its mean by lag; `fine`: as float32 too, where it is not too large."""
    found = place(one) | {"targets": one.targets.tolist(), "cuts": list(one.cuts), "skipped": one.skipped}
    triangle = one.triangle().log10()
    found |= {"log10": heat(triangle), "by_lag": numbers(one.by_lag())}
    return found | ({"exact": exact(triangle)} if fine and triangle.numel() <= MOST_EXACT else {})


def verdict_json(one: Verdict) -> dict[str, Any]:
    """A verdict with its sentences; each has a key and its numbers, so that it can be said in another language."""
    found = numbers(asdict(one) | {"factor": one.factor})
    for part in ("evidence", "remedies"):
        found[part] = [{"key": f.key, "text": f.text, "values": numbers(f.values)} for f in getattr(one, part)]
    return found


def found_json(one: Found | None) -> dict[str, Any] | None:
    """Where numbers stop being finite, or grow large; None where neither happens."""
    return None if one is None else numbers(asdict(one)) | {"text": str(one)}


def attribution_json(one: Attribution, row: int = 0) -> dict[str, Any]:
    """The scores of one row."""
    found = {"method": one.method, "scores": numbers(one.scores[row])}
    found |= {"value": number(one.value[row]), "baseline": number(one.baseline[row])}
    if one.method == "integrated_gradients":
        found |= {"sum": number(one.scores[row].sum()), "gap": number(one.gap[row]), "nodes": one.nodes}
    return found


def attention_json(one: Weights, row: int = 0) -> dict[str, Any]:
    """The weights of one row, (queries, positions)."""
    return {"name": one.name, "kind": one.kind, "weights": heat(one.weights[row])}


def parameters_json(model: nn.Module) -> list[dict[str, Any]]:
    """Every parameter with its shape; those of recurrent layers with the names of the gates' blocks of rows."""
    blocks: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if is_recurrent(module):
            names = list(cell_of(twin_of(module)).names) or ["h"]
            blocks |= {f"{name}.{own}".lstrip("."): names for own, _ in module.named_parameters(recurse=False)}
    found = []
    for name, parameter in model.named_parameters():
        gates = None if "weight_hr" in name or "initial_" in name else blocks.get(name)
        found.append({"name": name, "shape": list(parameter.shape), "count": parameter.numel(), "blocks": gates})
    return found


def weights_json(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """The recurrent weights of each layer and direction: largest singular value and spectral radius of each block."""
    found = []
    for trace in traces:
        names = trace.weights.names or ("h",)
        sizes = {"largest": recurrent_norms(trace.weights.U), "radius": spectral_radius(trace.weights.U)}
        norms = {key: dict(zip(names, numbers(part), strict=True)) for key, part in sizes.items()}
        found.append(place(trace) | norms)
    return found
