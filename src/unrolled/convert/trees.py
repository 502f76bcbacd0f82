"""Flax (linen and nnx), Equinox, Haiku and TensorFlow 1: trees of named arrays, in .npz or .safetensors.

Form     one array a leaf, named by its path with slashes: layers/0/cell/ii/kernel. docs/conversion.md shows the lines
         that write a tree so from each framework, and that read it back. No file of these frameworks' own is read:
         their usual one is a pickle.
Table    `FORMS` says which leaves make up which tensor of the layout; several leaves are joined in the order of gates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from unrolled.conventions import LAYOUTS, Layout
from unrolled.convert.files import read_tensors, write_npz, write_safetensors
from unrolled.convert.named import Found, Tree, assemble, assumed, direction_of
from unrolled.convert.options import Options, without_structure
from unrolled.convert.packing import pack, unpack
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Recurrent, Unit, refuse
from unrolled.errors import expected

__all__ = ["FORMS", "FRAMEWORKS", "read", "sniff", "write"]

Leaves = Mapping[str, tuple[str, ...]]

_LINEN_LSTM: Leaves = {
    **{f"W_{gate}": (f"i{gate}/kernel",) for gate in "ifgo"},
    **{f"U_{gate}": (f"h{gate}/kernel",) for gate in "ifgo"},
    "b_h": tuple(f"h{gate}/bias" for gate in "ifgo"),
}
_LINEN_GRU: Leaves = {
    **{f"W_{gate}": (f"i{gate}/kernel",) for gate in "rzn"},
    **{f"U_{gate}": (f"h{gate}/kernel",) for gate in "rzn"},
    "b": tuple(f"i{gate}/bias" for gate in "rzn"),
    "b_h": ("hn/bias",),
}
_PACKED: Leaves = {"W": ("dense_i/kernel",), "U": ("dense_h/kernel",), "b": ("dense_i/bias",)}

FORMS: dict[str, Leaves] = {
    "flax-linen/rnn": {"W": ("i/kernel",), "U": ("h/kernel",), "b": ("i/bias",)},
    "flax-linen/lstm": _LINEN_LSTM,
    "flax-linen/gru": _LINEN_GRU,
    "flax-nnx/rnn": _PACKED,
    "flax-nnx/lstm": {**_LINEN_LSTM, "W_f": ("if_/kernel",)},
    "flax-nnx/lstm/optimized": {"W": ("dense_i/kernel",), "U": ("dense_h/kernel",), "b_h": ("dense_h/bias",)},
    "flax-nnx/gru": _PACKED,
    "equinox/lstm": {"W": ("weight_ih",), "U": ("weight_hh",), "b": ("bias",)},
    "equinox/gru": {"W": ("weight_ih",), "U": ("weight_hh",), "b": ("bias",), "b_h": ("bias_n",)},
    "haiku/rnn": {"W": ("linear/w",), "U": ("linear_1/w",), "b": ("linear/b",), "b_h": ("linear_1/b",)},
    "haiku/lstm": {"WU": ("linear/w",), "b": ("linear/b",)},
    "haiku/gru": {"W": ("w_i",), "U": ("w_h",), "b": ("b",)},
    "tf1/rnn": {"WU": ("kernel",), "b": ("bias",)},
    "tf1/lstm": {"WU": ("kernel",), "b": ("bias",), "V": ("projection/kernel",)},
    "tf1/gru": {"WU": ("gates/kernel", "candidate/kernel"), "b": ("gates/bias", "candidate/bias")},
}
FRAMEWORKS = ("flax-linen", "flax-nnx", "equinox", "haiku", "tf1")
_LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in LAYOUTS}
# A leaf that only this cell has, and what must stand in the path above it (TensorFlow and Haiku name cells there).
_ANCHORS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "flax-linen": (("ii/kernel", "", "lstm"), ("ir/kernel", "", "gru"), ("i/kernel", "", "rnn")),
    "flax-nnx": (("ii/kernel", "", "lstm"), ("dense_h/kernel", "", "packed")),
    "equinox": (("weight_hh", "", "counted"),),
    "haiku": (("w_h", "", "gru"), ("linear/w", r"lstm[^/]*$", "lstm"), ("linear_1/w", r"rnn[^/]*$", "rnn")),
    "tf1": (("gates/kernel", "", "gru"), ("kernel", r"lstm[^/]*$", "lstm"), ("kernel", r"rnn_cell[^/]*$", "rnn")),
}
# Where each framework keeps an embedding and a dense layer.
_EMBEDDINGS = {"flax-linen": "embedding", "flax-nnx": "embedding", "haiku": "embeddings", "tf1": "embedding"}
_DENSE = {"equinox": ("weight", "bias"), "haiku": ("w", "b")}
_OPTIONAL = {"haiku/rnn": {"b_h"}, "equinox/lstm": {"b"}, "equinox/gru": {"b", "b_h"}, "tf1/lstm": {"V"}}
_BATCH_FIRST = {"flax-linen": True, "flax-nnx": True}


def sniff(names: list[str]) -> str | None:
    """The framework whose cells the names belong to, or None."""
    paths = ["/".join(re.split(r"[/.]", name)) for name in names]

    def any_ends(pattern: str) -> bool:
        return any(re.search(rf"(?:^|/){pattern}$", path) for path in paths)

    signs = (
        (r"weight_hh_l\d+", "torch"),
        (r"bias_hh", "torch"),
        (r"(if_|dense_h)/kernel", "flax-nnx"),
        (r"(if|ir)/kernel", "flax-linen"),
        (r"(bias_n|weight_hh)", "equinox"),
        (r"(w_h|[^/]*lstm[^/]*/linear/w|[^/]*rnn[^/]*/linear_1/w)", "haiku"),
        (r"(gates/kernel|[^/]*lstm[^/]*/kernel|[^/]*rnn_cell[^/]*/kernel)", "tf1"),
        (r"h/kernel", "flax-linen"),
    )
    return next((framework for pattern, framework in signs if any_ends(pattern)), None)


def read(framework: str, path: Path, options: Options) -> Network:
    """A network from a tree of arrays.

    Raises:
        ConvertError: the file is damaged, a key is missing or unused, or a tensor has the wrong shape.
    """
    tensors = read_tensors(path)
    if framework == "tf1":
        tensors = {name.removesuffix(":0"): array for name, array in tensors.items()}
    tree = Tree(tensors, str(path))
    found = Found()
    for prefix, name in _cells(framework, tree):
        found.units.append((prefix, _unit(_LAYOUTS[name], prefix, tree, options)))
    _rest(framework, tree, found)
    network = assemble(found, tree, options, batch_first=_BATCH_FIRST.get(framework, False))
    return assumed(network, options, _ASSUMED | _ASSUMED_BY.get(framework, {}), _BUILT_OTHERWISE)


_ASSUMED = {
    "forward": "each layer reads forward, but the backward one of two directions",
    "merge": "the directions are concatenated",
    "every": "every step's output",
    "head": "a linear head",
}
_FLAX = {
    "forward": "RNN(reverse=False)",
    "rnn": "SimpleCell(activation_fn=tanh)",
    "gates": "gate_fn=sigmoid, activation_fn=tanh",
}
_ASSUMED_BY = {"flax-linen": _FLAX, "flax-nnx": _FLAX, "tf1": {"gates": "activation=tanh"}}
_BUILT_OTHERWISE = "Does the model read backwards, turn its input and output in time; head='last' is the final step."


def _cells(framework: str, tree: Tree) -> Iterator[tuple[str, str]]:
    """The path of each cell, and its row of the table."""
    for path in tree.left():
        for leaf, above, cell in _ANCHORS[framework]:
            prefix = "" if path == leaf else path.removesuffix(f"/{leaf}")
            if (path == leaf or prefix != path) and (not above or re.search(above, prefix)):
                yield prefix, _row(framework, cell, tree, path)
                break


def _row(framework: str, cell: str, tree: Tree, path: str) -> str:
    if cell not in ("packed", "counted"):
        return f"{framework}/{cell}"
    shape = tree.look(path).shape
    if len(shape) != 2 or 0 in shape:
        raise ConvertError(expected(f"{tree.where}: {path}", "two axes", shape))
    wide, hidden = shape if cell == "counted" else shape[::-1]
    blocks = {4: "lstm", 3: "gru"} if cell == "counted" else {4: "lstm/optimized", 3: "gru", 1: "rnn"}
    if wide % hidden or wide // hidden not in blocks:
        wanted = " or ".join(str(count) for count in blocks) + " blocks of the hidden size"
        raise ConvertError(expected(f"{tree.where}: {path}", wanted, shape))
    return f"{framework}/{blocks[wide // hidden]}"


def _unit(layout: Layout, prefix: str, tree: Tree, options: Options) -> Unit:
    raw = {}
    called = {}
    where = prefix or layout.cell
    for name, leaves in FORMS[layout.name].items():
        paths = [f"{prefix}/{leaf}".lstrip("/") for leaf in leaves]
        if name in _OPTIONAL.get(layout.name, ()) and not any(path in tree for path in paths):
            continue
        arrays = [tree.take(path) for path in paths]
        axis = 0 if name in ("b", "b_h") else 1
        for path, array in zip(paths, arrays, strict=True):
            if array.ndim != axis + 1:
                raise ConvertError(expected(f"{tree.where}: {path}", f"{axis + 1} axes", array.shape))
        _check_joined(layout, paths, arrays, tree.where)
        called[name] = f"{tree.where}: {' + '.join(paths)}"
        raw[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)
    nonlinearity = layout.nonlinearities or "tanh"
    return unpack(layout, raw, where, nonlinearity=nonlinearity, forget_offset=options.forget_bias, names=called)


def _check_joined(layout: Layout, paths: list[str], arrays: list[np.ndarray], where: str) -> None:
    """Leaves that are joined must fit, and a wrong one must not hide in the sum."""
    if len(arrays) == 1:
        return
    shares = [2, 1] if layout.name == "tf1/gru" else [1] * len(arrays)
    last = arrays[-1].shape
    for path, array, share in zip(paths, arrays, shares, strict=True):
        wanted = (*last[:-1], last[-1] * share)
        if array.shape != wanted:
            raise ConvertError(expected(f"{where}: {path}", f"{wanted} beside {paths[-1]}", array.shape))


def _rest(framework: str, tree: Tree, found: Found) -> None:
    """An embedding and a dense layer among what is left."""
    kernel, bias = _DENSE.get(framework, ("kernel", "bias"))
    for path in tree.left():
        parent, _, leaf = path.rpartition("/")
        if leaf == _EMBEDDINGS.get(framework) or (
            framework == "equinox" and leaf == "weight" and "emb" in parent.lower()
        ):
            found.embeddings.append((path, _matrix(tree, path)))
        elif leaf == kernel:
            weight = _matrix(tree, path)
            weight = weight.T if framework == "equinox" else weight
            bias_path = f"{parent}/{bias}".lstrip("/")
            found.dense.append((path, make_dense(weight, tree.take(bias_path) if bias_path in tree else None, path)))


def make_dense(weight: np.ndarray, bias: np.ndarray | None, where: str) -> Dense:
    """A linear head, its bias checked."""
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ConvertError(expected(f"{where}: bias", f"{weight.shape[1:]} (outputs,)", bias.shape))
    return Dense(weight, bias, where=where)


def _matrix(tree: Tree, path: str) -> np.ndarray:
    array = tree.take(path)
    if array.ndim != 2 or 0 in array.shape:
        raise ConvertError(expected(f"{tree.where}: {path}", "two axes", array.shape))
    return array


# writing


def write(framework: str, network: Network, path: Path, options: Options) -> None:
    """A tree of arrays, .npz or .safetensors by the path's ending.

    Raises:
        ConvertError: the framework cannot compute the same, or its files cannot say it.
    """
    network = without_structure(network, framework, options)
    tensors: dict[str, np.ndarray] = {}
    for prefix, unit in _prefixes(framework, network):
        tensors |= _leaves(framework, unit, prefix, options)
    for part in network.parts:
        if isinstance(part, Embedding):
            tensors[_EMBEDDING_NAMES[framework]] = part.weight
        elif isinstance(part, Dense):
            prefix, (kernel, bias) = _HEADS[framework], _DENSE.get(framework, ("kernel", "bias"))
            tensors[f"{prefix}/{kernel}"] = part.weight.T if framework == "equinox" else part.weight
            if part.bias is not None:
                tensors[f"{prefix}/{bias}"] = part.bias
    if path.suffix == ".npz":
        write_npz(path, tensors)
    elif path.suffix == ".safetensors":
        write_safetensors(path, tensors, {"framework": framework})
    else:
        raise ConvertError(expected(str(path), ".npz or .safetensors", repr(path.suffix)))


_EMBEDDING_NAMES = {
    "flax-linen": "embed/embedding",
    "flax-nnx": "embed/embedding",
    "equinox": "embedding/weight",
    "haiku": "embed/embeddings",
    "tf1": "embedding",
}
_HEADS = {"flax-linen": "head", "flax-nnx": "head", "equinox": "head", "haiku": "linear", "tf1": "dense"}
_HAIKU = {"rnn": "vanilla_rnn", "lstm": "lstm", "gru": "gru"}
_TF1 = {"rnn": "basic_rnn_cell", "lstm": "lstm_cell", "gru": "gru_cell"}


def names(framework: str, network: Network) -> list[str]:
    """The recurrent layers first to last, as `order` takes them: two directions are one name."""
    groups = [direction_of(prefix)[0] for prefix, _ in _prefixes(framework, network)]
    return list(dict.fromkeys(groups))


def _prefixes(framework: str, network: Network) -> Iterator[tuple[str, Unit]]:
    counts: dict[str, int] = {}
    for number, level in enumerate(network.recurrent):
        for direction, unit in enumerate(level.units):
            yield _prefix(framework, unit, number, direction, level, counts), unit
        counts[level.units[0].cell] = counts.get(level.units[0].cell, 0) + 1


def _prefix(framework: str, unit: Unit, number: int, direction: int, level: Recurrent, counts: dict[str, int]) -> str:
    """Where the framework's own containers keep this cell; docs/conversion.md shows the classes."""
    two = len(level.units) == 2
    word = ("backward" if direction else "forward") if two else ""
    if framework in ("flax-nnx", "flax-linen"):
        layer = f"layers/{number}" if framework == "flax-nnx" else f"layers_{number}"
        return f"{layer}/{word}_rnn/cell" if two else f"{layer}/cell"
    if framework == "equinox":
        return f"layers/{number}/{word}".rstrip("/")
    if framework == "haiku":  # its names count by kind, so mixed kinds lose their order
        seen = counts.get(unit.cell, 0)
        name = _HAIKU[unit.cell] + (f"_{seen}" if seen else "")
        return f"{word}_{name}" if two else name
    side = f"bidirectional_rnn/{'bw' if direction else 'fw'}" if two else "rnn"
    return f"{side}/multi_rnn_cell/cell_{number}/{_TF1[unit.cell]}"


def _leaves(framework: str, unit: Unit, prefix: str, options: Options) -> dict[str, np.ndarray]:
    kind = options.variant if framework == "flax-nnx" and unit.cell == "lstm" else ""
    name = "/".join(filter(None, (framework, unit.cell, kind)))
    if name not in FORMS:
        cells = ", ".join(sorted({key.split("/")[1] for key in FORMS if key.startswith(f"{framework}/")}))
        raise refuse(unit.where, f"a cell that {framework} has ({cells})", " ".join(filter(None, (unit.cell, kind))))
    layout = _LAYOUTS[name]
    raw = pack(layout, unit, forget_offset=options.forget_bias)
    tensors = {}
    for key, leaves in FORMS[name].items():
        if key not in raw:
            continue
        cuts = [raw[key].shape[-1] * 2 // 3] if name == "tf1/gru" else len(leaves)
        for leaf, part in zip(leaves, np.split(raw[key], cuts, axis=-1), strict=True):
            tensors[f"{prefix}/{leaf}"] = part
    return tensors
