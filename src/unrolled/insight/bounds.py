"""How large a product of Jacobians can be, from the largest singular values of the recurrent weights.

Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, section 2.1: ‖J‖ ≤ γ σ(U), with γ the largest slope of the
         unit, 1 for tanh and relu. For the gated cells the same inequality, term by term: a sum is at most the sum of
         the norms, a diagonal matrix has its largest entry as norm.
Variant  For gated cells the slopes are those of the gates at each step, since σ(U) alone bounds nothing there. An
         LSTM's step is four blocks, (h, c) by (h, c); their norms form a 2 × 2 matrix, and the norm of the product of
         these bounds the norm of the product.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from unrolled.insight.stepping import Trace

__all__ = ["log_bound", "recurrent_norms", "spectral_radius"]


def recurrent_norms(U: Tensor) -> list[float]:
    """The largest singular value of each block of the recurrent weights (gates, P, H)."""
    return [_norm(block.double()) for block in U]


def spectral_radius(U: Tensor) -> list[float]:
    """The largest absolute eigenvalue of each square block; it governs a fixed matrix in the long run only."""
    if U.shape[-1] != U.shape[-2]:
        return [math.nan] * len(U)
    finite = [bool(block.isfinite().all()) for block in U]
    return [
        float(torch.linalg.eigvals(block.double()).abs().max()) if good else math.nan
        for block, good in zip(U, finite, strict=True)
    ]


def _norm(matrix: Tensor) -> float:
    """The largest singular value; NaN where the matrix is not finite, on which the decomposition would fail."""
    return float(torch.linalg.matrix_norm(matrix, 2)) if bool(matrix.isfinite().all()) else math.nan


def log_bound(trace: Trace, row: int, order: Tensor, lags: tuple[int, ...]) -> list[float]:
    """log10 of the bound for each lag that the row has; `order` holds its steps as they are computed."""
    back = order.flip(0)
    blocks = _blocks(trace, row, back)  # (n, 2, 2) or (n, 1, 1)
    product, scale, bounds = torch.eye(blocks.shape[-1], dtype=torch.float64), 0.0, []
    for lag, block in enumerate(blocks, start=1):
        product = product @ block
        size = _norm(product)
        if size > 0:
            product, scale = product / size, scale + math.log10(size)
        if lag in lags:
            bounds.append(-math.inf if size == 0 else math.nan if math.isnan(size) else scale)
    return bounds


def _blocks(trace: Trace, row: int, steps: Tensor) -> Tensor:
    norms = recurrent_norms(trace.weights.U)
    gates = {name: gate[steps, row] for name, gate in trace.gates.items()}
    h = trace.before[0][steps, row]
    if trace.kind.startswith("rnn"):
        return torch.full((len(steps), 1, 1), norms[0], dtype=torch.float64)
    if trace.kind == "lstm":
        return _lstm(trace, gates, trace.before[1][steps, row], trace.c[steps, row], norms)  # type: ignore[index]
    return _gru(trace, gates, h, norms)[:, None, None]


def _largest(values: Tensor) -> Tensor:
    return values.abs().amax(-1)


def _gru(trace: Trace, gates: dict[str, Tensor], h: Tensor, norms: list[float]) -> Tensor:
    r, z, n = gates["r"], gates["z"], gates["n"]
    weights = trace.weights
    inside = (1 - z) * (1 - n**2)
    if trace.kind == "gru_after":
        pushed = h @ weights.U[2] + (0 if weights.b_h is None else weights.b_h[2])
        candidate = _largest(inside * r) * norms[2] + _largest(inside * pushed * r * (1 - r)) * norms[0]
    else:
        candidate = _largest(inside) * norms[2] * (_largest(r) + _largest(h * r * (1 - r)) * norms[0])
    return _largest(z) + _largest((h - n) * z * (1 - z)) * norms[1] + candidate


def _lstm(trace: Trace, gates: dict[str, Tensor], before: Tensor, after: Tensor, norms: list[float]) -> Tensor:
    i, f, g, o = (gates[name] for name in "ifgo")
    c_by_h = _largest(before * f * (1 - f)) * norms[1] + _largest(g * i * (1 - i)) * norms[0]
    c_by_h = c_by_h + _largest(i * (1 - g**2)) * norms[2]
    c_by_c = _largest(f)
    shown = after.tanh()
    through, opened = _largest(o * (1 - shown**2)), _largest(shown * o * (1 - o)) * norms[3]
    V = trace.weights.V
    narrow = 1.0 if V is None else _norm(V)
    top = torch.stack([(opened + through * c_by_h) * narrow, through * c_by_c * narrow], -1)
    return torch.stack([top, torch.stack([c_by_h, c_by_c], -1)], -2)
