"""The long-memory tasks: rows and baselines as the papers define them, and a bench that learns, stops and reports."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unrolled.cli import main
from unrolled.cli.bench import clips_of
from unrolled.data import memory as tasks
from unrolled.errors import RecipeError
from unrolled.training import memory as bench

QUICK: dict[str, Any] = {"hidden": 16, "steps": 900, "check_every": 50, "threads": 1, "learning_rate": 1e-2}


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores on few rows, where only their form matters."""
    monkeypatch.setattr(bench, "CHECKED", 32)
    monkeypatch.setattr(bench, "SCORED", 64)


def test_adding_rows() -> None:
    inputs, targets = tasks.adding(np.random.default_rng(0), 4000, 11)
    values, marks = inputs[..., 0], inputs[..., 1]
    assert (inputs.shape, inputs.dtype, targets.dtype) == ((4000, 11, 2), np.float32, np.float32)
    np.testing.assert_array_equal(np.unique(marks), [0, 1])
    np.testing.assert_array_equal(marks[:, :5].sum(1), 1)
    np.testing.assert_array_equal(marks[:, 5:].sum(1), 1)
    np.testing.assert_allclose((values * marks).sum(1), targets, rtol=1e-6)
    assert marks.any(0).all()  # every step can be marked
    assert np.square(targets - 1).mean() == pytest.approx(tasks.adding_baseline(), rel=0.05)


def test_copy_rows() -> None:
    """One row written out: ten symbols, blanks with the signal last, blanks; the symbols again at the end."""
    inputs, targets = tasks.copy(np.random.default_rng(0), 64, 5)
    ids = inputs.argmax(-1)
    assert inputs.shape == (64, 25, 10)
    np.testing.assert_array_equal(inputs.sum(-1), 1)
    assert ids[:, :10].max() <= 7
    np.testing.assert_array_equal(ids[:, 10:14], 8)
    np.testing.assert_array_equal(ids[:, 14], 9)
    np.testing.assert_array_equal(ids[:, 15:], 8)
    np.testing.assert_array_equal(targets[:, :15], 8)
    np.testing.assert_array_equal(targets[:, 15:], ids[:, :10])


@pytest.mark.parametrize("delay", [1, 100])
def test_the_baseline_of_copy_is_that_of_its_strategy(delay: int) -> None:
    """Blanks with certainty, then an even guess among the eight symbols: the mean nats of exactly this model."""
    _, targets = tasks.copy(np.random.default_rng(1), 3, delay)
    chances = np.zeros((*targets.shape, 9))
    chances[:, : delay + 10, 8] = 1
    chances[:, delay + 10 :, :8] = 1 / 8
    nats = -np.log(np.take_along_axis(chances, targets[..., None], -1))
    assert nats.mean() == pytest.approx(tasks.copy_baseline(delay))
    assert tasks.copy_baseline(delay) == pytest.approx(10 * math.log(8) / (delay + 20))


def test_rows_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        tasks.adding(np.random.default_rng(0), 1, 1)
    with pytest.raises(ValueError, match="delay"):
        tasks.copy(np.random.default_rng(0), 1, 0)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gated_cells_with_chrono_solve_a_short_adding_problem(cell: str) -> None:
    outcome = bench.train(bench.Trial("adding", 10, cell, "chrono", 1.0), bench.Settings(**QUICK))
    assert outcome.solved_at is not None
    assert outcome.score < 0.02
    assert outcome.steps == outcome.solved_at < 900
    assert outcome.curve[-1][1] < 0.01 <= outcome.curve[-2][1]
    assert 0 < outcome.clipped < 1


@pytest.mark.usefixtures("few_rows")
def test_what_is_not_solved_says_so() -> None:
    settings = bench.Settings(**(QUICK | {"steps": 7}))
    outcome = bench.train(bench.Trial("copy", 12, "gru", "torch", None), settings)
    assert (outcome.solved_at, outcome.steps, outcome.clipped) == (None, 7, 0)
    assert [step for step, _ in outcome.curve] == [7]
    assert 0 < outcome.baseline < outcome.score < math.log(9) + 0.5


@pytest.mark.usefixtures("few_rows")
def test_a_trial_repeats_and_leaves_chance_alone() -> None:
    trial, settings = bench.Trial("adding", 10, "rnn", "irnn", 1.0, seed=3), bench.Settings(**(QUICK | {"steps": 5}))
    torch.manual_seed(7)
    wanted = torch.rand(1)
    torch.manual_seed(7)
    first = bench.train(trial, settings)
    torch.testing.assert_close(torch.rand(1), wanted, rtol=0, atol=0)
    assert first.score == bench.train(trial, settings).score
    other = bench.train(bench.Trial("adding", 10, "rnn", "irnn", 1.0, seed=4), settings)
    assert other.score != first.score


def test_a_run_that_blows_up_is_a_result() -> None:
    settings = bench.Settings(**(QUICK | {"learning_rate": 1e30}))
    outcome = bench.train(bench.Trial("adding", 20, "rnn", "irnn", None), settings)
    assert "step" in outcome.failed
    assert outcome.solved_at is None
    assert outcome.to_dict()["score"] is None
    json.dumps(outcome.to_dict(), allow_nan=False)


def test_the_starts_are_what_they_say() -> None:
    settings = bench.Settings(hidden=500)
    forget = bench.model_of(bench.Trial("adding", 100, "lstm", "forget", None), settings).recurrent.gates()
    torch.testing.assert_close(forget.b[1] + forget.b_h[1], torch.ones(500))
    chrono = bench.model_of(bench.Trial("adding", 100, "gru", "chrono", None), settings).recurrent.gates()
    lags = (chrono.b[1] + chrono.b_h[1]).exp()
    assert 1 <= lags.min() < 5
    assert 94 < lags.max() <= 99
    irnn = bench.model_of(bench.Trial("adding", 100, "rnn", "irnn", None), settings).recurrent
    torch.testing.assert_close(irnn.weight_hh_l0, torch.eye(500))
    assert irnn.nonlinearity == "relu"


def test_trials_are_the_combinations_that_mean_something() -> None:
    made = bench.trials("adding", [10], ["rnn", "lstm", "gru"], ["chrono", "irnn"], [None, 1.0], [0, 1])
    assert len(made) == 3 * 2 * 2
    assert {(trial.cell, trial.init) for trial in made} == {("lstm", "chrono"), ("gru", "chrono"), ("rnn", "irnn")}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "100")

    def run(*options: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["bench", "memory", "--hidden", "4", "--steps", "3", "--threads", "1", *options])
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


@pytest.mark.usefixtures("few_rows")
def test_the_command(command: Any, tmp_path: Path) -> None:
    options = ["--length", "6", "--length", "9", "--cells", "rnn,gru", "--init", "torch,irnn", "--clip", "none,1"]
    code, out, err = command(*options, "--out", str(tmp_path / "memory.json"))
    assert code == 0, err
    assert err.count("not solved in 3 steps") == 12
    assert out.count("irnn") == 4
    record = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))
    assert record["settings"]["hidden"] == 4
    assert [outcome["trial"]["length"] for outcome in record["outcomes"]] == [6] * 6 + [9] * 6
    assert all(outcome["baseline"] == pytest.approx(1 / 6) for outcome in record["outcomes"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "sorting"], "task: expected one of adding, copy, found 'sorting'"),
        (["--cells", "transformer"], "cells: expected one of rnn, lstm, gru"),
        (["--init", "magic"], "init: expected one of torch"),
        (["--cells", "rnn", "--init", "chrono"], "chrono: lstm, gru"),
        (["--clip", "0"], "clip: expected a number above 0"),
        (["--clip", "much"], "--clip: expected numbers or the word none"),
        (["--learning-rate", "0"], "learning_rate: expected a number above 0"),
        (["--out", "nowhere/a.json"], "--out: expected a file in a folder that is there"),
    ],
)
def test_what_is_refused(command: Any, options: list[str], said: str) -> None:
    code, out, err = command(*options)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


def test_clips() -> None:
    assert clips_of("none, 1,0.5,1") == [None, 1.0, 0.5]
    with pytest.raises(RecipeError):
        clips_of("1;2")
