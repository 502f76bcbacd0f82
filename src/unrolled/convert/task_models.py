"""The graphs of a classifier, a tagger, a language model and a forecaster; `convert.task_graph` has what they share.

Axes     inside a graph time comes first, (T, B, …), as the recurrent nodes have it; inputs and outputs are batch first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.convert.task_graph import LOWEST, TaskGraph

__all__ = ["classifier", "forecaster", "language_model", "tagger"]

WHOLE = "The model is bidirectional: its backward direction starts at the end, so a chunk is not a part of the whole."


def classifier(model: Any, made: TaskGraph) -> Any:
    """Scores (batch, classes)."""
    out, h, lengths, valid = _body(model, made)
    one_way = not model.body.recurrent.shape.bidirectional
    pooled = (_pooled_so_far if one_way else _pooled)(model, made, out, h, lengths, valid)
    made.output(made.linear(pooled, "output."), "scores", ["batch", len(model.labels)])
    return made.model("classifier", _about(model) | {"labels": list(model.labels.tokens)})


def tagger(model: Any, made: TaskGraph) -> Any:
    """Scores (batch, time, tags); those of neighbouring tags stand in the metadata."""
    out, _, _, _ = _body(model, made)
    scores = made.linear(made.node("Transpose", out, perm=[1, 0, 2]), "output.")
    made.output(scores, "scores", ["batch", "time", len(model.tags)])
    about = _about(model) | {"tags": list(model.tags.tokens)}
    if "crf.start" in made.tensors:
        parts = ("start", "transitions", "end")
        about["crf"] = {name: made.tensors[f"crf.{name}"].tolist() for name in parts}
    return made.model("tagger", about)


def language_model(model: Any, made: TaskGraph) -> Any:
    """Scores (batch, time, vocabulary) of the token behind each step."""
    out, _, _, _ = _body(model, made)
    weight = made.tensors.get("output_weight", made.tensors["inputs.embedding.weight"])
    x = made.node("Transpose", out, perm=[1, 0, 2])
    x = made.node("MatMul", x, made.constant("output_weight_T", weight.T))
    scores = made.node("Add", x, made.tensor("output_bias"))
    made.output(scores, "scores", ["batch", "time", len(model.vocabulary)])
    return made.model("language_model", _about(model) | {"independent": model.independent})


def forecaster(model: Any, made: TaskGraph) -> Any:
    """Raw numbers of one output: (batch, time, R), or (batch, horizon, R) of a direct head.

    `features` (batch, time, F) are the numbers of `decoding.forecasting.Layout.step`, in units of the scale of a
    series; `ahead` (batch, horizon, A) those of `Layout.horizon`. The plan in the metadata says what they are.
    """
    network, layout = model.network, model.plan.layout
    given = made.input("features", ["batch", "time", layout.width])
    lengths = made.lengths()
    x = made.node("Transpose", given, perm=[1, 0, 2])
    seen = made.node("Where", made.valid(x, lengths[0]), x, made.constant("nothing", np.float32(0)))
    x = seen if network.vectors is None else made.node("Concat", seen, _own_vector(made, seen), axis=-1)
    out, h = made.recurrent(x, "recurrent.", model.recipe, lengths)
    if network.is_direct:
        raw, axis = _ahead(made, h, layout.ahead, bool(model.recipe["skip"])), "horizon"
    else:
        raw, axis = made.linear(made.node("Transpose", out, perm=[1, 0, 2]), "output."), "time"
        if model.recipe["skip"]:
            line = made.linear(made.node("Transpose", seen, perm=[1, 0, 2]), "skip.", bias=False)
            raw = made.node("Add", raw, line)
    made.output(raw, "scores", ["batch", axis, layout.outputs])
    head = "direct" if network.is_direct else "autoregressive"
    about = {"task": model.task, "streaming": True, "head": head, "series": list(model.plan.scaler.ids)}
    return made.model("forecaster", about | {"plan": model.plan.to_dict()})


def _own_vector(made: TaskGraph, x: str) -> str:
    """(T, B, E): the vector of each row's series, at every step of x (T, B, F)."""
    own = made.node("Gather", made.tensor("embedding.weight"), made.input("series", ["batch"], "INT64"))
    steps = made.node("Slice", made.node("Shape", x), made.ints(0), made.ints(1))
    shape = made.node("Concat", steps, made.ints(1, 1), axis=0)
    return made.node("Expand", made.node("Unsqueeze", own, made.ints(0)), shape)


def _ahead(made: TaskGraph, h: str, width: int, skip: bool) -> str:
    """The direct head, of the state after each row's last step: (batch, horizon, R)."""
    top = made.node("Gather", h, made.constant("last", np.array(-1, np.int64)), axis=0)
    state = made.node("Unsqueeze", made.linear(top, "mix_state."), made.ints(1))
    ahead = made.input("ahead", ["batch", "horizon", width])
    mixed = made.node("Relu", made.node("Add", state, made.linear(ahead, "mix_ahead.", bias=False)))
    raw = made.linear(mixed, "output.")
    return made.node("Add", raw, made.linear(ahead, "skip.", bias=False)) if skip else raw


def _about(model: Any) -> dict[str, Any]:
    """What a caller needs beside the graph."""
    bidirectional = model.body.recurrent.shape.bidirectional
    about: dict[str, Any] = {"task": model.task, "streaming": not bidirectional}
    if bidirectional:
        about["why"] = WHOLE
    reading = model.reading.to_dict()
    return about | {"reading": {name: part for name, part in reading.items() if name != "scaler" and part is not None}}


def _body(model: Any, made: TaskGraph) -> tuple[str, str, str, str]:
    """Inputs and recurrent layers: the output (T, B, D·H), h (L·D, B, H), the lengths, the valid steps (T, B, 1)."""
    reading = model.reading
    x = made.vectors(reading, "time")
    if reading.letters is not None:
        x = made.node("Concat", x, made.letters("inputs.characters."), axis=-1)
    lengths = made.lengths()
    valid = made.valid(x, lengths[0])
    if reading.scaler is not None:
        x = made.scaled(x, valid)
    out, h = made.recurrent(x, "recurrent.", model.recipe, lengths)
    return out, h, lengths[0], valid


def _attention(made: TaskGraph, out: str) -> str:
    """(T, B, 1): the score of each step."""
    return made.linear(made.node("Tanh", made.linear(out, "attention.hidden.")), "attention.query.", bias=False)


def _unless(made: TaskGraph, count: str, x: str) -> str:
    """x (B, H), but 0 in rows that have read nothing."""
    empty = made.node("Equal", made.node("Unsqueeze", count, made.ints(1)), made.constant("zero", np.array(0)))
    return made.node("Where", empty, made.constant("nothing", np.float32(0)), x)


def _mean(made: TaskGraph, total: str, count: str) -> str:
    least = made.node("Max", count, made.constant("one", np.array(1, np.int64)))
    steps = made.node("Cast", made.node("Unsqueeze", least, made.ints(1)), to=made.onnx.TensorProto.FLOAT)
    return made.node("Div", total, steps)


def _largest(made: TaskGraph, x: str, valid: str) -> str:
    """(B, H): the largest of the valid steps, the lowest number where there are none."""
    lowest = made.constant("lowest", np.float32(LOWEST))
    return made.node("ReduceMax", made.node("Where", valid, x, lowest), axes=[0], keepdims=0)


def _pooled(model: Any, made: TaskGraph, out: str, h: str, lengths: str, valid: str) -> str:
    """(B, 2·H) of both directions, over whole sequences."""
    pooling = model.recipe["pooling"]
    if pooling == "last":
        top = made.node("Slice", h, made.ints(-2), made.ints(np.iinfo(np.int64).max), made.ints(0))
        width = model.body.recurrent.width
        joined = made.node("Reshape", made.node("Transpose", top, perm=[1, 0, 2]), made.ints(-1, width))
        return _unless(made, lengths, joined)
    if pooling == "mean":
        return _mean(made, made.node("ReduceSum", out, made.ints(0), keepdims=0), lengths)
    if pooling == "max":
        return _unless(made, lengths, _largest(made, out, valid))
    scores = made.node("Where", valid, _attention(made, out), made.constant("lowest", np.float32(LOWEST)))
    weights = made.node("Softmax", scores, axis=0)
    return _unless(made, lengths, made.node("ReduceSum", made.node("Mul", weights, out), made.ints(0), keepdims=0))


def _pooled_so_far(model: Any, made: TaskGraph, out: str, h: str, lengths: str, valid: str) -> str:
    """(B, H) of one direction, over this chunk and all before it."""
    pooling, width = model.recipe["pooling"], model.body.recurrent.width
    count = made.node("Add", made.state("steps", ["batch"], 0, "INT64"), lengths)
    made.leave("steps", count)
    if pooling == "last":
        top = made.node("Slice", h, made.ints(-1), made.ints(np.iinfo(np.int64).max), made.ints(0))
        return _unless(made, count, made.node("Squeeze", top, made.ints(0)))
    if pooling == "mean":
        total = made.state("pool_sum", ["batch", width])
        total = made.node("Add", total, made.node("ReduceSum", out, made.ints(0), keepdims=0))
        made.leave("pool_sum", total)
        return _mean(made, total, count)
    if pooling == "max":
        largest = made.node("Max", made.state("pool_max", ["batch", width], LOWEST), _largest(made, out, valid))
        made.leave("pool_max", largest)
        return _unless(made, count, largest)
    return _unless(made, count, _attended_so_far(made, out, valid, width))


def _attended_so_far(made: TaskGraph, out: str, valid: str, width: int) -> str:
    """(B, H): a new largest score scales down what was summed before."""
    scores = made.node("Where", valid, _attention(made, out), made.constant("lowest", np.float32(LOWEST)))
    before = {name: made.state(f"pool_{name}", ["batch", size], first) for name, size, first in (
        ("largest", 1, LOWEST), ("weight", 1, 0.0), ("sum", width, 0.0))}  # fmt: skip
    largest = made.node("Max", before["largest"], made.node("ReduceMax", scores, axes=[0], keepdims=0))
    scale = made.node("Exp", made.node("Sub", before["largest"], largest))
    weights = made.node(
        "Where", valid, made.node("Exp", made.node("Sub", scores, largest)), made.constant("nothing", np.float32(0))
    )
    added = {
        "weight": made.node("ReduceSum", weights, made.ints(0), keepdims=0),
        "sum": made.node("ReduceSum", made.node("Mul", weights, out), made.ints(0), keepdims=0),
    }
    made.leave("pool_largest", largest)
    after = {}
    for name, more in added.items():
        after[name] = made.node("Add", made.node("Mul", before[name], scale), more)
        made.leave(f"pool_{name}", after[name])
    return made.node("Div", after["sum"], made.node("Max", after["weight"], made.constant("tiny", np.float32(1e-30))))
