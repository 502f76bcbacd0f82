"""ONNX files that are a plain stack: the graph is followed from its input, and every node must be understood.

Axes     a value's axes are tracked by name: input axes first and second, D directions, H hidden, F features. Which of
         the input's axes is time is settled by the first recurrent node.
Refused  peepholes, clip, activations other than the defaults, input_forget, weights that are computed, an initial state
         that is neither zeros nor an input, lengths that are not the same for every layer, batch or time frozen into
         the graph, and every operator not listed here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.convert.files import open_file, refuse_pickle
from unrolled.convert.onnx_moves import Constant, Data, Moves, Side, Zero, is_zero, kind_of
from unrolled.convert.onnx_nodes import level_of
from unrolled.convert.options import Options
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Recurrent, refuse
from unrolled.errors import expected, require

__all__ = ["network_of_model", "read"]

LARGEST = 2**31 - 1  # bytes: what protobuf can hold
ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softmax": "softmax", "LogSoftmax": "log_softmax"}


def read(path: Path, options: Options) -> Network:
    """A network from an .onnx file.

    Raises:
        ConvertError: the file is damaged, or the graph is not a plain stack that we can compute exactly.
    """
    onnx = require("onnx", "export")
    size = open_file(path)
    refuse_pickle(path)
    if size > LARGEST:
        raise ConvertError(expected(str(path), f"at most {LARGEST} bytes", size))
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's DecodeError, and others by version
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConvertError(expected(str(path), "a model of ONNX", said, "It is truncated or damaged.")) from None
    return network_of_model(model, str(path), options)


def network_of_model(model: Any, where: str, options: Options) -> Network:
    """The network of a ModelProto."""
    return _Walk(model, where).network(options)


class _Walk(Moves):
    def __init__(self, model: Any, where: str) -> None:
        super().__init__(where)
        self.graph = model.graph
        self.lengths: list[Side | None] = []  # of each recurrent node
        self.begun: dict[tuple[str, str], tuple[int, ...]] = {}  # where a state was last cut out of its input
        self.input_axes: tuple[str, ...] = ()
        self.time = ""
        self._weights()
        self._inputs()

    # what the graph begins with

    def _weights(self) -> None:
        for tensor in self.graph.initializer:
            if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
                way_out = "Save it as one file: onnx.save(onnx.load('model.onnx'), 'whole.onnx')."
                raise ConvertError(
                    expected(f"{self.where}: {tensor.name}", "weights in this file", "another file", way_out)
                )
            self.values[tensor.name] = Constant(self._array(tensor, tensor.name))
        if self.graph.sparse_initializer:
            raise refuse(self.where, "dense weights", "sparse ones")

    def _inputs(self) -> None:
        free = [value for value in self.graph.input if value.name not in self.values]
        consumers = {name: node for node in reversed(self.graph.node) for name in node.input}
        for value in free:
            kind = self._role(value.name, consumers)
            if kind == "data":
                if self.input_axes:
                    raise refuse(self.where, "one input, and states or lengths beside it", f"a second, {value.name}")
                rank = len(value.type.tensor_type.shape.dim)
                self.input_axes = ("first", "second") if rank == 2 else ("first", "second", "F")
                if rank not in (2, 3):
                    raise refuse(f"{self.where}: {value.name}", "ids (2 axes) or features (3 axes)", f"{rank} axes")
                self.values[value.name] = Data(self.input_axes, 0)
            else:
                self.values[value.name] = Side(kind, value.name)
        if not self.input_axes:
            raise ConvertError(expected(self.where, "an input of ids or features", "none"))

    def _role(self, name: str, consumers: dict[str, Any], depth: int = 0) -> str:
        """What an input is, by the node that takes it."""
        node = consumers.get(name)
        if node is None or depth > 50:
            return "unused" if node is None else "data"
        if node.op_type in ("RNN", "LSTM", "GRU"):
            place = list(node.input).index(name)
            return {0: "data", 1: "weights", 2: "weights", 3: "weights", 4: "lengths"}.get(place, "state")
        if node.op_type in ("Cast", "Slice", "Split", "Squeeze", "Unsqueeze", "Identity") and node.output:
            return self._role(node.output[0], consumers, depth + 1)
        return "data"

    # the walk

    def network(self, options: Options) -> Network:
        """Follow every node, then see which value the graph gives out."""
        for number, node in enumerate(self.graph.node):
            name = node.name or f"node {number} ({node.op_type})"
            step = getattr(self, f"_{node.op_type.lower()}", None)
            if node.domain not in ("", "ai.onnx") or step is None or not node.op_type.isalnum():
                given = [self.values.get(one) for one in node.input]
                if any(isinstance(one, Data) for one in given) or not given:
                    raise refuse(
                        f"{self.where}: {name}", "an operator of a plain stack", f"{node.domain}{node.op_type}"
                    )
                self._all(node, Side("shape"))
                continue
            for one in node.input:
                if one not in self.values:
                    raise ConvertError(expected(f"{self.where}: {name}", f"a value named {one!r}", "none"))
            self._step(step, node, name)
        return self._finish(options)

    def _step(self, step: Any, node: Any, name: str) -> None:
        """One node. Each method trusts the definition of its operator; a node that does not follow it ends here."""
        try:
            step(node, [self.values[one] for one in node.input], name)
        except ConvertError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            wanted = f"a node of {node.op_type} as the operator is defined"
            raise ConvertError(
                expected(f"{self.where}: {name}", wanted, f"one that does not fit it ({said})")
            ) from error

    def _finish(self, options: Options) -> Network:
        if not any(isinstance(part, Recurrent) for part in self.parts):
            raise ConvertError(expected(self.where, "an RNN, LSTM or GRU node", "none"))
        outs = [self.values.get(value.name) for value in self.graph.output]
        data = [one for one in outs if isinstance(one, Data) and one.stage == len(self.parts)]
        if not data:
            raise refuse(self.where, "the stack's last value among the outputs", "others only: it branches")
        only = all(isinstance(part, Recurrent) for part in self.parts)
        whole = [one for one in data if not one.final]
        raw = "D" in data[0].axes
        last = self.parts[-1]
        if not whole and not (only and raw) and isinstance(last, Recurrent):
            self.parts[-1] = replace(last, every=False)
        batch_first = self.time == "second" if options.batch_first is None else options.batch_first
        layer = only and (bool(whole) or raw)
        notes = ["a row of length 0 keeps its initial state here; some runtimes give 0"] if any(self.lengths) else []
        if self.lengths[0] is not None and not self.lengths[0].source:
            self._count_from_ids()
        return Network(tuple(self.parts), batch_first, layer=layer, notes=tuple(notes))

    def _count_from_ids(self) -> None:
        first = self.parts[0]
        if not isinstance(first, Embedding):
            raise refuse(self.where, "lengths counted from the ids of an embedding", "no embedding")
        self.parts[0] = replace(first, mask_zero=True)

    # recurrent nodes

    def _recurrent(self, node: Any, given: list[Any], name: str) -> None:
        x = self._here(given[0], name)
        given = given + [None] * (8 - len(given))
        attributes = self._attributes(node)
        layout = attributes.get("layout", 0)
        batch, time = x.axes[:2] if layout else x.axes[1::-1]
        if len(x.axes) != 3 or {time, batch} != {"first", "second"}:
            raise refuse(f"{self.where}: {name}", "features with a time and a batch axis", x.axes)
        if self.time and self.time != time:
            raise refuse(f"{self.where}: {name}", "the same time axis as the layer before", "the other one")
        self.time = time
        self._check_lengths(given[4], f"{self.where}: {name}: sequence_lens")
        for number, what in ((5, "initial_h"), (6, "initial_c")):
            if not is_zero(given[number]) and given[number] is not None:
                self._check_state(given[number], f"{self.where}: {name}: {what}", what, node.input[number])
        arrays = [one.array if isinstance(one, Constant) else one for one in (*given[1:4], given[7])]
        if any(isinstance(one, Side | Data | Zero) for one in arrays):
            raise refuse(f"{self.where}: {name}", "weights that are constants", "computed ones")
        self.parts.append(level_of(node.op_type, attributes, arrays, f"{self.where}: {name}"))
        stage = len(self.parts)
        y, h = ((batch, time, "D", "H"), (batch, "D", "H")) if layout else ((time, "D", batch, "H"), ("D", batch, "H"))
        outs = [Data(y, stage), Data(h, stage, final=True), Side("final")]
        for output, value in zip(node.output, outs, strict=False):
            if output:
                self.values[output] = value

    _rnn = _lstm = _gru = _recurrent

    def _check_lengths(self, value: Any, where: str) -> None:
        """One input of lengths for every layer, or none: that is what a module of ours can be called with."""
        if value is not None and not (isinstance(value, Side) and value.kind == "lengths"):
            found = "numbers frozen into the graph" if isinstance(value, Constant | Zero) else "computed ones"
            raise refuse(where, "an input of the graph", found, "Make it an input of the graph, or leave it out.")
        if value is not None and value.axis not in ("", self.time):
            raise refuse(where, "lengths counted along time", "a count along the batch")
        if self.lengths and value != self.lengths[0]:
            said = [one and (one.source or "counted from the ids") for one in (self.lengths[0], value)]
            way_out = "Give every recurrent node the same lengths, or none."
            raise refuse(where, f"{said[0] or 'none'}, as in the layer before", said[1] or "none", way_out)
        self.lengths.append(value)

    def _check_state(self, value: Any, where: str, what: str, called: str) -> None:
        """An input, whole or cut into its layers in their order; zeros have passed."""
        if not (isinstance(value, Side) and value.kind == "state"):
            names = {Constant: "a constant that is not zero", Data: "a value computed from the data"}
            found = names.get(type(value), "a value that the graph computes")
            if value == Side("final"):
                found = "the final state of another node"
            way_out = "Make it an input of the graph: then it is passed as hx."
            raise refuse(where, "zeros or an input", f"{called!r}, {found}", way_out)
        before = self.begun.get((what, value.source))
        if before is not None and (before or value.place) and value.place <= before:
            found = f"rows from {list(value.place)} after rows from {list(before)}"
            raise refuse(where, f"{value.source} cut into layers from first to last", found)
        self.begun[what, value.source] = value.place

    # embedding and dense layers

    def _gather(self, node: Any, given: list[Any], name: str) -> None:
        table, index = given
        axis = self._attributes(node).get("axis", 0)
        if isinstance(table, Constant) and isinstance(index, Data):
            if axis != 0 or table.array.ndim != 2 or index.stage or len(index.axes) != 2 or self.parts:
                raise refuse(f"{self.where}: {name}", "an embedding (tokens, features) at the start", "another Gather")
            self.parts.append(Embedding(table.array))
            self._set(node, Data((*index.axes, "F"), 1))
        elif isinstance(table, Data) and isinstance(index, Constant):
            self._pick(node, self._here(table, name), axis, index.array, name)
        else:
            self._set(node, Side("shape") if not isinstance(table, Data) else table)

    def _pick(self, node: Any, x: Data, axis: int, index: np.ndarray, name: str) -> None:
        """One direction of a layer that has one, or the last step of one that runs forward."""
        chosen = x.axes[axis]
        last = self.parts[-1]
        one = isinstance(last, Recurrent) and len(last.units) == 1
        kept = (*x.axes[:axis], *x.axes[axis:][1:]) if index.ndim == 0 else x.axes
        if chosen == "D" and one and index.size == 1:
            self._set(node, replace(x, axes=kept))
        elif chosen == self.time and one and index.ndim == 0 and int(index) == -1 and not any(self.lengths) \
                and isinstance(last, Recurrent) and not last.reverse:  # fmt: skip
            self._set(node, replace(x, axes=kept, final=True))
        else:
            raise refuse(
                f"{self.where}: {name}", "the last step of a forward layer, or its one direction", "another pick"
            )

    def _matmul(self, node: Any, given: list[Any], name: str) -> None:
        x = self._here(given[0], name)
        if not isinstance(given[1], Constant) or given[1].array.ndim != 2:
            raise refuse(f"{self.where}: {name}", "a constant matrix on the right", kind_of(given[1]))
        self._add_dense(node, x, Dense(given[1].array, where=f"{self.where}: {name}"), name)

    def _gemm(self, node: Any, given: list[Any], name: str) -> None:
        x = self._here(given[0], name)
        attributes = self._attributes(node)
        if attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0 or attributes.get("transA", 0):
            raise refuse(f"{self.where}: {name}", "alpha 1, beta 1, transA 0", "others")
        if not all(isinstance(one, Constant) for one in given[1:]) or given[1].array.ndim != 2:
            raise refuse(f"{self.where}: {name}", "constant weights", "computed ones")
        weight = given[1].array.T if attributes.get("transB", 0) else given[1].array
        bias = np.broadcast_to(given[2].array, (weight.shape[1],)).copy() if len(given) > 2 else None
        self._add_dense(node, x, Dense(weight, bias, where=f"{self.where}: {name}"), name)

    def _add_dense(self, node: Any, x: Data, part: Dense, name: str) -> None:
        if x.axes[-1] not in ("F", "H") or "D" in x.axes:
            raise refuse(f"{self.where}: {name}", "features last, the directions joined", x.axes)
        if x.final and isinstance(self.parts[-1], Recurrent):
            self.parts[-1] = replace(self.parts[-1], every=False)
        self.parts.append(part)
        self._set(node, Data((*x.axes[:-1], "F"), len(self.parts)))

    def _add(self, node: Any, given: list[Any], name: str) -> None:
        if not any(isinstance(one, Data) for one in given):
            self._all(node, Side("shape"))
            return
        value, bias = given if isinstance(given[0], Data) else given[::-1]
        self._here(value, name)
        last = self.parts[-1] if self.parts else None
        if not isinstance(bias, Constant) or not isinstance(last, Dense) or last.bias is not None:
            raise refuse(f"{self.where}: {name}", "the bias of a dense layer", "another sum")
        if bias.array.shape != last.weight.shape[1:] or last.activation != "linear":
            raise ConvertError(
                expected(f"{self.where}: {name}", f"{last.weight.shape[1:]} (outputs,)", bias.array.shape)
            )
        self.parts[-1] = replace(last, bias=bias.array)
        self._set(node, value)

    def _activation(self, node: Any, given: list[Any], name: str) -> None:
        x = self._here(given[0], name)
        last = self.parts[-1] if self.parts else None
        axis = self._attributes(node).get("axis", -1)
        if not isinstance(last, Dense) or last.activation != "linear" or axis not in (-1, len(x.axes) - 1):
            raise refuse(f"{self.where}: {name}", "an activation after a linear dense layer", node.op_type)
        self.parts[-1] = replace(last, activation=ACTIVATIONS[node.op_type])
        self._set(node, x)

    _relu = _tanh = _sigmoid = _softmax = _logsoftmax = _activation
