"""The factor that backpropagation through time multiplies once a step.

Axes     B batch, H hidden, P state after projection (P = H without one); gates are an axis.
Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, eq. (5); for the gated cells the chain rule, line by line,
         on `lstm_gates`, `lstm_update` and `gru_gates`, `gru_update`.
Variant  columns: J[i, j] = ∂h_t[i] / ∂h_{t-1}[j], so ∂h_T/∂h_t = J_T J_{T-1} ... J_{t+1}, in this order. The input is
         held fixed. An LSTM's state is h, then c.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, tanh


def rnn_jacobian(
    h: Float[Tensor, "B H"], U: Float[Tensor, "H H"], *, nonlinearity: Literal["tanh", "relu"] = "tanh"
) -> Float[Tensor, "B H H"]:
    """J_t = diag(1 - h_t²) Uᵀ of a tanh unit, diag(h_t > 0) Uᵀ of a relu; h is the state after the step."""
    slope = 1 - h**2 if nonlinearity == "tanh" else (h > 0).to(h.dtype)
    return slope.unsqueeze(-1) * U.mT


def lstm_jacobian(
    c: Float[Tensor, "B H"],
    i: Float[Tensor, "B H"],
    f: Float[Tensor, "B H"],
    g: Float[Tensor, "B H"],
    o: Float[Tensor, "B H"],
    U: Float[Tensor, "4 P H"],
    V: Float[Tensor, "H P"] | None = None,
) -> Float[Tensor, "B S S"]:
    """∂(h_t, c_t) / ∂(h_{t-1}, c_{t-1}), S = P + H; c is the memory before the step, i f g o the gates of it."""
    U_i, U_f, U_g, U_o = U
    shown = tanh(f * c + i * g)
    opened = o * (1 - shown**2)  # ∂h_t/∂c_t

    c_by_h = _rows(c * f * (1 - f), U_f) + _rows(g * i * (1 - i), U_i) + _rows(i * (1 - g**2), U_g)
    c_by_c = torch.diag_embed(f)
    h_by_h = _rows(shown * o * (1 - o), U_o) + opened.unsqueeze(-1) * c_by_h
    h_by_c = torch.diag_embed(opened * f)
    if V is not None:
        h_by_h, h_by_c = V.mT @ h_by_h, V.mT @ h_by_c
    return torch.cat([torch.cat([h_by_h, h_by_c], -1), torch.cat([c_by_h, c_by_c], -1)], -2)


def gru_jacobian(
    h: Float[Tensor, "B H"],
    r: Float[Tensor, "B H"],
    z: Float[Tensor, "B H"],
    n: Float[Tensor, "B H"],
    U: Float[Tensor, "3 H H"],
    b_h: Float[Tensor, "3 H"] | None = None,
    *,
    reset_after: bool = True,
) -> Float[Tensor, "B H H"]:
    """∂h_t / ∂h_{t-1}; h is the state before the step, r z n the gates of it."""
    U_r, U_z, U_n = U
    slope = 1 - n**2
    if reset_after:
        pushed = h @ U_n + (0 if b_h is None else b_h[2])
        n_by_h = _rows(slope * r, U_n) + _rows(slope * pushed * r * (1 - r), U_r)
    else:
        through = torch.diag_embed(r) + _rows(h * r * (1 - r), U_r)  # ∂(r ⊙ h)/∂h
        n_by_h = _rows(slope, U_n) @ through
    return torch.diag_embed(z) + _rows((h - n) * z * (1 - z), U_z) + (1 - z).unsqueeze(-1) * n_by_h


def _rows(scale: Tensor, U: Tensor) -> Tensor:
    """diag(scale) Uᵀ, for each row of the batch."""
    return scale.unsqueeze(-1) * U.mT
