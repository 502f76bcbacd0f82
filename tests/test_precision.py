"""Mixed precision: what is rounded errs by that rounding and no more, and what must stay float32 stays."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
import torch

import unrolled
from killing import Run, assert_same_run, log_of, numbers_of, recipes
from test_several_processes import launch, plain
from unrolled import bundle
from unrolled.errors import RecipeError, RunError
from unrolled.kernels import choose
from unrolled.models.attention import masked_weights
from unrolled.training import Recipe, load, train
from unrolled.training.folder import RunFolder
from unrolled.training.loop import Loop
from unrolled.training.precision import Precision
from unrolled.training.sources import open_parts
from unrolled.training.tasks import Place, find

TASKS = ("classify", "tag", "lm", "seq2seq", "forecast")
BF16 = torch.finfo(torch.bfloat16).eps  # 2^-7: what the significand's last place is worth
HALF = BF16 / 2  # the most by which one rounding errs
CPU = torch.device("cpu")


# the engines, beside the equations in float64

# In units of HALF, and of the largest number of each tensor, or 1: two layers, two directions, five steps.
BUDGET = {"output": 8, "gradient": 24}
CELLS = {"rnn": ("RNN", {}), "lstm": ("LSTM", {}), "gru": ("GRU", {}), "gru_before": ("GRU", {"reset_after": False})}
PAIRS = [
    (cell, engine) for cell in CELLS for engine in ("torch", "reference") if (cell, engine) != ("gru_before", "torch")
]


def layer_of(cell, backend):
    name, options = CELLS[cell]
    torch.manual_seed(7)
    layer = getattr(unrolled, name)(4, 3, 2, bidirectional=True, backend=backend, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.5)
    return layer


def given(layer):
    """Unequal rows, one of them empty, resets at a beginning and inside."""
    torch.manual_seed(3)
    state = torch.randn(4, 3, 3)
    resets = torch.zeros(3, 5, dtype=torch.bool)
    resets[0, 0] = resets[1, 2] = True
    hx = (state, torch.randn(4, 3, 3)) if isinstance(layer, unrolled.LSTM) else state
    return {"x": torch.randn(5, 3, 4), "hx": hx, "lengths": torch.tensor([3, 5, 0]), "resets": resets}


def ran(layer, call, dtype=None):
    """Outputs and states; gradients of the input and of every weight."""
    wide = layer.weight_ih_l0.dtype
    x = call["x"].to(wide).requires_grad_()
    hx = tuple(part.to(wide) for part in call["hx"]) if isinstance(call["hx"], tuple) else call["hx"].to(wide)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        out, state = layer(x, hx, lengths=call["lengths"], resets=call["resets"])
    results = [out, *(state if isinstance(state, tuple) else (state,))]
    torch.manual_seed(5)
    sum((part * torch.randn(part.shape).to(wide)).sum() for part in results).backward()
    parameters = list(layer.parameters())
    return {"output": [part.detach() for part in results], "gradient": [x.grad, *(p.grad for p in parameters)]}


def errors(found, truth):
    """The largest error of each kind, in units of HALF."""
    scaled = {}
    for kind in truth:
        pairs = zip(found[kind], truth[kind], strict=True)
        scaled[kind] = max(
            float((a.double() - b).abs().max() / max(1.0, float(b.abs().max()))) / HALF for a, b in pairs
        )
    return scaled


def truth_of(cell):
    layer = layer_of(cell, "reference").double()
    return ran(layer, given(layer))


@pytest.mark.parametrize(("cell", "backend"), PAIRS)
def test_an_engine_in_bfloat16_errs_by_its_roundings(cell, backend):
    layer = layer_of(cell, backend)
    found = errors(ran(layer, given(layer), torch.bfloat16), truth_of(cell))
    assert all(found[kind] <= BUDGET[kind] for kind in BUDGET), found
    assert found["output"] > 0.01  # it was rounded at all: float32 errs by 0.0001


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cell", CELLS)
def test_the_native_engine_computes_float32_also_there(cell, dtype):
    layer = layer_of(cell, "native")
    found, plain = ran(layer, given(layer), dtype), ran(layer_of(cell, "native"), given(layer))
    for kind in found:
        for one, other in zip(found[kind], plain[kind], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert max(errors(found, truth_of(cell)).values()) < 0.001


def _swap(first, second):
    def mutate(layer, _):
        for parameter in layer.parameters():
            gates = parameter.unflatten(0, (-1, 3))
            gates[[first, second]] = gates[[second, first]].clone()

    return mutate


def _drop(gate):
    """The bias of the hidden side."""

    def mutate(layer, _):
        for name, parameter in layer.named_parameters():
            if name.startswith("bias_hh"):
                parameter.unflatten(0, (-1, 3))[gate] = 0

    return mutate


def _flip(layer, _):
    for parameter in layer.parameters():
        parameter.unflatten(0, (-1, 3))[1].neg_()


def _pad_step(_, call):
    call["lengths"] = torch.tensor([4, 5, 0])


def _late_reset(_, call):
    call["resets"] = call["resets"].roll(1, 1)


MUTANTS = {
    "rnn": [_drop(0), _pad_step, _late_reset],
    "lstm": [_swap(0, 1), _drop(2), _pad_step, _late_reset],
    "gru": [_swap(0, 1), _flip, _drop(2), _pad_step, _late_reset],
    "gru_before": [_swap(0, 1), _flip, _drop(2), _pad_step, _late_reset],
}


@pytest.mark.parametrize(("cell", "number"), [(cell, i) for cell, many in MUTANTS.items() for i in range(len(many))])
def test_the_budget_tells_other_equations_apart(cell, number):
    """Even if they were computed without any rounding."""
    layer = layer_of(cell, "reference").double()
    call = given(layer)
    with torch.no_grad():
        MUTANTS[cell][number](layer, call)
    found = errors(ran(layer, call), truth_of(cell))
    assert all(found[kind] > 1.5 * BUDGET[kind] for kind in BUDGET), found


def test_who_runs_what_and_who_refuses():
    x = torch.zeros(5, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert choose("lstm_scan", x).name == "native"
        assert choose("lstm_scan", x, backend="torch").name == "torch"
    with torch.autocast("cpu", dtype=torch.float16):
        assert choose("gru_scan", x, backend="torch").name == "torch"
        with pytest.raises(
            RuntimeError, match=r"torch's LSTM on this CPU cannot train in torch.float16\. Use backend='auto'"
        ):
            choose("lstm_scan", x, backend="torch")


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
    from unrolled.training import resume
    from unrolled.training.loop import Silent

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


def test_a_run_does_not_change_its_precision_on_the_way(ran_in):
    from unrolled.training import resume

    with pytest.raises(RecipeError, match="precision: "):
        resume(ran_in("classify", "bfloat16"), precision="float32")
    assert numbers_of(ran_in("classify", "bfloat16"))
