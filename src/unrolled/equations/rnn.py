"""Simple (Elman) recurrent unit: the equation, nothing else.

Axes     B batch, I input, H hidden. There is one block of weights, so there is no gate axis.
Source   Elman (1990), Cognitive Science 14(2); relu as in Le, Jaitly, Hinton (2015), arXiv:1504.00941, section 3.
Variant  the state is the output; Jordan's network, which feeds the output layer back, is another unit.
"""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, relu, tanh


def rnn_step(
    x: Float[Tensor, "B I"],
    h: Float[Tensor, "B H"],
    W: Float[Tensor, "I H"],
    U: Float[Tensor, "H H"],
    b: Float[Tensor, "H"] | None = None,
    b_h: Float[Tensor, "H"] | None = None,
    *,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Float[Tensor, "B H"]:
    """The state after one step, h_t = φ(x_t W + b + h_{t-1} U + b_h)."""
    phi = tanh if nonlinearity == "tanh" else relu
    b = x.new_zeros(()) if b is None else b
    b_h = x.new_zeros(()) if b_h is None else b_h

    return phi(x @ W + b + h @ U + b_h)
