"""Runs: what stands on the disk, what a resumed run equals, and what is left when something goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from small_data import documents, reviews, sentences
from unrolled import bundle
from unrolled.errors import DataError, RecipeError, RunError
from unrolled.training import Recipe, load, resume, train
from unrolled.training.loop import Silent

SMALL = {"hidden": 8, "embedding": 6, "batch_size": 8, "min_count": 1, "patience": None, "log_every": 1}


def classify(tmp_path, **changes):
    return Recipe(
        **{"task": "classify", "data": str(reviews(tmp_path / "reviews.csv")), "epochs": 2, **SMALL, **changes}
    )


def tag(tmp_path, **changes):
    fields = {"task": "tag", "data": str(sentences(tmp_path / "s.conll")), "crf": True, "word_dropout": 0.1}
    return Recipe(**{**fields, "epochs": 2, **SMALL, **changes})


def lm(tmp_path, **changes):
    fields = {"task": "lm", "data": str(documents(tmp_path / "d.txt")), "format": "documents", "chunk": 7}
    return Recipe(**{**fields, "epochs": 2, "schedule": "constant", **SMALL, **changes})


RECIPES = {"classify": classify, "tag": tag, "lm": lm}


def assert_same_weights(first, second):
    one, other = (bundle.load(path)[0] for path in (first, second))
    assert set(one) == set(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_same_run(first, second):
    """The best model, and every number of the last checkpoint: weights, average and optimizer."""
    assert_same_weights(first / "model.safetensors", second / "model.safetensors")
    last = sorted(path.name for path in (first / "checkpoints").iterdir())[-1]
    assert_same_weights(first / "checkpoints" / last, second / "checkpoints" / last)


class StopAt(Silent):
    """Presses Ctrl-C in the middle of an epoch."""

    def __init__(self, epoch, step):
        self.place, self.notes = (epoch, step), []

    def step(self, *, epoch, step, loss):
        del loss
        if (epoch, step) == self.place:
            raise KeyboardInterrupt

    def note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("make", RECIPES.values(), ids=RECIPES)
def test_a_run_is_repeated_from_its_recipe_alone(make, tmp_path):
    result = train(make(tmp_path, output_dropout=0.3), out=tmp_path / "one")
    torch.rand(3)  # what the caller draws in between changes nothing
    again = train(Recipe.load(tmp_path / "one" / "recipe.toml"), out=tmp_path / "two")
    assert_same_run(tmp_path / "one", tmp_path / "two")
    assert result.report == again.report
    files = {path.name for path in (tmp_path / "one").iterdir()}
    assert files == {"recipe.toml", "model.safetensors", "metrics.jsonl", "checkpoints", "report.html"}


@pytest.mark.parametrize("make", RECIPES.values(), ids=RECIPES)
def test_two_epochs_and_two_more_are_four(make, tmp_path):
    options = {"output_dropout": 0.3, "average": 0.9}
    train(make(tmp_path, epochs=4, **options), out=tmp_path / "whole")
    train(make(tmp_path, epochs=2, **options), out=tmp_path / "parts")
    resume(tmp_path / "parts", epochs=4)
    assert len(_events(tmp_path / "parts", "end")) == 1
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert (tmp_path / "whole" / "recipe.toml").read_text() == (tmp_path / "parts" / "recipe.toml").read_text()


@pytest.mark.parametrize("stop", [(1, 1), (3, 2)])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(stop, tmp_path):
    options = {"epochs": 4, "schedule": "cosine", "output_dropout": 0.3}
    train(classify(tmp_path, **options), out=tmp_path / "whole")
    watcher = StopAt(*stop)
    with pytest.raises(KeyboardInterrupt):
        train(classify(tmp_path, **options), out=tmp_path / "parts", progress=watcher)
    assert "--resume" in watcher.notes[-1]
    assert f"after epoch {stop[0] - 1} is kept" in watcher.notes[-1]
    resume(tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert _events(tmp_path / "parts", "step") == _events(tmp_path / "whole", "step")


def _events(run, event):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_the_log_has_the_norm_before_clipping(tmp_path):
    train(classify(tmp_path, clip=1e-3), out=tmp_path / "run")
    steps, epochs = _events(tmp_path / "run", "step"), _events(tmp_path / "run", "epoch")
    assert [line["epoch"] for line in epochs] == [1, 2]
    assert all(line["clipped"] and line["gradient_norm"] > 1e-3 for line in steps)
    assert [line["step"] for line in steps] == list(range(1, len(steps) + 1))
    assert {"accuracy", "macro_f1", "nats", "items"} <= set(epochs[0]["valid"])
    (end,) = _events(tmp_path / "run", "end")
    assert end["test"]["items"] > 0


def test_the_last_two_checkpoints_and_the_best_are_kept(tmp_path):
    result = train(classify(tmp_path, epochs=5, learning_rate=1e-9), out=tmp_path / "run")
    kept = {int(path.stem.split("-")[1]) for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert kept == {4, 5, result.best_epoch}


def test_patience_ends_a_run(tmp_path):
    result = train(classify(tmp_path, epochs=50, learning_rate=2.0, clip=None, patience=3), out=tmp_path / "run")
    assert result.epochs == result.best_epoch + 3 < 50


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    taken = tmp_path / "run"
    taken.mkdir()
    (taken / "thesis.txt").write_text("do not lose")
    with pytest.raises(RunError, match=r"holds something else.*--out"):
        train(classify(tmp_path), out=taken)
    assert [path.name for path in taken.iterdir()] == ["thesis.txt"]
    train(classify(tmp_path), out=tmp_path / "real")
    with pytest.raises(RunError, match=r"holds a run.*--resume"):
        train(classify(tmp_path), out=tmp_path / "real")


def test_an_error_before_training_leaves_no_folder(tmp_path):
    one_label = tmp_path / "one.csv"
    one_label.write_text("text,label\n" + "".join(f"row {i},up\n" for i in range(30)))
    other = tmp_path / "test.csv"
    other.write_text("text,label\ngood,sideways\n")
    cases = [
        ({"data": "absent.csv"}, DataError, "absent"),
        ({"data": str(one_label)}, DataError, "two or more"),
        ({"label": "stars"}, DataError, "stars"),
        ({"test": str(other)}, DataError, "(?s)test.csv.*sideways"),
        ({"device": "cuda:7"}, RecipeError, "cuda:7"),
        ({"data": "poems"}, RecipeError, "unrolled train lm poems"),
        ({"feature_noise": 0.5}, RecipeError, "feature_noise"),
    ]
    for changes, error, message in cases:
        with pytest.raises(error, match=message):
            train(classify(tmp_path, **changes), out=tmp_path / "run")
        assert not (tmp_path / "run").exists(), changes


@pytest.mark.parametrize("make", RECIPES.values(), ids=RECIPES)
def test_a_loss_that_is_not_finite_stops_the_run(make, tmp_path):
    recipe = make(tmp_path, optimizer="sgd", learning_rate=1e38, clip=None)
    with pytest.raises(RunError) as caught:
        train(recipe, out=tmp_path / "run")
    text = str(caught.value)
    row = r"stream \d" if recipe.task == "lm" else r"[\w.]+:\d+"
    assert re.search(rf"(the loss is (inf|nan)|gradient of .* not finite).* at step \d.* row {row}", text, re.I), text
    assert "checkpoint after epoch 0 is kept" in text
    tensors, counters = bundle.load(tmp_path / "run" / "checkpoints" / "epoch-0000.safetensors")
    assert counters["checkpoint"]["counters"]["epoch"] == 0
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_a_gradient_that_is_not_finite_names_parameter_and_row(tmp_path, monkeypatch):
    from unrolled.training.tasks.classify import Classify

    def poisoned(self):
        model = build(self)
        model.output.register_full_backward_hook(lambda _m, grads, _out: (grads[0] * float("nan"),))
        return model

    build = Classify.build
    monkeypatch.setattr(Classify, "build", poisoned)
    with pytest.raises(RunError, match=r"gradient of .* at step 1.*Row: reviews\.csv:\d+\."):
        train(classify(tmp_path), out=tmp_path / "run")


def test_what_may_change_when_a_run_goes_on(tmp_path):
    train(classify(tmp_path), out=tmp_path / "run")
    with pytest.raises(RecipeError, match=r"hidden: .*only epochs"):
        resume(tmp_path / "run", hidden=9)
    reviews(tmp_path / "reviews.csv", seed=9)
    with pytest.raises(RunError, match="the data that the run began with"):
        resume(tmp_path / "run", epochs=3)
    reviews(tmp_path / "reviews.csv")
    with pytest.raises(RunError, match="no such folder"):
        resume(tmp_path / "absent")
    with pytest.raises(RunError, match=r"no recipe\.toml"):
        resume(tmp_path)
    (tmp_path / "run" / "checkpoints" / "epoch-0002.safetensors").write_bytes(b"cut off")
    resume(tmp_path / "run", epochs=3)  # from epoch 1, the newest that can be read
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"cut off")
    with pytest.raises(RunError, match=r"no checkpoint can be used.*epoch-"):
        resume(tmp_path / "run", epochs=4)


def test_the_caller_keeps_his_random_numbers_and_threads(tmp_path):
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(classify(tmp_path, threads=1), out=tmp_path / "run")
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert threads == 2


def test_the_hash_seed_of_the_process_changes_nothing(tmp_path):
    """The vocabulary is in the bundle, in an order that does not depend on the process."""
    recipe = classify(tmp_path)
    (tmp_path / "recipe.toml").write_text(recipe.dump())
    code = (
        "import sys, torch; torch.set_num_threads(1); from unrolled.training import Recipe, train;"
        "train(Recipe.load(sys.argv[1]), out=sys.argv[2])"
    )
    running = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / "recipe.toml"), str(tmp_path / f"run{seed}")]
        running.append(subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}))
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    assert_same_weights(tmp_path / "run1" / "model.safetensors", tmp_path / "run2" / "model.safetensors")
    answers = [load(tmp_path / f"run{seed}").predict(["good bad never-seen"]) for seed in (1, 2)]
    assert answers[0] == answers[1]
    assert answers[0][0]["unknown"] == ["never-seen"]
