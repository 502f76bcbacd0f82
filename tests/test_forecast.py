"""Forecasting: what a forecast uses, what it may not see, and that a state carries on as if it had read the history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from small_forecasts import COLUMNS, many, ready, recipe, series, walk, write
from unrolled import bundle
from unrolled.data import Dataset, Item
from unrolled.data.series import split_in_time
from unrolled.errors import DataError, RecipeError, RunError
from unrolled.training import Recipe, load, resume, train
from unrolled.training.forecasting.rolling import Ask, forecast_from, forecast_left, go_on, keep, remember
from unrolled.training.forecasting.windows import _cut, batches, cuts_of, window_batch
from unrolled.training.sources import open_data

# what a forecast uses


def copying(model, column):
    """All weights 0, but for the straight line from one input to the place of the output."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.skip.weight[0, column] = 1.0


def one_step(task, model, one):
    ask = Ask(1, (0.5,), 1)
    (found,) = forecast_from(model, task.plan, [task.plan.frame(one, ahead=1)], [len(one)], ask)
    return float(found[0, 0])


def test_the_newest_observation_is_used():
    one = series(np.arange(30.0))
    task, model = ready([one], output="point")
    copying(model, task.plan.layout.lags.index(1))
    assert one_step(task, model, one) == pytest.approx(29.0, abs=1e-5)
    assert one_step(task, model, series(np.arange(30.0) + 100)) == pytest.approx(129.0, abs=1e-4)


def test_covariates_are_not_shifted():
    """A past covariate that is the next value, and a known one that is the value itself, give exact forecasts."""
    values = walk(31)
    one = series(values[:30], past=values[1:])
    task, model = ready([one], output="point", past=("temp",))
    task.plan.scaler.past[:] = [[task.plan.scaler.mean[0]], [task.plan.scaler.scale[0]]]
    copying(model, 2 * len(task.plan.layout.lags))
    assert one_step(task, model, one) == pytest.approx(values[30], abs=1e-4)
    one = series(values[:30], known=values)
    task, model = ready([one], output="point", known=("promo",))
    task.plan.scaler.known[:] = [[task.plan.scaler.mean[0]], [task.plan.scaler.scale[0]]]
    copying(model, 2 * len(task.plan.layout.lags))
    assert one_step(task, model, one) == pytest.approx(values[30], abs=1e-4)


@pytest.mark.parametrize("head", ["autoregressive", "direct"])
def test_what_comes_after_changes_no_forecast_and_no_training(head):
    """A test part of another level is seen by nothing that comes before it."""
    values = walk(60)
    loud = np.concatenate([values[:45], 1000 * values[45:]])
    found = []
    for given in (values, loud):
        train_part, valid, _ = split_in_time(series(given), 5, 10)
        torch.manual_seed(0)
        task, model = ready([train_part], head=head, scaler="window", output="quantile")
        frames = [task.plan.frame(train_part)]
        rng = np.random.default_rng(0)
        windows = [window for window, _ in batches(frames, task.recipe, task.plan, rng)]
        ask = Ask(3, (0.1, 0.5, 0.9), 5)
        (forecast,) = forecast_from(model, task.plan, [task.plan.frame(valid, ahead=3)], [45], ask)
        found.append((windows, forecast))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        for name, part in vars(one).items():
            if part is not None:
                torch.testing.assert_close(part, getattr(other, name), rtol=0, atol=0)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_no_window_leaves_its_series():
    parts = [series(np.arange(40.0) + 100 * i, name) for i, name in enumerate("ab")]
    task, _ = ready(parts, scaler="series")
    frames = [task.plan.frame(one) for one in parts]
    cuts = cuts_of(frames, task.plan)
    assert len(cuts) == 2 * (40 - 8 - 3 + 1)
    for index, start in cuts:
        cut = _cut(frames, task.plan, int(index), int(start))
        assert 0 <= cut.start < cut.turn <= cut.end - 3 < 40
        window = window_batch(frames, [cut], task.recipe, task.plan, np.random.default_rng(0))
        scale = task.plan.scaler.scale[index]
        values = window.targets[0].double().numpy() * scale + task.plan.scaler.mean[index]
        np.testing.assert_allclose(values, np.arange(start, start + 11) + 100 * index, atol=1e-3)


def test_past_covariates_are_hidden_in_the_horizon_as_they_will_be():
    one = series(walk(40), past=np.arange(40.0) + 1)
    task, _ = ready([one], past=("temp",))
    frame = task.plan.frame(one)
    window = window_batch([frame], [_cut([frame], task.plan, 0, 5)], task.recipe, task.plan, np.random.default_rng(0))
    there = window.inputs[0, :, 2 * len(task.plan.layout.lags) + 1]  # the flag of the past covariate
    assert there.tolist() == [1.0] * 9 + [0.0] * 2  # 8 of the context, and the first of the horizon


# missing and short (Q2, Q3)


@pytest.mark.parametrize("head", ["autoregressive", "direct"])
@pytest.mark.parametrize("output", ["student-t", "quantile", "point"])
def test_missing_values_are_masked_and_forecasts_stay_finite(head, output):
    values = walk(40)
    values[[5, 20, 21, 39]] = np.nan
    one = series(values)
    task, model = ready([one], head=head, output=output)
    frame = task.plan.frame(one, ahead=3)
    window = window_batch([frame], [_cut([frame], task.plan, 0, 15)], task.recipe, task.plan, np.random.default_rng(0))
    assert torch.isfinite(window.inputs).all()
    if head == "autoregressive":
        assert window.mask[0].tolist() == [i not in (5, 6) for i in range(11)]
    loss = task._losses(model(window), window)
    assert torch.isfinite(loss).all()
    assert (loss[~window.mask] == 0).all()
    levels = (0.5,) if output == "point" else (0.1, 0.5, 0.9)
    (found,) = forecast_from(model, task.plan, [frame], [40], Ask(3, levels, 9))
    assert found.shape == (3, len(levels))
    assert np.isfinite(found).all()


def test_a_short_series_is_refused_by_name_or_masked_or_dropped():
    parts = [series(walk(40), "long"), series(walk(3), "tiny")]
    with pytest.raises(DataError, match=r"series 'tiny': expected 11 training steps or more.*found 3.*--short mask"):
        ready(parts)
    task, model = ready(parts, short="mask")
    frames = [task.plan.frame(one) for one in parts]
    alone = window_batch(frames, [_cut(frames, task.plan, 1, 0)], task.recipe, task.plan, np.random.default_rng(0))
    both = window_batch(
        frames, [_cut(frames, task.plan, 0, 4), _cut(frames, task.plan, 1, 0)], task.recipe, task.plan,
        np.random.default_rng(0),
    )  # fmt: skip
    assert (alone.lengths.tolist(), both.lengths.tolist()) == ([3], [11, 3])
    torch.testing.assert_close(model(both)[1, :3], model(alone)[0])  # padded = alone
    assert not both.mask[1, 3:].any()
    dropped, _ = ready(parts, short="drop")
    assert dropped.plan.scaler.ids == ("long",)


def test_what_cannot_be_learnt_from_is_named():
    flat = series(np.full(40, 2.5), "flat")
    with pytest.raises(DataError, match=r"series 'flat': expected values that differ, found 2.5.*--constant drop"):
        ready([series(walk(40)), flat])
    task, _ = ready([series(walk(40)), flat], constant="keep")
    assert task.plan.scaler.scale[1] == 1.0
    with pytest.raises(DataError, match="series 'void': expected at least one value"):
        ready([series(walk(40)), series(np.full(40, np.nan), "void")])
    with pytest.raises(DataError, match=r"series 'a' at 3: expected a count.*found -1.*--output student-t"):
        ready([series([1, 2, 3, -1] * 10)], output="negative-binomial")
    for changes, message in [
        ({"bidirectional": True}, "bidirectional: expected false for task forecast"),
        ({"quantiles": (0.9, 0.5)}, "quantiles: expected rising numbers"),
        ({"quantiles": (0.1, 0.9)}, "quantiles: expected 0.5 among them"),
        ({"lags": (0, 1)}, "lags: expected whole numbers from 1 on"),
        ({"known": ("y",), "target": "y"}, "columns: expected one role each"),
    ]:
        with pytest.raises(RecipeError, match=message):
            recipe(**changes)


def test_a_known_covariate_must_be_known(tmp_path):
    one = series(walk(60), known=np.arange(60.0), name="a")
    holes = replace(one, known=np.where(np.arange(60.0)[:, None] == 17, np.nan, one.known))
    write(tmp_path, [holes])
    given = {"data": str(tmp_path / "loads.csv"), **COLUMNS, "past": (), "epochs": 1}
    with pytest.raises(DataError, match=r"'promo', known in advance, at every step, found none at 17\. .*--past"):
        train(recipe(**given), out=tmp_path / "run")
    train(recipe(**given, gaps="mask"), out=tmp_path / "run")
    with pytest.raises(DataError, match="known in advance"):
        open_data(given["data"], recipe(**given))


def test_a_file_that_is_too_short_names_its_longest_series(tmp_path):
    write(tmp_path, [series(walk(5), known=np.zeros(5), past=np.zeros(5), name="a")])
    with pytest.raises(DataError, match=r"hold out 3 steps or more .* found none; the longest, 'a', has 5 steps"):
        train(recipe(data=str(tmp_path / "loads.csv"), **COLUMNS), out=tmp_path / "run")


@pytest.mark.parametrize("output", ["student-t", "quantile"])
@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.5])
def test_a_quantile_is_a_share(output, level):
    task, model = ready(many(2, 60), output=output)
    frame = task.plan.frame(many(2, 60)[0], ahead=3)
    with pytest.raises(RecipeError, match="quantile: expected shares between 0 and 1"):
        next(forecast_from(model, task.plan, [frame], [40], Ask(3, (0.5, level), 3)))


def test_quantiles_of_counts_are_whole():
    parts = [replace(one, target=np.round(np.abs(one.target))) for one in many(2, 60)]
    task, model = ready(parts, output="negative-binomial")
    task.calibrate(model, Dataset([Item("x", series=replace(one, begin=40)) for one in parts], "x"))
    frame = task.plan.frame(parts[0], ahead=3)
    (found,) = forecast_from(model, task.plan, [frame], [40], Ask(3, (0.1, 0.35, 0.5, 0.9), 20))
    np.testing.assert_array_equal(found, np.round(found))


# the state that carries on


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("head", ["autoregressive", "direct"])
def test_new_rows_after_the_state_are_as_if_the_history_had_been_read(cell, head):
    """Read up to step 50, left, then 1 and 4 rows more: the same as one reading that began at the same step."""
    rng = np.random.default_rng(1)
    values, promo, temp = walk(60), rng.integers(0, 2, 70), rng.normal(size=60)
    values[[30, 50, 53]] = np.nan
    whole = series(values[:55], known=promo[:60], past=temp[:55])
    options = {"cell": cell, "head": head, "output": "quantile", "known": ("promo",), "past": ("temp",)}
    task, model = ready([whole.part(0, 50), series(walk(50, 9), "b", promo[:50], temp[:50])], layers=2, **options)
    remember(model, task.plan, [task.plan.frame(replace(whole.part(0, 50), begin=0), ahead=1)])
    ask = Ask(3, (0.1, 0.5, 0.9), 30)
    first = series(values[50:51], known=promo[50:51], past=temp[50:51], start=50)
    keep(model, go_on(model, task.plan, first, 3))
    rest = series(values[51:55], known=promo[51:60], past=temp[51:55], start=51)
    found = forecast_left(model, task.plan, go_on(model, task.plan, rest, 3), ask)
    # One reading: the steps 50 − 8 … 55, as a context of 13 reads them.
    longer = replace(task.plan, context=13)
    (wanted,) = forecast_from(model, longer, [longer.frame(whole, ahead=3)], [55], ask)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(DataError, match=r"expected a first time of 51, found 50.*up to 50"):
        go_on(model, task.plan, replace(rest, start=50), 3)


def test_rows_that_are_missing_before_the_new_ones_are_masked_where_the_run_masks():
    values = walk(50)
    task, model = ready([series(values[:44])], gaps="mask", output="quantile")
    remember(model, task.plan, [task.plan.frame(series(values[:44]), ahead=1)])
    late = Dataset([Item("new.csv:2", series=series(values[47:50], start=47))], "new.csv")
    holes = np.concatenate([[np.nan] * 3, values[47:50]])
    whole = Dataset([Item("new.csv:2", series=series(holes, start=44))], "new.csv")
    (found,), (wanted,) = (task.forecast(model, rows, task.ask(seed=1)) for rows in (late, whole))
    assert found == wanted
    assert found["time"] == ["50", "51", "52"]
    strict, model = ready([series(values[:44])], output="quantile")
    remember(model, strict.plan, [strict.plan.frame(series(values[:44]), ahead=1)])
    with pytest.raises(DataError, match="expected a first time of 44, found 47"):
        strict.forecast(model, late, strict.ask())


def test_without_new_rows_the_state_is_the_end_of_the_history(tmp_path):
    path = write(tmp_path, many(), ())
    result = train(recipe(data=str(path), **{**COLUMNS, "known": (), "past": ()}), out=tmp_path / "run")
    trained = load(tmp_path / "run")
    from_state = trained.forecast()
    whole = [{"id": one.id, "target": np.round(one.target, 6)} for one in many()]
    for one, other in zip(from_state, trained.predict(whole), strict=True):
        assert (one["id"], one["time"], len(one["forecast"])) == (other["id"], other["time"], 3)
    plan = trained.task.plan
    frame = plan.frame(trained.task.item(whole[0], "x").series, ahead=3)
    (first,) = forecast_from(trained.model, plan, [frame], [60], Ask(3, (0.1, 0.5, 0.9), 20))
    np.testing.assert_allclose(from_state[0]["forecast"], first[:, 1], rtol=1e-4)
    assert result.report.unit == "values"


# shapes, runs


@pytest.mark.parametrize("head", ["autoregressive", "direct"])
def test_training_and_forecast_speak_of_the_same_steps(head):
    """A horizon of 2 has 2 steps in both."""
    one = series(walk(40))
    task, model = ready([one], head=head, horizon=2, output="quantile")
    frame = task.plan.frame(one, ahead=2)
    window = window_batch([frame], [_cut([frame], task.plan, 0, 3)], task.recipe, task.plan, np.random.default_rng(0))
    raw = model(window)
    assert raw.shape == ((1, 8, 2, 3) if head == "direct" else (1, 10, 3))
    (found,) = forecast_from(model, task.plan, [frame], [40], Ask(2, (0.1, 0.5, 0.9), 4))
    assert found.shape == (2, 3)
    if head == "direct":
        with pytest.raises(RecipeError, match="horizon: expected at most 2"):
            next(forecast_from(model, task.plan, [frame], [40], Ask(3, (0.5,), 4)))
        (shorter,) = forecast_from(model, task.plan, [frame], [40], Ask(1, (0.1, 0.5, 0.9), 4))
        np.testing.assert_allclose(shorter[0], found[0], rtol=1e-5)
    with pytest.raises(RecipeError, match=r"levels between 0.1 and 0.9"):
        next(forecast_from(model, task.plan, [frame], [40], Ask(2, (0.01, 0.5), 4)))


@pytest.mark.parametrize(
    ("head", "output", "scaler"),
    [
        ("autoregressive", "student-t", "series"), ("direct", "quantile", "window"), ("direct", "point", "series"),
        ("autoregressive", "negative-binomial", "series"),
    ],
)  # fmt: skip
def test_a_run_goes_on_and_is_repeated(tmp_path, head, output, scaler):
    given = many()
    if output == "negative-binomial":
        given = [replace(one, target=np.abs(np.round(one.target))) for one in given]
    fields = {"data": str(write(tmp_path, given)), **COLUMNS, "head": head, "output": output, "scaler": scaler}
    whole = train(recipe(**fields, epochs=3, series_embedding=2), out=tmp_path / "whole")
    train(recipe(**fields, epochs=1, series_embedding=2), out=tmp_path / "parts")
    resume(tmp_path / "parts", epochs=3)
    one, other = (bundle.load(tmp_path / name / "model.safetensors")[0] for name in ("whole", "parts"))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    metrics = whole.report.metrics
    assert ("coverage" in metrics) == (output != "point")
    assert set(whole.report.baselines) == {"last value", "last season"}
    again = load(tmp_path / "whole").evaluate(tmp_path / "loads.csv")
    assert np.isfinite(list(again.metrics.values())).all()


def test_a_pattern_is_learnt():
    """A season with a known event on top: the trained forecast is far better than the season alone."""
    rng = np.random.default_rng(0)
    promo = rng.integers(0, 2, 400)
    values = 10 + 3 * np.sin(2 * np.pi * np.arange(400) / 4) + 4 * promo + 0.1 * rng.normal(size=400)
    train_part, _, test = split_in_time(series(values, known=promo), 20, 60)
    task, _ = ready([train_part], known=("promo",), epochs=6, epoch_windows=120, learning_rate=0.02, hidden=12)
    torch.manual_seed(0)
    model = task.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    data = task.encode(Dataset([Item("x", series=train_part)], "train"))
    for epoch in range(6):
        for step in task.steps(model, data, np.random.default_rng(epoch)):
            optimizer.zero_grad()
            step.loss.backward()
            optimizer.step()
    part = Dataset([Item("x", series=test)], "test")
    found = task.measure(model.eval(), task.encode(part))
    season = task.baselines(part, lambda: None)["last season"]
    assert found["mase"] < 0.3 * season["mase"], (found, season)
    assert 0.5 < found["coverage"] <= 1


def test_only_forecasters_forecast(tmp_path):
    from small_data import reviews

    path = reviews(tmp_path / "reviews.csv")
    train(Recipe(task="classify", data=str(path), epochs=1, hidden=4, embedding=3), out=tmp_path / "run")
    with pytest.raises(RunError, match=r"one that was trained to forecast.*unrolled train forecast DATA"):
        load(tmp_path / "run").forecast()
