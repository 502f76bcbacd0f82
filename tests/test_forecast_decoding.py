"""Distributions against SciPy, and the order in which a forecast uses what is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from unrolled.decoding.distributions import (
    SMALLEST,
    draw,
    negative_binomial_quantile,
    quantiles,
    raw_width,
    softplus,
    student_t_quantile,
)
from unrolled.decoding.forecasting import Layout, Origin, autoregress, lagged_windows, seasonal_values
from unrolled.training.forecasting.losses import forecast_loss

LEVELS = np.array([0.1, 0.3, 0.5, 0.8, 0.9])
RNG = np.random.default_rng(5)


def test_student_t_quantiles_are_scipys():
    freedom = np.array([2.0, 2.5, 7.0, 60.0, 5000.0])[:, None]
    share = np.array([1e-4, 0.05, 0.3, 0.5, 0.75, 0.999])
    np.testing.assert_allclose(student_t_quantile(freedom, share), stats.t.ppf(share, freedom), rtol=1e-8, atol=1e-12)


def test_negative_binomial_quantiles_are_scipys():
    count = np.array([0.2, 1.0, 5.5, 300.0])[:, None]
    success = np.array([0.7, 0.02, 0.4, 0.5])[:, None]
    share = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    found = negative_binomial_quantile(count, success, share)
    np.testing.assert_array_equal(found, stats.nbinom.ppf(share, count, success))


def test_losses_are_minus_the_log_density_of_what_is_drawn():
    """The training loss (torch) and the forecast (NumPy) read the same numbers in the same way."""
    raw = RNG.normal(size=(7, 3)) * 2
    values = RNG.normal(size=7)
    place, spread, freedom = raw[:, 0], softplus(raw[:, 1]) + SMALLEST, 2 + softplus(raw[:, 2])
    given = torch.tensor(raw), torch.tensor(values)
    loss = forecast_loss("student-t", *given, scale=torch.tensor(1.0), levels=torch.tensor([0.5]))
    np.testing.assert_allclose(loss, -stats.t.logpdf(values, freedom, place, spread), rtol=1e-10)
    scale, counts = np.full(7, 4.0), RNG.integers(0, 30, 7)
    mean, r = scale * softplus(raw[:, 0]) + SMALLEST, 1 / (softplus(raw[:, 1]) / scale + SMALLEST)
    given = torch.tensor(raw[:, :2]), torch.tensor(counts / scale)
    loss = forecast_loss("negative-binomial", *given, scale=torch.tensor(scale), levels=torch.tensor([0.5]))
    np.testing.assert_allclose(loss, -stats.nbinom.logpmf(counts, r, r / (r + mean)), rtol=1e-9)


def test_the_pinball_loss_is_least_at_the_quantiles():
    values = torch.tensor(RNG.normal(size=4001))
    levels = torch.tensor([0.1, 0.5, 0.9])
    best = torch.tensor(np.quantile(values, levels))

    def mean(raw):
        return float(
            forecast_loss("quantile", raw.expand(4001, 3), values, scale=torch.tensor(1.0), levels=levels).mean()
        )

    for change in (-0.05, 0.05):
        for place in range(3):
            moved = best.clone()
            moved[place] += change
            assert mean(moved) > mean(best)


@pytest.mark.parametrize("output", ["point", "quantile", "student-t", "negative-binomial"])
def test_draws_have_the_quantiles_that_are_said(output):
    raw = np.array([0.3, 1.1, 0.4, -0.2, 2.0])[: raw_width(output, len(LEVELS))]
    scale = np.array(3.0)
    said = quantiles(output, raw, np.array([0.2, 0.5, 0.8]), levels=LEVELS, scale=scale)
    many = np.broadcast_to(raw, (40_000, len(raw)))
    drawn = draw(output, many, levels=LEVELS, scale=np.full(40_000, 3.0), rng=np.random.default_rng(1))
    atol = 1 / 3 if output == "negative-binomial" else 0.04
    np.testing.assert_allclose(np.quantile(drawn, [0.2, 0.5, 0.8]), said, atol=atol)
    assert (np.diff(said) >= 0).all()


def test_levels_must_be_shares():
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles("student-t", np.zeros((1, 3)), np.array([0.5, 1.0]), levels=LEVELS, scale=np.ones(1))


def test_lags_and_seasons_take_the_right_values():
    values = np.arange(10.0)
    lagged = lagged_windows(values, (1, 3))
    np.testing.assert_array_equal(lagged[[0, 1, 3, 10]], [[np.nan, np.nan], [0, np.nan], [2, 0], [9, 7]])
    np.testing.assert_array_equal(lagged_windows(values[6:], (1, 3), before=values[:6]), lagged[6:])
    # After 0 … 9 with season 4, the steps 10, 11, 12, 13, 14 repeat 6, 7, 8, 9, 6; season 1 repeats the last value.
    found = seasonal_values(values[-4:], (1, 4), 5)
    np.testing.assert_array_equal(found, [[9, 6], [9, 7], [9, 8], [9, 9], [9, 6]])


def test_values_drawn_are_fed_back_and_the_past_covariates_are_not_known_ahead():
    layout = Layout(lags=(1, 2), seasons=(1,), side=1, past=1, output="point", levels=(0.5,))
    seen = []

    def step(inputs):
        seen.append(inputs)
        return inputs[:, :1] + 1  # the last value, and one more

    origin = Origin(np.array([[3.0, 5.0]]), np.array([[7.0]]), np.array([[[10.0], [20.0]]]), np.zeros(1), np.ones(1))
    paths = autoregress(layout, step, origin, paths=1, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(paths, [[[6, 7]]])
    # lags 1 and 2, their flags, the past covariate and its flag, the side number, the size
    np.testing.assert_array_equal(seen, [[[5, 3, 1, 1, 7, 1, 10, 0]], [[6, 5, 1, 1, 0, 0, 20, 0]]])


def test_a_layout_is_saved_whole():
    layout = Layout((1, 24), (1, 24), 3, 2, "quantile", (0.1, 0.5, 0.9), 48)
    assert Layout.from_dict(layout.to_dict()) == layout
    assert (layout.width, layout.ahead, layout.outputs, layout.memory) == (2 * 2 + 2 * 2 + 3 + 1, 2 * 2 + 3 + 1, 3, 24)
