"""A trained model as one ONNX file: from ids or features to scores, with states that go in and come out.

Inputs   ids (batch, time), or features (batch, time, channels); letters (batch, time, letters) and widths (batch, time)
         where a tagger reads them; lengths (batch,); the states.
Outputs  scores: (batch, classes), (batch, time, tags) or (batch, time, vocabulary), logits; the states.
Metadata the entry `unrolled`, JSON: the task, labels or vocabulary, and `states`: which output goes into which input
         for the next chunk, its axes, and what it begins with. `streaming` says whether chunks then give the whole.
Source   nodes and gate orders come from `convert.onnx`, which reads the table of conventions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from unrolled.convert.onnx import OPSET, Graph, add_levels
from unrolled.convert.spec import ConvertError
from unrolled.convert.states import NAME, levels_of
from unrolled.errors import expected, require

__all__ = ["KEY", "TaskGraph", "onnx_models"]

KEY = "unrolled"
IR_VERSION = 8  # what opset 17 came with
LOWEST = float(np.finfo(np.float32).min)  # not -inf: the difference of two of them is a number

Tensors = Mapping[str, np.ndarray]


class TaskGraph:
    """A graph that is being put together, and the states that its metadata will name."""

    def __init__(self, tensors: Tensors) -> None:
        self.onnx = require("onnx", "export")
        self.graph, self.tensors = Graph(), tensors
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.states: list[dict[str, Any]] = []

    # small words

    def constant(self, name: str, value: Any) -> str:
        """An initializer, made once."""
        if all(one.name != name for one in self.graph.initializers):
            self.graph.constant(name, np.asarray(value))
        return name

    def ints(self, *values: int) -> str:
        """(n,) int64."""
        return self.constant("ints_" + "_".join(map(str, values)).replace("-", "m"), np.array(values, np.int64))

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """A node with one output."""
        return self.graph.node(operator, list(inputs), output, **attributes)

    def tensor(self, name: str, value: np.ndarray | None = None) -> str:
        """A tensor of the model, under its own name."""
        return self.constant(name, self.tensors[name] if value is None else value)

    def input(self, name: str, axes: list[Any], kind: str = "FLOAT") -> str:
        """An input of the graph."""
        info = self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), axes)
        self.inputs.append(info)
        return name

    def output(self, value: str, name: str, axes: list[Any], kind: str = "FLOAT") -> None:
        """An output of the graph."""
        if value != name:
            self.node("Identity", value, output=name)
        info = self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), axes)
        self.outputs.append(info)

    def state(self, name: str, axes: list[Any], initial: Any = 0.0, kind: str = "FLOAT") -> str:
        """The input of a state. `leave` gives its output."""
        entry = {"input": name, "output": f"{name}_out", "axes": axes, "batch_axis": axes.index("batch")}
        self.states.append(entry | {"dtype": kind.lower(), "initial": initial})
        return self.input(name, axes, kind)

    def leave(self, name: str, value: str) -> None:
        """The output of a state."""
        entry = next(one for one in self.states if one["input"] == name)
        self.output(value, entry["output"], entry["axes"], entry["dtype"].upper())

    def linear(self, x: str, prefix: str, *, bias: bool = True) -> str:
        """x W + b."""
        x = self.node("MatMul", x, self.tensor(f"{prefix}weight_T", self.tensors[f"{prefix}weight"].T))
        return self.node("Add", x, self.tensor(f"{prefix}bias")) if bias else x

    # the parts of a model

    def vectors(self, reading: Any, time: str) -> str:
        """What a model begins with, time first: its features as they come, or the embedding of its ids."""
        if reading.scaler is not None:
            given = self.input("features", ["batch", time, len(reading.scaler.mean)])
            return self.node("Transpose", given, perm=[1, 0, 2])
        given = self.node("Transpose", self.input("ids", ["batch", time], "INT64"), perm=[1, 0])
        return self.node("Gather", self.tensor("inputs.embedding.weight"), given)

    def scaled(self, x: str, valid: str = "") -> str:
        """Features as the model reads them; 0 where they are not `valid`: padding may hold NaN."""
        x = self.node("Div", self.node("Sub", x, self.tensor("inputs.mean")), self.tensor("inputs.scale"))
        return self.node("Where", valid, x, self.constant("nothing", np.float32(0))) if valid else x

    def lengths(self) -> tuple[str, str]:
        """The input `lengths` (batch,) int64, and the same as the nodes want it."""
        given = self.input("lengths", ["batch"], "INT64")
        return given, self.node("Cast", given, to=self.onnx.TensorProto.INT32)

    def valid(self, x: str, lengths: str) -> str:
        """(time, batch, 1) boolean, of x (time, batch, …)."""
        steps = self.node(
            "Squeeze", self.node("Slice", self.node("Shape", x), self.ints(0), self.ints(1)), self.ints(0)
        )
        zero, one = self.constant("zero", np.array(0, np.int64)), self.constant("one", np.array(1, np.int64))
        places = self.node("Unsqueeze", self.node("Range", zero, steps, one), self.ints(1, 2))
        return self.node("Less", places, self.node("Unsqueeze", lengths, self.ints(0, 2)))

    def recurrent(self, x: str, prefix: str, recipe: Mapping[str, Any], lengths: tuple[str, str]) -> tuple[str, str]:
        """The layers: the output (time, batch, D·H), and h of all layers after each row's last step."""
        levels, learned = self.levels(prefix, recipe)
        axes = [len(levels) * len(levels[0].units), "batch", levels[0].units[0].hidden_size]
        names = [self.state(part, axes, _learned(learned, part, levels)) for part in "hc"[: _parts(levels)]]
        out, finals = self.run(levels, x, prefix, lengths, names)
        for name, value in zip(names, finals, strict=True):
            self.leave(name, value)
        return out, finals[0]

    def levels(self, prefix: str, recipe: Mapping[str, Any]) -> tuple[list[Any], dict[str, np.ndarray]]:
        """The layers of a prefix, and the learned initial states among its tensors."""
        own = {name.removeprefix(prefix): value for name, value in self.tensors.items() if name.startswith(prefix)}
        learned = {name: value for name, value in own.items() if name.startswith("initial_")}
        named = {name: value for name, value in own.items() if name not in learned}
        if any(NAME.match(name) is None for name in named):
            raise ConvertError(expected(f"{prefix}*", "weights of RNN, LSTM or GRU", ", ".join(named)[:60]))
        reset_after = bool(recipe.get("reset_after", True))
        return levels_of(named, prefix, nonlinearity="tanh", reset_after=reset_after), learned

    def run(
        self, levels: list[Any], x: str, prefix: str, lengths: tuple[str, str], names: list[str]
    ) -> tuple[str, list[str]]:
        """The output, and each part of the state (L·D, batch, H) after each row's last step; at first it is `names`."""
        out, finals = add_levels(self.graph, levels, x, prefix=prefix, lengths=lengths[1], state=names)
        empty = self.node(
            "Equal", self.node("Unsqueeze", lengths[0], self.ints(0, 2)), self.constant("zero", np.array(0))
        )
        # Runtimes disagree on the final state of a row without steps: here it is the state that went in.
        return out, [self.node("Where", empty, name, final) for name, final in zip(names, finals, strict=True)]

    def start(self, levels: list[Any], learned: Mapping[str, np.ndarray], prefix: str, lengths: str) -> list[str]:
        """The state of rows that have read nothing, where it is no input: zeros, or what was learned."""
        layers, hidden = len(levels) * len(levels[0].units), levels[0].units[0].hidden_size
        shape = self.node("Concat", self.ints(layers), self.node("Shape", lengths), self.ints(hidden), axis=0)
        names = []
        for part in "hc"[: _parts(levels)]:
            first = np.reshape(_learned(learned, part, levels), (-1, 1, hidden if learned else 1))
            names.append(self.node("Expand", self.constant(f"{prefix}start_{part}", first.astype(np.float32)), shape))
        return names

    def letters(self, prefix: str) -> str:
        """(time, batch, 2·hidden): the final states of a bidirectional LSTM over the letters of each token."""
        letters = self.input("letters", ["batch", "time", "letters"], "INT64")
        widths = self.input("widths", ["batch", "time"], "INT64")
        spelled = self.node("Gather", self.tensor(f"{prefix}embedding.weight"), letters)  # (B, T, W, E)
        size = self.tensors[f"{prefix}embedding.weight"].shape[1]
        spelled = self._words(spelled, size)
        flat = self.node("Cast", self.node("Reshape", widths, self.ints(-1)), to=self.onnx.TensorProto.INT32)
        own = {
            name.removeprefix(f"{prefix}recurrent."): value
            for name, value in self.tensors.items()
            if name.startswith(f"{prefix}recurrent.")
        }
        levels = levels_of(own, f"{prefix}recurrent.")
        _, finals = add_levels(self.graph, levels, spelled, prefix=f"{prefix}recurrent.", lengths=flat)
        width = 2 * levels[0].units[0].hidden_size
        joined = self.node("Reshape", self.node("Transpose", finals[0], perm=[1, 0, 2]), self.ints(-1, width))
        shape = self.node("Concat", self.node("Shape", widths), self.ints(width), axis=0)
        vectors = self.node("Transpose", self.node("Reshape", joined, shape), perm=[1, 0, 2])
        none = self.node("Equal", self.node("Transpose", widths, perm=[1, 0]), self.constant("zero", np.array(0)))
        return self.node(
            "Where", self.node("Unsqueeze", none, self.ints(2)), self.constant("nothing", np.float32(0)), vectors
        )

    def _words(self, spelled: str, size: int) -> str:
        """(B, T, W, E) → (W, B·T, E)."""
        width = self.node("Slice", self.node("Shape", spelled), self.ints(2), self.ints(3))
        shape = self.node("Concat", self.ints(-1), width, self.ints(size), axis=0)
        return self.node("Transpose", self.node("Reshape", spelled, shape), perm=[1, 0, 2])

    def model(self, name: str, about: Mapping[str, Any]) -> Any:
        """The finished ModelProto, checked by onnx."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.graph.nodes, name, self.inputs, self.outputs, self.graph.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="unrolled")
        text = json.dumps({"format": 1, **about, "states": self.states}, ensure_ascii=False)
        helper.set_model_props(model, {KEY: text})
        self.onnx.checker.check_model(model, full_check=True)
        return model


def _parts(levels: Any) -> int:
    return 2 if levels[0].units[0].cell == "lstm" else 1


def _learned(learned: Tensors, part: str, levels: Any) -> Any:
    """0, or the learned state of each layer and direction, (L·D, H)."""
    if not learned:
        return 0.0
    suffixes = [f"_l{n}{d}" for n in range(len(levels)) for d in ("", "_reverse")[: len(levels[0].units)]]
    return [learned[f"initial_{part}{suffix}"].tolist() for suffix in suffixes]


def onnx_models(model: Any, tensors: Tensors) -> dict[str, Any]:
    """The ONNX models of a runtime model and its tensors: one, named "", or an encoder and a decoder."""
    from unrolled.convert import pair_graph, task_models

    if model.task == "seq2seq":
        return {
            "encoder": pair_graph.encoder(model, TaskGraph(tensors)),
            "decoder": pair_graph.decoder(model, TaskGraph(tensors)),
        }
    builders = {"classify": task_models.classifier, "tag": task_models.tagger, "lm": task_models.language_model}
    builders["forecast"] = task_models.forecaster
    return {"": builders[model.task](model, TaskGraph(tensors))}
