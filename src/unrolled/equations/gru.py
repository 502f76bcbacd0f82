"""Gated recurrent unit: the equations, nothing else.

Axes     B batch, I input, H hidden; gates are an axis, in the order r, z, n.
Source   Cho et al. (2014), arXiv:1406.1078, eqs. (5)-(8); v1 resets after the product, v3, the published one, before.
Variant  both, by name. z = 1 keeps the old state. Chung et al. (2014), arXiv:1412.3555, swap the weights of the mix:
         their z is our 1 - z, so negating the z blocks of W, U and the biases converts exactly.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, sigmoid, tanh


class GRUGates(NamedTuple):
    r: Tensor  # (B, H) reset gate: how much of the old state the candidate sees
    z: Tensor  # (B, H) update gate: z = 1 keeps the old state
    n: Tensor  # (B, H) candidate


def gru_gates(
    x: Float[Tensor, "B I"],
    h: Float[Tensor, "B H"],
    W: Float[Tensor, "3 I H"],
    U: Float[Tensor, "3 H H"],
    b: Float[Tensor, "3 H"] | None = None,
    b_h: Float[Tensor, "3 H"] | None = None,
    *,
    reset_after: bool = True,
) -> GRUGates:
    """The two gates in (0, 1) and the candidate in (-1, 1).

    The two orders agree only where U_n is diagonal and b_hn is zero: a full U_n mixes the channels before, or after,
    r has scaled them.
    """
    W_r, W_z, W_n = W
    U_r, U_z, U_n = U
    b_r, b_z, b_n = (0, 0, 0) if b is None else b
    b_hr, b_hz, b_hn = (0, 0, 0) if b_h is None else b_h

    r = sigmoid(x @ W_r + b_r + h @ U_r + b_hr)  # (5) reset
    z = sigmoid(x @ W_z + b_z + h @ U_z + b_hz)  # (6) update
    if reset_after:
        n = tanh(x @ W_n + b_n + r * (h @ U_n + b_hn))  # (8) of v1, and cuDNN's
    else:
        n = tanh(x @ W_n + b_n + (r * h) @ U_n + b_hn)  # (8) of v3
    return GRUGates(r, z, n)


def gru_update(h: Float[Tensor, "B H"], z: Float[Tensor, "B H"], n: Float[Tensor, "B H"]) -> Float[Tensor, "B H"]:
    """The state after one step: a mix of the old state and the candidate."""
    return z * h + (1 - z) * n  # (7)


def gru_step(
    x: Float[Tensor, "B I"],
    h: Float[Tensor, "B H"],
    W: Float[Tensor, "3 I H"],
    U: Float[Tensor, "3 H H"],
    b: Float[Tensor, "3 H"] | None = None,
    b_h: Float[Tensor, "3 H"] | None = None,
    *,
    reset_after: bool = True,
) -> Float[Tensor, "B H"]:
    """The state after one step, with the reset after the product (as torch.nn.GRU) or before it (as the paper)."""
    _, z, n = gru_gates(x, h, W, U, b, b_h, reset_after=reset_after)
    return gru_update(h, z, n)
