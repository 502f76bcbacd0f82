"""RTNeural's JSON: a list of lstm, gru and dense layers for real-time audio.

Form     {"in_shape": [null, null, I], "layers": [{"type", "activation", "shape", "weights"}]}; the weights are Keras's
         arrays: kernel (I, G·H), recurrent kernel (H, G·H), bias (4H,) or (2, 3H); dense (I, O) and (O,).
Source   RTNeural, RTNeural/model_loader.h (parseJson, createLSTM, createGRU, createDense), python/model_utils.py.
Variant  RTNeural runs sample by sample: every layer gives every step's output, and a dense layer reads each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.bundle import write_atomically
from unrolled.conventions import find
from unrolled.convert.files import read_json
from unrolled.convert.options import Options
from unrolled.convert.packing import pack, unpack
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Recurrent, Unit, refuse
from unrolled.convert.trees import make_dense
from unrolled.errors import expected

__all__ = ["read", "write"]

ACTIVATIONS = ("linear", "tanh", "relu", "sigmoid", "softmax")
_DENSE = ("dense", "time-distributed-dense")
_KEYS = {"type", "activation", "shape", "weights", "name"}


def read(path: Path, options: Options) -> Network:
    """A network from RTNeural's JSON.

    Raises:
        ConvertError: it is not such a file, or a layer, an activation or a shape is not one of ours.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not isinstance(document.get("layers"), list):
        raise ConvertError(expected(str(path), "an object with in_shape and layers, as RTNeural reads", "another JSON"))
    parts = [_part(layer, f"layer {number}") for number, layer in enumerate(document["layers"])]
    width = _last(document.get("in_shape"), "in_shape")
    first = parts[0] if parts else None
    given = first.units[0].input_size if isinstance(first, Recurrent) else first.weight.shape[0] if first else 0
    if given != width:
        raise ConvertError(expected("in_shape", f"{given} inputs, as the first weights have", width))
    return Network(tuple(parts), True if options.batch_first is None else options.batch_first)


def _part(layer: Any, where: str) -> Recurrent | Dense:
    if not isinstance(layer, dict) or not isinstance(layer.get("weights"), list):
        raise ConvertError(expected(where, "an object with type, shape and weights", type(layer).__name__))
    unknown = sorted(set(layer) - _KEYS)
    if unknown:
        raise ConvertError(expected(where, "no unused keys", ", ".join(unknown)))
    kind, activation = layer.get("type"), layer.get("activation") or "linear"
    count = 2 if kind in _DENSE else 3
    if kind not in (*_DENSE, "lstm", "gru"):
        raise refuse(where, "lstm, gru, dense or time-distributed-dense", repr(kind))
    if len(layer["weights"]) != count:
        raise ConvertError(expected(f"{where}: weights", f"{count} arrays for {kind}", len(layer["weights"])))
    axes = (2, 1) if kind in _DENSE else (2, 2, 1 if kind == "lstm" else 2)
    arrays = [
        _array(one, f"{where}: weights[{n}]", a) for n, (one, a) in enumerate(zip(layer["weights"], axes, strict=True))
    ]
    width = _last(layer.get("shape"), f"{where}: shape")
    if kind in _DENSE:
        if activation not in ACTIVATIONS:
            raise refuse(f"{where}: activation", " or ".join(ACTIVATIONS), repr(activation))
        part: Recurrent | Dense = make_dense(arrays[0], arrays[1], where)
        part = Dense(arrays[0], arrays[1], activation, where)
        found = arrays[0].shape[1]
    else:
        if activation not in ("linear", "tanh"):  # RTNeural itself does not read it here: its cells use tanh
            raise refuse(f"{where}: activation", "tanh", repr(activation))
        unit = _unit(str(kind), arrays, where)
        part, found = Recurrent((unit,)), unit.hidden_size
    if width != found:
        raise ConvertError(expected(f"{where}: shape", f"{found} last, as the weights have", width))
    return part


def _unit(cell: str, arrays: list[np.ndarray], where: str) -> Unit:
    layout = find("rtneural", cell)
    assert layout is not None
    raw = {"W": arrays[0], "U": arrays[1]}
    if cell == "lstm":
        raw["b"] = arrays[2]
    else:
        if arrays[2].shape != (2, arrays[0].shape[1]):
            way_out = "RTNeural's GRU resets after the product, and so needs both biases."
            raise ConvertError(expected(f"{where}: weights[2]", f"(2, {arrays[0].shape[1]})", arrays[2].shape, way_out))
        raw |= {"b": arrays[2][0], "b_h": arrays[2][1]}
    return unpack(layout, raw, where)


def _array(value: Any, name: str, axes: int) -> np.ndarray:
    """Numbers in lists of equal length; float32, as RTNeural's models are."""
    rows = value if axes == 2 else [value]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise ConvertError(expected(name, f"{axes} levels of lists, none empty", _kind(value)))
    if len({len(row) for row in rows}) > 1:
        raise ConvertError(expected(name, "rows of one length", sorted({len(row) for row in rows})[:4]))
    if not all(type(number) in (int, float) for row in rows for number in row):
        raise ConvertError(expected(name, "numbers", "something else among them"))
    try:
        with np.errstate(over="raise"):
            array = np.array(rows, np.float64).astype(np.float32)
    except (OverflowError, ValueError, FloatingPointError) as error:
        raise ConvertError(expected(name, "numbers of float32", str(error))) from None
    return array if axes == 2 else array[0]


def _kind(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__


def _last(shape: Any, name: str) -> int:
    if not isinstance(shape, list) or not shape or type(shape[-1]) is not int:
        raise ConvertError(expected(name, "a list that ends in a number", _kind(shape)))
    return shape[-1]


def write(network: Network, path: Path, options: Options) -> None:
    """RTNeural's JSON; numbers are written so that reading gives the same float32.

    Raises:
        ConvertError: RTNeural has no such layer: a simple RNN, a second direction, an embedding.
    """
    del options
    layers = [_written(part) for part in network.parts]
    document = {"in_shape": [None, None, network.units[0].input_size], "layers": layers}
    first = network.parts[0]
    if isinstance(first, Dense):
        document["in_shape"] = [None, None, first.weight.shape[0]]
    if path.suffix != ".json":
        raise ConvertError(expected(str(path), ".json", repr(path.suffix)))
    write_atomically(path, (json.dumps(document) + "\n").encode())


def _written(part: Part) -> dict[str, Any]:
    if isinstance(part, Embedding):
        raise refuse("embedding", "features in: RTNeural has no embedding", f"{part.weight.shape}")
    if isinstance(part, Dense):
        if part.activation not in ACTIVATIONS:
            raise refuse(f"{part.where}: activation", " or ".join(ACTIVATIONS), repr(part.activation))
        bias = np.zeros(part.weight.shape[1], np.float32) if part.bias is None else part.bias
        return {
            "type": "dense",
            "activation": "" if part.activation == "linear" else part.activation,
            "shape": [None, None, part.weight.shape[1]],
            "weights": [list(_numbers(part.weight, part.where)), list(_numbers(bias, part.where))],
        }
    unit = part.units[0]
    if len(part.units) == 2 or not (part.plain or part.hold):
        found = "two directions" if len(part.units) == 2 else "another"
        raise refuse(unit.where, "one direction, forward, every step: RTNeural runs sample by sample", found)
    layout = find("rtneural", unit.cell)
    if layout is None:
        raise refuse(unit.where, "lstm or gru, the cells of RTNeural", unit.cell)
    raw = pack(layout, unit)
    bias = np.stack([raw["b"], raw["b_h"]]) if "b_h" in raw else raw["b"]
    weights = [list(_numbers(array, unit.where)) for array in (raw["W"], raw["U"], bias)]
    return {"type": unit.cell, "activation": "", "shape": [None, None, unit.hidden_size], "weights": weights}


def _numbers(array: np.ndarray, where: str) -> Iterator[Any]:
    narrow = array.astype(np.float32)
    if not (narrow.astype(array.dtype) == array).all():
        raise refuse(where, "float32 weights, which RTNeural's files hold", array.dtype, "Call .float() first.")
    yield from narrow.astype(np.float64).tolist()
