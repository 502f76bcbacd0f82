"""Keras 3: .keras (structure and weights) and .weights.h5 (weights alone), read and written without Keras.

Form     a .keras file is a zip of config.json, metadata.json and model.weights.h5; the weights of layer n stand under
         layers/NAME/…/vars/0, where NAME is the class in snake case, counted. A Bidirectional layer has forward_layer
         and backward_layer; a recurrent layer keeps its weights in its cell.
Source   keras 3, src/saving/saving_lib.py and src/layers/rnn. The tests load what is written with Keras itself.
Order    Sequential models and functional ones that are a chain.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.conventions import find
from unrolled.convert import keras_config as config
from unrolled.convert.files import parse_json, read_h5, refuse_pickle, zip_members
from unrolled.convert.keras_config import LayerConfig
from unrolled.convert.named import Found, Tree, assemble, assumed
from unrolled.convert.options import Options
from unrolled.convert.packing import unpack
from unrolled.convert.spec import MERGES, ConvertError, Dense, Embedding, Network, Part, Recurrent, Unit, refuse
from unrolled.convert.trees import make_dense
from unrolled.errors import expected

__all__ = ["read"]

LARGEST_CONFIG = 16 * 2**20
CELLS = {"SimpleRNN": "rnn", "LSTM": "lstm", "GRU": "gru"}
_BLOCKS = {4: "lstm", 3: "gru", 1: "rnn"}


def read(path: Path, options: Options) -> Network:
    """A network from .keras, or from .weights.h5, which holds no structure.

    Raises:
        ConvertError: the file is damaged, or the model is not a plain stack that we can compute exactly.
    """
    if path.suffix == ".keras":
        members = zip_members(path, {"config.json": LARGEST_CONFIG, "model.weights.h5": 2**40})
        weights = members["model.weights.h5"]
        tensors = read_h5(io.BytesIO(weights), f"{path}: model.weights.h5", len(weights))
        document = parse_json(members["config.json"], f"{path}: config.json")
        return _whole(document, Tree(_floats(tensors, str(path)), str(path)), options)
    refuse_pickle(path)
    size = path.stat().st_size
    tensors = read_h5(path, str(path), size)
    if any(name.startswith("model_weights/") for name in tensors):
        way_out = "It was saved by Keras 2: load it with keras.models.load_model and save it as .keras."
        raise ConvertError(expected(str(path), "weights of Keras 3", "a whole model of Keras 2", way_out))
    return _weights_alone(Tree(_floats(tensors, str(path)), str(path)), options)


def _floats(tensors: dict[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """The variables that are weights: not the state of dropout's random numbers, nor of the optimizer."""
    kept = {}
    for name, array in tensors.items():
        if "/seed_generator/" in name or name.startswith("optimizer/"):
            continue
        if array.dtype.kind != "f":
            raise ConvertError(expected(f"{where}: {name}", "floating-point numbers", array.dtype))
        kept[name] = array
    return kept


# .keras


def _whole(document: Any, tree: Tree, options: Options) -> Network:
    layers = config.chain(document, tree.where)
    parts: list[Part] = []
    notes: list[str] = []
    for layer, path in zip(layers, config.paths(layers), strict=True):
        part = _part(layer, f"layers/{path}", tree, options, notes)
        if part is not None:
            parts += [part] if not isinstance(part, str) else []
            if isinstance(part, str):
                parts[-1] = config.activated(parts[-1] if parts else None, part, layer)
    tree.finish()
    parts = _hold(parts)
    return Network(tuple(parts), True if options.batch_first is None else options.batch_first, notes=tuple(notes))


def _part(layer: LayerConfig, path: str, tree: Tree, options: Options, notes: list[str]) -> Part | str | None:
    """The part of a layer; the name of an activation; None for a layer that does nothing once trained."""
    where = layer.name
    if layer.kind in config.NOTHING:
        if layer.kind not in ("InputLayer", "Identity"):
            notes.append(f"{where}: {layer.kind} acts in training only, and is left out")
        return None
    if layer.kind == "TimeDistributed":
        layer, path = layer.inner("layer"), f"{path}/layer"
        if layer.kind != "Dense":
            raise refuse(where, "TimeDistributed of Dense", layer.kind)
    if layer.kind != "Bidirectional":
        config.note_dtype(layer, notes)
    if layer.kind in ("Activation", "Softmax", "ReLU"):
        return config.activation_of(layer)
    if layer.kind == "Embedding":
        weight = tree.take(f"{path}/vars/0")
        wanted = (layer.size("input_dim"), layer.size("output_dim"))
        if weight.shape != wanted:
            raise ConvertError(expected(f"{where}: embeddings", f"{wanted} (tokens, features)", weight.shape))
        return Embedding(weight, bool(layer.get("mask_zero", False)))
    if layer.kind == "Dense":
        kernel = tree.take(f"{path}/vars/0")
        bias = tree.take(f"{path}/vars/1") if layer.get("use_bias", True) else None
        if kernel.ndim != 2 or kernel.shape[1] != layer.size("units"):
            raise ConvertError(expected(f"{where}: kernel", f"(inputs, {layer.size('units')})", kernel.shape))
        dense = make_dense(kernel, bias, where)
        return Dense(kernel, dense.bias, config.activation(layer, "activation"), where)
    if layer.kind == "Bidirectional":
        return _bidirectional(layer, path, tree, options, notes)
    if layer.kind in CELLS:
        unit = _unit(layer, f"{path}/cell/vars", tree, options, notes)
        held = not layer.get("zero_output_for_mask", False)
        return Recurrent((unit,), every=layer.flag("return_sequences"), backwards=layer.flag("go_backwards"), hold=held)
    raise refuse(
        where, "a plain stack: Embedding, SimpleRNN, LSTM, GRU, Bidirectional, Dense, Dropout", layer.kind,
        "Convert the recurrent layers by themselves: keras.Sequential([layer]).save('layer.keras').",
    )  # fmt: skip


def _bidirectional(layer: LayerConfig, path: str, tree: Tree, options: Options, notes: list[str]) -> Recurrent:
    forward, backward = layer.inner("layer"), layer.inner("backward_layer")
    for inner in (forward, backward):
        if inner.kind not in CELLS or inner.kind != forward.kind:
            raise refuse(layer.name, "two of SimpleRNN, LSTM or GRU", f"{forward.kind} and {backward.kind}")
        config.note_dtype(inner, notes)
    if forward.flag("go_backwards") == backward.flag("go_backwards"):
        raise refuse(f"{layer.name}: go_backwards", "one layer forward and one backward", "two alike")
    for name in ("return_sequences", "units"):
        if forward.get(name) != backward.get(name):
            raise refuse(f"{layer.name}: {name}", "the same in both directions", backward.get(name))
    units = tuple(
        _unit(inner, f"{path}/{key}/cell/vars", tree, options, notes)
        for inner, key in ((forward, "forward_layer"), (backward, "backward_layer"))
    )
    merge = layer.get("merge_mode", "concat")
    if merge not in MERGES:
        raise refuse(f"{layer.name}: merge_mode", "concat, sum, mul, ave or None", repr(merge))
    every = forward.flag("return_sequences")
    return Recurrent(units, merge=merge, every=every, backwards=forward.flag("go_backwards"))


def _unit(layer: LayerConfig, path: str, tree: Tree, options: Options, notes: list[str]) -> Unit:
    cell = CELLS[layer.kind]
    config.check_recurrent(layer, options, notes)
    nonlinearity = config.nonlinearity(layer)
    bias = layer.get("use_bias", True)
    reset_after = bool(layer.get("reset_after", True)) if cell == "gru" else True
    names = ("0", "1", "2") if bias else ("0", "1")
    arrays = [tree.take(f"{path}/{name}") for name in names]
    said = config.word(layer.get("activation", "tanh"))
    unit = _from_arrays(cell, arrays, reset_after, layer.name, nonlinearity, said)
    if unit.hidden_size != layer.size("units"):
        raise ConvertError(expected(f"{layer.name}: units", layer.size("units"), unit.hidden_size))
    return unit


def _from_arrays(
    cell: str, arrays: list[np.ndarray], reset_after: bool, where: str, nonlinearity: str, said: str = ""
) -> Unit:
    """kernel (I, G·H), recurrent_kernel (H, G·H), and bias (G·H,), or (2, 3H) for a GRU that resets after."""
    kind = ("after" if reset_after else "before") if cell == "gru" else ""
    layout = find("keras", cell, kind)
    assert layout is not None
    for word, array in (("kernel", arrays[0]), ("recurrent_kernel", arrays[1])):
        if array.ndim != 2:
            raise ConvertError(expected(f"{where}: {word}", "a matrix", f"shape {array.shape}"))
    raw = {"W": arrays[0], "U": arrays[1]}
    if len(arrays) > 2:
        bias = arrays[2]
        if layout.hidden_bias:
            wide = arrays[0].shape[-1]
            if bias.shape != (2, wide):
                way_out = "(3H,) is the bias of reset_after=False." if bias.ndim == 1 else ""
                raise ConvertError(expected(f"{where}: bias", f"(2, {wide}) (reset_after=True)", bias.shape, way_out))
            raw |= {"b": bias[0], "b_h": bias[1]}
        else:
            raw["b"] = bias
    words = {"W": "kernel", "U": "recurrent_kernel", "b": "bias", "b_h": "bias"}
    names = {key: f"{where}: {word}" for key, word in words.items()}
    return unpack(layout, raw, where, nonlinearity=nonlinearity, said=said, names=names)


def _hold(parts: list[Part]) -> list[Part]:
    """Without a mask there is no padding, and nothing to hold; with one, what Keras leaves there must be ours too."""
    masked = isinstance(parts[0], Embedding) and parts[0].mask_zero if parts else False
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Recurrent):
            if masked and not part.every and not part.hold and len(part.units) == 1:
                raise refuse(f"{part.units[0].where}: zero_output_for_mask", "False before a mask of id 0, where "
                             "return_sequences=False", "True: Keras gives 0 for a row that ends in padding",
                             "Set zero_output_for_mask=False, which gives the last valid step.")  # fmt: skip
            if masked and part.backwards and part.every:
                raise refuse(part.units[0].where, "no mask before go_backwards, which would put the padding first",
                             "mask_zero=True", "Use Bidirectional, or mask_zero=False.")  # fmt: skip
            part = Recurrent(part.units, part.merge, part.every, part.backwards, part.reverse, masked and part.hold)
        out.append(part)
    return out


# .weights.h5


def _weights_alone(tree: Tree, options: Options) -> Network:
    found = Found()
    for path in tree.left():
        if path.endswith("cell/vars/0"):
            prefix = path.removesuffix("/vars/0")
            found.units.append((_named(prefix), _guessed(prefix, tree, options)))
    for path in tree.left():
        parent, leaf = path.rsplit("/", 1) if "/" in path else ("", path)
        name = parent.removesuffix("/vars").split("/")[-1]
        if leaf != "0":
            continue
        if name.startswith("embedding"):
            found.embeddings.append((path, tree.take(path)))
        elif name.startswith("dense") or name == "layer":
            kernel = tree.take(path)
            bias = tree.take(f"{parent}/1") if f"{parent}/1" in tree else None
            found.dense.append((path, make_dense(kernel, bias, path)))
    return assumed(assemble(found, tree, options, batch_first=True), options, _DEFAULTS, _BUILT_OTHERWISE)


_DEFAULTS = {
    "forward": "go_backwards=False",
    "gates": "activation='tanh', recurrent_activation='sigmoid'",
    "merge": "merge_mode='concat'",
    "every": "return_sequences=True in the last layer",
    "mask": "mask_zero=False",
    "head": "activation='linear' in Dense",
}
_BUILT_OTHERWISE = (
    "Was the model built otherwise, convert its .keras file, which says them; head='last' is the final step."
)


def _named(prefix: str) -> str:
    """Where the layer stands, without the cell: layers/lstm_1, and the direction of a Bidirectional."""
    return prefix.removesuffix("/cell").removesuffix("cell").removesuffix("/") or "cell"


def _guessed(prefix: str, tree: Tree, options: Options) -> Unit:
    """A unit whose kind is told by its shapes, or else by the caller."""
    names = [f"{prefix}/vars/{n}" for n in range(3) if f"{prefix}/vars/{n}" in tree]
    arrays = [tree.take(name) for name in names]
    if len(arrays) < 2 or arrays[1].ndim != 2 or 0 in arrays[1].shape:
        raise ConvertError(expected(f"{tree.where}: {prefix}", "a kernel and a recurrent kernel", len(arrays)))
    hidden, wide = arrays[1].shape
    if wide % hidden or wide // hidden not in _BLOCKS:
        raise ConvertError(expected(f"{names[1]}", "1, 3 or 4 blocks of the hidden size", arrays[1].shape))
    cell = _BLOCKS[wide // hidden]
    nonlinearity = options.nonlinearity
    if cell == "rnn" and nonlinearity is None:
        raise refuse(f"{prefix}: activation", "tanh or relu", "nothing",
                     "The file does not say it: pass nonlinearity='tanh' (Keras's default) or 'relu'.")  # fmt: skip
    reset_after = options.reset_after
    if cell == "gru" and len(arrays) > 2:
        reset_after = arrays[2].ndim == 2
        if options.reset_after is not None and options.reset_after != reset_after:
            raise refuse(
                f"{prefix}: reset_after", f"{reset_after}, as the bias {arrays[2].shape} says", not reset_after
            )
    elif cell == "gru" and reset_after is None:
        raise refuse(f"{prefix}: reset_after", "True or False", "nothing",
                     "The file has no biases, so it does not say: pass reset_after=True or False.")  # fmt: skip
    return _from_arrays(cell, arrays, reset_after is not False, prefix, nonlinearity or "tanh")


def layer_names(parts: tuple[Part, ...]) -> Iterator[str]:
    """The names that Keras gives: the class in snake case, counted from the second."""
    counts: dict[str, int] = {}
    for part in parts:
        name = config.class_of(part)
        word = config.snake(name)
        number = counts.get(word, 0)
        counts[word] = number + 1
        yield f"{word}_{number}" if number else word


def recurrent_names(parts: tuple[Part, ...]) -> Iterator[str]:
    """Where the recurrent layers stand, first to last."""
    for part, name in zip(parts, layer_names(parts), strict=True):
        if isinstance(part, Recurrent):
            yield f"layers/{name}"
