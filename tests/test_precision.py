"""Runs in mixed precision: what must stay float32 stays, and float16 leaves out what its scale makes too large."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
import torch

from killing import Run, assert_same_run, log_of, numbers_of, recipes
from test_several_processes import launch, plain
from unrolled import bundle
from unrolled.errors import RecipeError, RunError
from unrolled.models.attention import masked_weights
from unrolled.training import Recipe, load, resume, train
from unrolled.training.folder import RunFolder
from unrolled.training.loop import Loop, Silent
from unrolled.training.precision import Precision, bfloat16_instructions
from unrolled.training.sources import open_parts
from unrolled.training.tasks import Place, find

TASKS = ("classify", "tag", "lm", "seq2seq", "forecast")
CPU = torch.device("cpu")


def test_softmax_is_summed_in_float32():
    scores = torch.randn(4, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    valid = torch.arange(300) < torch.tensor([300, 299, 7, 0])[:, None]
    weights = masked_weights(scores, valid)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1, 1, 0]))
    rough = (scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1) * valid).float().sum(-1)
    with pytest.raises(AssertionError):  # which PyTorch's own softmax does on a CPU
        torch.testing.assert_close(rough, torch.tensor([1.0, 1, 1, 0]))


# runs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Recipes without what draws in the network: draws depend on numbers that are rounded."""
    return {task: plain(fields) for task, fields in recipes(tmp_path_factory.mktemp("data")).items()}


@pytest.fixture(scope="module")
def ran_in(made, tmp_path_factory):
    """The run of a task in a precision, on an engine."""
    folder = tmp_path_factory.mktemp("runs")

    def run(task, precision, backend="auto"):
        out = folder / f"{task}-{precision}-{backend}"
        if not out.exists():
            train(Recipe(**made[task], precision=precision, backend=backend), out=out)
        return out

    return run


def losses_of(run):
    return np.array([line["loss"] for line in log_of(run) if line["event"] == "step"])


NEAR = {"bfloat16": 0.003, "float16": 0.0005}  # nats, at every step of three epochs


@pytest.mark.parametrize(("precision", "backend"), [("bfloat16", "auto"), ("bfloat16", "torch"), ("float16", "auto")])
@pytest.mark.parametrize("task", TASKS)
def test_losses_are_near_those_of_float32(task, precision, backend, ran_in):
    rounded, plain = ran_in(task, precision, backend), ran_in(task, "float32")
    epochs = [line["loss"] for line in log_of(plain) if line["event"] == "epoch"]
    assert epochs[-1] < epochs[0] - 5 * NEAR[precision], "it learnt nothing, so this says nothing"
    found, expected = losses_of(rounded), losses_of(plain)
    assert len(found) == len(expected) > 10
    assert 0 < np.abs(found - expected).max() < NEAR[precision]


@pytest.mark.parametrize("task", TASKS)
def test_weights_optimizer_and_scores_are_float32(task, made, ran_in):
    run = ran_in(task, "bfloat16")
    for path in (run / "model.safetensors", *(run / "checkpoints").iterdir()):
        arrays, _ = bundle.load(path)
        assert {array.dtype for array in arrays.values()} <= {np.dtype(kind) for kind in ("f4", "i8", "u1")}, path
    best = max(
        (line for line in log_of(run) if line["event"] == "epoch" and line["best"]), key=lambda line: line["epoch"]
    )
    if task != "forecast":  # whose scores after the run are those of calibrated intervals
        recipe = Recipe(**made[task])
        trained = load(run)
        assert trained.evaluate(open_parts(recipe).valid).metrics["items"] == best["valid"]["items"]
        again = trained.task.measure(trained.model, trained.task.encode(open_parts(recipe).valid))
        assert again["nats"] == best["valid"]["nats"]


@pytest.mark.parametrize(
    "changes", [{}, {"cell": "transformer", "average": None, "learn_initial_state": False}], ids=["lstm", "transformer"]
)
@pytest.mark.parametrize("task", ["classify", "lm", "seq2seq"])
def test_steps_of_a_task(task, changes, made, tmp_path):
    """What comes out of the model in training is float32, and so is what is carried; 16 bits are in between."""
    fields = {**made[task], **changes}
    if changes:
        fields = {name: value for name, value in fields.items() if name != "sampling"}
    recipe = Recipe(**fields, precision="bfloat16")
    parts = open_parts(recipe)
    task = find(recipe.task).prepare(recipe, parts.train)
    model = task.build()
    loop = Loop(task, model, task.encode(parts.train), task.encode(parts.valid), RunFolder(tmp_path / "run"))
    seen = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _module, _given, out: seen.append(out.dtype))
    model.train()
    place = Place()
    piece = next(task.steps(model, loop.train, np.random.default_rng(0), place))
    assert torch.bfloat16 in seen or recipe.task == "lm"
    assert piece.loss.dtype == piece.mean.dtype == torch.float32
    out = model(*piece.call[0], **piece.call[1])
    logits = out[0] if isinstance(out, tuple) else out
    assert logits.dtype == torch.float32
    assert (logits == logits.bfloat16()).all()  # a product of 16 bits, widened
    for part in place.carried[0] if recipe.task == "lm" and not changes else ():
        assert part.dtype == torch.float32
        assert (part != part.bfloat16()).any()  # never rounded
    seen.clear()
    model.eval()
    out = model(*piece.call[0], **piece.call[1])
    logits = out[0] if isinstance(out, tuple) else out
    assert (logits != logits.bfloat16()).any()
    assert torch.bfloat16 not in seen


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("task", ["lm", "seq2seq"])
def test_a_killed_run_ends_as_if_nothing_had_happened(task, precision, tmp_path):
    """With dropout, sampling, carried states, accumulation and the scale."""
    fields = {**recipes(tmp_path)[task], "precision": precision, "accumulate": 2, "epochs": 2}
    whole, cut = tmp_path / "a" / "run", tmp_path / "b" / "run"
    for folder in (whole, cut):
        folder.parent.mkdir()
    assert Run(fields, whole).end() == 0
    assert Run(fields, cut, at=(2, 3, [signal.SIGKILL])).end() == -signal.SIGKILL
    assert Run(None, cut).end() == 0
    assert_same_run(whole, cut)


def test_two_processes_in_bfloat16_are_one(made, tmp_path):
    fields = {**made["lm"], "epochs": 2, "batch_size": 5, "accumulate": 2, "precision": "bfloat16"}
    assert Run(fields, tmp_path / "one").end() == 0
    assert launch(fields, tmp_path / "two") == [0, 0]
    np.testing.assert_allclose(losses_of(tmp_path / "two"), losses_of(tmp_path / "one"), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "engine"), [({}, "native"), ({"backend": "torch"}, "torch"), ({"cell": "transformer"}, None)]
)
def test_the_log_says_precision_and_engine(changes, engine, made, tmp_path):
    fields = {**made["classify"], "precision": "bfloat16", "epochs": 1, **changes}
    train(Recipe(**fields), out=tmp_path / "run")
    first, *others = log_of(tmp_path / "run")
    assert (first["event"], first["precision"], first.get("engine")) == ("start", "bfloat16", engine)
    assert ("reason" in first) == (engine is not None)
    assert all(line["event"] != "start" for line in others)


# float16: gradients that its scale makes too large


@pytest.fixture
def overflowing(monkeypatch):
    """A first scale at which every gradient is infinite."""
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(torch.amp, "GradScaler", lambda kind, enabled: scaler(kind, 2.0**40, enabled=enabled))


@pytest.mark.usefixtures("overflowing")
def test_a_step_whose_gradient_overflows_is_left_out_and_counted(made, tmp_path):
    fields = {**made["classify"], "precision": "float16", "epochs": 8, "inspect_every": None}
    train(Recipe(**fields), out=tmp_path / "run")
    steps = [line for line in log_of(tmp_path / "run") if line["event"] == "step"]
    left_out = [line for line in steps if line["gradient_norm"] is None]
    assert 5 < len(left_out) < 40
    assert left_out == steps[: len(left_out)]
    assert [line["skipped"] for line in steps] == [min(i, len(left_out)) for i in range(1, len(steps) + 1)]
    scales = [line["gradient_scale"] for line in steps]
    assert scales == [2.0 ** (40 - min(i, len(left_out))) for i in range(1, len(steps) + 1)]
    assert all(np.isfinite(line["loss"]) for line in steps)
    assert losses_of(tmp_path / "run")[-5:].mean() < losses_of(tmp_path / "run")[:5].mean() - 0.02


@pytest.mark.usefixtures("overflowing")
def test_weights_and_average_stand_still_while_steps_are_left_out(made, tmp_path):
    train(Recipe(**{**made["tag"], "precision": "float16", "epochs": 1}), out=tmp_path / "run")
    (step,) = {line["step"] for line in log_of(tmp_path / "run") if line["event"] == "epoch"}
    assert all(line["skipped"] == line["step"] for line in log_of(tmp_path / "run") if line["event"] == "step")
    arrays, header = bundle.load(tmp_path / "run" / "checkpoints" / "epoch-0001.safetensors")
    before, _ = bundle.load(tmp_path / "run" / "checkpoints" / f"epoch-0000-step-{step // 2 * 2:07d}.safetensors")
    for name, array in arrays.items():
        if name.startswith(("model.", "average.")):
            np.testing.assert_array_equal(array, before[name])
    assert header["checkpoint"]["counters"]["average_updates"] == 0
    assert header["checkpoint"]["counters"]["skipped"] == step
    assert header["checkpoint"]["scaler"]["scale"] == 2.0 ** (40 - step)
    assert not any(name.startswith("optimizer.") for name in arrays)


@pytest.mark.usefixtures("overflowing")
def test_the_scale_goes_on_with_the_run(made, tmp_path):
    class Stop(Silent):
        def step(self, *, epoch, step, loss):
            del loss
            if (epoch, step) == (2, 3):
                raise KeyboardInterrupt

    fields = {**made["classify"], "precision": "float16"}
    train(Recipe(**fields), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(Recipe(**fields), out=tmp_path / "run", progress=Stop())
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_gradient_that_no_scale_makes_finite_ends_the_run(made, tmp_path, monkeypatch):
    from unrolled.training.tasks.classify import Classify

    build = Classify.build

    def poisoned(self):
        model = build(self)
        model.output.register_full_backward_hook(lambda _m, grads, _out: (grads[0] * float("nan"),))
        return model

    monkeypatch.setattr(Classify, "build", poisoned)
    with pytest.raises(
        RunError, match=r"gradient of .* is not finite at step 17: .* Row: reviews\.csv:\d+\. The checkpoint"
    ):
        train(Recipe(**{**made["classify"], "precision": "float16"}), out=tmp_path / "run")
    steps = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert max(line["skipped"] for line in steps if line["event"] == "step") == 16  # 2^16 halved down to 1


# what cannot be had


def test_refusals(made, tmp_path):
    with pytest.raises(
        RecipeError, match=r"precision: expected float32 on mps, found bfloat16\. Leave out --precision"
    ):
        Precision("bfloat16", torch.device("mps"))
    assert Precision("float32", torch.device("mps")).dtype is None
    with pytest.raises(RecipeError, match=r"precision float16: backend='torch' .*LSTM on this CPU.*Use backend='auto'"):
        train(Recipe(**made["classify"], precision="float16", backend="torch"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(RecipeError, match=r"precision: expected one of 'float32', 'bfloat16' or 'float16'.*'fp8'"):
        Recipe(task="classify", data="reviews.csv", precision="fp8")


def test_a_person_is_told_where_it_may_be_slow(made, tmp_path, monkeypatch):
    found = {"avx512_bf16": True, "amx_bf16": False, "avx2": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert bfloat16_instructions() == ["avx512_bf16"]
    assert Precision("bfloat16", CPU).note is None
    assert "float16: this processor" in str(Precision("float16", CPU).note)
    found["avx512_bf16"] = False
    assert "bfloat16: this processor" in str(Precision("bfloat16", CPU).note)
    assert Precision("float32", CPU).note is None
    notes = []
    watcher = Silent()
    watcher.note = notes.append
    train(Recipe(**made["classify"], precision="bfloat16").replace(epochs=1), out=tmp_path / "run", progress=watcher)
    assert sum("bfloat16: this processor" in note for note in notes) == 1


def test_a_run_does_not_change_its_precision_on_the_way(ran_in):
    with pytest.raises(RecipeError, match="precision: "):
        resume(ran_in("classify", "bfloat16"), precision="float32")
    assert numbers_of(ran_in("classify", "bfloat16"))
