"""Long short-term memory: the equations, nothing else.

Axes     B batch, I input, H cell, P state after projection (P = H without one); gates are an axis: i, f, g, o.
Source   Hochreiter & Schmidhuber (1997), Neural Computation 9(8); Gers, Schmidhuber & Cummins (2000) for the forget
         gate; the projection of Sak, Senior & Beaufays (2014), arXiv:1402.1128, eq. (7).
Variant  with a forget gate, without peepholes: a gate sees x and h, not c. The cell of 1997 had no forget gate: f = 1.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, sigmoid, tanh


class LSTMState(NamedTuple):
    h: Tensor  # (B, P) what the next step and the next layer see
    c: Tensor  # (B, H) the memory


class LSTMGates(NamedTuple):
    i: Tensor  # (B, H) input gate: how much of the candidate is written
    f: Tensor  # (B, H) forget gate: f = 1 keeps the memory whole
    g: Tensor  # (B, H) candidate
    o: Tensor  # (B, H) output gate: how much of the memory is shown


def lstm_gates(
    x: Float[Tensor, "B I"],
    h: Float[Tensor, "B P"],
    W: Float[Tensor, "4 I H"],
    U: Float[Tensor, "4 P H"],
    b: Float[Tensor, "4 H"] | None = None,
    b_h: Float[Tensor, "4 H"] | None = None,
) -> LSTMGates:
    """The three gates in (0, 1) and the candidate in (-1, 1)."""
    W_i, W_f, W_g, W_o = W
    U_i, U_f, U_g, U_o = U
    b_i, b_f, b_g, b_o = (0, 0, 0, 0) if b is None else b
    b_hi, b_hf, b_hg, b_ho = (0, 0, 0, 0) if b_h is None else b_h

    i = sigmoid(x @ W_i + b_i + h @ U_i + b_hi)
    f = sigmoid(x @ W_f + b_f + h @ U_f + b_hf)
    g = tanh(x @ W_g + b_g + h @ U_g + b_hg)
    o = sigmoid(x @ W_o + b_o + h @ U_o + b_ho)
    return LSTMGates(i, f, g, o)


def lstm_update(
    c: Float[Tensor, "B H"],
    i: Float[Tensor, "B H"],
    f: Float[Tensor, "B H"],
    g: Float[Tensor, "B H"],
    o: Float[Tensor, "B H"],
) -> LSTMState:
    """The memory is added to, not multiplied through: with the gates held fixed, ∂c_t/∂c_{t-1} = f_t."""
    c = f * c + i * g
    return LSTMState(o * tanh(c), c)


def lstm_step(
    x: Float[Tensor, "B I"],
    h: Float[Tensor, "B P"],
    c: Float[Tensor, "B H"],
    W: Float[Tensor, "4 I H"],
    U: Float[Tensor, "4 P H"],
    b: Float[Tensor, "4 H"] | None = None,
    b_h: Float[Tensor, "4 H"] | None = None,
    V: Float[Tensor, "H P"] | None = None,
) -> LSTMState:
    """The state after one step. V, where given, projects the shown memory from H to P."""
    h, c = lstm_update(c, *lstm_gates(x, h, W, U, b, b_h))
    return LSTMState(h if V is None else h @ V, c)
