"""Calibration: its shares on data that can be exchanged and on data that drift, and that it looks at no future."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_forecasts import COLUMNS, many, ready, recipe, series, walk, write
from test_runtime import close
from test_runtime_forecast import later
from unrolled import runtime
from unrolled.data import Dataset, Item
from unrolled.data.series import split_in_time
from unrolled.decoding.calibration import Calibration, Pending, conformal_offsets, track
from unrolled.errors import RecipeError
from unrolled.training import load, train
from unrolled.training.forecasting.calibrating import shifts_at, shifts_of
from unrolled.training.forecasting.rolling import Ask, forecast_from
from unrolled.training.trained import Trained

LEVELS = (0.1, 0.5, 0.9)


def forecasts(count: int, steps: int = 1, wide: float = 1.0) -> np.ndarray:
    """(N, h, Q) the quantiles of a normal distribution whose deviation is `wide`."""
    return np.broadcast_to(np.array([-1.2816, 0.0, 1.2816]) * wide, (count, steps, 3))


def share_below(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    return (values[..., None] <= found).mean(axis=(0, 1))


# laws of the offsets


@pytest.mark.parametrize("count", [10, 25])
def test_exchangeable_errors_reach_the_level_and_no_more(count: int) -> None:
    """The share is ⌈(n + 1) level⌉ / (n + 1) to the letter, however wrong the forecast, and the mirror image below."""
    rng, trials = np.random.default_rng(0), 4000
    wrong, hits = forecasts(count, wide=0.2) + 0.3, np.zeros(3)
    for _ in range(trials):
        values = rng.normal(size=(count + 1, 1))
        offsets, _ = conformal_offsets(values[:-1], wrong, LEVELS)
        hits += share_below(values[-1:], wrong[:1] + offsets)
    right = np.ceil((count + 1) * 0.9) / (count + 1)
    np.testing.assert_allclose(
        hits[[0, 2]] / trials, [1 - right, right], atol=4 * np.sqrt(right * (1 - right) / trials)
    )


def test_each_step_has_its_own_offset_where_there_are_enough_and_missing_values_do_not_count() -> None:
    rng = np.random.default_rng(1)
    growing = np.array([1.0, 2.0, 4.0])
    values = rng.normal(size=(4000, 3)) * growing
    values[rng.random(values.shape) < 0.3] = np.nan
    offsets, spread = conformal_offsets(values, forecasts(4000, 3), LEVELS)
    np.testing.assert_allclose(offsets[:, 2], 1.2816 * (growing - 1), atol=0.2)
    np.testing.assert_allclose(offsets[:, 0], -offsets[:, 2], atol=0.3)
    np.testing.assert_allclose(spread[:, 1], growing * np.sqrt(2 / np.pi), rtol=0.06)
    assert (offsets[:, 1] == 0).all()  # the median is the forecast
    few, _ = conformal_offsets(values[:20], forecasts(20, 3), LEVELS)
    np.testing.assert_array_equal(few, np.broadcast_to(few[:1], few.shape))
    for given in (values[:2] * np.nan, np.full((8, 1), 9.0)):  # nothing, and one error too few for 0.9
        none, _ = conformal_offsets(given, forecasts(*given.shape), LEVELS)
        assert (none == 0).all()
    enough, _ = conformal_offsets(np.full((9, 1), 9.0), forecasts(9), LEVELS)
    assert enough[0, 2] > 7


def test_calibrated_quantiles_rise_and_the_median_stays() -> None:
    rng = np.random.default_rng(2)
    found = np.sort(rng.normal(size=(50, 4, 3)), axis=-1)
    made = Calibration.fit(rng.normal(size=(50, 4)) * 0.01, found, LEVELS, rate=1.0)
    wanted = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
    given = np.sort(rng.normal(size=(6, 9, 6)), axis=-1)  # more steps than were calibrated, other levels
    moved = made.apply(given, wanted, np.array([3.0, 7.0, -3.0]))
    assert (np.diff(moved, axis=-1) >= 0).all()
    np.testing.assert_array_equal(moved[..., 3], given[..., 3])
    plain = made.apply(np.zeros((4, 6)), wanted)
    np.testing.assert_array_equal(plain[:, 0], plain[:, 1])  # beyond the outermost level as there
    flat = Calibration((0.1, 0.5, 0.9), np.array([[-4.0, 0, 2.0]]), np.ones((1, 3)), np.zeros(1, int), np.zeros((1, 3)))
    np.testing.assert_allclose(flat.apply(np.zeros((1, 6)), wanted), [[-4, -4, -2, 0, 1, 2]])
    np.testing.assert_allclose(flat.apply(np.array([[0.0, 0, 3, 4, 5, 6]]), wanted), [[-4, -4, 2, 4, 6, 8]])
    np.testing.assert_array_equal(replace(flat, least=-1.0).apply(np.zeros((1, 3)), LEVELS), [[-1, 0, 2]])


def test_a_quantile_does_not_depend_on_what_else_is_asked_for() -> None:
    """And quantiles that would cross once moved still rise."""
    rng = np.random.default_rng(7)
    squeezed = Calibration(LEVELS, np.array([[1.0, 0, -2.0]]), np.ones((1, 3)), np.zeros(1, int), np.zeros((1, 3)))
    every = (0.02, 0.1, 0.2, 0.35, 0.5, 0.6, 0.8, 0.9, 0.97)
    given = np.sort(rng.normal(size=(40, 5, len(every))), axis=-1)
    whole = squeezed.apply(given, every)
    assert (np.diff(whole, axis=-1) >= 0).all()
    for level in every:
        some = tuple(sorted({*LEVELS, level}))
        places = [every.index(one) for one in some]
        alone = squeezed.apply(given[..., places], some)
        np.testing.assert_array_equal(alone[..., some.index(level)], whole[..., every.index(level)])


# laws of the shift


def test_the_shift_is_the_sum_of_what_was_missed() -> None:
    """So the mean miss is (last shift - first shift) / (rate · N), which goes to 0 on any data (Gibbs and Candès)."""
    rng = np.random.default_rng(3)
    values = rng.standard_t(2, size=(60, 5)) * np.linspace(1, 9, 60)[:, None]
    made = Calibration.fit(values[:10], forecasts(10, 5), LEVELS, rate=0.4)
    start = np.array([0.3, 0.0, -0.2])
    shifts = track(made, start, values, forecasts(60, 5))
    missed = [
        np.array(LEVELS) - share_below(values[i : i + 1], made.apply(forecasts(1, 5), LEVELS, shifts[i : i + 1]))
        for i in range(60)
    ]
    np.testing.assert_allclose(shifts[-1], start + 0.4 * np.sum(missed, axis=0), atol=1e-12)


def test_what_drifts_is_covered_again() -> None:
    rng = np.random.default_rng(4)
    calm, wild = rng.normal(size=(300, 6)), 3 * rng.normal(size=(300, 6))
    covered = {}
    for rate in (0.0, 0.5):
        made = Calibration.fit(calm, forecasts(300, 6), LEVELS, rate=rate)
        shifts = track(made, np.zeros(3), wild, forecasts(300, 6))
        found = made.apply(forecasts(300, 6), LEVELS, shifts[:-1])[100:]
        covered[rate] = ((found[..., 0] <= wild[100:]) & (wild[100:] <= found[..., 2])).mean()
    assert covered[0.0] < 0.4
    assert 0.75 < covered[0.5] < 0.85


def test_a_shift_knows_nothing_of_its_own_horizon() -> None:
    values = np.random.default_rng(5).normal(size=(9, 4))
    made = Calibration.fit(values, forecasts(9, 4), LEVELS, rate=0.5)
    before = track(made, np.zeros(3), values, forecasts(9, 4))
    for changed in range(9):
        other = values.copy()
        other[changed:] = 1000.0
        after = track(made, np.zeros(3), other, forecasts(9, 4))
        np.testing.assert_array_equal(after[: changed + 1], before[: changed + 1])
        assert (after[changed + 1] != before[changed + 1]).any()


def test_a_quantile_at_its_bound_is_not_wound_up() -> None:
    """Nine zeros of ten lie at or below any quantile of a count: the shift stays where it can come back from."""
    values = (np.arange(4000).reshape(200, 20) % 10 == 0).astype(float)
    made = Calibration.fit(values, np.zeros((200, 20, 3)), LEVELS, rate=0.5, least=0.0)
    shifts = track(made, np.zeros(3), values, np.zeros((200, 20, 3)))
    np.testing.assert_array_equal(shifts[:, 0], 0)
    above = track(made, np.zeros(3), values + 5, np.full((200, 20, 3), [0.0, 2.0, 8.0]))[:, 0]
    assert above[-1] == above.max() < 30  # all values lie above the median, which the lowest level does not pass


def test_values_may_come_one_by_one() -> None:
    values = np.array([0.5, np.nan, -3.0, 2.0])
    whole = Pending(forecasts(1, 4)[0]).seen_more(values)
    pieces = Pending(forecasts(1, 4)[0])
    for value in values:
        assert pieces.left
        pieces = pieces.seen_more(np.array([value]))
    np.testing.assert_array_equal(pieces.below, [1, 1, 2])
    np.testing.assert_array_equal(whole.below, pieces.below)
    assert (whole.counted, pieces.counted, whole.left, pieces.left) == (3, 3, 0, 0)


def test_a_calibration_is_saved_whole_and_checked() -> None:
    values = np.random.default_rng(6).normal(size=(9, 2))
    made = Calibration.fit(values, forecasts(9, 2), LEVELS, series=3, rate=0.5, least=0.0)
    made = replace(made, until=np.array([3, 2**60, -(2**63)]), shifts=np.ones((3, 3)))
    saved = json.loads(json.dumps(made.to_dict()))
    again = Calibration.from_dict(saved)
    for name, part in vars(made).items():
        np.testing.assert_array_equal(getattr(again, name), part, err_msg=name)
    bad: list[dict[str, Any]] = [{"levels": [0.1, 0.9]}, {"offsets": []}, {"offsets": [[0, float("nan"), 0]] * 2}]
    bad += [{"spread": [[1, 1, 1]]}, {"shifts": []}, {"rate": -1}, {"levels": [0.1, 0.4, 0.9]}]
    for change in bad:
        with pytest.raises(ValueError, match="calibration"):
            Calibration.from_dict(saved | change)


# the forecaster


def calibrated_task(whole: Any, held: int = 24, tested: int = 30, **changes: Any) -> tuple[Any, Any, Any]:
    """A random model, calibrated on the middle of the series; and what is in the last part."""
    first, middle, last = split_in_time(whole, held, tested)
    torch.manual_seed(1)
    task, model = ready([first], **{"head": "direct", "output": "quantile", **changes})
    task.calibrate(model, Dataset([Item("x", series=middle)], "x"))
    return task, model, last


@pytest.mark.parametrize("mode", ["validation", "adaptive"])
def test_what_comes_after_changes_no_calibrated_forecast(mode: str) -> None:
    """No offset from the test part, and no forecast from values at or after its origin."""
    values = walk(130)
    origins = list(range(100, 128, 2))

    def made(given: np.ndarray) -> tuple[Any, list[np.ndarray]]:
        task, model, last = calibrated_task(series(given), calibrate=mode)
        frame = task.plan.frame(last, ahead=3)
        pairs, ask = [(frame, at) for at in origins], Ask(3, LEVELS, 1)
        shifts = shifts_at(model, task.plan, pairs, ask)
        return task, list(forecast_from(model, task.plan, [frame] * len(pairs), origins, ask, shifts))

    task, before = made(values)
    assert task.plan.calibration.offsets[:, [0, 2]].all()
    for cut in (100, 109, 120):
        loud = values.copy()
        loud[cut:] *= 1000
        other, after = made(loud)
        np.testing.assert_array_equal(other.plan.calibration.offsets, task.plan.calibration.offsets)
        np.testing.assert_array_equal(other.plan.calibration.shifts, task.plan.calibration.shifts)
        for at, one, two in zip(origins, before, after, strict=True):
            if at <= cut:
                np.testing.assert_array_equal(one, two)


def test_a_calibrated_forecast_of_one_level_is_that_of_all() -> None:
    task, model, last = calibrated_task(series(walk(130)))
    frame = task.plan.frame(last, ahead=3)
    (every,) = forecast_from(model, task.plan, [frame], [110], Ask(3, (0.1, 0.3, 0.5, 0.7, 0.9), 1))
    for column, level in enumerate((0.1, 0.3, 0.5, 0.7, 0.9)):
        (alone,) = forecast_from(model, task.plan, [frame], [110], Ask(3, (level,), 1))
        np.testing.assert_array_equal(alone[:, 0], every[:, column])


def test_the_test_part_goes_on_from_the_validation_part() -> None:
    task, model, last = calibrated_task(series(walk(130)))
    plan = task.plan
    row = plan.calibration.shifts[0]
    assert row.any()
    ask = Ask(3, LEVELS, 1)
    (goes_on,) = shifts_of(model, plan, [plan.frame(last)], ask)
    (alone,) = shifts_of(model, plan, [plan.frame(replace(last, begin=101))], ask)
    np.testing.assert_array_equal(goes_on[0], row)
    np.testing.assert_array_equal(alone[0], 0)
    assert len(goes_on) == 11
    task.remember(model, [Dataset([], "x"), Dataset([Item("x", series=last)], "x")])
    np.testing.assert_allclose(model.memory_shift[0].numpy(), goes_on[-1], rtol=1e-6)


def test_a_random_model_covers_what_it_should_after_calibration() -> None:
    """Independent values, so old and new errors can be exchanged: a network that knows nothing is made right."""
    noise = 10 + np.random.default_rng(7).normal(size=900)
    metrics = {}
    for mode in ("none", "validation", "adaptive"):
        task, model, last = calibrated_task(series(noise), 400, 400, calibrate=mode)
        metrics[mode] = task.measure(model, task.encode(Dataset([Item("x", series=last)], "x")))
    assert metrics["none"]["coverage"] < 0.7
    assert 0.74 < metrics["validation"]["coverage"] < 0.86
    assert 0.74 < metrics["adaptive"]["coverage"] < 0.86
    assert metrics["none"]["mase"] == metrics["validation"]["mase"] == metrics["adaptive"]["mase"]


@pytest.mark.parametrize("output", ["student-t", "negative-binomial", "quantile", "point"])
def test_runs_of_every_output_are_calibrated_saved_and_scored_again(output: str, tmp_path: Path) -> None:
    whole = [replace(one, target=np.round(np.abs(one.target))) for one in many(2, 70)]
    write(tmp_path, whole)
    given = recipe(**COLUMNS | {"data": str(tmp_path / "loads.csv"), "output": output, "epochs": 1, "valid_steps": 12})
    result = train(given, out=tmp_path / "run")
    trained = load(tmp_path / "run")
    calibration = trained.task.plan.calibration
    assert (calibration is None) == (output == "point")
    if calibration is not None:
        assert calibration.offsets.shape == (3, 3)
        assert calibration.until.tolist() == [one.series.times[-1] for one in _parts(trained).valid]
        assert np.isfinite(result.report.metrics["coverage"])
    again = trained.task.report(trained.model, _parts(trained).test, lambda: _parts(trained).train)
    assert again.metrics == pytest.approx(result.report.metrics)


def _parts(trained: Trained) -> Any:
    from unrolled.training.sources import open_parts

    return open_parts(trained.recipe)


@pytest.mark.parametrize("head", ["direct", "autoregressive"])
def test_the_runtime_follows_as_pytorch_does_in_any_pieces(head: str, tmp_path: Path) -> None:
    whole = many(3, 80, 3)
    parts = [[Item(one.where, series=part) for part in split_in_time(one.part(0, 60), 12, 0)] for one in whole]
    task, model = ready([one[0].series for one in parts], **COLUMNS | {"data": "x", "head": head, "output": "quantile"})
    task.calibrate(model, Dataset([one[1] for one in parts], "x"))
    task.remember(model, [Dataset([one[k] for one in parts], "x") for k in (0, 1)])
    trained = Trained(task.recipe, task, model)
    trained.save(tmp_path / "model.safetensors")
    wanted = trained.forecast(later(whole, 60, 71))
    at_once = runtime.load(tmp_path)
    for found, right in zip(at_once.forecast(later(whole, 60, 71)), wanted, strict=True):
        close(found, right, head)
    pieces = runtime.load(tmp_path)
    start = pieces.network.memory("shift").copy()
    for begin, end in ((60, 61), (61, 62), (62, 67), (67, 69)):
        pieces.forecast(later(whole, begin, end), keep=True)
        moved = (pieces.network.memory("shift") != start).any(axis=1)
        assert moved.all() if end >= 63 else not moved.any(), (begin, end)
    for found, right in zip(pieces.forecast(later(whole, 69, 71)), wanted, strict=True):
        close(found, right, head)


def test_a_plan_of_other_series_is_refused() -> None:
    task, _, _ = calibrated_task(series(walk(130)))
    saved = json.loads(json.dumps(task.plan.to_dict()))
    assert type(task.plan).from_dict(saved).calibration is not None
    for change in ({"horizon": 4}, {"scaler": saved["scaler"] | {"ids": ["a", "b"], "mean": [0, 0], "scale": [1, 1]}}):
        with pytest.raises(ValueError, match="calibration"):
            type(task.plan).from_dict(saved | change)


def test_the_recipe_names_its_choices() -> None:
    with pytest.raises(RecipeError, match="calibrate"):
        recipe(calibrate="always")
