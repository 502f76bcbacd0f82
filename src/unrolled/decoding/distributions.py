"""What a forecaster says of one value, as quantiles and as draws, from the numbers that its last layer gives.

Axes     … any, R raw numbers of one output, Q quantile levels.
Source   Salinas et al. (2020), "DeepAR", Int. J. Forecasting 36(3): Student-t and negative binomial outputs, the
         latter with mean μ and variance μ + α μ². Wen et al. (2017), arXiv:1711.11053: quantiles.
         The incomplete beta function by Lentz's continued fraction: Abramowitz and Stegun, 26.5.8.
Variant  Values are in units of the series' scale. point: R = 1, the value. quantile: R = Q, sorted, so levels never
         cross. student-t: R = 3, place, softplus scale, 2 + softplus degrees of freedom. negative-binomial: R = 2,
         softplus mean, softplus dispersion / scale; a draw is a whole number divided by the scale.
         Between trained quantiles the quantile function is a straight line; beyond them its last piece goes on.
"""

from __future__ import annotations

import math

import numpy as np

from unrolled.errors import expected

__all__ = ["OUTPUTS", "draw", "quantiles", "raw_width", "softplus"]

OUTPUTS = ("point", "quantile", "student-t", "negative-binomial")
SMALLEST = 1e-4  # of a scale or a dispersion, so that a density stays finite


def raw_width(output: str, levels: int) -> int:
    """R: the raw numbers of an output."""
    return {"point": 1, "quantile": levels, "student-t": 3, "negative-binomial": 2}[output]


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + eˣ), exact for large and small x."""
    return np.logaddexp(0.0, x)


def student_t(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(…, 3) → place, scale, degrees of freedom, each (…)."""
    return raw[..., 0], softplus(raw[..., 1]) + SMALLEST, 2 + softplus(raw[..., 2])


def negative_binomial(raw: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(…, 2) and the scale of the series (…) → number and probability of successes, as NumPy takes them."""
    mean = scale * softplus(raw[..., 0]) + SMALLEST
    count = 1 / (softplus(raw[..., 1]) / scale + SMALLEST)
    return count, count / (count + mean)


def draw(
    output: str, raw: np.ndarray, *, levels: np.ndarray, scale: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One draw of each value: raw (…, R), scale (…) → (…), in units of the scale. A point is itself."""
    if output == "point":
        return raw[..., 0]
    if output == "quantile":
        return _interpolate(np.sort(raw, axis=-1), levels, rng.random(raw.shape[:-1])[..., None])[..., 0]
    if output == "student-t":
        place, spread, freedom = student_t(raw)
        return place + spread * rng.standard_t(freedom)
    return rng.negative_binomial(*negative_binomial(raw, scale)) / scale


def quantiles(output: str, raw: np.ndarray, wanted: np.ndarray, *, levels: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The values below which the wanted shares lie: raw (…, R), scale (…) → (…, Q), in units of the scale.

    A point has no spread: every level is the point itself.

    Raises:
        ValueError: a level is not between 0 and 1.
    """
    wanted = np.asarray(wanted, np.float64)
    if wanted.size and not (wanted.min() > 0 and wanted.max() < 1):
        raise ValueError(expected("quantiles", "numbers between 0 and 1", wanted.tolist()))
    if output == "point":
        return np.repeat(raw, len(wanted), axis=-1)
    if output == "quantile":
        shares = np.broadcast_to(wanted, (*raw.shape[:-1], len(wanted)))
        return _interpolate(np.sort(raw, axis=-1), levels, shares)
    if output == "student-t":
        place, spread, freedom = (part[..., None] for part in student_t(raw))
        return place + spread * student_t_quantile(freedom, wanted)
    count, success = (part[..., None] for part in negative_binomial(raw, scale))
    return negative_binomial_quantile(count, success, wanted) / scale[..., None]


def _interpolate(values: np.ndarray, levels: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The quantile function through (levels, values) at `shares`: values (…, Q) rising, shares (…, N) → (…, N)."""
    if len(levels) == 1:
        return np.repeat(values, shares.shape[-1], axis=-1)
    right = np.clip(np.searchsorted(levels, shares), 1, len(levels) - 1)
    low, high = np.take_along_axis(values, right - 1, -1), np.take_along_axis(values, right, -1)
    part = (shares - levels[right - 1]) / (levels[right] - levels[right - 1])
    return low + part * (high - low)


def student_t_quantile(freedom: np.ndarray, share: np.ndarray) -> np.ndarray:
    """t with P(T ≤ t) = share; both broadcast."""
    freedom, share = np.broadcast_arrays(np.asarray(freedom, np.float64), np.asarray(share, np.float64))
    tail = np.minimum(share, 1 - share)  # P(T > t), for t ≥ 0
    low, high = np.full(tail.shape, -40.0), np.full(tail.shape, 40.0)  # of log t
    for _ in range(60):
        middle = (low + high) / 2
        beyond = 0.5 * beta_cdf(freedom / 2, 0.5, freedom / (freedom + np.exp(2 * middle))) > tail
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.where(share == 0.5, 0.0, np.sign(share - 0.5) * np.exp((low + high) / 2))


def negative_binomial_quantile(count: np.ndarray, success: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The least whole k with P(K ≤ k) ≥ share; all broadcast."""
    count, success, share = np.broadcast_arrays(count, success, share)
    mean = count * (1 - success) / success
    low = np.full(share.shape, -1.0)
    high = np.ceil(10 * mean + 10)
    while (short := beta_cdf(count, high + 1, success) < share).any():
        high = np.where(short, 2 * high, high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = (middle >= 0) & (beta_cdf(count, np.maximum(middle, 0) + 1, success) >= share)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def beta_cdf(a: np.ndarray | float, b: np.ndarray | float, x: np.ndarray) -> np.ndarray:
    """The regularised incomplete beta function I_x(a, b), for a, b > 0 and 0 ≤ x ≤ 1."""
    a, b, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(x, np.float64))
    turned = x > (a + 1) / (a + b + 2)  # the fraction converges fast below this, and I_x(a, b) = 1 − I_{1−x}(b, a)
    a, b, x = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, 1 - x, x)
    inside = np.clip(x, 1e-300, 1 - 1e-16)
    front = _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b) + a * np.log(inside) + b * np.log1p(-inside)
    value = np.where(x <= 0, 0.0, np.exp(front) / a * _beta_fraction(a, b, inside))
    return np.where(turned, 1 - value, value)


def _beta_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of I_x(a, b) by Lentz's method, modified so that no denominator is 0."""
    tiny = 1e-300
    upper = np.ones_like(x)
    lower = 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    result = lower.copy()
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1 / _away_from_zero(1 + term * lower, tiny)
            upper = _away_from_zero(1 + term / upper, tiny)
            change = lower * upper
            result *= change
        if np.abs(change - 1).max(initial=0.0) < 1e-12:
            break
    return result


def _away_from_zero(x: np.ndarray, tiny: float) -> np.ndarray:
    return np.where(np.abs(x) < tiny, tiny, x)
