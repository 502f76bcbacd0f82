"""What converts to what, found by trying: random tensors of every kind through the packing of every framework.

Words    exact: every bit comes back. rounds: two biases are added into one, which rounds once. no: the other framework
         cannot compute it, and the conversion is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unrolled.conventions import LAYOUTS, Layout
from unrolled.convert.check import PROBE, random_raw
from unrolled.convert.exchange import FRAMEWORKS
from unrolled.convert.packing import pack, unpack
from unrolled.convert.spec import ConvertError, Origin, Unit

__all__ = ["KINDS", "markdown", "outcome", "returns"]

_BLOCKS = {"rnn": 1, "lstm": 4, "gru": 3}


def _unit(cell: str, *, biases: int = 2, projected: bool = False, **options: object) -> Unit:
    rng = np.random.default_rng(1)
    inputs, hidden, state = PROBE
    gates, state = _BLOCKS[cell], state if projected else hidden

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    W, U = draw(gates, inputs, hidden), draw(gates, state, hidden)
    b, b_h = (draw(gates, hidden) if count <= biases else None for count in (1, 2))
    V = draw(hidden, state) if projected else None
    return Unit(cell, W, U, b, b_h, V, **options)  # type: ignore[arg-type]  # of fields of two types


KINDS: dict[str, Callable[[], Unit]] = {
    "RNN, tanh": lambda: _unit("rnn"),
    "RNN, relu": lambda: _unit("rnn", nonlinearity="relu"),
    "LSTM": lambda: _unit("lstm"),
    "LSTM, one bias": lambda: _unit("lstm", biases=1),
    "LSTM, projection": lambda: _unit("lstm", projected=True),
    "GRU": lambda: _unit("gru"),
    "GRU, one bias": lambda: _unit("gru", biases=1),
    "GRU, reset before": lambda: _unit("gru", reset_after=False),
    "GRU, reset before, one bias": lambda: _unit("gru", reset_after=False, biases=1),
}


def outcome(kind: str, framework: str) -> str:
    """What becomes of one of `KINDS` in a framework: exact, rounds or no."""
    if framework == "unrolled":
        return "exact"
    unit = KINDS[kind]()
    found = [_try(layout, unit) for layout in LAYOUTS if (layout.framework, layout.cell) == (framework, unit.cell)]
    return next((word for word in ("exact", "rounds") if word in found), "no")


def _try(layout: Layout, unit: Unit) -> str:
    try:
        raw = pack(layout, unit, forget_offset=1.0)
    except ConvertError:
        return "no"
    back = unpack(layout, raw, "back", nonlinearity=unit.nonlinearity, forget_offset=1.0)
    same = all(np.asarray(a == b).all() for a, b in ((back.W, unit.W), (back.U, unit.U)))
    if not same:
        return "no"
    pairs = zip(_biases(back), _biases(unit), strict=True)
    return "exact" if all(np.asarray(a == b).all() for a, b in pairs) else "rounds"


def _biases(unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.zeros((_BLOCKS[unit.cell], unit.hidden_size), np.float32)
    return (nothing if unit.b is None else unit.b, nothing if unit.b_h is None else unit.b_h)


def returns(layout: Layout) -> bool:
    """Do the tensors of a layout come through us and back with every bit?"""
    raw = {name: np.empty(0) for name in _names(layout)}
    drawn = {n: a.astype(np.float32) for n, a in random_raw(Origin(layout, raw, ""), np.random.default_rng(2)).items()}
    nonlinearity = layout.nonlinearities.split()[0] if layout.nonlinearities else "tanh"
    unit = unpack(layout, drawn, "there", nonlinearity=nonlinearity, forget_offset=1.0)
    back = pack(layout, unit, forget_offset=1.0)
    return drawn.keys() == back.keys() and all((drawn[name] == back[name]).all() for name in drawn)


def _names(layout: Layout) -> list[str]:
    matrices = {"joined": ["WU"], "separate": [f"{m}_{g}" for m in "WU" for g in layout.gates]}
    names = list(matrices.get(layout.matrices, ["W", "U"]))
    names += ["b"] if layout.input_bias else []
    names += ["b_h"] if layout.hidden_bias else []
    return names + (["V"] if layout.projection else [])


def markdown() -> str:
    """Both tables, for docs/conversion.md."""
    lines = ["| from ours, or torch's | " + " | ".join(FRAMEWORKS) + " |", "|---" * (len(FRAMEWORKS) + 1) + "|"]
    lines += [f"| {kind} | " + " | ".join(outcome(kind, name) for name in FRAMEWORKS) + " |" for kind in KINDS]
    lines += ["", "| cell | comes back from us |", "|---|---|"]
    lines += [f"| {layout.name} | {'every bit' if returns(layout) else 'rounded'} |" for layout in LAYOUTS]
    return "\n".join(lines) + "\n"
