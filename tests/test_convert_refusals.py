"""Files whose numbers could be read, but not their network: each is refused by name, and its near twin is read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from oracles.frameworks import HIDDEN, INPUTS, assert_same, features
from unrolled import convert
from unrolled.convert import ConvertError

X = np.swapaxes(features(), 0, 1).copy()  # (T, B, I)
BLOCKS = {"GRU": 3, "LSTM": 4}
Node = tuple[str, Sequence[str], str, dict[str, Any]]


def weights(operator: str, layer: int) -> dict[str, np.ndarray]:
    rng, wide = np.random.default_rng(layer), BLOCKS[operator] * HIDDEN
    shapes = {"W": (1, wide, HIDDEN if layer else INPUTS), "R": (1, wide, HIDDEN), "B": (1, 2 * wide)}
    return {f"{key}{layer}": rng.normal(0, 0.6, shape).astype(np.float32) for key, shape in shapes.items()}


def two_layers(
    path: Path, *, nodes: Sequence[Node] = (), lengths: Sequence[str] = ("", ""), h: Sequence[str] = ("", ""),
    c: str = "", inputs: Sequence[str] = (), constants: dict[str, Any] | None = None, operator: str = "GRU",
) -> Path:  # fmt: skip
    """Two recurrent nodes, with what stands beside the second's and the first's input; `nodes` come before both.

    Nodes that need the first layer's states (Y_h0, Y_c0) are put between the two.
    """
    extra: dict[str, Any] = {"linear_before_reset": 1} if operator == "GRU" else {}
    tensors = weights(operator, 0) | weights(operator, 1) | {"one": np.array([1], np.int64)} | (constants or {})
    made = []
    for layer, x in enumerate(("X", "y0")):
        given = [x, *(f"{key}{layer}" for key in "WRB"), lengths[layer], h[layer], c if layer else ""]
        outs = [f"{name}{layer}" for name in (("Y_", "Y_h", "Y_c") if operator == "LSTM" else ("Y_", "Y_h"))]
        made.append(helper.make_node(operator, given[: 7 if operator == "LSTM" else 6], outs, name=f"layer {layer}",
                                     hidden_size=HIDDEN, **extra))  # fmt: skip
        made.append(helper.make_node("Squeeze", [outs[0], "one"], [f"y{layer}"]))
    beside = [helper.make_node(kind, list(given), [out], **options) for kind, given, out, options in nodes]
    late = any("Y_" in name for _, given, _, _ in nodes for name in given)
    made = [*made[:2], *beside, *made[2:]] if late else [*beside, *made]
    shapes = {"L": (TensorProto.INT32, ["b"]), "M": (TensorProto.INT32, ["b"])}
    state = (TensorProto.FLOAT, [None, "b", HIDDEN])
    infos = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["t", "b", INPUTS])]
    infos += [helper.make_tensor_value_info(name, *shapes.get(name, state)) for name in inputs]
    out = helper.make_tensor_value_info("y1", TensorProto.FLOAT, ["t", "b", HIDDEN])
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()]
    graph = helper.make_graph(made, "two", infos, [out], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def truth(path: Path, **feed: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X, **feed})[0]


def outcome(path: Path, x: np.ndarray = X, **options: Any) -> torch.Tensor:
    """What the module that is read gives, time-major where its input is."""
    module = convert.load(path)
    out = module(torch.from_numpy(x), **options)
    return out[0] if isinstance(out, tuple) else out


def said(path: Path, **options: Any) -> str:
    with pytest.raises(ConvertError) as caught:
        convert.load(path, **options)
    return str(caught.value)


# states

NUMBERS = {"two": np.array([2], np.int64), "zero": np.array([0], np.int64), "five": np.array([HIDDEN], np.int64)}
H0 = {"h0": np.full((1, 1, HIDDEN), 0.5, np.float32)}
SHAPE: list[Node] = [
    ("Shape", ["X"], "s", {}),
    ("Slice", ["s", "one", "two"], "batch", {}),
    ("Concat", ["one", "batch", "five"], "size", {"axis": 0}),
    ("Concat", ["one", "batch", "one"], "times", {"axis": 0}),
]


def filled(value: float) -> Node:
    return ("ConstantOfShape", ["size"], "begin", {"value": helper.make_tensor("v", TensorProto.FLOAT, [1], [value])})


MADE: dict[str, list[Node]] = {
    "expanded": [*SHAPE, ("Expand", ["h0", "size"], "begin", {})],
    "tiled": [*SHAPE, ("Tile", ["h0", "times"], "begin", {})],
    "joined": [("Concat", ["h0"] * 4, "begin", {"axis": 1})],
    "unsqueezed": [("Squeeze", ["h0", "zero"], "flat", {}), ("Expand", ["flat", "five"], "wide", {}),
                   ("Unsqueeze", ["wide", "zero"], "begin", {})],
    "reshaped": [("Reshape", ["h0", "five"], "flat", {}), *SHAPE, ("Expand", ["flat", "size"], "begin", {})],
    "cast": [("Cast", ["h0"], "as", {"to": TensorProto.FLOAT}), *SHAPE, ("Expand", ["as", "size"], "begin", {})],
}  # fmt: skip


@pytest.mark.parametrize("how", [*MADE, "filled"])
def test_a_state_made_of_constants(how: str, tmp_path: Path) -> None:
    """As exporters write a learned initial state: refused, and read where the very same nodes make zeros."""
    nodes = MADE.get(how, [*SHAPE, filled(0.5)])
    learned = two_layers(tmp_path / "a.onnx", nodes=nodes, h=("", "begin"), constants=NUMBERS | H0)
    message = said(learned)
    assert "layer 1: initial_h: expected zeros or an input, found 'begin'" in message
    assert "Make it an input of the graph" in message
    if how != "unsqueezed":  # its batch is one row
        nothing = MADE.get(how, [*SHAPE, filled(0.0)])
        zero = {"h0": np.zeros_like(H0["h0"])}
        path = two_layers(tmp_path / "b.onnx", nodes=nothing, h=("", "begin"), constants=NUMBERS | zero)
        assert np.abs(truth(learned) - truth(path)).max() > 0.01
        assert_same(outcome(path), truth(path))


FINALS: dict[str, tuple[str, list[Node], str]] = {
    "c of an LSTM": ("LSTM", [], "Y_c0"),
    "h of an LSTM as c": ("LSTM", [], "Y_h0"),
    "joined": ("GRU", [("Concat", ["Y_h0"], "begin", {"axis": 0})], "begin"),
    "turned": ("GRU", [("Squeeze", ["Y_h0", "zero"], "flat", {}), ("Unsqueeze", ["flat", "zero"], "begin", {})],
               "begin"),
    "renamed": ("LSTM", [("Identity", ["Y_c0"], "begin", {})], "begin"),
    "cut": ("LSTM", [("Slice", ["Y_c0", "zero", "one"], "begin", {})], "begin"),
}  # fmt: skip


@pytest.mark.parametrize("how", FINALS)
def test_a_state_that_another_node_gives_out(how: str, tmp_path: Path) -> None:
    operator, nodes, name = FINALS[how]
    more: dict[str, Any] = {"c": name} if operator == "LSTM" else {"h": ("", name)}
    path = two_layers(tmp_path / "a.onnx", nodes=nodes, constants=NUMBERS, operator=operator, **more)
    message = said(path)
    assert f"layer 1: initial_{'c' if operator == 'LSTM' else 'h'}: expected zeros or an input" in message
    assert name in message or "computed from the data" in message


def cut(first: int, second: int) -> list[Node]:
    """The input H, (2, B, H), as a state for each layer."""
    names = ("zero", "one", "two")
    return [
        ("Slice", ["H", names[row], names[row + 1], "zero"], f"h{layer}", {})
        for layer, row in enumerate((first, second))
    ]


def test_an_input_cut_into_layers(tmp_path: Path) -> None:
    options: dict[str, Any] = {"h": ("h0", "h1"), "inputs": ["H"], "constants": NUMBERS}
    hx = np.random.default_rng(3).normal(size=(2, X.shape[1], HIDDEN)).astype(np.float32)
    path = two_layers(tmp_path / "a.onnx", nodes=cut(0, 1), **options)
    assert_same(outcome(path, hx=torch.from_numpy(hx)), truth(path, H=hx))
    for rows, found in (((1, 0), r"[0] after rows from [1]"), ((1, 1), r"[1] after rows from [1]")):
        message = said(two_layers(tmp_path / "b.onnx", nodes=cut(*rows), **options))
        assert "layer 1: initial_h: expected H cut into layers from first to last" in message
        assert found in message


def test_an_input_that_is_changed_on_its_way(tmp_path: Path) -> None:
    options: dict[str, Any] = {"h": ("", "h1"), "inputs": ["H"], "constants": NUMBERS | {"minus": np.array([-1])}}
    for node in (
        ("Cast", ["H"], "h1", {"to": TensorProto.FLOAT16}),
        ("Slice", ["H", "minus", "two", "zero"], "h1", {}),
        ("Slice", ["H", "zero", "one", "one"], "h1", {}),
    ):
        nodes = [("Slice", ["H", "zero", "two", "zero"], "unused", {}), node]
        message = said(two_layers(tmp_path / "a.onnx", nodes=nodes, **options))
        assert "initial_h: expected zeros or an input, found 'h1'" in message


# lengths

ROWS = np.array([6, 2, 5, 1], np.int32)


def test_lengths_for_every_layer_or_none(tmp_path: Path) -> None:
    path = two_layers(tmp_path / "a.onnx", lengths=("L", "L"), inputs=["L"])
    assert_same(outcome(path, lengths=ROWS), truth(path, L=ROWS))
    wanted = {("L", ""): "L, as in the layer before, found none", ("", "L"): "none, as in the layer before, found L",
              ("L", "M"): "L, as in the layer before, found M"}  # fmt: skip
    for lengths, words in wanted.items():
        inputs = sorted({*lengths} - {""})
        message = said(two_layers(tmp_path / "b.onnx", lengths=lengths, inputs=inputs))
        assert f"layer 1: sequence_lens: expected {words}" in message


def count(value: int) -> Node:
    tensor = helper.make_tensor("v", TensorProto.INT32, [1], [value])
    return ("ConstantOfShape", ["batch"], "lens", {"value": tensor})


def test_lengths_that_the_graph_computes(tmp_path: Path) -> None:
    numbers = NUMBERS | {"m": np.array([2, 2, 2, 2], np.int32)}
    given: list[tuple[list[Node], list[str]]] = [
        ([*SHAPE[:2], count(2)], []),
        ([*SHAPE[:2], count(0)], []),
        ([("Identity", ["m"], "lens", {})], []),
        ([("Add", ["m", "m"], "lens", {})], []),
        ([("Min", ["L", "m"], "lens", {})], ["L"]),
    ]
    for nodes, inputs in given:
        path = two_layers(tmp_path / "a.onnx", nodes=nodes, lengths=("lens", "lens"), inputs=inputs, constants=numbers)
        message = said(path)
        if inputs:
            continue  # an input that Min takes is no lengths; it is refused as a second one
        assert "layer 0: sequence_lens: expected an input of the graph" in message
        assert "or leave it out" in message


def masked(path: Path, *, turned: bool, axis: int, late: bool) -> Path:
    """An embedding of ids (B, T), its lengths counted from the ids; `turned`: from those that are not 0."""
    rng = np.random.default_rng(5)
    tensors = weights("GRU", 1) | {"E": rng.normal(size=(7, HIDDEN)).astype(np.float32)}
    tensors |= {"pad": np.array(0, np.int64), "axis": np.array([axis], np.int64), "one": np.array([1], np.int64)}
    mask = [helper.make_node("Equal", ["ids", "pad"], ["zero"])]
    mask += [helper.make_node("Not", ["zero"], ["valid"])] if turned else []
    mask += [helper.make_node("Cast", ["valid" if turned else "zero"], ["number"], to=TensorProto.INT32)]
    mask += [helper.make_node("ReduceSum", ["number", "axis"], ["lens"], keepdims=0)]
    look = [helper.make_node("Gather", ["E", "ids"], ["x"])]
    rest = [helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
            helper.make_node("GRU", ["turned", "W1", "R1", "B1", "lens"], ["Y", "Y_h"], hidden_size=HIDDEN,
                             linear_before_reset=1),
            helper.make_node("Squeeze", ["Y", "one"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        [*look, *mask, *rest] if late else [*mask, *look, *rest], "masked",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["b", "t"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("late", [False, True])
def test_lengths_counted_from_ids(late: bool, tmp_path: Path) -> None:
    """Wherever the mask stands in the file, it is kept; a count of something else is refused."""
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0]])
    path = masked(tmp_path / "a.onnx", turned=True, axis=1, late=late)
    session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    want = session.run(None, {"ids": ids})[0]
    module = convert.load(path)
    assert module.mask_zero
    assert_same(module(torch.from_numpy(ids)), want.swapaxes(0, 1) if module.batch_first else want)
    assert "the lengths counted from a mask" in said(masked(tmp_path / "b.onnx", turned=False, axis=1, late=late))
    assert "a count along the batch" in said(masked(tmp_path / "c.onnx", turned=True, axis=0, late=late))


def test_the_exporters_of_torch_are_read(tmp_path: Path) -> None:
    """Their graphs begin with an Expand of zeros, or cut the state that they are given."""
    torch.manual_seed(4)
    layer = nn.LSTM(INPUTS, HIDDEN, 2, batch_first=True).eval()
    x = torch.from_numpy(features())
    hx = (torch.randn(2, len(x), HIDDEN), torch.randn(2, len(x), HIDDEN))
    for number, given in enumerate(((x,), (x, hx))):
        path = tmp_path / f"{number}.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(layer, given, path, input_names=["x", "h", "c"][: 1 + 2 * number], dynamo=False,
                              dynamic_axes={"x": {0: "b", 1: "t"}, "h": {1: "b"}, "c": {1: "b"}})  # fmt: skip
        assert_same(convert.load(path)(*given)[0], layer(*given)[0])


# torch's state_dict: where a Linear stands


class Front(nn.Module):
    """A Linear that reads the input; its sizes fit a head as well."""

    def __init__(self, *, bias: bool = True, between: bool = False) -> None:
        super().__init__()
        if between:
            self.rnn0 = nn.GRU(4, 4)
        self.fc = nn.Linear(4, 4, bias=bias)
        self.rnn1 = nn.GRU(4, 4)


@pytest.mark.parametrize("ending", ["pt", "pth", "npz"])
@pytest.mark.parametrize("between", [False, True])
def test_a_linear_before_the_recurrent_layers(between: bool, ending: str, tmp_path: Path) -> None:
    state = Front(between=between).state_dict()
    path = tmp_path / f"a.{ending}"

    def keep() -> None:
        if ending == "npz":
            np.savez(path, **{name: value.numpy() for name, value in state.items()})
        else:
            torch.save(state, path)

    keep()
    message = said(path, source="torch", head="every")
    assert "fc.weight: expected a dense head after the recurrent layers, found one before rnn1." in message
    assert "state['fc.weight'] = state.pop('fc.weight')" in message
    for name in ("fc.weight", "fc.bias"):
        state[name] = state.pop(name)
    keep()
    x = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(1))
    convert.load(path, source="torch", head="every")(x)


def test_a_square_that_is_an_embedding_or_a_linear(tmp_path: Path) -> None:
    state = Front(bias=False).state_dict()
    torch.save(state, tmp_path / "a.pt")
    message = said(tmp_path / "a.pt")
    assert "fc.weight: expected an embedding or a dense head, found a square that may be either" in message
    torch.save({"embedding.weight": state.pop("fc.weight"), **state}, tmp_path / "b.pt")
    stack = convert.load(tmp_path / "b.pt")
    assert stack(torch.tensor([[1, 2, 3]])).shape == (1, 3, 4)
    torch.save({"words.weight": torch.randn(7, 4), **state}, tmp_path / "c.pt")  # as many rows as no layer has inputs
    assert convert.load(tmp_path / "c.pt")(torch.tensor([[1, 6, 3]])).shape == (1, 3, 4)


def test_the_order_of_safetensors_says_nothing(tmp_path: Path) -> None:
    """They are sorted by name: what we wrote ourselves comes back, output before recurrent."""
    state = {f"recurrent.{name}": value for name, value in nn.GRU(4, 4).state_dict().items()}
    state |= {"output.weight": torch.randn(4, 4), "output.bias": torch.randn(4)}
    torch.save(state, tmp_path / "a.pt")
    stack = convert.load(tmp_path / "a.pt", head="last")
    convert.save(stack, tmp_path / "b.safetensors", "torch")
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    assert_same(convert.load(tmp_path / "b.safetensors", "torch", head="last")(x), stack(x))


def test_a_projection_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    state = nn.LSTM(5, 4, proj_size=2).state_dict()
    state["weight_hr_l0"] = torch.ones(2, 3)
    torch.save(state, tmp_path / "a.pt")
    assert "weight_hr_l0: expected (2, 4) (state, hidden), found (2, 3)" in said(tmp_path / "a.pt")
