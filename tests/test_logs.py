"""`--log-json`, the trackers, and silence where there is no terminal."""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
import sys

import pytest

from small_data import reviews
from unrolled.cli import logs, main
from unrolled.errors import MissingExtra
from unrolled.training import Recipe, resume, train
from unrolled.training.loop import Silent
from unrolled.training.tracking import numbers_of

QUICK = ["--hidden", "6", "--embedding", "5", "--epochs", "2", "--min-count", "1", "--threads", "1", "--no-report"]


@pytest.fixture
def data(tmp_path):
    return str(reviews(tmp_path / "reviews.csv"))


def run(arguments, code=0):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == code


def test_every_line_of_the_log_is_json(data, tmp_path, capsys):
    out = tmp_path / "run"
    run(["train", "classify", data, "--out", str(out), "--log-json", *QUICK])
    said, logged = capsys.readouterr()
    lines = [json.loads(line) for line in logged.splitlines()]
    events = [line["event"] for line in lines]
    assert [event for event in events if event != "note"] == ["start", "step", "epoch", "epoch", "end"]
    assert all(datetime.datetime.fromisoformat(line["time"]).utcoffset() == datetime.timedelta(0) for line in lines)
    start, end = (next(line for line in lines if line["event"] == event) for event in ("start", "end"))
    assert (start["epochs"], start["done"]) == (2, 0)
    assert end["run"] == str(out)
    assert end["test"]["metrics"]["items"] == end["test"]["items"] > 0
    assert "accuracy" in said  # the table is where it always is
    assert not logs.is_on()  # the next command of this process speaks plainly again
    kept = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    epochs = [line["loss"] for line in kept if line["event"] == "epoch"]
    assert [line["loss"] for line in lines if line["event"] == "epoch"] == epochs


def test_an_error_is_a_line_of_the_log(data, tmp_path, capsys):
    del data
    run(["train", "classify", str(tmp_path / "absent.csv"), "--log-json", *QUICK], code=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "error"
    assert "absent.csv" in json.loads(line)["text"]


def test_without_a_terminal_there_are_notes_alone(data, tmp_path, capsys):
    run(["train", "classify", data, "--out", str(tmp_path / "run"), *QUICK])
    logged = capsys.readouterr().err
    assert logged.splitlines()
    assert all(line.startswith(("note: ", "next: ")) or not line for line in logged.splitlines())
    assert "epoch 1/2" not in logged


# trackers


def recipe(data, **changes):
    fields = {"hidden": 6, "embedding": 5, "epochs": 2, "min_count": 1, "threads": 1, "log_every": 1, "report": False}
    return Recipe(task="classify", data=data, **fields, inspect_every=3, **changes)


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, nothing outside the run folder, and no thread that goes on afterwards."""
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def scalars(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(run / "tracking" / "tensorboard"))
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own imports
def test_tensorboard_shows_what_the_log_says(data, tmp_path, offline):
    del offline
    out = tmp_path / "run"
    train(recipe(data, track="tensorboard"), out=out)
    resume(out, epochs=3)
    seen = scalars(out)
    kept = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [(line["step"], line["loss"]) for line in kept if line["event"] == "step"]
    assert [step for step, _ in seen["train/loss"]] == [step for step, _ in steps]
    assert [value for _, value in seen["train/loss"]] == pytest.approx([loss for _, loss in steps], rel=1e-6)
    accuracy = [line["valid"]["accuracy"] for line in kept if line["event"] == "epoch"]
    assert [value for _, value in seen["valid/accuracy"]] == pytest.approx(accuracy, rel=1e-6)
    assert {"train/gradient_norm", "train/learning_rate", "valid/nats", "test/accuracy", "best_epoch"} <= set(seen)
    assert any(name.startswith("insight/recurrent.0.0/") for name in seen)


# Weights & Biases and MLflow warn of their own and of each other's old habits; what they do is what is tested.
@pytest.mark.filterwarnings("ignore")
def test_wandb_and_mlflow_get_the_numbers_and_a_resumed_run_goes_on_in_the_same_place(data, tmp_path, offline):
    del offline
    out = tmp_path / "run"
    train(recipe(data, track="wandb,mlflow"), out=out)
    begun = json.loads((out / "tracking" / "runs.json").read_text())
    resume(out, epochs=3)
    assert json.loads((out / "tracking" / "runs.json").read_text()) == begun
    kept = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    with contextlib.closing(sqlite3.connect(out / "tracking" / "mlflow.db")) as found:
        rows = found.execute("SELECT DISTINCT run_uuid FROM metrics").fetchall()
        losses = found.execute("SELECT step, value FROM metrics WHERE key = 'train/loss' ORDER BY step").fetchall()
        settings = dict(found.execute("SELECT key, value FROM params").fetchall())
    assert rows == [(begun["mlflow"],)]
    assert losses == [(line["step"], line["loss"]) for line in kept if line["event"] == "step"]
    assert settings["hidden"] == "6"
    written = list((out / "tracking" / "wandb").glob(f"offline-run-*/run-{begun['wandb']}.wandb"))
    assert len(written) == 2
    assert all(b"gradient_norm" in path.read_bytes() for path in written)
    assert {path.name for path in tmp_path.iterdir()} <= {"run", "reviews.csv", ".cache", ".config"}


def test_the_words_are_checked_and_a_missing_package_is_named(data, tmp_path, capsys, monkeypatch):
    run(["train", "classify", data, "--track", "tensorbord", *QUICK], code=2)
    assert "track: expected tensorboard, wandb or mlflow" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r"wandb is not installed.*unrolled\[track\]"):
        train(recipe(data, track="tensorboard,wandb"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(data, tmp_path, offline, monkeypatch):
    del offline
    from accelerate.tracking import TensorBoardTracker

    def broken(_self, _values, step=None, **_):
        raise ConnectionError(f"no route to the server at step {step}")

    monkeypatch.setattr(TensorBoardTracker, "log", broken)
    watcher = Notes()
    train(recipe(data), out=tmp_path / "plain")
    result = train(recipe(data, track="tensorboard"), out=tmp_path / "run", progress=watcher)
    said = [note for note in watcher.notes if "tensorboard" in note]
    assert said == [
        "tensorboard failed (ConnectionError: no route to the server at step 1); the run goes on without it"
    ]
    assert result.epochs == 2
    one, other = ((tmp_path / run / "model.safetensors").read_bytes()[-999:] for run in ("plain", "run"))
    assert one == other  # watching changes nothing


def test_names_that_trackers_show():
    step = {"event": "step", "epoch": 1, "step": 4, "loss": 0.5, "clipped": True}
    assert dict(numbers_of(step)) == {"epoch": 1, "train/loss": 0.5, "train/clipped": 1}
    end = {"event": "end", "best_epoch": 2, "test": {"metrics": {"accuracy": 1.0}}}
    assert dict(numbers_of(end)) == {"best_epoch": 2, "test/accuracy": 1.0}
