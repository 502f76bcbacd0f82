"""Run the other framework itself on its file, and compare with our module: what `--verify` does.

How      torch, Keras and ONNX Runtime run the whole file. Flax, Equinox and Haiku run cell by cell, each built with its
         own class and given the arrays of the file; the stacking around them is ours. TensorFlow 1 and RTNeural cannot
         be run from a current Python: for them the convention of the table is all there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.conventions import LAYOUTS
from unrolled.convert.check import State, distance, draw, run_module, run_network
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Recurrent, Unit
from unrolled.errors import expected, require

__all__ = ["RUNNABLE", "verify"]

RUNNABLE = ("torch", "keras", "onnx", "flax-linen", "flax-nnx", "equinox", "haiku")
TOLERANCE = 2e-5  # float32 on both sides, some steps of some layers
Out = tuple[list[np.ndarray], list[np.ndarray]]


def verify(path: Path, framework: str, network: Network, module: Any) -> float:
    """The largest difference between the framework on its own file and our module.

    Raises:
        MissingExtra: the framework is not installed.
        ConvertError: they differ by more than float32 explains, or this framework cannot be run.
    """
    if framework not in RUNNABLE:
        way_out = "The conversion was checked against its published definition instead."
        raise ConvertError(expected("--verify", "one of " + ", ".join(RUNNABLE), framework, way_out))
    x, states = draw(network)
    if x.dtype.kind == "f":
        x = x.astype(np.float32)
    elif framework == "keras":
        x = _padded(network, x)
    if framework in ("keras", "onnx", "torch"):
        states = [tuple(tuple(np.zeros_like(part) for part in state) for state in level) for level in states]
        outs = {"keras": _keras, "onnx": _onnx, "torch": _torch}[framework](path, network, x)
    else:
        outs, _ = run_network(network, x, _float32(states), _CELLS[framework])
    ours, _ = run_module(module, network, x.astype(np.float64) if x.dtype.kind == "f" else x, states)
    found = max(distance(np.asarray(a, np.float64), b) for a, b in zip(outs, ours, strict=True))
    if not found <= TOLERANCE:
        why = ". ".join(note for note in network.notes if "(policy " in note)  # half precision on their side
        raise ConvertError(expected("--verify", f"at most {TOLERANCE} from {framework} itself", f"{found:.3g}", why))
    return found


def _padded(network: Network, x: np.ndarray) -> np.ndarray:
    """The ids with id 0 at the end of two rows, where a mask of them exists: what Keras leaves there counts too."""
    first = network.parts[0]
    if isinstance(first, Embedding) and first.mask_zero:
        x = x.copy()
        for row, steps in enumerate((x.shape[1], 1, x.shape[1] - 2)):
            x[row, steps:] = 0
    return x


def _float32(states: Any) -> Any:
    return [tuple(tuple(part.astype(np.float32) for part in state) for state in level) for level in states]


# whole files


def _torch(path: Path, network: Network, x: np.ndarray) -> list[np.ndarray]:
    """torch.nn's own modules with the tensors of the file, zero initial state."""
    torch = require("torch", "torch")
    from unrolled.convert.stack import ACTIVATIONS
    from unrolled.convert.torch_files import modules_of

    del path
    state: Any = None
    value = torch.from_numpy(x)
    first = network.parts[0]
    with torch.no_grad():
        if isinstance(first, Embedding):
            value = torch.nn.functional.embedding(value, torch.from_numpy(first.weight.copy()))
        for levels in modules_of(network.recurrent):
            layer = _torch_layer(torch, levels)
            value, state = layer(value.to(next(layer.parameters()).dtype))
        last = network.recurrent[-1]
        if not last.every:
            h = state[0] if isinstance(state, tuple) else state
            value = torch.cat(tuple(h[-len(last.units) :]), -1)
        for part in network.parts:
            if isinstance(part, Dense):
                bias = None if part.bias is None else torch.from_numpy(part.bias.copy())
                value = torch.nn.functional.linear(value, torch.from_numpy(part.weight.T.copy()), bias)
                value = ACTIVATIONS[part.activation](value)
    return [value.numpy()]


def _torch_layer(torch: Any, levels: Sequence[Recurrent]) -> Any:
    from unrolled.convert.states import state_of

    unit = levels[0].units[0]
    options: dict[str, Any] = {"batch_first": True, "bidirectional": len(levels[0].units) == 2}
    options |= {"bias": unit.b is not None, "dtype": torch.from_numpy(unit.W[:0].copy()).dtype}
    options |= {"nonlinearity": unit.nonlinearity} if unit.cell == "rnn" else {}
    options |= {"proj_size": unit.state_size} if unit.V is not None else {}
    make = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[unit.cell]
    layer = make(unit.input_size, unit.hidden_size, len(levels), **options)
    layer.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state_of(levels)})
    return layer


def _keras(path: Path, network: Network, x: np.ndarray) -> list[np.ndarray]:
    """The model that Keras loads from the file; for weights alone, a model of the same layers that loads them."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = require("keras", "interop")
    if path.suffix == ".keras":
        model = keras.saving.load_model(path, compile=False)
    else:
        from unrolled.convert import keras_config
        from unrolled.convert.keras_files import layer_names

        names = list(layer_names(network.parts))
        document = keras_config.describe(network.parts, names, network.units[0].W.dtype.name)
        model = keras.saving.deserialize_keras_object(document)
        model.load_weights(path)
    out = model(x)
    return [keras.ops.convert_to_numpy(part) for part in (out if isinstance(out, list | tuple) else [out])]


def _onnx(path: Path, network: Network, x: np.ndarray) -> list[np.ndarray]:
    """ONNX Runtime on the file; states are zeros."""
    ort = require("onnxruntime", "interop")
    try:
        session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds, such as NotImplemented for float64
        said = str(error).splitlines()[0]
        raise ConvertError(expected("--verify", "a file that ONNX Runtime runs", said)) from None
    feed: dict[str, np.ndarray] = {}
    rows, steps = x.shape[:2]
    given = x if network.batch_first else np.swapaxes(x, 0, 1)
    for value in session.get_inputs():
        if not feed:
            kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(double)": np.float64}
            feed[value.name] = np.ascontiguousarray(given.astype(kind.get(value.type, np.float32)))
        elif value.type == "tensor(int32)":
            feed[value.name] = np.full(rows, steps, np.int32)
        else:
            sizes = [size if isinstance(size, int) else rows for size in value.shape]
            feed[value.name] = np.zeros(sizes, np.float64 if value.type == "tensor(double)" else np.float32)
    out = session.run(None, feed)[0]
    if out.ndim == 4:  # a bare node's Y: (T, D, B, H)
        out = out.transpose(0, 2, 1, 3).reshape(*out.shape[::2][:2], -1)
    return [out if network.batch_first or out.ndim == 2 else np.swapaxes(out, 0, 1)]


# cell by cell


def _leaves(unit: Unit) -> dict[str, np.ndarray]:
    """The file's arrays of one cell, by the framework's own names."""
    from unrolled.convert.trees import FORMS

    assert unit.origin is not None
    layout = unit.origin.layout
    leaves: dict[str, np.ndarray] = {}
    for key, names in FORMS[layout.name].items():
        if key in unit.origin.raw:
            parts = np.split(unit.origin.raw[key], len(names), axis=-1)
            leaves |= dict(zip(names, parts, strict=True))
    assert layout in LAYOUTS
    return leaves


def _tree(leaves: Mapping[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, array in leaves.items():
        *parents, leaf = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = array
    return tree


def _carry(framework: str, state: State) -> Any:
    """The state in the framework's order."""
    if len(state) == 1:
        return state[0]
    return (state[1], state[0]) if framework.startswith("flax") else (state[0], state[1])


def _by_step(step: Callable[[np.ndarray, Any], tuple[Any, Any]], framework: str, x: np.ndarray, state: State) -> Any:
    carry, outs = _carry(framework, state), []
    for t in range(x.shape[1]):
        out, carry = step(x[:, t], carry)
        outs.append(np.asarray(out))
    final = carry if isinstance(carry, tuple) else (carry,)
    final = final[::-1] if framework.startswith("flax") and len(final) == 2 else final
    return np.stack(outs, 1), [np.asarray(part) for part in final]


def _linen(unit: Unit, x: np.ndarray, state: State) -> Any:
    linen = require("flax.linen", "interop")
    make = {"rnn": linen.SimpleCell, "lstm": linen.LSTMCell, "gru": linen.GRUCell}[unit.cell]
    cell, variables = make(unit.hidden_size), {"params": _tree(_leaves(unit))}

    def step(x_t: np.ndarray, carry: Any) -> tuple[Any, Any]:
        carry, out = cell.apply(variables, carry, x_t)
        return out, carry

    return _by_step(step, "flax", x, state)


def _nnx(unit: Unit, x: np.ndarray, state: State) -> Any:
    nnx = require("flax.nnx", "interop")
    assert unit.origin is not None
    lstm = nnx.OptimizedLSTMCell if unit.origin.layout.kind else nnx.LSTMCell
    make = {"rnn": nnx.SimpleCell, "lstm": lstm, "gru": nnx.GRUCell}[unit.cell]
    cell = make(unit.input_size, unit.hidden_size, rngs=nnx.Rngs(0))
    for path, array in _leaves(unit).items():
        module, leaf = path.split("/")
        getattr(getattr(cell, module), leaf)[...] = array

    def step(x_t: np.ndarray, carry: Any) -> tuple[Any, Any]:
        carry, out = cell(carry, x_t)
        return out, carry

    return _by_step(step, "flax", x, state)


def _equinox(unit: Unit, x: np.ndarray, state: State) -> Any:
    eqx, jax = require("equinox", "interop"), require("jax", "interop")
    make = {"lstm": eqx.nn.LSTMCell, "gru": eqx.nn.GRUCell}[unit.cell]
    leaves = _leaves(unit)
    cell = make(unit.input_size, unit.hidden_size, use_bias="bias" in leaves, key=jax.random.key(0))
    for name, array in leaves.items():
        cell = eqx.tree_at(lambda c, name=name: getattr(c, name), cell, jax.numpy.asarray(array))

    def step(x_t: np.ndarray, carry: Any) -> tuple[Any, Any]:
        carry = jax.vmap(cell)(x_t, carry)
        return (carry[0] if isinstance(carry, tuple) else carry), carry

    return _by_step(step, "equinox", x, state)


def _haiku(unit: Unit, x: np.ndarray, state: State) -> Any:
    haiku = require("haiku", "interop")
    leaves = _leaves(unit)
    name = {"rnn": "vanilla_rnn", "lstm": "lstm", "gru": "gru"}[unit.cell]
    options = {"double_bias": "linear_1/b" in leaves} if unit.cell == "rnn" else {}
    make = {"rnn": haiku.VanillaRNN, "lstm": haiku.LSTM, "gru": haiku.GRU}[unit.cell]
    params: dict[str, dict[str, np.ndarray]] = {}
    for path, array in leaves.items():
        module, _, leaf = f"{name}/{path}".rpartition("/")
        params.setdefault(module, {})[leaf] = array
    run = haiku.without_apply_rng(haiku.transform(lambda x_t, carry: make(unit.hidden_size, **options)(x_t, carry)))

    def step(x_t: np.ndarray, carry: Any) -> tuple[Any, Any]:
        return run.apply(params, x_t, haiku.LSTMState(*carry) if isinstance(carry, tuple) else carry)

    return _by_step(step, "haiku", x, state)


_CELLS: dict[str, Callable[[Unit, np.ndarray, State], Any]] = {
    "flax-linen": _linen,
    "flax-nnx": _nnx,
    "equinox": _equinox,
    "haiku": _haiku,
}
