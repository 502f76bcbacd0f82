"""Wrong conversions: each must be refused by the check that every conversion runs, and each wrong row of the table by a
framework that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from oracles.frameworks import assert_same, features, layer_of
from unrolled import conventions, convert
from unrolled.conventions import OURS
from unrolled.convert import ConvertError, check, exchange, keras_files, onnx_nodes, rtneural, states, trees
from unrolled.convert import packing as real
from unrolled.convert.spec import Unit

READERS = (check, keras_files, onnx_nodes, rtneural, states, trees)
FILES = {"torch": "a.pt", "keras": "a.keras", "equinox": "a.npz", "flax-linen": "a.npz", "onnx": "a.onnx"}


def swapped(unit: Unit, first: str, second: str) -> Unit:
    """Two gates in each other's place, in every tensor."""
    order = list(range(len(OURS[unit.cell])))
    a, b = OURS[unit.cell].index(first), OURS[unit.cell].index(second)
    order[a], order[b] = b, a
    moved = {name: None if value is None else value[order] for name, value in tensors(unit).items()}
    return replace(unit, **moved)


def tensors(unit: Unit) -> dict[str, Any]:
    return {"W": unit.W, "U": unit.U, "b": unit.b, "b_h": unit.b_h}


def flipped(unit: Unit, gate: str) -> Unit:
    """One gate negated: z read as 1 - z."""
    number = OURS[unit.cell].index(gate)
    changed = {}
    for name, value in tensors(unit).items():
        changed[name] = None if value is None else value.copy()
        if value is not None:
            changed[name][number] *= -1
    return replace(unit, **changed)


def folded(unit: Unit) -> Unit:
    """Both biases in one, b_hn too."""
    return replace(unit, b=unit.b + unit.b_h, b_h=np.zeros_like(unit.b_h))


def half_transposed(unit: Unit) -> Unit:
    return replace(unit, U=unit.U.transpose(0, 2, 1).copy())


MUTANTS: dict[str, tuple[str, Callable[[Unit], Unit]]] = {
    "i and f swapped": ("lstm", lambda u: swapped(u, "i", "f")),
    "g and o swapped": ("lstm", lambda u: swapped(u, "g", "o")),
    "r and z swapped": ("gru", lambda u: swapped(u, "r", "z")),
    "z flipped": ("gru", lambda u: flipped(u, "z")),
    "b_hn folded": ("gru", folded),
    "reset on the other side": ("gru", lambda u: replace(u, reset_after=not u.reset_after)),
    "one bias dropped, gru": ("gru", lambda u: replace(u, b_h=np.zeros_like(u.b_h))),
    "input bias dropped, lstm": ("lstm", lambda u: replace(u, b=np.zeros_like(u.b))),
    "input bias dropped, rnn": ("rnn", lambda u: replace(u, b=np.zeros_like(u.b))),
    "recurrent matrix transposed": ("lstm", half_transposed),
    "recurrent matrix transposed, rnn": ("rnn", half_transposed),
    "candidate negated": ("gru", lambda u: flipped(u, "n")),
    "tanh for relu": ("relu", lambda u: replace(u, nonlinearity="tanh")),
    "relu for tanh": ("rnn", lambda u: replace(u, nonlinearity="relu")),
}  # fmt: skip


def mutate(monkeypatch: pytest.MonkeyPatch, change: Callable[[Unit], Unit]) -> None:
    def unpack(*args: Any, **options: Any) -> Unit:
        return change(real.unpack(*args, **options))

    for module in READERS:
        monkeypatch.setattr(module, "unpack", unpack)


def written(folder: Path, framework: str, cell: str, layer: Any) -> tuple[Path, dict[str, Any]]:
    path = folder / FILES[framework]
    try:
        convert.save(layer, path, framework)
    except ConvertError:
        pytest.fail(f"{framework} cannot hold {cell}")
    return path, {"nonlinearity": layer.nonlinearity} if cell in ("rnn", "relu") and framework == "torch" else {}


def holders(cell: str) -> list[str]:
    lacking = {"rnn": {"equinox"}, "relu": {"equinox", "flax-linen"}}
    return [name for name in FILES if name not in lacking.get(cell, set())]


PAIRS = [(name, framework) for name, (cell, _) in MUTANTS.items() for framework in holders(cell)]


@pytest.mark.parametrize(("name", "framework"), PAIRS)
def test_a_wrong_conversion_is_refused(
    name: str, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, change = MUTANTS[name]
    path, options = written(tmp_path, framework, cell, layer_of(cell, "both ways"))
    if name in ("b_hn folded", "one bias dropped, gru") and framework == "flax-linen":
        assert convert.load(path, **options).all_weights  # b_h holds b_hn alone there, and folding it is still wrong
    convert.load(path, **options)
    mutate(monkeypatch, change)
    with pytest.raises(ConvertError, match=r"self-check|nonlinearity: expected tanh"):  # Flax has no other cell
        convert.load(path, **options)


def test_a_reader_that_mistakes_the_nonlinearity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check goes by the file's own word, not by what the reader made of it."""
    keras, onnx = tmp_path / "a.keras", tmp_path / "a.onnx"
    for path in (keras, onnx):
        convert.save(layer_of("relu"), path)
    monkeypatch.setattr(keras_files.config, "nonlinearity", lambda _: "tanh")
    monkeypatch.setattr(onnx_nodes, "_check", lambda *_: ["tanh"])
    for path in (keras, onnx):
        with pytest.raises(ConvertError, match="self-check"):
            convert.load(path)


@pytest.mark.parametrize("name", ["b_hn folded", "one bias dropped, gru", "input bias dropped, lstm"])
def test_zero_biases_hide_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose biases are all zero would let these through: the random weights of the check do not."""
    cell, change = MUTANTS[name]
    layer = layer_of(cell)
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            if key.startswith("bias"):
                parameter.zero_()
    path, options = written(tmp_path, "keras", cell, layer)
    mutate(monkeypatch, change)
    with pytest.raises(ConvertError, match="on random weights"):
        convert.load(path, **options)


def test_one_hidden_unit_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one unit and b_hn = 0 the two reset forms are equal, and so are a matrix and its transpose."""
    layer = torch.nn.GRU(1, 1)
    with torch.no_grad():
        layer.bias_hh_l0[2] = 0
    path, _ = written(tmp_path, "keras", "gru", layer)
    for change in (half_transposed, MUTANTS["reset on the other side"][1]):
        with monkeypatch.context() as patched:
            mutate(patched, change)
            with pytest.raises(ConvertError, match="on random weights"):
                convert.load(path)


def test_layers_and_directions_in_the_wrong_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of("gru", "both ways")
    path, _ = written(tmp_path, "onnx", "gru", layer)

    def turned(network: Any) -> Any:
        levels = [replace(part, units=part.units[::-1]) for part in network.parts]
        return exchange_module(replace(network, parts=tuple(levels)))

    exchange_module = exchange.module_of
    monkeypatch.setattr(exchange, "module_of", turned)
    with pytest.raises(ConvertError, match="self-check"):
        convert.load(path)


@pytest.mark.parametrize("target", ["keras", "equinox", "onnx"])
def test_a_wrong_writer_writes_nothing(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unrolled.convert import keras_write, onnx

    def pack(layout: Any, unit: Unit, **options: Any) -> Any:
        return real.pack(layout, swapped(unit, "r", "z"), **options)

    for module in (keras_write, onnx, trees):
        monkeypatch.setattr(module, "pack", pack)
    with pytest.raises(ConvertError, match="self-check"):
        convert.save(layer_of("gru"), tmp_path / FILES[target], target)
    assert not list(tmp_path.iterdir())


# a wrong row of the table passes our own check, which reads the same row: the framework itself must object


ROWS = {
    "gates of the lstm": ("onnx/lstm", {"gates": "ifgo"}),
    "gates of the gru": ("onnx/gru/after", {"gates": "rzn"}),
    "polarity of z": ("onnx/gru/after", {"keeps": False}),
    "side of the reset": ("onnx/gru/after", {"reset": "before"}),
    "an offset on f": ("onnx/lstm", {"forget_offset": 1.0}),
}


@pytest.mark.parametrize("what", ROWS)
def test_a_wrong_row_is_refused_by_the_framework(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change = ROWS[what]
    cell = name.split("/")[1]
    layer = layer_of(cell)
    path, _ = written(tmp_path, "onnx", cell, layer)
    feed: dict[str, Any] = {"input": features()}
    session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    feed |= {value.name: np.zeros((1, 4, 3), np.float32) for value in session.get_inputs()[1:]}
    want = session.run(None, feed)[0]
    assert_same(convert.load(path)(torch.from_numpy(features()))[0], want)
    rows = tuple(replace(row, **change) if row.name == name else row for row in conventions.LAYOUTS)
    monkeypatch.setattr(conventions, "LAYOUTS", rows)
    # An offset on f also costs digits, which our own check may see before the framework does.
    with pytest.raises((AssertionError, ConvertError), match=r"Not equal|self-check"):
        assert_same(convert.load(path)(torch.from_numpy(features()))[0], want, tolerance=1e-3)
