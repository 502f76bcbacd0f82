"""ONNX: the published cases of its recurrent operators, and ONNX Runtime on random weights, both ways.

The published cases mostly have one constant in all their weights and would pass with gates permuted, so the random ones
stand beside them.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from oracles.frameworks import HIDDEN, INPUTS, assert_bits, assert_same, features, layer_of, states, weights
from unrolled import convert
from unrolled.convert import ConvertError, Stack
from unrolled.convert.onnx import Graph, add_layer

RNG = np.random.default_rng(6)
BLOCKS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def run(path: Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.7


def node_model(
    path: Path, operator: str, directions: int = 1, hidden: int = HIDDEN, *, bias: bool = True,
    extra: tuple[str, ...] = (), constants: dict[str, np.ndarray] | None = None, outputs: int = 2, **attributes: Any,
) -> Path:  # fmt: skip
    """A file with one node of random weights; `extra` names further inputs of the graph, "" for none."""
    wide = BLOCKS[operator] * hidden
    tensors = {"W": draw(directions, wide, INPUTS), "R": draw(directions, wide, hidden)}
    if bias:
        tensors["B"] = draw(directions, 2 * wide)
    tensors |= constants or {}
    names = ["X", "W", "R", "B" if bias else "", *extra]
    kinds = {"lengths": (TensorProto.INT32, ["b"])}
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["t", "b", INPUTS])]
    for name in extra:
        if name and name not in tensors:
            kind, shape = kinds.get(name, (TensorProto.FLOAT, [directions, "b", hidden]))
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
    outs = ["Y", "Y_h", "Y_c"][:outputs]
    node = helper.make_node(operator, names, outs, hidden_size=hidden, **attributes)
    shown = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outs]
    initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph([node], "one", inputs, shown, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def joined(y: np.ndarray) -> np.ndarray:
    """(T, D, B, H) → (T, B, D·H)."""
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def finals(module: Any, x: np.ndarray, **options: Any) -> tuple[Any, list[np.ndarray]]:
    """The output and the final states of whatever `load` gave."""
    with torch.no_grad():
        if isinstance(module, Stack):
            out, (state,) = module.run(torch.from_numpy(x), **options)
        else:
            out, state = module(torch.from_numpy(x), **options)
    return out, [part.numpy() for part in (state if isinstance(state, tuple) else (state,))]


# the published cases


@functools.cache
def published() -> dict[str, Any]:
    from onnx.backend.test.case import node

    for operator in BLOCKS:  # a module of cases makes them when it is imported; those of all operators take long
        importlib.import_module(f"{node.__name__}.{operator.lower()}")
    cases = node._NodeTestCases
    return {case.name: case for case in cases if {one.op_type for one in case.model.graph.node} & set(BLOCKS)}


NAMES = (
    "test_gru_batchwise", "test_gru_bidirectional", "test_gru_defaults", "test_gru_reverse", "test_gru_seq_length",
    "test_gru_with_initial_bias", "test_lstm_batchwise", "test_lstm_bidirectional", "test_lstm_defaults",
    "test_lstm_reverse", "test_lstm_with_initial_bias", "test_lstm_with_peepholes", "test_rnn_seq_length",
    "test_simple_rnn_batchwise", "test_simple_rnn_bidirectional", "test_simple_rnn_defaults",
    "test_simple_rnn_reverse", "test_simple_rnn_with_initial_bias",
)  # fmt: skip


def test_no_published_case_is_left_out() -> None:
    assert sorted(published()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_published_case(name: str, tmp_path: Path) -> None:
    """The case's own weights as constants of the file, its input and its state as what the module is called with."""
    model = onnx.ModelProto()
    model.CopyFrom(published()[name].model)
    given, wanted = published()[name].data_sets[0]
    node = model.graph.node[0]
    arrays = dict(zip([value.name for value in model.graph.input], given, strict=True))
    for key in ("W", "R", "B", "P"):
        if key in arrays:
            model.graph.initializer.append(numpy_helper.from_array(arrays[key], key))
    onnx.save(model, tmp_path / "case.onnx")
    if name == "test_lstm_with_peepholes":
        with pytest.raises(ConvertError, match=r"P \(peepholes\): expected none, or zeros"):
            convert.load(tmp_path / "case.onnx")
        return
    module = convert.load(tmp_path / "case.onnx")
    batch_first = any(a.name == "layout" and a.i == 1 for a in node.attribute)
    out, state = finals(module, arrays["X"])
    for output, want in zip([one for one in node.output if one], wanted, strict=True):
        if output == "Y":
            assert_same(out, want.reshape(*want.shape[:2], -1) if batch_first else joined(want))
        else:
            have = state[0 if output == "Y_h" else 1]
            assert_same(have, want.swapaxes(0, 1) if batch_first else want)


# ONNX Runtime on random weights


@pytest.mark.parametrize("operator", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_node_of_random_weights(operator: str, direction: str, bias: bool, tmp_path: Path) -> None:
    directions = 2 if direction == "bidirectional" else 1
    names = ("lengths", "h0", "c0") if operator == "LSTM" else ("lengths", "h0")
    options: dict[str, Any] = {"linear_before_reset": 1} if operator == "GRU" else {}
    if operator == "RNN":
        options["activations"] = ["Relu"] * directions
    path = node_model(
        tmp_path / "node.onnx", operator, directions, bias=bias, extra=names, direction=direction,
        outputs=3 if operator == "LSTM" else 2, **options,
    )  # fmt: skip
    module = convert.load(path)
    x = np.swapaxes(features(), 0, 1).copy()
    lengths = np.array([6, 2, 5, 1], np.int32)
    initial = [draw(directions, 4, HIDDEN) for _ in names[1:]]
    y, *last = run(path, {"X": x, "lengths": lengths, **dict(zip(names[1:], initial, strict=True))})
    hx: Any = tuple(map(torch.from_numpy, initial)) if operator == "LSTM" else torch.from_numpy(initial[0])
    out, state = finals(module, x, hx=[hx] if isinstance(module, Stack) else hx, lengths=lengths)
    assert_same(out, joined(y))
    assert_same(state, last)


@pytest.mark.parametrize("after", [0, 1])
def test_where_the_reset_stands(after: int, tmp_path: Path) -> None:
    path = node_model(tmp_path / "gru.onnx", "GRU", linear_before_reset=after)
    module = convert.load(path)
    assert module.reset_after is bool(after)
    x = np.swapaxes(features(), 0, 1).copy()
    assert_same(finals(module, x)[0], joined(run(path, {"X": x})[0]))


def test_batch_first_by_layout(tmp_path: Path) -> None:
    """ONNX Runtime refuses layout 1: the same weights with layout 0 are the truth."""
    path = node_model(tmp_path / "a.onnx", "LSTM", layout=0)
    model = onnx.load(path)
    next(one for one in model.graph.node[0].attribute if one.name == "layout").i = 1
    onnx.save(model, tmp_path / "b.onnx")
    module = convert.load(tmp_path / "b.onnx")
    assert module.batch_first
    want = joined(run(path, {"X": np.swapaxes(features(), 0, 1).copy()})[0])
    assert_same(finals(module, features())[0], np.swapaxes(want, 0, 1))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"clip": 2.0}, "clip: expected no clipping"),
        ({"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "activations: expected Sigmoid, Tanh, Tanh"),
        ({"activations": ["Sigmoid", "Tanh", "Relu"]}, "activations"),
        ({"input_forget": 1}, "input_forget"),
        ({"direction": "sideways"}, "direction: expected forward, reverse or bidirectional"),
    ],
)
def test_attributes_that_we_cannot_compute(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    path = node_model(tmp_path / "node.onnx", "LSTM", **options)
    with pytest.raises(ConvertError, match=named):
        convert.load(path)


def test_peepholes_are_refused_unless_they_are_zero(tmp_path: Path) -> None:
    extra = ("", "", "", "P")
    path = node_model(tmp_path / "a.onnx", "LSTM", extra=extra, constants={"P": draw(1, 3 * HIDDEN)})
    with pytest.raises(ConvertError, match="peepholes"):
        convert.load(path)
    convert.load(node_model(tmp_path / "b.onnx", "LSTM", extra=extra, constants={"P": np.zeros((1, 9), np.float32)}))


def test_constants_that_freeze_a_state_or_lengths(tmp_path: Path) -> None:
    state = {"h0": draw(1, 4, HIDDEN)}
    path = node_model(tmp_path / "a.onnx", "GRU", extra=("", "h0"), constants=state)
    with pytest.raises(ConvertError, match="initial_h: expected zeros or an input"):
        convert.load(path)
    lengths = {"lengths": np.array([2, 2, 1, 1], np.int32)}
    path = node_model(tmp_path / "b.onnx", "GRU", extra=("lengths",), constants=lengths)
    with pytest.raises(ConvertError, match="sequence_lens: expected an input"):
        convert.load(path)
    convert.load(
        node_model(tmp_path / "c.onnx", "GRU", extra=("", "h0"), constants={"h0": np.zeros((1, 4, 3), np.float32)})
    )


@pytest.mark.parametrize("key", ["W", "R", "B"])
def test_a_wrong_shape_names_the_tensor(key: str, tmp_path: Path) -> None:
    path = node_model(tmp_path / "node.onnx", "LSTM", constants={key: draw(1, 7, 3)})
    with pytest.raises(ConvertError, match=rf"{key}: expected \(1, "):
        convert.load(path)


# our layers in ONNX Runtime


@pytest.mark.parametrize("cell", ["rnn", "relu", "lstm", "gru", "gru before", "gru single", "lstm single"])
@pytest.mark.parametrize("lengths", [False, True])
def test_our_layers_in_onnx_runtime(cell: str, lengths: bool, tmp_path: Path) -> None:
    layer = layer_of(cell, "both ways")
    path = tmp_path / "layer.onnx"
    convert.save(layer, path, lengths=lengths)
    hx = states(layer)
    parts = hx if isinstance(hx, tuple) else (hx,)
    feed = {"input": features()} | dict(zip(("initial_h", "initial_c"), [p.numpy() for p in parts], strict=False))
    rows = [6, 3, 1, 5]
    if lengths:
        feed["lengths"] = np.array(rows, np.int32)
        back = convert.load(path)
        want = back(torch.from_numpy(features()), hx, lengths=rows)
    else:
        want = layer(torch.from_numpy(features()), hx)
    assert_same(run(path, feed), want)
    assert_bits(weights(convert.load(path)), weights(convert.load(path)))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "gru before"])
def test_round_trip_to_the_last_bit(cell: str, tmp_path: Path) -> None:
    layer = layer_of(cell, "both ways")
    convert.save(layer, tmp_path / "a.onnx")
    back = convert.load(tmp_path / "a.onnx", nonlinearity="tanh")
    assert_bits(weights(back), weights(layer))
    assert back.batch_first == layer.batch_first


def test_a_node_is_one_node_and_sizes_stay_open(tmp_path: Path) -> None:
    layer = layer_of("gru", "both ways")
    convert.save(layer, tmp_path / "gru.onnx")
    model = onnx.load(tmp_path / "gru.onnx")
    nodes = [node for node in model.graph.node if node.op_type == "GRU"]
    assert len(nodes) == 2
    for node in nodes:
        given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        assert given["linear_before_reset"] == 1
        assert given["direction"] == b"bidirectional"
        assert "layout" not in given
        assert node.input[3].endswith(".B")  # a node without biases has been run wrong elsewhere
    x = features(rows=2, steps=9)
    zeros = np.zeros((4, 2, HIDDEN), np.float32)
    assert_same(run(tmp_path / "gru.onnx", {"input": x, "initial_h": zeros})[0], layer(torch.from_numpy(x))[0])


def test_a_projection_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"weight_hr \(2, 3\): expected no projection"):
        convert.save(layer_of("lstm projected"), tmp_path / "layer.onnx")
    assert not list(tmp_path.iterdir())


def test_a_layer_inside_a_graph_of_someone_else(tmp_path: Path) -> None:
    """`add_layer` is what `unrolled export` builds its graphs with."""
    layer = layer_of("lstm", "both ways")
    graph = Graph()
    out, last = add_layer(graph, layer, "x", prefix="encoder.", lengths="n", state=("h", "c"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", "b", INPUTS])]
    inputs += [helper.make_tensor_value_info("n", TensorProto.INT32, ["b"])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, "b", HIDDEN]) for name in "hc"]
    outs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (out, *last)]
    made = helper.make_graph(graph.nodes, "whole", inputs, outs, graph.initializers)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    hx, rows = states(layer), [6, 4, 2, 1]
    feed = {"x": np.swapaxes(features(), 0, 1).copy(), "n": np.array(rows, np.int32)}
    feed |= {"h": hx[0].numpy(), "c": hx[1].numpy()}
    convert.save(layer, tmp_path / "own.safetensors", "unrolled")
    same = convert.load(tmp_path / "own.safetensors")
    want, state = same(torch.from_numpy(features()), hx, lengths=rows)
    assert_same(run(tmp_path / "m.onnx", feed), (want.transpose(0, 1), state))


# whole stacks, and files of other exporters


def test_a_stack_there_and_back(tmp_path: Path) -> None:
    torch.manual_seed(1)
    state = {"embedding.weight": torch.randn(7, 4)}
    state |= {
        f"recurrent.{name}": torch.randn_like(v) for name, v in nn.GRU(4, 3, 2, bidirectional=True).state_dict().items()
    }
    state |= {"output.weight": torch.randn(2, 6), "output.bias": torch.randn(2)}
    torch.save(state, tmp_path / "model.pt")
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 1]])
    for head in ("every", "last"):
        stack = convert.load(tmp_path / "model.pt", head=head)
        convert.save(stack, tmp_path / "model.onnx")
        want = stack(torch.from_numpy(ids))
        assert want.shape == ((2, 4, 2) if head == "every" else (2, 2))
        assert_same(run(tmp_path / "model.onnx", {"input": ids}), [want])
        assert_same(convert.load(tmp_path / "model.onnx")(torch.from_numpy(ids)), want)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("shape", ["two layers", "both ways"])
def test_what_torch_exports(cell: str, shape: str, tmp_path: Path) -> None:
    """torch's own exporter builds the initial state from shapes; its graph must still be read."""
    layer = layer_of(cell, shape)
    path = tmp_path / "model.onnx"
    axes = {"x": {0: "b", 1: "t"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            layer, (torch.from_numpy(features()),), path, input_names=["x"], dynamic_axes=axes, dynamo=False
        )
    module = convert.load(path)
    assert_bits(weights(module), weights(layer))
    assert_same(module(torch.from_numpy(features()))[0], layer(torch.from_numpy(features()))[0])


@pytest.mark.parametrize("width", [INPUTS, 2])
def test_a_dense_layer_before_a_recurrent_one_is_read(width: int, tmp_path: Path) -> None:
    """The input that is drawn for the check is as wide as the dense layer takes it, not as the LSTM does."""
    torch.manual_seed(2)
    dense, lstm = nn.Linear(INPUTS, width), nn.LSTM(width, 4)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        x = torch.from_numpy(features())
        model, axes = nn.Sequential(dense, nn.Tanh(), lstm), {"x": {0: "t", 1: "b"}}
        torch.onnx.export(model, (x,), tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes, dynamo=False)
        module = convert.load(tmp_path / "m.onnx", verify=True)
        assert_same(module(x), lstm(torch.tanh(dense(x)))[0])
    with pytest.raises(ConvertError, match=r"part 0: expected dense layers after.*in ONNX files.*Choose keras"):
        convert.save(module, tmp_path / "again.onnx")


def test_operators_beside_the_stack_are_refused(tmp_path: Path) -> None:
    path = node_model(tmp_path / "a.onnx", "LSTM")
    model = onnx.load(path)
    model.graph.node.append(helper.make_node("Sin", ["Y"], ["Z"]))
    model.graph.output.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, None))
    onnx.save(model, path)
    with pytest.raises(ConvertError, match="an operator of a plain stack, found Sin"):
        convert.load(path)


def test_weights_in_another_file_are_refused(tmp_path: Path) -> None:
    path = node_model(tmp_path / "a.onnx", "LSTM")
    onnx.save(onnx.load(path), tmp_path / "b.onnx", save_as_external_data=True, size_threshold=0, location="weights")
    with pytest.raises(ConvertError, match="weights in this file"):
        convert.load(tmp_path / "b.onnx")


def test_verify_runs_onnx_runtime(tmp_path: Path) -> None:
    report = convert.save(layer_of("gru", "both ways"), tmp_path / "gru.onnx", verify=True)
    assert report.verified["onnx"] < 1e-6
