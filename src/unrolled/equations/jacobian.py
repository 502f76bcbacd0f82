"""The factor that backpropagation through time multiplies once a step.

Axes     B batch, H hidden.
Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, eq. (5).
Variant  columns: J[i, j] = ∂h_t[i] / ∂h_{t-1}[j], so ∂h_T/∂h_t = J_T J_{T-1} ... J_{t+1}, in this order.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def rnn_jacobian(h: Float[Tensor, "B H"], U: Float[Tensor, "H H"]) -> Float[Tensor, "B H H"]:
    """J_t = diag(1 - h_t²) Uᵀ of a tanh unit; h is the state after the step."""
    return (1 - h**2).unsqueeze(-1) * U.mT
