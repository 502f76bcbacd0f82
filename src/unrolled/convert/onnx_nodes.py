"""One RNN, LSTM or GRU node of ONNX, with its attributes and weights, as a `Recurrent`.

Source   onnx, defs/rnn/defs.cc: W (D, G·H, I), R (D, G·H, H), B (D, 2·G·H) with the input side first, P peepholes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.conventions import find
from unrolled.convert.packing import unpack
from unrolled.convert.spec import ConvertError, Recurrent, Unit, refuse
from unrolled.errors import expected

__all__ = ["level_of"]

_CELLS = {"RNN": "rnn", "LSTM": "lstm", "GRU": "gru"}
_USUAL = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"]}
_ATTRIBUTES = {"hidden_size", "direction", "activations", "activation_alpha", "activation_beta", "clip", "layout",
               "linear_before_reset", "input_forget"}  # fmt: skip


def level_of(operator: str, attributes: dict[str, Any], arrays: Sequence[Any], where: str) -> Recurrent:
    """The layer of one node.

    Args:
        arrays: W, R, B or None, P or None.

    Raises:
        ConvertError: an attribute that we cannot compute exactly, or a tensor of the wrong shape.
    """
    cell = _CELLS[operator]
    W, R, B, P = arrays
    direction = _text(attributes.get("direction", "forward"))
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ConvertError(expected(f"{where}: direction", "forward, reverse or bidirectional", repr(direction)))
    directions = 2 if direction == "bidirectional" else 1
    nonlinearities = _check(cell, attributes, P, directions, where)
    blocks = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    if W is None or R is None:
        raise ConvertError(expected(where, "W and R", "none"))
    hidden = attributes.get("hidden_size") or (R.shape[2] if R.ndim == 3 else 0)
    inputs = W.shape[2] if W.ndim == 3 else 0
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "W": (W, (directions, blocks * hidden, inputs)),
        "R": (R, (directions, blocks * hidden, hidden)),
    }
    if B is not None:
        shapes["B"] = (B, (directions, 2 * blocks * hidden))
    for name, (array, wanted) in shapes.items():
        if array.shape != wanted:
            raise ConvertError(expected(f"{where}: {name}", f"{wanted}", array.shape))
        if array.dtype.kind != "f":
            raise ConvertError(expected(f"{where}: {name}", "floating-point numbers", array.dtype))
    reset = "after" if attributes.get("linear_before_reset", 0) else "before"
    words = attributes.get("activations") or ["Tanh"] * directions
    units = []
    for number in range(directions):
        raw = {"W": W[number], "U": R[number]}
        if B is not None:
            raw["b"], raw["b_h"] = np.split(B[number], 2)
        units.append(_unit(cell, reset, raw, nonlinearities[number], _text(words[number]), where))
    return Recurrent(tuple(units), reverse=direction == "reverse")


def _unit(cell: str, reset: str, raw: dict[str, np.ndarray], nonlinearity: str, said: str, where: str) -> Unit:
    layout = find("onnx", cell, reset if cell == "gru" else "")
    assert layout is not None
    names = {key: f"{where}: {word}" for key, word in {"W": "W", "U": "R", "b": "B", "b_h": "B"}.items()}
    return unpack(layout, raw, where, nonlinearity=nonlinearity, said=said, names=names)


def _check(cell: str, attributes: dict[str, Any], P: Any, directions: int, where: str) -> list[str]:
    """What the node computes is what we compute; returns the RNN's nonlinearity of each direction."""
    unknown = sorted(set(attributes) - _ATTRIBUTES)
    if unknown:
        raise refuse(f"{where}: {unknown[0]}", "an attribute of version 7 or newer", "this one")
    if P is not None and np.asarray(P).any():
        way_out = "Our LSTM has none. Train without peepholes."
        raise refuse(f"{where}: P (peepholes)", "none, or zeros", f"values up to {np.abs(P).max():.3g}", way_out)
    if "clip" in attributes:
        raise refuse(f"{where}: clip", "no clipping of the gates' inputs", attributes["clip"])
    if attributes.get("input_forget"):
        raise refuse(f"{where}: input_forget", 0, attributes["input_forget"])
    count = len(_USUAL.get(cell, [""]))
    given = [_text(word).lower() for word in attributes.get("activations", [])]
    if cell == "rnn":
        given = given or ["tanh"] * directions
        if len(given) != directions or any(word not in ("tanh", "relu") for word in given):
            raise refuse(f"{where}: activations", f"Tanh or Relu, {directions} of them", given)
        if len(set(given)) > 1:
            raise refuse(f"{where}: activations", "the same in both directions", given)
        return given
    if given and given != _USUAL[cell] * directions:
        usual = ", ".join(word.capitalize() for word in _USUAL[cell] * directions)
        raise refuse(f"{where}: activations", usual, ", ".join(given) or count)
    return ["tanh"] * directions


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
