"""Flax (linen and nnx), Equinox and Haiku themselves, on JAX for CPU, against what we read and write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unrolled
from oracles import jax_side
from oracles.frameworks import HIDDEN, INPUTS, assert_bits, assert_same, layer_of, weights
from unrolled import convert
from unrolled.convert import ConvertError

WRITTEN = [
    *((framework, cell, shape) for framework in ("flax-linen", "flax-nnx") for cell in ("rnn", "lstm")
      for shape in ("two", "both")),
    *(("flax-linen", "gru", shape) for shape in ("two", "both")),
    *(("flax-nnx", cell, shape) for cell in ("optimized", "gru") for shape in ("two", "both")),
    *(("equinox", cell, shape) for cell in ("lstm", "gru") for shape in ("two", "both")),
    *(("haiku", cell, shape) for cell in ("lstm", "gru", "relu") for shape in ("two", "both")),
]  # fmt: skip
SHAPES = {"two": "two layers", "both": "both ways"}


def source_of(framework: str, cell: str, shape: str) -> Any:
    """A layer that the framework can hold: nnx has no place for b_hn, Haiku's GRU resets before."""
    name = {("flax-nnx", "gru"): "gru single", ("haiku", "gru"): "gru before"}.get((framework, cell), cell)
    return layer_of("lstm" if name == "optimized" else name, SHAPES[shape])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our files, and beside them all that the frameworks wrote and computed, from one other process."""
    made = tmp_path_factory.mktemp("jax")
    (made / "ours").mkdir()
    for framework, cell, shape in WRITTEN:
        options = {"variant": "optimized"} if cell == "optimized" else {}
        path = made / "ours" / f"{framework} {cell} {shape}.npz"
        convert.save(source_of(framework, cell, shape), path, framework, **options)
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    # Nearly all of the time is spent on compiling a hundred small programs that run once: 33 s, and 20 s like this.
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, jax_side.__file__, str(made)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return made


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


READ = {
    "linen lstm": "flax-linen", "linen optimized lstm": "flax-linen", "linen gru": "flax-linen",
    "linen rnn": "flax-linen", "nnx lstm": "flax-nnx", "nnx optimized": "flax-nnx", "nnx gru": "flax-nnx",
    "nnx rnn": "flax-nnx", "equinox lstm": "equinox", "equinox gru": "equinox", "equinox lstm unbiased": "equinox",
    "equinox gru unbiased": "equinox", "haiku lstm": "haiku", "haiku gru": "haiku", "haiku relu": "haiku",
    "haiku relu-one-bias": "haiku",
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_cell_of_the_framework_runs_here(name: str, folder: Path, tmp_path: Path) -> None:
    """From a state that is not zero; then back into the framework's names, to the last bit."""
    path, framework = folder / f"{name}.npz", READ[name]
    module = convert.load(path, batch_first=True)
    assert module.conversion.source == framework
    want = arrays(folder / f"{name}.out.npz")
    h, c = torch.from_numpy(jax_side.H[:1]), torch.from_numpy(jax_side.C[:1])
    out, state = module(torch.from_numpy(jax_side.X), (h, c) if "lstm" in name or "optimized" in name else h)
    assert_same(out, want["out"])
    parts = state if isinstance(state, tuple) else (state,)
    assert_same([part[0] for part in parts], [want[key] for key in ("h", "c")[: len(parts)]])

    options = {"variant": "optimized"} if name == "nnx optimized" else {}
    convert.save(module, tmp_path / "back.npz", framework, **options)
    back, first = arrays(tmp_path / "back.npz"), arrays(path)
    if "one-bias" in name:  # the second bias of zeros that we write is what the file left out
        back = {key: value for key, value in back.items() if not key.endswith("linear_1/b")}
    assert_bits({key.split("cell/")[-1].split("layers/0/")[-1]: value for key, value in back.items()},
                {key.split("cell/")[-1]: value for key, value in first.items()})  # fmt: skip


def test_two_directions(folder: Path) -> None:
    module = convert.load(folder / "linen both.npz")
    assert module.bidirectional
    assert module.batch_first
    out, _ = module(torch.from_numpy(jax_side.X), torch.from_numpy(jax_side.H))
    assert_same(out, arrays(folder / "linen both.out.npz")["out"])


def test_what_a_tree_does_not_say_is_noted(folder: Path) -> None:
    """RNN(reverse=True) leaves no trace in the weights: the reader says that it took a forward reading."""
    (note,) = convert.load(folder / "linen both.npz").conversion.notes
    for word in ("RNN(reverse=False)", "activation_fn=tanh", "the directions are concatenated", "every step's output"):
        assert word in note
    (note,) = convert.load(folder / "haiku whole.npz", head="every").conversion.notes
    assert "each layer reads forward" in note
    assert "a linear head" in note
    assert "every step" not in note  # it was asked for


@pytest.mark.parametrize(("name", "head"), [("linen", "every"), ("nnx", "last"), ("haiku", "every")])
def test_a_whole_model(name: str, head: str, folder: Path, tmp_path: Path) -> None:
    path = folder / f"{name} whole.npz"
    with pytest.raises(ConvertError, match="head='every' or head='last'"):
        convert.load(path)
    module = convert.load(path, head=head, batch_first=True)
    ids = torch.from_numpy(jax_side.IDS)
    assert_same(module(ids), arrays(folder / f"{name} whole.out.npz")["out"])
    convert.save(module, tmp_path / "model.keras")
    assert_same(convert.load(tmp_path / "model.keras")(ids), module(ids))


@pytest.mark.parametrize(("framework", "cell", "shape"), WRITTEN)
def test_the_framework_runs_our_file(framework: str, cell: str, shape: str, folder: Path) -> None:
    layer = source_of(framework, cell, shape)
    with torch.no_grad():
        want, _ = layer(torch.from_numpy(jax_side.X))
    assert_same(arrays(folder / f"{framework} {cell} {shape}.ran.npz")["out"], want)


def test_verify_runs_each_of_them(folder: Path) -> None:
    found = arrays(folder / "verified.npz")
    assert len(found) == len(WRITTEN) // 2
    assert max(found.values()) < 1e-6


# what cannot be exact


def test_b_hn_has_no_place_in_nnx(tmp_path: Path) -> None:
    with pytest.raises(
        ConvertError, match=r"layer 0: bias_hh of the candidate n \(b_hn\): expected zeros.*single_bias"
    ):
        convert.save(nn.GRU(5, 3), tmp_path / "gru.npz", "flax-nnx")
    layer = nn.GRU(5, 3)
    with torch.no_grad():
        layer.bias_hh_l0[6:] = 0
    convert.save(layer, tmp_path / "gru.npz", "flax-nnx")


def test_the_reset_stands_on_one_side(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="expected the reset before the product, as haiku/gru, found after it"):
        convert.save(nn.GRU(5, 3), tmp_path / "gru.npz", "haiku")
    before = unrolled.GRU(5, 3, reset_after=False)
    for target in ("flax-linen", "flax-nnx", "equinox", "torch", "rtneural"):
        with pytest.raises(ConvertError, match="expected the reset after the product"):
            convert.save(before, tmp_path / ("gru.json" if target == "rtneural" else "gru.safetensors"), target)


def test_cells_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"a cell that equinox has \(gru, lstm\), found rnn"):
        convert.save(nn.RNN(5, 3), tmp_path / "rnn.npz", "equinox")
    with pytest.raises(ConvertError, match="nonlinearity: expected relu"):
        convert.save(nn.RNN(5, 3), tmp_path / "rnn.npz", "haiku")
    with pytest.raises(ConvertError, match="nonlinearity: expected tanh"):
        convert.save(nn.RNN(5, 3, nonlinearity="relu"), tmp_path / "rnn.npz", "flax-nnx")


def edited(folder: Path, name: str, out: Path, change: Any) -> Path:
    tensors = arrays(folder / f"{name}.npz")
    change(tensors)
    np.savez(out, **tensors)
    return out


def test_missing_and_unused_keys_are_named(folder: Path, tmp_path: Path) -> None:
    path = edited(folder, "linen gru", tmp_path / "a.npz", lambda t: t.pop("cell/hn/bias"))
    with pytest.raises(ConvertError, match=r"cell/hn/bias: expected this key, found none"):
        convert.load(path)
    path = edited(folder, "linen gru", tmp_path / "b.npz", lambda t: t.update({"cell/hr/bias": np.ones(3, np.float32)}))
    with pytest.raises(ConvertError, match="no unused keys, found cell/hr/bias"):
        convert.load(path)
    path = edited(
        folder, "haiku lstm", tmp_path / "c.npz", lambda t: t.update({"lstm/linear/b": np.ones(11, np.float32)})
    )
    with pytest.raises(ConvertError, match=r"lstm/linear/b: expected \(12,\)"):
        convert.load(path)


def test_order_that_names_do_not_tell(folder: Path, tmp_path: Path) -> None:
    first, second = arrays(folder / "linen lstm.npz"), arrays(folder / "linen lstm.npz")
    tensors = {f"encoder/{k}": v for k, v in first.items()}
    tensors |= {f"top/{k}": (v[:HIDDEN] if v.shape[0] == INPUTS else v) for k, v in second.items()}
    np.savez(tmp_path / "two.npz", **tensors)
    with pytest.raises(ConvertError, match=r"order: expected names that count.*order=\('encoder', 'top'\)"):
        convert.load(tmp_path / "two.npz")
    assert convert.load(tmp_path / "two.npz", order=("encoder", "top")).num_layers == 2
    with pytest.raises(ConvertError, match="order: expected each of these once"):
        convert.load(tmp_path / "two.npz", order=("encoder",))


def test_directions_that_names_do_not_tell(folder: Path, tmp_path: Path) -> None:
    """A compact Flax module numbers its cells; that two of them are one layer is for the caller to say."""
    cell = arrays(folder / "linen lstm.npz")
    tensors = {f"LSTMCell_{n}/{k.removeprefix('cell/')}": v for n in range(2) for k, v in cell.items()}
    np.savez(tmp_path / "two.npz", **tensors)
    with pytest.raises(ConvertError, match="expected 3 inputs"):
        convert.load(tmp_path / "two.npz")
    assert convert.load(tmp_path / "two.npz", bidirectional=True).bidirectional


def test_safetensors_hold_a_tree_as_well(folder: Path, tmp_path: Path) -> None:
    module = convert.load(folder / "nnx gru.npz")
    convert.save(module, tmp_path / "gru.safetensors", "flax-nnx")
    assert_bits(weights(convert.load(tmp_path / "gru.safetensors")), weights(module))
