"""Keras's description of a model, config.json: read as a chain of layers, and written so that Keras loads it.

Only words are compared; nothing that a configuration names is imported or called. A layer, activation or option that
we cannot compute exactly is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from unrolled.convert.options import Options
from unrolled.convert.spec import ConvertError, Dense, Embedding, Part, Recurrent, Unit, refuse
from unrolled.convert.stack import ACTIVATIONS
from unrolled.errors import expected

__all__ = ["LayerConfig", "chain", "check_recurrent", "describe", "paths", "word"]

NOTHING = ("InputLayer", "Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "ActivityRegularization",
           "Identity")  # fmt: skip
_OURS = ("keras", "keras.layers", "keras.src")


@dataclass(frozen=True)
class LayerConfig:
    """One layer of a configuration."""

    kind: str
    config: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.config.get("name", self.kind))

    def get(self, key: str, default: Any = None) -> Any:
        """An option, or Keras's default where the file leaves it out."""
        return self.config.get(key, default)

    def flag(self, key: str) -> bool:
        """An option that is True or False."""
        value = self.config.get(key, False)
        if not isinstance(value, bool):
            raise ConvertError(expected(f"{self.name}: {key}", "true or false", repr(value)))
        return value

    def size(self, key: str) -> int:
        """An option that is a positive number."""
        value = self.config.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
            raise ConvertError(expected(f"{self.name}: {key}", "a positive number", repr(value)))
        return value

    def inner(self, key: str) -> LayerConfig:
        """The layer that a wrapper holds."""
        return layer_of(self.config.get(key), f"{self.name}: {key}")


def layer_of(document: Any, where: str) -> LayerConfig:
    """A layer's class and options.

    Raises:
        ConvertError: it is not a layer of Keras's own.
    """
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        raise ConvertError(expected(where, "a layer with a config", type(document).__name__))
    kind = document.get("class_name")
    module = document.get("module") or "keras.layers"
    if not isinstance(kind, str) or not str(module).startswith("keras"):
        way_out = "A class of your own cannot be read from a file: convert its layers one by one."
        raise refuse(where, "a layer of Keras", f"{module}.{kind}", way_out)
    return LayerConfig(kind, document["config"])


def chain(document: Any, where: str) -> list[LayerConfig]:
    """The layers of a Sequential model, or of a functional one that is a chain, in the order in which they run.

    Raises:
        ConvertError: another kind of model, or one that branches.
    """
    model = layer_of(document, f"{where}: config.json")
    if model.kind not in ("Sequential", "Functional", "Model"):
        if model.kind in ("SimpleRNN", "LSTM", "GRU", "Bidirectional"):
            return [model]
        raise refuse(f"{where}: config.json", "a Sequential or functional model", model.kind)
    documents = model.get("layers")
    if not isinstance(documents, list) or not documents:
        raise ConvertError(expected(f"{where}: layers", "a list of layers", type(documents).__name__))
    layers = [layer_of(one, f"{where}: layer {number}") for number, one in enumerate(documents)]
    if model.kind != "Sequential":
        _check_chain(documents, layers, where)
        _check_ends(model, layers, where)
    return layers


def _check_chain(documents: list[Any], layers: list[LayerConfig], where: str) -> None:
    """Each layer is called once, with the output of the layer before it and nothing else."""
    for number, document in enumerate(documents):
        nodes, name = document.get("inbound_nodes"), layers[number].name
        sources = list(_histories(nodes, "args"))
        wanted = [] if number == 0 else [layers[number - 1].name]
        if sources != wanted:
            found = ", ".join(sources) or "nothing"
            way_out = "If it is a chain, build it as keras.Sequential; else convert its layers one by one."
            raise refuse(f"{where}: {name}", f"input from {wanted or 'outside'} alone: a chain", found, way_out)
        operation = ".ops." in str(document.get("module"))  # h[:, -1] and its like are refused by their kind
        for node in [] if operation else _listed(nodes):
            _check_call(node if isinstance(node, dict) else {}, f"{where}: {name}")


def _check_call(node: dict[str, Any], where: str) -> None:
    """Refuse what a call passes beside its input: mask, initial_state, training=True."""
    extra = {f"argument {number}": value for number, value in enumerate(_listed(node.get("args"))[1:], 1)}
    named = node.get("kwargs")
    extra |= named if isinstance(named, dict) else {}
    for name, value in extra.items():
        if value is None or (name == "training" and value is False):
            continue
        way_out = {
            "initial_state": "Build the model without it, and pass the state as hx.",
            "mask": "Build the model without it, and pass lengths; keras.Sequential applies an embedding's mask.",
        }.get(name, "Build the model without it.")
        raise refuse(f"{where}: {name}", "a call with the input alone", _shown(value), way_out)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(value: Any) -> str:
    """What a call passes, without its numbers."""
    sources = list(_histories(value))
    if sources:
        return "the output of " + ", ".join(sources)
    return "a tensor" if isinstance(value, dict | list) else str(value)[:40]


def _check_ends(model: LayerConfig, layers: list[LayerConfig], where: str) -> None:
    """One input, which is the first layer's; as outputs all that the last layer gives, and nothing else."""
    inputs, outputs = (list(_ends(model.get(key), f"{where}: {key}")) for key in ("input_layers", "output_layers"))
    if inputs != [(layers[0].name, 0)]:
        raise refuse(f"{where}: inputs", f"one, {layers[0].name}", _spelled(inputs), "Build a model for each input.")
    last = layers[-1]
    pair = last.kind == "Bidirectional" and last.get("merge_mode", "concat") is None
    wanted = [(last.name, number) for number in range(2 if pair else 1)]
    if outputs != wanted:
        way_out = "Build a model for each output, keras.Model(model.input, output): each converts by itself."
        raise refuse(
            f"{where}: outputs", f"what {last.name} gives, whole: {_spelled(wanted)}", _spelled(outputs), way_out
        )


def _ends(value: Any, where: str, depth: int = 0) -> Iterator[tuple[str, int]]:
    """The name and the output's number of each [name, node, number], however they are nested."""
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list) or depth > 20:
        raise ConvertError(expected(where, "lists of [layer, node, output]", type(value).__name__))
    if len(items) == 3 and isinstance(items[0], str):
        name, node, number = items
        if node != 0 or isinstance(number, bool) or not isinstance(number, int):
            raise refuse(f"{where}: {name}", "a layer that is called once", f"call {node}, output {number}")
        yield name, number
        return
    for one in items:
        yield from _ends(one, where, depth + 1)


def _spelled(ends: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name}[{number}]" for name, number in ends) or "none"


def _histories(node: Any, only: str = "", depth: int = 0) -> Iterator[str]:
    """The layers whose outputs an inbound node takes; of a call, under the key `only`."""
    if depth > 20:
        raise ConvertError(expected("inbound_nodes", "at most 20 levels", "more"))
    if isinstance(node, dict):
        if only in node:
            node = {only: node[only]}
        history = node.get("keras_history")
        if isinstance(history, list) and history:
            yield str(history[0])
            return
        for value in node.values():
            yield from _histories(value, only, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from _histories(value, only, depth + 1)


def paths(layers: Iterable[LayerConfig]) -> Iterator[str]:
    """Where each layer's weights stand under layers/: its class in snake case, counted.

    Source   keras, src/saving/saving_lib.py, _save_container_state.
    """
    counts: dict[str, int] = {}
    for layer in layers:
        word = snake(layer.kind)
        number = counts.get(word, 0)
        counts[word] = number + 1
        yield f"{word}_{number}" if number else word


def snake(name: str) -> str:
    """Keras's to_snake_case: SimpleRNN → simple_rnn."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


# what cannot be computed exactly


def check_recurrent(layer: LayerConfig, options: Options, notes: list[str]) -> None:
    """Refuse what a layer of ours does not do.

    Raises:
        ConvertError: an activation, or a stateful layer, that was not accepted.
    """
    if layer.get("stateful"):
        if "stateful" not in options.accept:
            way_out = "Pass accept='stateful' to convert it without, and carry the state with layer.stream()."
            raise refuse(f"{layer.name}: stateful", "False: our layers remember nothing between calls", True, way_out)
        notes.append(f"{layer.name}: stateful is left out, as accepted; layer.stream() carries the state")
    if layer.kind != "SimpleRNN":
        for key, wanted in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
            found = word(layer.get(key, wanted))
            if found != wanted:
                way_out = "No kernel of ours has it. Train with the default, or keep this layer in Keras."
                raise refuse(f"{layer.name}: {key}", wanted, repr(found), way_out)
    if layer.get("return_state"):
        raise refuse(f"{layer.name}: return_state", "False in a plain stack", True,
                     "Build the model without it: Stack.run gives the states.")  # fmt: skip
    rates = {key: layer.get(key) for key in ("dropout", "recurrent_dropout") if layer.get(key)}
    notes += [f"{layer.name}: {key} {rate} acts in training only, and is left out" for key, rate in rates.items()]


def note_dtype(layer: LayerConfig, notes: list[str]) -> None:
    """A note where Keras computes in half precision; ours computes in the type of the weights.

    Raises:
        ConvertError: a policy of another kind, such as a quantized one.
    """
    policy: Any = layer.get("dtype")
    if isinstance(policy, dict):
        options = policy.get("config")
        policy = (options.get("name") if isinstance(options, dict) else None) or policy.get("class_name")
    if policy in (None, "float32", "float64"):
        return
    half = str(policy).removeprefix("mixed_")
    if half not in ("float16", "bfloat16"):
        way_out = "Save the model under one of them, from before it was quantized."
        wanted = "a policy of float32, float64, float16, bfloat16, mixed_float16 or mixed_bfloat16"
        raise refuse(f"{layer.name}: dtype", wanted, repr(policy), way_out)
    notes.append(f"{layer.name}: Keras computes it in {half} (policy {policy}), ours in the type of the weights: "
                 f"the results differ by the rounding of {half}")  # fmt: skip


def nonlinearity(layer: LayerConfig) -> str:
    """tanh or relu for a SimpleRNN; tanh for the others, where it has been checked."""
    found = word(layer.get("activation", "tanh"))
    if layer.kind == "SimpleRNN" and found not in ("tanh", "relu"):
        raise refuse(f"{layer.name}: activation", "tanh or relu", repr(found))
    return found if layer.kind == "SimpleRNN" else "tanh"


def activation(layer: LayerConfig, key: str) -> str:
    """A dense layer's activation by our name."""
    found = word(layer.get(key, "linear"))
    if found not in ACTIVATIONS:
        raise refuse(f"{layer.name}: {key}", "one of " + ", ".join(ACTIVATIONS), repr(found))
    return found


def activation_of(layer: LayerConfig) -> str:
    """The activation that a layer of its own applies."""
    if layer.kind == "Activation":
        return activation(layer, "activation")
    if layer.kind == "Softmax":
        if layer.get("axis", -1) != -1:
            raise refuse(f"{layer.name}: axis", -1, layer.get("axis"))
        return "softmax"
    if any(layer.get(key) for key in ("max_value", "negative_slope", "threshold")):
        raise refuse(layer.name, "a plain ReLU", "one with max_value, negative_slope or threshold")
    return "relu"


def activated(part: Part | None, name: str, layer: LayerConfig) -> Part:
    """A dense part with the activation that a layer after it applies."""
    if not isinstance(part, Dense) or (part.activation != "linear" and name != "linear"):
        raise refuse(layer.name, "an activation after a linear Dense", "one after something else")
    return replace(part, activation=name) if name != "linear" else part


def word(value: Any) -> str:
    """Keras's name of an activation, however the configuration holds it."""
    if isinstance(value, dict):
        value = value.get("config") if isinstance(value.get("config"), str) else value.get("class_name")
    return "linear" if value is None else str(value)


# writing


def class_of(part: Part) -> str:
    """Keras's class for a part."""
    if isinstance(part, Embedding):
        return "Embedding"
    if isinstance(part, Dense):
        return "Dense"
    return "Bidirectional" if len(part.units) == 2 else KERAS_CLASSES[part.units[0].cell]


KERAS_CLASSES = {"rnn": "SimpleRNN", "lstm": "LSTM", "gru": "GRU"}


def describe(parts: Iterable[Part], names: Iterable[str], dtype: str) -> dict[str, Any]:
    """config.json of a Sequential model."""
    parts = tuple(parts)
    first = parts[0]
    shape = [None, None] if isinstance(first, Embedding) else [None, None, _width(first)]
    kind = "int32" if isinstance(first, Embedding) else dtype
    layers = [_document("InputLayer", {"batch_shape": shape, "dtype": kind, "name": "input_layer"})]
    width = shape[-1] if len(shape) == 3 else None
    time: list[Any] = [None, None]
    for part, name in zip(parts, names, strict=True):
        built = [*time, width] if width is not None else time
        layers.append(_described(part, name, dtype) | {"build_config": {"input_shape": built}})
        if isinstance(part, Recurrent):
            width = part.width
            time = time if part.every else [None]
        else:
            width = part.weight.shape[1]
    config = {"name": "sequential", "trainable": True, "layers": layers, "build_input_shape": shape}
    return _document("Sequential", config, "keras") | {"build_config": {"input_shape": shape}}


def _width(part: Part) -> int:
    return part.units[0].input_size if isinstance(part, Recurrent) else part.weight.shape[0]


def _document(kind: str, config: dict[str, Any], module: str = "keras.layers") -> dict[str, Any]:
    return {"module": module, "class_name": kind, "config": config, "registered_name": None}


def _described(part: Part, name: str, dtype: str) -> dict[str, Any]:
    common = {"name": name, "trainable": True, "dtype": dtype}
    if isinstance(part, Embedding):
        tokens, width = part.weight.shape
        more = {"input_dim": tokens, "output_dim": width, "mask_zero": part.mask_zero}
        return _document("Embedding", common | more)
    if isinstance(part, Dense):
        more = {"units": part.weight.shape[1], "activation": part.activation, "use_bias": part.bias is not None}
        return _document("Dense", common | more)
    if len(part.units) == 1:
        return _recurrent(part.units[0], part, name, dtype, part.backwards)
    forward, backward = part.units
    word = snake(KERAS_CLASSES[forward.cell])
    more = {
        "merge_mode": part.merge,
        "layer": _recurrent(forward, part, f"forward_{word}", dtype, part.backwards),
        "backward_layer": _recurrent(backward, part, f"backward_{word}", dtype, not part.backwards),
    }
    return _document("Bidirectional", common | more)


def _recurrent(unit: Unit, part: Recurrent, name: str, dtype: str, backwards: bool) -> dict[str, Any]:
    config = {"name": name, "trainable": True, "dtype": dtype, "units": unit.hidden_size}
    config |= {"return_sequences": part.every, "return_state": False, "go_backwards": backwards, "stateful": False}
    config |= {"unroll": False, "zero_output_for_mask": part.every and not part.hold}
    config |= {"use_bias": unit.b is not None, "activation": unit.nonlinearity}
    if unit.cell != "rnn":
        config["recurrent_activation"] = "sigmoid"
    if unit.cell == "gru":
        config["reset_after"] = unit.reset_after
    return _document(KERAS_CLASSES[unit.cell], config)
