"""ONNX nodes for our layers: one RNN, LSTM or GRU node a layer, with every attribute that changes the result.

Axes     the nodes run time-major (layout 0): X (T, B, I), Y (T, D, B, H), Y_h (D, B, H). Several runtimes ignore or
         refuse layout 1, so a batch-first graph is transposed instead.
Source   onnx, defs/rnn/defs.cc, operators RNN, LSTM and GRU, version 14.
Variant  B is always written, zeros if need be: runtimes have been wrong without it. GRU: linear_before_reset says where
         the reset stands; leaving it out would mean before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrolled.conventions import find
from unrolled.convert.packing import pack
from unrolled.convert.spec import Recurrent, refuse
from unrolled.errors import require

__all__ = ["OPERATORS", "Graph", "add_layer", "add_levels"]

OPERATORS = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
OPSET = 17


@dataclass
class Graph:
    """Nodes and weights of a graph that is being put together. Names are made unique by a count."""

    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    _count: int = 0

    def constant(self, name: str, array: np.ndarray) -> str:
        """An initializer; returns its name."""
        onnx = require("onnx", "export")
        self.initializers.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str] | str = "", **attributes: Any) -> str:
        """A node; returns the name of its first output, made up where none is given."""
        onnx = require("onnx", "export")
        if not outputs:
            self._count += 1
            outputs = f"{operator.lower()}_{self._count}"
        outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs[0]


def add_layer(
    graph: Graph, layer: Any, x: str, *, prefix: str = "", lengths: str = "", state: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """One of our layers, or of torch.nn's, with all its layers and directions.

    Args:
        x: the input's name, (T, B, I).
        prefix: before the names of weights, so that two layers do not meet.
        lengths: the name of an int32 (B,), or "" where every row is full. Past a row's length the output is 0.
        state: the names of h, and for an LSTM c, each (L·D, B, H); () for zeros.

    Returns:
        The names of the output (T, B, D·H) and of the final states (L·D, B, H).

    Raises:
        ConvertError: ONNX has no such cell: a projection; a learned initial state that is not zero.
    """
    from unrolled.convert.modules import levels_of_layer

    return add_levels(graph, levels_of_layer(layer), x, prefix=prefix, lengths=lengths, state=state)


def add_levels(
    graph: Graph,
    levels: Sequence[Recurrent],
    x: str,
    *,
    prefix: str = "",
    lengths: str = "",
    state: Sequence[str] = (),
) -> tuple[str, tuple[str, ...]]:
    """The same from units; see `add_layer`. All levels have the same number of directions."""
    finals: list[tuple[str, ...]] = []
    directions = len(levels[0].units)
    parts = [_split(graph, name, len(levels), directions, prefix) for name in state]
    for number, level in enumerate(levels):
        initial = [part[number] for part in parts]
        x, last = _add_level(graph, level, x, f"{prefix}layer{number}", lengths, initial)
        finals.append(last)
    joined = [
        names[0] if len(names) == 1 else graph.node("Concat", names, f"{prefix}final_{what}", axis=0)
        for what, names in zip("hc", zip(*finals, strict=True), strict=False)
    ]
    return x, tuple(joined)


def _split(graph: Graph, name: str, layers: int, directions: int, prefix: str) -> list[str]:
    """(L·D, B, H) as one (D, B, H) for each layer."""
    if layers == 1:
        return [name]
    sizes = graph.constant(f"{prefix}{name}_sizes", np.full(layers, directions, np.int64))
    outputs = [f"{prefix}{name}_{number}" for number in range(layers)]
    graph.node("Split", [name, sizes], outputs, axis=0)
    return outputs


def _add_level(
    graph: Graph, level: Recurrent, x: str, name: str, lengths: str, initial: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    first = level.units[0]
    weights = _weights(level)
    inputs = [x, *(graph.constant(f"{name}.{key}", weights[key]) for key in ("W", "R", "B")), lengths, *initial]
    while not inputs[-1]:
        inputs.pop()
    direction = "bidirectional" if len(level.units) == 2 else "reverse" if level.reverse else "forward"
    attributes: dict[str, Any] = {"hidden_size": first.hidden_size, "direction": direction}
    if first.cell == "rnn":
        attributes["activations"] = [unit.nonlinearity.capitalize() for unit in level.units]
    if first.cell == "gru":
        attributes["linear_before_reset"] = int(first.reset_after)
    states = ("h", "c") if first.cell == "lstm" else ("h",)
    finals = tuple(f"{name}.final_{what}" for what in states)
    y = graph.node(OPERATORS[first.cell], inputs, [f"{name}.Y", *finals], name=name, **attributes)
    if len(level.units) == 1:
        return graph.node("Squeeze", [y, graph.constant(f"{name}.direction", np.array([1], np.int64))]), finals
    y = graph.node("Transpose", [y], perm=[0, 2, 1, 3])  # (T, B, D, H): forward half, then backward half
    return graph.node("Reshape", [y, graph.constant(f"{name}.shape", np.array([0, 0, -1], np.int64))]), finals


def _weights(level: Recurrent) -> dict[str, np.ndarray]:
    """W (D, G·H, I), R (D, G·H, H), B (D, 2·G·H)."""
    raws = []
    for unit in level.units:
        kind = ("after" if unit.reset_after else "before") if unit.cell == "gru" else ""
        layout = find("onnx", unit.cell, kind)
        assert layout is not None
        if unit.variant != level.units[0].variant:
            raise refuse(unit.where, "two directions of one size and kind", "different ones")
        raw = pack(layout, unit)
        nothing = np.zeros(raw["W"].shape[0], raw["W"].dtype)
        raws.append(
            {"W": raw["W"], "R": raw["U"], "B": np.concatenate([raw.get("b", nothing), raw.get("b_h", nothing)])}
        )
    return {key: np.stack([raw[key] for raw in raws]) for key in ("W", "R", "B")}
