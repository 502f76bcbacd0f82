"""Gradient accumulation: N batches of B rows are one of N · B rows, whatever the task, the processes or the moment."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
import torch
from torch import nn

from killing import Run, assert_same_run, log_of, recipes
from small_data import reviews, sentences
from small_forecasts import COLUMNS, SMALL, many, write
from test_several_processes import launch, plain
from unrolled import bundle
from unrolled.errors import RecipeError, RunError
from unrolled.training import Recipe, descent, train
from unrolled.training.folder import RunFolder
from unrolled.training.loop import Loop
from unrolled.training.losses import row_losses
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find
from unrolled.training.tbptt import TruncatedBPTT

ROWS, TOLERANCE = 30, 1e-10  # 8 + 8 + 8 + 6 rows; the models are float64
TASKS = ("classify", "tag", "crf", "lm", "seq2seq", "forecast", "direct")


def fields_of(name, folder):
    """A recipe whose batches of 8, four at a time, are the rows of its batches of 32."""
    shared = {"hidden": 8, "embedding": 6, "min_count": 1, "epochs": 4, "log_every": 1, "output_dropout": 0.0}
    shared |= {"clip": 0.05, "learning_rate": 0.05, "optimizer": "sgd", "momentum": 0.9, "schedule": "cosine"}
    if name == "classify":
        data = reviews(folder / "reviews.csv", rows=ROWS)
        own = {"task": "classify", "label_smoothing": 0.1}
    elif name in ("tag", "crf"):
        data = sentences(folder / "tags.conll", rows=ROWS)
        own = {"task": "tag", "crf": name == "crf"}
    elif name == "lm":  # 32 documents of 6 letters and an end: each is a stream of its own, or a chunk of one in four
        rng = np.random.default_rng(0)
        data = folder / "text.txt"
        data.write_text("\n\n".join("".join("abcdef"[i] for i in rng.integers(6, size=6)) for _ in range(32)) + "\n")
        own = {"task": "lm", "format": "documents", "chunk": 7, "learn_initial_state": True}
    elif name == "seq2seq":
        rng = np.random.default_rng(0)
        words = ["".join("abcd"[i] for i in rng.integers(4, size=rng.integers(1, 6))) for _ in range(ROWS)]
        data = folder / "pairs.tsv"
        data.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
        own = {"task": "seq2seq", "tokenizer": "chars"}
    else:  # 72 windows: two steps of 32 and one of 8
        series = many()
        series[1].target[5::4] = np.nan  # so that windows differ in what they weigh
        data = write(folder, series)
        foreign = ("embedding", "min_count")
        shared = {k: v for k, v in shared.items() if k not in foreign}
        own = {**SMALL, **COLUMNS, "epoch_windows": 72, "head": "direct" if name == "direct" else "autoregressive"}
        return own | shared | {"data": str(data), "gaps": "mask"}
    return shared | own | {"data": str(data), "valid": str(data), "test": str(data)}


def in_double(model: nn.Module) -> nn.Module:
    """The model in float64, also where its data are float32."""

    def widen(part):
        if isinstance(part, tuple):
            parts = [widen(one) for one in part]
            return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
        return part.double() if isinstance(part, torch.Tensor) and part.dtype == torch.float32 else part

    for module in model.double().modules():
        module.register_forward_pre_hook(
            lambda _, given, keywords: (widen(given), {name: widen(part) for name, part in keywords.items()}),
            with_kwargs=True,
        )
    return model


def loop_of(fields, out):
    recipe = Recipe(**fields)
    parts = open_parts(recipe)
    task = find(recipe.task).prepare(recipe, parts.train)
    torch.manual_seed(recipe.seed)
    model = in_double(task.build())
    out.mkdir()
    return Loop(task, model, task.encode(parts.train), task.encode(parts.valid), RunFolder(out))


def trained(fields, out):
    """The log of the steps, and the weights after the epochs."""
    loop = loop_of(fields, out)
    for epoch in range(1, loop.recipe.epochs + 1):
        loop.train_epoch(epoch)
        loop.counters.epoch, loop.counters.pieces, loop._place = epoch, 0, None
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [{k: v for k, v in line.items() if k != "event"} for line in lines if line["event"] == "step"]
    return steps, {name: p.detach().numpy() for name, p in loop.model.named_parameters()}


def assert_same_steps(one, two):
    for first, second in zip(one[0], two[0], strict=True):
        assert first == pytest.approx(second, rel=0, abs=TOLERANCE)
    for name in one[1]:
        np.testing.assert_allclose(one[1][name], two[1][name], rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Each recipe, and what comes out of it in batches of 32."""
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for name in TASKS:
        (folder / name).mkdir()
        fields = fields_of(name, folder / name)
        found[name] = fields, trained(fields | {"batch_size": 32}, folder / name / "run")
    return found


@pytest.mark.parametrize("name", TASKS)
def test_four_batches_of_8_are_one_of_32(name, whole, tmp_path):
    """Losses, norms before the clip, learning rates and weights; the last step of a forecast has one batch."""
    fields, expected = whole[name]
    steps = expected[0]
    assert len(steps) == (12 if fields["task"] == "forecast" else 4)
    assert any(step["clipped"] for step in steps)
    assert len({step["learning_rate"] for step in steps}) == len(steps)
    assert_same_steps(trained(fields | {"batch_size": 8, "accumulate": 4}, tmp_path / "run"), expected)


MUTANTS = {
    "each batch weighs the same": ("_weight", lambda _: 1.0),
    "divided by the number of batches that may be": (
        "Descent._divide",
        lambda self, _: [p.grad.mul_(1 / 4) for p in self.model.parameters() if p.grad is not None],
    ),
    "a sum": ("Descent._divide", lambda *_: None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ["classify", "crf", "seq2seq", "direct"])
def test_other_ways_to_add_up_are_told_apart(name, mutant, whole, tmp_path, monkeypatch):
    where, wrong = MUTANTS[mutant]
    monkeypatch.setattr(f"{descent.__name__}.{where}", wrong)
    fields, expected = whole[name]
    found = trained(fields | {"batch_size": 8, "accumulate": 4}, tmp_path / "run")
    with pytest.raises(AssertionError):
        assert_same_steps(found, expected)


def test_a_clip_of_each_batch_is_told_apart(whole, tmp_path, monkeypatch):
    add = descent.Descent.add

    def clipped(self, piece, step):
        add(self, piece, step)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)

    monkeypatch.setattr(descent.Descent, "add", clipped)
    fields, expected = whole["tag"]
    with pytest.raises(AssertionError):
        assert_same_steps(trained(fields | {"batch_size": 8, "accumulate": 4}, tmp_path / "run"), expected)


# truncated BPTT


def stream(folder, **changes):
    """A recipe of one stream of 11 columns: a chunk of 7 steps and one of 4."""
    (folder / "text.txt").write_text("".join("abcdef"[i] for i in np.random.default_rng(1).integers(6, size=45)))
    own = {"task": "lm", "format": "text", "context": "continuous", "chunk": 7, "batch_size": 4, "accumulate": 2}
    shared = {"hidden": 8, "embedding": 6, "min_count": 1, "clip": None, "optimizer": "sgd", "schedule": "constant"}
    data = str(folder / "text.txt")
    return shared | own | {"data": data, "valid": data, "test": data} | changes


@pytest.mark.parametrize("scale", ["mean", "sum_over_time"])
def test_the_gradient_of_two_chunks_with_the_state_carried_between_them(scale, tmp_path):
    loop = loop_of(stream(tmp_path, loss_scale=scale), tmp_path / "run")
    model, (row,) = loop.model, loop.train.rows
    inputs, targets = (torch.from_numpy(part).reshape(4, 11) for part in (row.inputs, row.targets))

    def by_hand(carry):
        for parameter in model.parameters():
            parameter.grad = None
        state, total = None, torch.zeros(())
        for piece in TruncatedBPTT(7).chunks(inputs, targets):
            logits, after = model(piece.inputs, piece.state if carry else state)
            piece.carry(after)
            total = total + row_losses(logits, piece.targets)[0].sum()
        (total / (44 if scale == "mean" else 8)).backward()  # positions, or four streams of each of two chunks
        return [parameter.grad.clone() for parameter in model.parameters()]

    right, wrong = by_hand(True), by_hand(False)
    loop.train_epoch(1)
    assert loop.counters.step == 1
    found = [parameter.grad for parameter in model.parameters()]
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)
    assert max(float((one - other).abs().max()) for one, other in zip(found, wrong, strict=True)) > 1e4 * TOLERANCE


# what counts steps


def test_logs_looks_checkpoints_and_schedules_count_optimizer_steps(tmp_path):
    """60 reviews, of which some 48 train, in batches of 6: eight or so batches, two and a short one to a step."""
    made = recipes(tmp_path)["classify"]
    changes = {"accumulate": 3, "log_every": 2, "inspect_every": 2, "checkpoint_every": 2, "warmup": 0.0}
    fields = {**made, **changes, "schedule": "cosine", "epochs": 3, "checkpoint_minutes": None}
    loop = loop_of(fields, tmp_path / "loop")
    batches = loop.task.step_count(loop.train)
    assert batches % 3
    each = -(-batches // 3)
    assert loop.step_count == each
    train(Recipe(**fields), out=tmp_path / "run")
    log = log_of(tmp_path / "run")
    steps = [line for line in log if line["event"] == "step"]
    assert [line["step"] for line in steps] == list(range(2, 3 * each + 1, 2))
    assert [line["step"] for line in log if line["event"] == "insight"] == [1, *range(2, 3 * each + 1, 2)]
    assert [line["step"] for line in log if line["event"] == "epoch"] == [each, 2 * each, 3 * each]
    for line in steps:
        done = (line["step"] - 1) / each / 3
        assert line["learning_rate"] == pytest.approx(0.1 * 0.5 * (1 + np.cos(np.pi * done)), rel=1e-12)
    assert all(int(path.stem[-7:]) % 2 == 0 for path in (tmp_path / "run" / "checkpoints").glob("*step*"))


def test_more_batches_than_there_are_make_one_step_an_epoch(tmp_path):
    fields = {**recipes(tmp_path)["tag"], "accumulate": 1000, "epochs": 2}
    train(Recipe(**fields), out=tmp_path / "run")
    assert [line["step"] for line in log_of(tmp_path / "run") if line["event"] == "step"] == [1, 2]


# runs that are killed, and several processes


@pytest.mark.parametrize("task", ["classify", "tag", "lm", "seq2seq", "forecast"])
def test_a_killed_run_ends_as_if_nothing_had_happened(task, tmp_path):
    """Dropout, sampling and carried states; the last step of an epoch is shorter."""
    fields = {**recipes(tmp_path)[task], "accumulate": 2, "checkpoint_every": 2}
    whole, cut = tmp_path / "a" / "run", tmp_path / "b" / "run"
    for folder in (whole, cut):
        folder.parent.mkdir()
    assert Run(fields, whole).end() == 0
    assert Run(fields, cut, at=(2, 3, [signal.SIGKILL])).end() == -signal.SIGKILL
    assert any("step" in path.name for path in (cut / "checkpoints").iterdir())
    assert Run(None, cut).end() == 0
    assert_same_run(whole, cut)


@pytest.mark.parametrize("task", ["lm", "tag"])
def test_two_processes_are_one(task, tmp_path):
    """Their shares differ in positions; the last stream is a step shorter."""
    fields = plain(recipes(tmp_path)[task], epochs=3, batch_size=5, accumulate=3)
    assert Run(fields, tmp_path / "one").end() == 0
    assert launch(fields, tmp_path / "two") == [0, 0]
    one, two = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    losses = [[line["loss"] for line in log if line["event"] == "step"] for log in (one, two)]
    assert len(losses[0]) >= 6
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-5)
    weights = [bundle.load(tmp_path / run / "model.safetensors")[0] for run in ("one", "two")]
    for name in weights[0]:
        np.testing.assert_allclose(weights[1][name], weights[0][name], rtol=0, atol=1e-4, err_msg=name)


# what goes wrong


def test_a_bad_gradient_in_one_of_the_batches_names_its_row(tmp_path, monkeypatch):
    """The third batch of the first step."""
    from unrolled.training.tasks.classify import Classify

    build, calls = Classify.build, []

    def poisoned(self):
        def hook(_module, grads, _out):
            calls.append(1)
            return (grads[0] * float("nan" if len(calls) in (3, 6) else 1),)  # in the step, and looked at again

        model = build(self)
        model.output.register_full_backward_hook(hook)
        return model

    monkeypatch.setattr(Classify, "build", poisoned)
    fields = {**recipes(tmp_path)["classify"], "accumulate": 3}
    with pytest.raises(
        RunError, match=r"gradient of .* at step 1.*Row: reviews\.csv:\d+\. The checkpoint after epoch 0"
    ):
        train(Recipe(**fields), out=tmp_path / "run")


def test_no_batch_is_refused():
    with pytest.raises(RecipeError, match=r"accumulate: expected 1 or more, found '?0'?.*--accumulate"):
        Recipe(task="classify", data="reviews.csv", accumulate=0)
