"""Scores of forecasts and what they are held against, by hand; what an error counts in training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from small_forecasts import many, ready
from unrolled.errors import DataError
from unrolled.training.forecasting.baselines import ETS, naive, seasonal_naive
from unrolled.training.forecasting.metrics import ForecastScores, naive_scale
from unrolled.training.forecasting.windows import batches


def test_scores_by_hand():
    scores = ForecastScores((0.1, 0.5, 0.9))
    actual, point = np.array([10.0, np.nan, 20.0]), np.array([8.0, 5.0, 24.0])
    quantiles = np.array([[7.0, 8.0, 11.0], [0, 0, 0], [22.0, 24.0, 30.0]])
    scores.update(actual, point, quantiles, 2.0)
    found = scores.compute()
    assert found["mase"] == pytest.approx((2 + 4) / 2 / 2)
    assert found["mae"] == pytest.approx(3)
    assert found["smape"] == pytest.approx(100 * (2 / 18 + 4 / 44))
    pinball = [(0.1 * 3 + 0.5 * 2 + 0.1 * 1), (0.9 * 2 + 0.5 * 4 + 0.1 * 10)]
    assert found["crps"] == pytest.approx(2 * sum(pinball) / 3 / 2 / 2)
    assert (found["coverage"], found["items"]) == (0.5, 2)
    scores.update(np.array([3.0]), np.array([1.0]), np.array([[0.0, 1.0, 4.0]]), float("nan"))
    assert scores.unscaled == 1
    assert scores.compute()["mase"] == found["mase"]
    with pytest.raises(DataError, match="values to score"):
        ForecastScores(()).compute()


def test_baselines_by_hand():
    history = np.array([1.0, 2, 3, 4, 5, np.nan, 7, np.nan])
    np.testing.assert_array_equal(naive(history, 2), [7, 7])
    np.testing.assert_array_equal(seasonal_naive(history, 6, 4), [5, 2, 7, 4, 5, 2])
    assert naive_scale(history, 4) == pytest.approx(4.0)
    assert naive_scale(np.array([1.0, 3.0]), 4) == 2.0
    assert np.isnan(naive_scale(np.full(9, 2.0), 4))


def test_exponential_smoothing_goes_on_without_a_new_fit():
    t = np.arange(120)
    values = 50 + 10 * np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).normal(size=120)
    values[40] = np.nan
    fitted = ETS(values, 96, 12)
    for origin in (96, 101, 108):
        np.testing.assert_allclose(fitted.forecast(origin, 12), values[origin : origin + 12], atol=1.0)
    cut = ETS(np.concatenate([values[:101], np.full(19, 1e6)]), 96, 12)  # what comes later changes nothing
    np.testing.assert_array_equal(cut.forecast(101, 12), fitted.forecast(101, 12))


def test_errors_count_in_units_of_the_scale_or_of_the_data():
    parts = many(3, 60)
    task, model = ready(parts)
    frames = [task.plan.frame(part) for part in parts]
    window, _ = next(batches(frames, task.recipe, task.plan, np.random.default_rng(0)))
    raw = model(window)
    scaled = task._losses(raw, window)
    task.recipe = task.recipe.replace(loss_units="data")
    ratio = task._losses(raw, window).flatten(1).sum(1) / scaled.flatten(1).sum(1)
    usual = np.exp(np.mean(np.log(task.plan.scaler.scale)))
    torch.testing.assert_close(ratio, (window.scale / usual).to(ratio.dtype), rtol=1e-5, atol=0)
    assert ratio.max() > 1.3 * ratio.min()
