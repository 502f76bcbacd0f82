"""Losses of forecasts: −log p of the value in nats, or the pinball loss, as means over the values that are there.

Axes     raw (…, R) as `decoding.distributions` says, values and mask (…).
Source   Salinas et al. (2020), "DeepAR", Int. J. Forecasting 36(3), for Student-t and negative binomial; the pinball
         loss of Koenker and Bassett (1978), twice its mean over levels approximates the CRPS.
Variant  Values are in units of the series' scale; those of the negative binomial are counts.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from unrolled.decoding.distributions import SMALLEST

__all__ = ["forecast_loss"]


def forecast_loss(output: str, raw: Tensor, values: Tensor, *, scale: Tensor, levels: Tensor) -> Tensor:
    """(…) the loss of each value: raw (…, R), values (…) in units of the scale, which broadcasts to them."""
    if output == "point":
        return (raw[..., 0] - values).abs()
    if output == "quantile":
        short = values[..., None] - raw
        return 2 * torch.maximum(levels * short, (levels - 1) * short).mean(-1)
    if output == "student-t":
        return _student_t(raw, values)
    return _negative_binomial(raw, values, scale)


def _student_t(raw: Tensor, values: Tensor) -> Tensor:
    place, spread, freedom = raw[..., 0], F.softplus(raw[..., 1]) + SMALLEST, 2 + F.softplus(raw[..., 2])
    z = (values - place) / spread
    normal = torch.lgamma(freedom / 2) - torch.lgamma((freedom + 1) / 2) + 0.5 * torch.log(math.pi * freedom)
    return normal + torch.log(spread) + (freedom + 1) / 2 * torch.log1p(z * z / freedom)


def _negative_binomial(raw: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    counts = torch.round(values * scale)
    mean = scale * F.softplus(raw[..., 0]) + SMALLEST
    r = 1 / (F.softplus(raw[..., 1]) / scale + SMALLEST)
    log_odds = torch.log(mean) - torch.log(r)
    binomial = torch.lgamma(counts + r) - torch.lgamma(counts + 1) - torch.lgamma(r)
    # log p = log r/(r + μ), log (1 − p) = log μ/(r + μ)
    return -(binomial - r * F.softplus(log_odds) - counts * F.softplus(-log_odds))
