"""A whole network as an ONNX model: dynamic batch and time, one node a layer.

Names    a layer: input, initial_h (and initial_c), lengths on request; output, final_h, final_c.
         A stack: input, lengths on request; output.
         Axes as the network's: (B, T, …) batch first, else (T, B, …); states (L·D, B, H).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.bundle import write_atomically
from unrolled.convert.onnx import OPSET, Graph, add_levels
from unrolled.convert.options import Options, check_heads
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Recurrent, refuse
from unrolled.errors import expected, require

__all__ = ["model_of", "write"]

ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softmax": "Softmax", "log_softmax": "LogSoftmax"}
IR_VERSION = 8  # what opset 17 came with: runtimes of 2022 read it


def write(network: Network, path: Path, options: Options) -> None:
    """An .onnx file.

    Raises:
        ConvertError: ONNX cannot compute the same: a projection, a merge other than concat.
    """
    if path.suffix != ".onnx":
        raise ConvertError(expected(str(path), ".onnx", repr(path.suffix)))
    write_atomically(path, model_of(network, options).SerializeToString())


def model_of(network: Network, options: Options | None = None) -> Any:
    """The model as onnx's ModelProto, checked by onnx."""
    onnx = require("onnx", "export")
    options = options or Options()
    check_heads(network, "ONNX", "Choose keras or unrolled, which hold it.")
    graph = Graph()
    kind = onnx.helper.np_dtype_to_tensor_dtype(network.units[0].W.dtype)
    inputs, outputs = [_input(onnx, network, kind)], []
    lengths = _lengths(onnx, graph, network, options, inputs)
    x = "input"
    first = network.parts[0]
    if isinstance(first, Embedding):
        x = graph.node("Gather", [graph.constant("embedding", first.weight), x])
    if network.batch_first:
        x = graph.node("Transpose", [x], perm=[1, 0, 2])
    state = _states(onnx, network, kind, inputs) if network.layer else ()
    x, finals, every = _recurrent(graph, network, x, lengths, state)
    if network.batch_first and every:
        x = graph.node("Transpose", [x], perm=[1, 0, 2])
    for number, part in enumerate(part for part in network.parts if isinstance(part, Dense)):
        x = _dense(graph, part, x, f"dense{number}")
    graph.node("Identity", [x], "output")
    axes = (["batch", "time"] if network.batch_first else ["time", "batch"]) if every else ["batch"]
    outputs.append(onnx.helper.make_tensor_value_info("output", kind, [*axes, _width(network.parts[-1])]))
    if network.layer:
        outputs += _finals(onnx, graph, network, kind, finals)
    made = onnx.helper.make_graph(graph.nodes, "unrolled", inputs, outputs, graph.initializers)
    opsets = [onnx.helper.make_opsetid("", options.opset or OPSET)]
    model = onnx.helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="unrolled")
    onnx.checker.check_model(model, full_check=True)
    return model


def _input(onnx: Any, network: Network, kind: int) -> Any:
    axes: list[Any] = ["batch", "time"] if network.batch_first else ["time", "batch"]
    if isinstance(network.parts[0], Embedding):
        return onnx.helper.make_tensor_value_info("input", onnx.TensorProto.INT64, axes)
    return onnx.helper.make_tensor_value_info("input", kind, [*axes, network.units[0].input_size])


def _lengths(onnx: Any, graph: Graph, network: Network, options: Options, inputs: list[Any]) -> str:
    """The name of the lengths: an input on request, or counted from the ids that are not 0."""
    first = network.parts[0]
    if options.lengths:
        inputs.append(onnx.helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, ["batch"]))
        return "lengths"
    if not (isinstance(first, Embedding) and first.mask_zero):
        return ""
    same = graph.node("Equal", ["input", graph.constant("padding", np.array(0, np.int64))])
    valid = graph.node("Cast", [graph.node("Not", [same])], to=onnx.TensorProto.INT32)
    axis = graph.constant("time_axis", np.array([1 if network.batch_first else 0], np.int64))
    return graph.node("ReduceSum", [valid, axis], "lengths", keepdims=0)


def _states(onnx: Any, network: Network, kind: int, inputs: list[Any]) -> tuple[str, ...]:
    first = network.units[0]
    names = ("initial_h", "initial_c") if first.cell == "lstm" else ("initial_h",)
    for name in names:
        shape = [len(network.units), "batch", first.hidden_size]
        inputs.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    return names


def _recurrent(
    graph: Graph, network: Network, x: str, lengths: str, state: tuple[str, ...]
) -> tuple[str, tuple[str, ...], bool]:
    """The recurrent layers; the output is time-major, or the final state of the last layer as (B, D·H)."""
    finals: tuple[str, ...] = ()
    runs = _runs(network)
    for number, levels in enumerate(runs):
        levels = [_in_order(level, last=level is network.recurrent[-1]) for level in levels]
        prefix = "" if len(runs) == 1 else f"block{number}."
        x, finals = add_levels(graph, levels, x, prefix=prefix, lengths=lengths, state=state)
    last = network.recurrent[-1]
    if last.every:
        return x, finals, True
    h = f"{'' if len(runs) == 1 else f'block{len(runs) - 1}.'}layer{len(runs[-1]) - 1}.final_h"
    turned = graph.node("Transpose", [h], perm=[1, 0, 2])  # (B, D, H)
    return graph.node("Reshape", [turned, graph.constant("flat", np.array([0, -1], np.int64))]), finals, False


def _runs(network: Network) -> list[list[Recurrent]]:
    """Neighbours with as many directions and as large a state: one initial state serves them all."""
    runs: list[list[Recurrent]] = []
    for level in network.recurrent:
        key = (len(level.units), level.units[0].cell, level.units[0].hidden_size)
        before = runs[-1][-1] if runs else None
        if before is not None and key == (len(before.units), before.units[0].cell, before.units[0].hidden_size):
            runs[-1].append(level)
        else:
            runs.append([level])
    if network.layer and len(runs) > 1:
        raise refuse("network", "layers of one kind and size", f"{len(runs)} kinds: convert it as a stack")
    return runs


def _in_order(level: Recurrent, *, last: bool) -> Recurrent:
    """The level as a node can compute it.

    Raises:
        ConvertError: no node can.
    """
    where = level.units[0].where
    if len(level.units) == 2 and level.merge != "concat":
        raise refuse(f"{where}: merge", "concat, as ONNX's bidirectional nodes give", repr(level.merge), "Use keras.")
    if level.backwards and len(level.units) == 1 and not level.every:
        level = replace(level, backwards=False, reverse=True)  # the final state is the same, and nothing else is seen
    if level.backwards:
        raise refuse(f"{where}: backwards", "an output in order, as ONNX's reverse nodes give", "reading order",
                     "Use keras, or unrolled, which keep go_backwards.")  # fmt: skip
    if level.hold and last and level.every:
        raise refuse(f"{where}: mask", "0 past a row's end, as ONNX's nodes give", "the last output held",
                     "Use return_sequences=False or Bidirectional in the last masked layer.")  # fmt: skip
    return level


def _dense(graph: Graph, part: Dense, x: str, name: str) -> str:
    x = graph.node("MatMul", [x, graph.constant(f"{name}.weight", part.weight)])
    if part.bias is not None:
        x = graph.node("Add", [x, graph.constant(f"{name}.bias", part.bias)])
    if part.activation == "linear":
        return x
    attributes: dict[str, Any] = {"axis": -1} if part.activation.endswith("softmax") else {}
    return graph.node(ACTIVATIONS[part.activation], [x], **attributes)


def _finals(onnx: Any, graph: Graph, network: Network, kind: int, finals: tuple[str, ...]) -> list[Any]:
    infos = []
    for name, value in zip(("final_h", "final_c"), finals, strict=False):
        if value != name:
            graph.node("Identity", [value], name)
        shape = [len(network.units), "batch", network.units[0].hidden_size]
        infos.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    return infos


def _width(part: Part) -> int:
    return part.width if isinstance(part, Recurrent) else part.weight.shape[1]
