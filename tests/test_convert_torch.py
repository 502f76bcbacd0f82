"""PyTorch's files, and what is common to all conversions: the returned module, the report, keys, shapes, options."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import unrolled
from oracles.frameworks import assert_bits, assert_same, features, layer_of, states, weights
from unrolled import conventions, convert
from unrolled.convert import ConvertError, Stack
from unrolled.convert.table import KINDS, outcome, returns
from unrolled.errors import RecipeError

ROOT = Path(__file__).parents[1]
X = torch.from_numpy(features())
# torch says so once, where a projection is run
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@pytest.mark.parametrize("cell", ["rnn", "relu", "lstm", "gru", "lstm projected"])
@pytest.mark.parametrize("shape", ["one", "two layers", "both ways", "no bias"])
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_state_dict_there_and_back(cell: str, shape: str, ending: str, tmp_path: Path) -> None:
    layer = layer_of(cell, shape)
    path = tmp_path / f"layer.{ending}"
    if ending == "pt":
        torch.save(layer.state_dict(), path)
    else:
        save_file(layer.state_dict(), path)
    options = {"nonlinearity": layer.nonlinearity} if cell in ("rnn", "relu") else {}
    module = convert.load(path, batch_first=True, **options)
    assert isinstance(module, unrolled.layers.Recurrent)
    assert_same(module(X, states(layer)), layer(X, states(layer)))
    assert_bits(weights(module), weights(layer))
    convert.save(module, tmp_path / f"back.{ending}")
    again = convert.load(tmp_path / f"back.{ending}", **options)
    assert_bits(weights(again), weights(layer))
    fresh = type(layer)(5, 3, **({"nonlinearity": layer.nonlinearity} if options else {}),
                        num_layers=layer.num_layers, bidirectional=layer.bidirectional, bias=layer.bias,
                        **({"proj_size": 2} if "projected" in cell else {}))  # fmt: skip
    fresh.load_state_dict({name: torch.from_numpy(array) for name, array in weights(again).items()})


def test_the_axes_are_those_of_torch_unless_told_otherwise(tmp_path: Path) -> None:
    torch.save(layer_of("lstm").state_dict(), tmp_path / "a.pt")
    assert convert.load(tmp_path / "a.pt").batch_first is False
    assert convert.load(tmp_path / "a.pt", batch_first=True).batch_first is True


def test_cells(tmp_path: Path) -> None:
    for make in (nn.LSTMCell, nn.GRUCell, unrolled.GRUCell):
        cell = make(5, 3)
        convert.save(cell, tmp_path / "cell.pt")
        layer = convert.load(tmp_path / "cell.pt")
        out, _ = layer(X[:, :1].transpose(0, 1))
        first = cell(X[:, 0])
        assert_same(out[0], first[0] if isinstance(first, tuple) else first)
        torch.save(cell.state_dict(), tmp_path / "own.pt")
        assert_bits(weights(convert.load(tmp_path / "own.pt")), weights(layer))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.encoder = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True)
        self.top = nn.GRU(6, 2, batch_first=True)
        self.score = nn.Linear(2, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.score(self.top(self.encoder(self.embed(ids))[0])[0])


def test_a_module_that_is_a_stack(tmp_path: Path) -> None:
    torch.manual_seed(2)
    model, ids = Tagger(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    torch.save({"state_dict": model.state_dict()}, tmp_path / "model.pt")  # as training scripts keep it
    with pytest.raises(ConvertError, match="order: expected names that count"):
        convert.load(tmp_path / "model.pt", head="every")
    stack = convert.load(tmp_path / "model.pt", head="every", order=("encoder", "top"))
    assert isinstance(stack, Stack)
    assert_same(stack(ids), model(ids))
    for name in ("a.keras", "a.onnx", "a.safetensors"):
        target = "unrolled" if name == "a.safetensors" else None
        report = convert.save(stack, tmp_path / name, target)
        assert report.layers[0] == "embedding 7 → 4"
        assert_same(convert.load(tmp_path / name)(ids), model(ids))


def test_a_checkpoint_around_a_state_dict(tmp_path: Path) -> None:
    layer = nn.GRU(5, 3)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.randn(2, 1, 5))[0].sum().backward()
    optimizer.step()
    whole = {"epoch": 3, "model": layer.state_dict(), "optimizer": optimizer.state_dict(), "best": 0.5}
    torch.save(whole, tmp_path / "a.pt")
    assert_bits(weights(convert.load(tmp_path / "a.pt")), {k: v.numpy() for k, v in layer.state_dict().items()})
    torch.save(whole | {"ema": layer.state_dict()}, tmp_path / "a.pt")
    with pytest.raises(ConvertError, match=r"expected one state_dict, found 2: 'model', 'ema'.*checkpoint\['model'\]"):
        convert.load(tmp_path / "a.pt")
    del whole["model"]
    torch.save(whole, tmp_path / "a.pt")
    with pytest.raises(
        ConvertError, match=r"a state_dict, found the keys 'epoch', 'optimizer', 'best'.*model.state_dict"
    ):
        convert.load(tmp_path / "a.pt")


def test_a_stack_goes_on_from_its_states(tmp_path: Path) -> None:
    convert.save(layer_of("lstm", "two layers"), tmp_path / "a.keras")
    stack = convert.load(tmp_path / "a.keras")
    whole = stack(X)
    first, state = stack.run(X[:, :2])
    rest, _ = stack.run(X[:, 2:], state)
    assert_same(torch.cat([first, rest], 1), whole, tolerance=1e-6)
    short = stack(X, lengths=[6, 0, 3, 1])
    assert_same(short[2, :3], stack(X[2:3, :3])[0])
    assert not short[2, 3:].any()


def test_a_trained_run(tmp_path: Path) -> None:
    """A run folder's model, with its embedding and its head, in Keras's file and ONNX's."""
    from unrolled.training import Recipe, load, train

    rows = [
        {"text": text, "label": label}
        for text, label in ((f"a b c {n}", "x") if n % 2 else (f"c b {n}", "y") for n in range(60))
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = Recipe(
        task="classify", data=str(tmp_path / "rows.jsonl"), hidden=3, epochs=1, bidirectional=True, pooling="last"
    )
    train(recipe, out=tmp_path / "run")
    ids = torch.tensor([[1, 2, 3, 2], [3, 1, 2, 1]])
    model = load(tmp_path / "run").model.eval()
    from unrolled.models import Batch

    with torch.no_grad():
        want = model(Batch(ids, torch.tensor([4, 4])))
        report = convert.convert(tmp_path / "run", tmp_path / "model.keras", verify=True)
        assert_same(convert.load(tmp_path / "model.keras")(ids), want)
        assert_same(convert.load(tmp_path / "run")(ids), want)
    assert report.source == "unrolled"
    assert report.verified["keras"] < 1e-6


# one law, S3 of the worked numbers: folding b_hn


def worked() -> Any:
    """A GRU with I = 1, H = 2 whose numbers were computed elsewhere."""
    layer = nn.GRU(1, 2)
    values = {
        "weight_ih_l0": torch.tensor([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]),
        "weight_hh_l0": 0.1 * torch.arange(12.0).reshape(6, 2) - 0.5,
        "bias_ih_l0": torch.tensor([0.01, 0.02, 0.03, 0.04, 0.05, 0.06]),
        "bias_hh_l0": torch.tensor([-0.1, 0.1, -0.2, 0.2, 0.3, -0.3]),
    }
    layer.load_state_dict(values)
    return layer


def test_a_target_with_one_bias(tmp_path: Path) -> None:
    x, h = torch.tensor([[[1.0]], [[-0.5]]]), torch.tensor([[[0.5, -0.25]]])
    convert.save(worked(), tmp_path / "a.npz", "equinox")  # r and z folded, b_hn kept
    _, state = convert.load(tmp_path / "a.npz")(x, h)
    np.testing.assert_allclose(state[0, 0].detach().numpy(), [0.21741229, -0.11105884], atol=1e-6)
    with pytest.raises(ConvertError, match=r"b_hn"):
        convert.save(worked(), tmp_path / "b.npz", "flax-nnx")
    before = unrolled.GRU(1, 2, reset_after=False)
    before.load_state_dict(worked().state_dict())
    convert.save(before, tmp_path / "c.npz", "tf1")
    _, state = convert.load(tmp_path / "c.npz")(x, h)
    np.testing.assert_allclose(state[0, 0].detach().numpy(), [0.33848032, -0.21210199], atol=1e-6)


# keys, shapes, options


def changed(tmp_path: Path, change: Any, **options: Any) -> Any:
    state = dict(layer_of("gru", "both ways").state_dict())
    change(state)
    torch.save(state, tmp_path / "a.pt")
    return convert.load(tmp_path / "a.pt", **options)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.pop("weight_hh_l1_reverse"), r"weight_hh_l1_reverse: expected this key"),
        (lambda s: s.pop("bias_hh_l0"), r"bias_hh_l0: expected this key.*single_bias=True"),
        (lambda s: [s.pop(k) for k in list(s) if "l0_reverse" in k], "l0_reverse"),
        (lambda s: [s.pop(k) for k in list(s) if "_l0" in k], "_l0"),
        (lambda s: s.update(scale=torch.ones(3)), "no unused keys, found scale"),
        (lambda s: s.update(bias_ih_l1=torch.ones(8)), r"bias_ih_l1: expected \(9,\).*found \(8,\)"),
        (
            lambda s: s.update(weight_hh_l0=torch.ones(9, 4)),
            r"weight_hh_l0: expected \(9, 3\) \(gru\) or .*found \(9, 4\)",
        ),
        (
            lambda s: s.update(weight_hh_l0=torch.ones(12, 4)),
            r"weight_hh_l0: expected \(9, 3\) \(gru\).*found \(12, 4\)",
        ),
        (lambda s: s.update(weight_hh_l1=torch.ones(9)), r"weight_hh_l1: expected 2 axes.*found \(9,\)"),
        (lambda s: s.update(weight_ih_l0=torch.ones(8, 5)), r"weight_ih_l0: expected \(9, 5\).*found \(8, 5\)"),
        (lambda s: s.update(weight_ih_l1=torch.ones(9, 5)), r"expected 6 inputs"),
        (lambda s: s.update(weight_ih_l0=torch.ones(9, 5).long()), "floating-point"),
        (lambda s: s.update(weight_ih_l0=torch.full((9, 5), float("nan"))), "finite numbers, found 45"),
        (lambda s: s.update(weight_ih_l0=torch.ones(45)), "weight_ih"),
        (lambda s: s.update(bias_hh_l0=s["bias_hh_l0"].double()), "bias_hh_l0: expected numbers of one type"),
        (lambda s: s.update(weight_ih_l9999=torch.ones(9, 6)), "l9999|_l2"),
    ],
)
def test_keys_and_shapes_are_named(change: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=named):
        changed(tmp_path, change)


def test_a_second_layer_is_not_ignored(tmp_path: Path) -> None:
    assert changed(tmp_path, lambda _: None).num_layers == 2


def test_single_bias_must_be_meant(tmp_path: Path) -> None:
    def one_bias(state: Any) -> None:
        for key in [key for key in state if key.startswith("bias_hh")]:
            del state[key]

    with pytest.raises(ConvertError, match="single_bias=True"):
        changed(tmp_path, one_bias)
    assert changed(tmp_path, one_bias, single_bias=True).single_bias


def test_an_rnn_must_be_told_its_nonlinearity(tmp_path: Path) -> None:
    torch.save(nn.RNN(5, 3).state_dict(), tmp_path / "a.pt")
    with pytest.raises(ConvertError, match="nonlinearity='tanh'"):
        convert.load(tmp_path / "a.pt")


def test_options_and_names_that_do_not_exist(tmp_path: Path) -> None:
    torch.save(nn.GRU(5, 3).state_dict(), tmp_path / "a.pt")
    for options, named in (({"source": "caffe"}, "source"), ({"acept": "x"}, "acept"), ({"accept": "x"}, "accept"),
                           ({"head": "first"}, "head"), ({"nonlinearity": "gelu"}, "nonlinearity")):  # fmt: skip
        with pytest.raises(RecipeError, match=named):
            convert.load(tmp_path / "a.pt", **options)
    with pytest.raises(RecipeError, match="an ending that tells"):
        convert.save(nn.GRU(5, 3), tmp_path / "a.xyz")
    with pytest.raises(RecipeError, match="flax-linen or flax-nnx"):
        convert.save(nn.GRU(5, 3), tmp_path / "a.npz", "flax")
    with pytest.raises(ConvertError, match="no such file"):
        convert.load(tmp_path / "nothing.pt")
    with pytest.raises(ConvertError, match="no folder"):
        convert.save(nn.GRU(5, 3), tmp_path / "nowhere" / "a.pt")
    with pytest.raises(ConvertError, match="module: expected RNN"):
        convert.save(nn.Linear(2, 2), tmp_path / "a.pt")


def test_structure_that_bare_weights_cannot_hold(tmp_path: Path) -> None:
    from unrolled.convert.spec import Dense, Network, Recurrent
    from unrolled.convert.stack import module_of
    from unrolled.convert.states import levels_of

    units = levels_of(weights(nn.GRU(5, 3, bidirectional=True)))[0].units
    head = Dense(np.ones((6, 2), np.float32), None, "softmax")
    for parts, named in (
        ((Recurrent(units, merge="sum"),), "merge"),
        ((Recurrent(units[:1], backwards=True),), "backwards"),
        ((Recurrent(units), head), "activation.*accept='activation'"),
    ):
        with pytest.raises(ConvertError, match=named):
            convert.save(module_of(Network(parts)), tmp_path / "a.pt")
    convert.save(module_of(Network((Recurrent(units), head))), tmp_path / "a.pt", accept="activation")


def test_a_learned_initial_state_is_refused_unless_it_is_zero(tmp_path: Path) -> None:
    layer = unrolled.LSTM(5, 3, learn_initial_state=True)
    convert.save(layer, tmp_path / "a.pt")
    with torch.no_grad():
        layer.initial_h_l0 += 1
    with pytest.raises(ConvertError, match="initial_h_l0: expected zeros"):
        convert.save(layer, tmp_path / "a.pt")


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    layer = layer_of("gru").bfloat16()
    save_file(layer.state_dict(), tmp_path / "a.safetensors")
    torch.save(layer.state_dict(), tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        module = convert.load(tmp_path / name)
        assert_bits(weights(module), {k: v.float().numpy() for k, v in layer.state_dict().items()})


def test_nothing_is_left_behind_when_a_conversion_fails(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"what was there")
    with pytest.raises(ConvertError):
        convert.save(nn.GRU(5, 3), tmp_path / "a.npz", "flax-nnx")
    assert (tmp_path / "a.npz").read_bytes() == b"what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_random_numbers_of_the_caller_are_not_used(tmp_path: Path) -> None:
    convert.save(layer_of("lstm"), tmp_path / "a.pt")
    torch.manual_seed(3)
    first = torch.rand(1)
    torch.manual_seed(3)
    convert.load(tmp_path / "a.pt")
    torch.testing.assert_close(torch.rand(1), first, rtol=0, atol=0)


# the tables and the command


def test_every_layout_comes_back_with_every_bit() -> None:
    assert [layout.name for layout in conventions.LAYOUTS if not returns(layout)] == []
    assert len({layout.name for layout in conventions.LAYOUTS}) == len(conventions.LAYOUTS)
    assert all(layout.source for layout in conventions.LAYOUTS)


def test_the_documents_hold_the_tables() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "conversion.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for kind in KINDS:
        assert outcome(kind, "unrolled") == "exact"
    assert (outcome("GRU", "flax-nnx"), outcome("GRU", "keras"), outcome("LSTM", "keras")) == ("no", "exact", "rounds")


def test_the_command(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from unrolled.cli.app import build

    torch.save(nn.GRU(5, 3).state_dict(), tmp_path / "a.pt")
    run = CliRunner().invoke(build(), ["convert", str(tmp_path / "a.pt"), str(tmp_path / "a.onnx"), "--verify"])
    assert run.exit_code == 0, run.output
    assert "torch → onnx, 90 parameters" in run.output
    assert "from onnx itself" in run.output
    run = CliRunner().invoke(build(), ["convert", str(tmp_path / "a.pt"), str(tmp_path / "a.keras"), "--json"])
    assert json.loads(run.stdout)["difference"]["random"] < 1e-12
    run = CliRunner().invoke(build(), ["convert", str(tmp_path / "a.pt"), str(tmp_path / "a.npz"), "--to", "flax-nnx"])
    assert run.exit_code == 1
    assert "b_hn" in run.output
    run = CliRunner().invoke(build(), ["convert", str(tmp_path / "a.pt"), str(tmp_path / "a.npz"), "--to", "caffe"])
    assert run.exit_code == 2
