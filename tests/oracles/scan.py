"""RNN, LSTM and GRU as plain loops over NumPy vectors: the truth that the layers are compared with.

Axes     x (B, T, I); states (layers * directions, B, H or P); output (B, T, directions * P).
Weights  a dict with torch's names and shapes: weight_ih_l0 (gates * H, I), weight_hh_l0, bias_ih_l0, ..., weight_hr_l0.
         A bias that is not in the dict is zero. LSTM rows i, f, g, o; GRU rows r, z, n.
Numbers  whatever the arrays hold; `extended` turns everything into long double, one precision above float64.
Order    one row, one layer, one direction, one step at a time. No torch, no batching, nothing shared with the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Result:
    """What a layer returns; `c_n` is None unless the cell is an LSTM. `cells` is c at every step of the last layer."""

    out: Array
    h_n: Array
    c_n: Array | None


def extended(array: object) -> Array:
    """A copy in long double."""
    return np.asarray(array, dtype=np.longdouble)


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def rnn_step(x: Array, h: Array, w: Mapping[str, Array], relu: bool = False) -> Array:
    a = w["ih"] @ x + w["b_ih"] + w["hh"] @ h + w["b_hh"]
    return np.maximum(a, 0) if relu else np.tanh(a)


def lstm_step(x: Array, h: Array, c: Array, w: Mapping[str, Array]) -> tuple[Array, Array]:
    a = w["ih"] @ x + w["b_ih"] + w["hh"] @ h + w["b_hh"]
    size = len(c)
    i = sigmoid(a[:size])
    f = sigmoid(a[size : 2 * size])
    g = np.tanh(a[2 * size : 3 * size])
    o = sigmoid(a[3 * size :])
    new_c = f * c + i * g
    new_h = o * np.tanh(new_c)
    return (w["hr"] @ new_h if "hr" in w else new_h), new_c


def gru_step(x: Array, h: Array, w: Mapping[str, Array], reset_after: bool = True) -> Array:
    s = len(h)
    r = sigmoid(w["ih"][:s] @ x + w["b_ih"][:s] + w["hh"][:s] @ h + w["b_hh"][:s])
    z = sigmoid(w["ih"][s : 2 * s] @ x + w["b_ih"][s : 2 * s] + w["hh"][s : 2 * s] @ h + w["b_hh"][s : 2 * s])
    from_input = w["ih"][2 * s :] @ x + w["b_ih"][2 * s :]
    if reset_after:
        from_state = r * (w["hh"][2 * s :] @ h + w["b_hh"][2 * s :])
    else:
        from_state = w["hh"][2 * s :] @ (r * h) + w["b_hh"][2 * s :]
    return (1 - z) * np.tanh(from_input + from_state) + z * h


def _weights(weights: Mapping[str, Array], suffix: str) -> dict[str, Array]:
    part = {"ih": weights[f"weight_ih_{suffix}"], "hh": weights[f"weight_hh_{suffix}"]}
    rows = len(part["ih"])
    for name in ("ih", "hh"):
        part[f"b_{name}"] = weights.get(f"bias_{name}_{suffix}", np.zeros(rows, part["ih"].dtype))
    if f"weight_hr_{suffix}" in weights:
        part["hr"] = weights[f"weight_hr_{suffix}"]
    return part


def scan(
    cell: str,
    weights: Mapping[str, Array],
    x: Array,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Sequence[int] | None = None,
    resets: NDArray[np.bool_] | None = None,
    restart_h: Array | None = None,
    restart_c: Array | None = None,
    reset_after: bool = True,
) -> Result:
    """Run `cell` ("tanh", "relu", "lstm" or "gru"). `restart_h` (layers * directions, P): the state after a reset."""
    batch, steps, _ = x.shape
    directions = 2 if bidirectional else 1
    kind = x.dtype
    gates = {"lstm": 4, "gru": 3}.get(cell, 1)
    cell_size = weights["weight_ih_l0"].shape[0] // gates
    size = weights["weight_hh_l0"].shape[1]
    h0 = np.zeros((layers * directions, batch, size), kind) if h0 is None else h0
    c0 = np.zeros((layers * directions, batch, cell_size), kind) if c0 is None else c0
    restart_h = np.zeros((layers * directions, size), kind) if restart_h is None else restart_h
    restart_c = np.zeros((layers * directions, cell_size), kind) if restart_c is None else restart_c
    lengths = [steps] * batch if lengths is None else [int(n) for n in lengths]
    h_n, c_n = np.array(h0, kind), np.array(c0, kind)
    below = x
    for layer in range(layers):
        out = np.zeros((batch, steps, directions * size), kind)
        for direction in range(directions):
            index = layer * directions + direction
            w = _weights(weights, f"l{layer}" + ("_reverse" if direction else ""))
            for row in range(batch):
                h, c = h0[index, row], c0[index, row]
                order = range(lengths[row])
                previous = None
                for t in reversed(order) if direction else order:
                    if resets is not None:
                        # A boundary at t lies between t - 1 and t: the forward pass meets it before t,
                        # the backward pass before t - 1. What lies before step 0 cuts only the forward pass.
                        cut = resets[row, t] if not direction else previous is not None and resets[row, previous]
                        if cut:
                            h, c = restart_h[index], restart_c[index]
                    if cell == "lstm":
                        h, c = lstm_step(below[row, t], h, c, w)
                    elif cell == "gru":
                        h = gru_step(below[row, t], h, w, reset_after)
                    else:
                        h = rnn_step(below[row, t], h, w, relu=cell == "relu")
                    out[row, t, direction * size : (direction + 1) * size] = h
                    previous = t
                h_n[index, row], c_n[index, row] = h, c
        below = out
    return Result(below, h_n, c_n if cell == "lstm" else None)
