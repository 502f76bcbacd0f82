"""One scan and all of its gradients in long double: the truth for the native engine.

Axes     as in `unrolled.kernels`: x (T, B, I), states (B, H or P), W (gates, I, H), U (gates, P, H), V (H, P).
Source   the printed equations, forwards; reverse-mode differentiation by the chain rule of each operation.
Order    one row, one step at a time: a row of length n is n steps, whatever else the batch holds. Nothing is shared
         with the library; `test_oracles.py` compares it with the other NumPy program and with differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


class Var:
    """A long-double array that remembers what it was made of."""

    def __init__(self, value: Any, parents: Sequence[tuple[Var, Callable[[Array], Array]]] = ()) -> None:
        self.value = np.asarray(value, dtype=np.longdouble)
        self.parents = parents
        self.gradient = np.zeros_like(self.value)

    def __add__(self, other: Var) -> Var:
        return Var(self.value + other.value, [(self, lambda g: g), (other, lambda g: g)])

    def __sub__(self, other: Var) -> Var:
        return Var(self.value - other.value, [(self, lambda g: g), (other, lambda g: -g)])

    def __mul__(self, other: Var) -> Var:
        return Var(self.value * other.value, [(self, lambda g: g * other.value), (other, lambda g: g * self.value)])

    def __matmul__(self, weight: Var) -> Var:
        """A vector times a matrix."""
        inside = [(self, lambda g: weight.value @ g), (weight, lambda g: np.outer(self.value, g))]
        return Var(self.value @ weight.value, inside)

    def part(self, where: Any) -> Var:
        def spread(g: Array) -> Array:
            whole = np.zeros_like(self.value)
            whole[where] = g
            return whole

        return Var(self.value[where], [(self, spread)])


def tanh(a: Var) -> Var:
    value = np.tanh(a.value)
    return Var(value, [(a, lambda g: g * (1 - value * value))])


def sigmoid(a: Var) -> Var:
    value = 1 / (1 + np.exp(-a.value))
    return Var(value, [(a, lambda g: g * value * (1 - value))])


def relu(a: Var) -> Var:
    return Var(np.maximum(a.value, 0), [(a, lambda g: g * (a.value > 0))])


def backward(seeds: Sequence[tuple[Var, Array]]) -> None:
    """Add to every gradient what the seeds, the gradients of some results, give it."""
    order: list[Var] = []
    seen: set[int] = set()
    stack = [(var, False) for var, _ in seeds]
    while stack:
        var, is_done = stack.pop()
        if is_done:
            order.append(var)
        elif id(var) not in seen:
            seen.add(id(var))
            stack.append((var, True))
            stack += [(parent, False) for parent, _ in var.parents]
    for var, gradient in seeds:
        var.gradient = var.gradient + gradient
    for var in reversed(order):
        for parent, rule in var.parents:
            parent.gradient = parent.gradient + rule(var.gradient)


class Cell:
    """One step of a cell, its gates as separate Vars."""

    def __init__(self, cell: str, W: Array, U: Array, b: Array | None, b_h: Array | None, V: Array | None) -> None:
        gates, _, hidden = W.shape
        none = np.zeros((gates, hidden), np.longdouble)
        self.cell = cell
        self.W, self.U = [Var(w) for w in W], [Var(u) for u in U]
        self.b = [Var(v) for v in (none if b is None else b)]
        self.b_h = [Var(v) for v in (none if b_h is None else b_h)]
        self.V = None if V is None else Var(V)

    def step(self, x: Var, h: Var, c: Var | None) -> tuple[Var, Var | None]:
        a = [x @ w + b for w, b in zip(self.W, self.b, strict=True)]
        if self.cell == "gru_before":
            r, z = (sigmoid(a[k] + (h @ self.U[k] + self.b_h[k])) for k in (0, 1))
            n = tanh(a[2] + ((r * h) @ self.U[2] + self.b_h[2]))
            return n + z * (h - n), None
        s = [h @ u + b for u, b in zip(self.U, self.b_h, strict=True)]
        if self.cell == "gru_after":
            r, z = sigmoid(a[0] + s[0]), sigmoid(a[1] + s[1])
            n = tanh(a[2] + r * s[2])
            return n + z * (h - n), None
        if self.cell.startswith("rnn"):
            return (tanh if self.cell == "rnn_tanh" else relu)(a[0] + s[0]), None
        i, f, g, o = (act(a[k] + s[k]) for k, act in enumerate((sigmoid, sigmoid, tanh, sigmoid)))
        c = f * c + i * g
        h = o * tanh(c)
        return (h if self.V is None else h @ self.V), c

    def gradients(self) -> list[Array | None]:
        """Of W, U, b, b_h and V."""
        stacked = [np.stack([v.gradient for v in vars]) for vars in (self.W, self.U, self.b, self.b_h)]
        return [*stacked, None if self.V is None else self.V.gradient]


def scan(
    cell: str,
    tensors: Sequence[Array | None],
    seeds: Sequence[Array],
    *,
    lengths: Array | None = None,
    resets: Array | None = None,
    reverse: bool = False,
) -> tuple[list[Array], list[Array | None]]:
    """Results (out, h, and c of an LSTM), and the gradient of sum(seed * result) by each of the ten tensors.

    tensors: x, h, c, W, U, b, b_h, V, restart_h, restart_c; None where there is none.
    """
    given = [None if t is None else np.asarray(t, np.longdouble) for t in tensors]
    x, h0, c0, W, U, b, b_h, V, restart_h, restart_c = given
    assert x is not None
    assert h0 is not None
    steps, batch, _ = x.shape
    unit = Cell(cell, W, U, b, b_h, V)  # type: ignore[arg-type]
    fresh_h = Var(np.zeros(h0.shape[1]) if restart_h is None else restart_h)
    fresh_c = None if c0 is None else Var(np.zeros(c0.shape[1]) if restart_c is None else restart_c)
    results = [np.zeros((steps, *h0.shape), np.longdouble), h0.copy(), *([] if c0 is None else [c0.copy()])]
    gradients = [np.zeros_like(x), np.zeros_like(h0), None if c0 is None else np.zeros_like(c0)]

    for row in range(batch):
        length = steps if lengths is None else int(lengths[row])
        order = range(length - 1, -1, -1) if reverse else range(length)
        inputs = {t: Var(x[t, row]) for t in order}
        h, c = start = Var(h0[row]), None if c0 is None else Var(c0[row])
        pairs, previous = [], None
        for t in order:
            boundary = previous if reverse else t  # a reset at t lies between t - 1 and t
            if resets is not None and boundary is not None and resets[row, boundary]:
                h, c = fresh_h, fresh_c
            h, c = unit.step(inputs[t], h, c)
            results[0][t, row] = h.value
            pairs.append((h, np.asarray(seeds[0][t, row], np.longdouble)))
            previous = t
        for number, last in enumerate((h, c)):
            if last is not None:
                results[1 + number][row] = last.value
                pairs.append((last, np.asarray(seeds[1 + number][row], np.longdouble)))
        backward(pairs)
        for t, var in inputs.items():
            gradients[0][t, row] = var.gradient
        for total, var in zip(gradients[1:], start, strict=True):
            if total is not None:
                total[row] = var.gradient
    weights = [None if t is None else g for t, g in zip(given[3:8], unit.gradients(), strict=True)]
    fresh = [None if t is None else v.gradient for t, v in ((restart_h, fresh_h), (restart_c, fresh_c))]
    return results, [*gradients, *weights, *fresh]
