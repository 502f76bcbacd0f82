"""Cells of frameworks that cannot be run here, written from their published sources, one step at a time in NumPy.

TensorFlow 1   tensorflow 1.15, python/ops/rnn_cell_impl.py: BasicRNNCell, GRUCell, LSTMCell. The matrix is applied to
               [inputs, state] side by side; LSTM columns i, j, f, o, and forget_bias is added to f at run time; GRU
               gates r, u, the candidate sees r * state, and the new state is u * state + (1 - u) * c.
RTNeural       RTNeural/gru/gru.tpp, RTNeural/lstm/lstm.tpp and model_loader.h: columns z, r, c with two biases, the
               candidate's second one inside the reset, h = (1 - z) c + z h; LSTM columns i, f, c, o.

Nothing here is shared with the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def tf1_lstm(t: Mapping[str, Array], x: Array, h: Array, c: Array, forget_bias: float) -> tuple[Array, Array]:
    lstm_matrix = np.concatenate([x, h], 1) @ t["kernel"] + t["bias"]
    i, j, f, o = np.split(lstm_matrix, 4, axis=1)
    c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(j)
    m = sigmoid(o) * np.tanh(c)
    return (m @ t["projection/kernel"] if "projection/kernel" in t else m), c


def tf1_gru(t: Mapping[str, Array], x: Array, state: Array) -> Array:
    r, u = np.split(sigmoid(np.concatenate([x, state], 1) @ t["gates/kernel"] + t["gates/bias"]), 2, axis=1)
    c = np.tanh(np.concatenate([x, r * state], 1) @ t["candidate/kernel"] + t["candidate/bias"])
    return u * state + (1 - u) * c


def tf1_rnn(t: Mapping[str, Array], x: Array, state: Array) -> Array:
    return np.tanh(np.concatenate([x, state], 1) @ t["kernel"] + t["bias"])


def rtneural_lstm(weights: list[Any], x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    W, U, b = (np.asarray(one) for one in weights)
    size = len(U)
    column = {gate: slice(n * size, (n + 1) * size) for n, gate in enumerate("ifco")}
    i, f, o = (sigmoid(x @ W[:, column[g]] + h @ U[:, column[g]] + b[column[g]]) for g in "ifo")
    k = column["c"]
    c = f * c + i * np.tanh(x @ W[:, k] + h @ U[:, k] + b[k])
    return o * np.tanh(c), c


def rtneural_gru(weights: list[Any], x: Array, h: Array) -> Array:
    W, U, b = (np.asarray(one) for one in weights)
    size = len(U)
    z_, r_, c_ = (slice(n * size, (n + 1) * size) for n in range(3))
    z = sigmoid(x @ W[:, z_] + h @ U[:, z_] + b[0][z_] + b[1][z_])
    r = sigmoid(x @ W[:, r_] + h @ U[:, r_] + b[0][r_] + b[1][r_])
    c = np.tanh(x @ W[:, c_] + b[0][c_] + r * (h @ U[:, c_] + b[1][c_]))
    return (1 - z) * c + z * h


def rtneural_model(document: Mapping[str, Any], x: Array) -> Array:
    """A whole model, sample by sample from zeros; x (B, T, I)."""
    for layer in document["layers"]:
        weights, kind = layer["weights"], layer["type"]
        if kind == "dense":
            x = x @ np.asarray(weights[0]) + np.asarray(weights[1])
            x = {"": lambda a: a, "tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[layer["activation"]](x)
            continue
        h = c = np.zeros((len(x), layer["shape"][-1]))
        outs = []
        for t in range(x.shape[1]):
            if kind == "gru":
                h = rtneural_gru(weights, x[:, t], h)
            else:
                h, c = rtneural_lstm(weights, x[:, t], h, c)
            outs.append(h)
        x = np.stack(outs, 1)
    return x
