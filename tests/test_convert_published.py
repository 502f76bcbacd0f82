"""TensorFlow 1 and RTNeural against programs written from their sources: neither can be run from a current Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oracles import published
from oracles.frameworks import HIDDEN, INPUTS, assert_bits, assert_same, features, layer_of, weights
from unrolled import convert
from unrolled.convert import ConvertError

RNG = np.random.default_rng(12)
X = features().astype(np.float64)
H, C = RNG.normal(size=(2, 4, HIDDEN))


def draw(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) * 0.5).astype(np.float32)


def tf1_file(path: Path, cell: str, *, projected: int = 0, prefix: str = "rnn") -> dict[str, np.ndarray]:
    """The variables of one cell by TensorFlow's names."""
    state = projected or HIDDEN
    joined = INPUTS + state
    tensors = {
        "lstm": {"kernel": draw(joined, 4 * HIDDEN), "bias": draw(4 * HIDDEN)},
        "rnn": {"kernel": draw(joined, HIDDEN), "bias": draw(HIDDEN)},
        "gru": {
            "gates/kernel": draw(joined, 2 * HIDDEN), "gates/bias": draw(2 * HIDDEN),
            "candidate/kernel": draw(joined, HIDDEN), "candidate/bias": draw(HIDDEN),
        },
    }[cell]  # fmt: skip
    if projected:
        tensors["projection/kernel"] = draw(HIDDEN, projected)
    name = {"lstm": "lstm_cell", "rnn": "basic_rnn_cell", "gru": "gru_cell"}[cell]
    np.savez(path, **{f"{prefix}/{name}/{key}": value for key, value in tensors.items()})
    return tensors


@pytest.mark.parametrize("forget_bias", [1.0, 0.0, 0.3])
@pytest.mark.parametrize("projected", [0, 2])
def test_tf1_lstm(forget_bias: float, projected: int, tmp_path: Path) -> None:
    tensors = tf1_file(tmp_path / "a.npz", "lstm", projected=projected)
    with pytest.raises(ConvertError, match=r"forget_bias=1\.0"):
        convert.load(tmp_path / "a.npz")
    module = convert.load(tmp_path / "a.npz", forget_bias=forget_bias, batch_first=True).double()
    h, c, outs = H[:, : projected or HIDDEN], C, []
    start = (torch.from_numpy(h.copy())[None], torch.from_numpy(c)[None])
    for t in range(X.shape[1]):
        h, c = published.tf1_lstm(tensors, X[:, t], h, c, float(np.float32(forget_bias)))  # added in the weights' type
        outs.append(h)
    out, state = module(torch.from_numpy(X), start)
    assert_same((out, *state), (np.stack(outs, 1), h[None], c[None]), tolerance=1e-13)
    convert.save(module.float(), tmp_path / "b.npz", "tf1", forget_bias=forget_bias)
    with np.load(tmp_path / "b.npz") as back:
        assert_bits({key.split("lstm_cell/")[1]: value for key, value in back.items()}, tensors)


def test_tf1_gru_and_rnn(tmp_path: Path) -> None:
    for cell, step in (("gru", published.tf1_gru), ("rnn", published.tf1_rnn)):
        tensors = tf1_file(tmp_path / "a.npz", cell)
        module = convert.load(tmp_path / "a.npz", batch_first=True).double()
        h, outs = H, []
        for t in range(X.shape[1]):
            h = step(tensors, X[:, t], h)
            outs.append(h)
        assert_same(module(torch.from_numpy(X), torch.from_numpy(H)[None]), (np.stack(outs, 1), h[None]), 1e-13)
        convert.save(module.float(), tmp_path / "b.npz", "tf1")
        with np.load(tmp_path / "b.npz") as back:
            assert_bits({key.split(f"{cell}_cell/")[-1]: value for key, value in back.items()}, tensors)


def test_tf1_two_directions_and_layers(tmp_path: Path) -> None:
    layer = layer_of("gru before", "both ways")
    convert.save(layer, tmp_path / "a.npz", "tf1")
    with np.load(tmp_path / "a.npz") as file:
        names = sorted(file)
    assert "bidirectional_rnn/bw/multi_rnn_cell/cell_1/gru_cell/gates/kernel" in names
    back = convert.load(tmp_path / "a.npz", batch_first=True)
    assert_same(back(torch.from_numpy(features())), layer(torch.from_numpy(features())))


def test_tf1_peepholes_are_refused(tmp_path: Path) -> None:
    tensors = tf1_file(tmp_path / "a.npz", "lstm")
    named = {f"rnn/lstm_cell/{key}": value for key, value in tensors.items()}
    np.savez(tmp_path / "a.npz", **named, **{"rnn/lstm_cell/w_f_diag": draw(HIDDEN)})
    with pytest.raises(ConvertError, match="no unused keys, found rnn/lstm_cell/w_f_diag"):
        convert.load(tmp_path / "a.npz", forget_bias=1.0)


# RTNeural


def rtneural(*layers: tuple[str, int]) -> dict[str, Any]:
    """A document with random weights; `layers` are types and widths."""
    width, made = INPUTS, []
    for kind, size in layers:
        shapes: Any = {
            "lstm": [(width, 4 * size), (size, 4 * size), (4 * size,)],
            "gru": [(width, 3 * size), (size, 3 * size), (2, 3 * size)],
            "dense": [(width, size), (size,)],
        }[kind]
        arrays = [draw(*shape).tolist() for shape in shapes]
        activation = "tanh" if kind == "dense" else ""
        made.append({"type": kind, "activation": activation, "shape": [None, None, size], "weights": arrays})
        width = size
    return {"in_shape": [None, None, INPUTS], "layers": made}


@pytest.mark.parametrize("layers", [(("lstm", 3),), (("gru", 3),), (("gru", 3), ("lstm", 2), ("dense", 4))])
def test_rtneural(layers: Any, tmp_path: Path) -> None:
    document = rtneural(*layers)
    (tmp_path / "a.json").write_text(json.dumps(document))
    module = convert.load(tmp_path / "a.json")
    assert_same(module.double()(torch.from_numpy(X)), published.rtneural_model(document, X), tolerance=1e-13)
    convert.save(module.float(), tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text()) == document


@pytest.mark.parametrize("cell", ["gru", "lstm", "gru single"])
def test_our_layers_in_rtneural(cell: str, tmp_path: Path) -> None:
    layer = layer_of(cell, "two layers")
    convert.save(layer, tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert_same(layer(torch.from_numpy(features()))[0], published.rtneural_model(document, X))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["layers"][0].update(type="conv1d"), "lstm, gru, dense"),
        (lambda d: d["layers"][0]["weights"].pop(), "3 arrays for gru, found 2"),
        (lambda d: d["layers"][0].update(units=3), "no unused keys, found units"),
        (lambda d: d["layers"][0]["weights"].__setitem__(2, draw(9).tolist()), "2 levels of lists"),
        (lambda d: d["layers"][0]["weights"].__setitem__(2, draw(2, 8).tolist()), r"\(2, 9\)"),
        (lambda d: d["layers"][0]["weights"][0][1].pop(), "rows of one length"),
        (lambda d: d["layers"][0]["weights"][0][1].__setitem__(0, "1"), "numbers"),
        (lambda d: d["layers"][0].update(shape=[None, None, 4]), "shape: expected 3 last"),
        (lambda d: d.update(in_shape=[None, None, 4]), "in_shape: expected 5 inputs"),
        (lambda d: d["layers"][1].update(activation="softsign"), "activation"),
        (lambda d: d.update(layers=[]), "at least one RNN, LSTM or GRU|in_shape"),
    ],
)
def test_rtneural_files_that_are_wrong(change: Any, named: str, tmp_path: Path) -> None:
    document = rtneural(("gru", 3), ("dense", 2))
    change(document)
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(ConvertError, match=named):
        convert.load(tmp_path / "a.json")


def test_what_rtneural_lacks(tmp_path: Path) -> None:
    for cell, shape, named in (("rnn", "one", "cells of RTNeural"), ("lstm", "both ways", "sample by sample")):
        with pytest.raises(ConvertError, match=named):
            convert.save(layer_of(cell, shape), tmp_path / "a.json")
    with pytest.raises(ConvertError, match="float32 weights"):
        convert.save(layer_of("lstm").double().apply(_finer), tmp_path / "a.json")
    assert weights(layer_of("lstm"))


def _finer(module: Any) -> None:
    for parameter in module.parameters():
        parameter.data += 1e-12
