"""The comparisons of the whole suite. All raise; none returns a bool. test_mutants.py proves that they can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor


def array(value: Any) -> np.ndarray:
    """A tensor or array as long double."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    return np.asarray(value, dtype=np.longdouble)


def error(got: Any, truth: Any) -> float:
    """Largest absolute difference; infinite if any entry of `got` is not finite."""
    got, truth = array(got), array(truth)
    assert got.shape == truth.shape, f"shape {got.shape}, wanted {truth.shape}"
    assert np.isfinite(truth).all(), "the truth itself is not finite"
    if got.size == 0:
        return 0.0
    return float(np.abs(got - truth).max()) if np.isfinite(got).all() else float("inf")


def assert_no_worse(
    got: Tensor, eager: Any, truth: ArrayLike | Tensor, *, factor: float = 2.0, floor: float = 2.0
) -> None:
    """`got` may err `factor` times as much as eager torch does, plus `floor` epsilons of the largest value."""
    truth = array(truth)
    scale = max(float(np.abs(truth).max(initial=0.0)), 1.0)
    budget = factor * error(eager, truth) + floor * torch.finfo(got.dtype).eps * scale
    found = error(got, truth)
    assert found <= budget, f"error {found:.2e} > budget {budget:.2e}"


def assert_near(got: Any, truth: Any, *, ulps: float = 64.0) -> None:
    """`got` (a tensor) lies within `ulps` epsilons of its own type, of the largest value, from `truth`.

    For results that have no eager counterpart: lengths, resets, options. A scan of a few steps errs by a few
    epsilons; the smallest of the mutants moves a result by more than 1e-4.
    """
    truth = array(truth)
    scale = max(float(np.abs(truth).max(initial=0.0)), 1.0)
    eps = torch.finfo(got.dtype).eps if isinstance(got, Tensor) else np.finfo(np.asarray(got).dtype).eps
    found, budget = error(got, truth), ulps * float(eps) * scale
    assert found <= budget, f"error {found:.2e} > budget {budget:.2e}"


def assert_bitwise(got: Tensor, want: Tensor) -> None:
    """Equal to the last bit, shape and type included."""
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=False)


def assert_digits(got: Any, printed: ArrayLike, *, digits: int = 4) -> None:
    """`got` rounds to the digits that a page prints."""
    got, want = array(got), array(printed)
    assert got.shape == want.shape, f"shape {got.shape}, wanted {want.shape}"
    found = error(got, want)
    assert found <= 0.5 * 10.0**-digits * 1.0001, f"{got} does not round to {want} at {digits} digits"
