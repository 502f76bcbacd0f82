"""The exported file against the runtime, by ONNX Runtime: several sizes, unequal lengths, states that are not zero.

Axes     B batch, T time. The truth is the runtime, which is held against PyTorch by tests.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from unrolled.convert.spec import ConvertError
from unrolled.convert.task_graph import KEY
from unrolled.data.reading import SideBySide
from unrolled.errors import expected, require

__all__ = ["TOLERANCE", "Arrays", "Checked", "check", "difference", "in_pieces", "open_session", "run"]

TOLERANCE = 1e-5  # of numbers up to 1; of larger ones, this share
SIZES = ((1, 1), (3, 9), (2, 5), (4, 17))  # (B, T)

Arrays = dict[str, np.ndarray]


class Checked(NamedTuple):
    """What a check found."""

    largest: float  # difference
    sizes: tuple[tuple[int, int], ...]
    streamed: bool  # whether chunks through the map of states were compared as well


def check(proto: Any, model: Any) -> Checked:
    """Run the file.

    Raises:
        ConvertError: a number differs by more than `TOLERANCE`; says which output, on which size, and by how much.
    """
    session = open_session(proto.SerializeToString())
    about = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
    rng, largest = np.random.default_rng(0), 0.0
    for rows, steps in SIZES:
        given = inputs_of(session, about, model, rng, rows, steps)
        largest = max(largest, difference(run(session, given), truth(model, given), f"batch {rows}, time {steps}"))
    if about["streaming"]:
        given = inputs_of(session, about, model, rng, 3, 8)
        whole, pieces = run(session, given), in_pieces(session, about, given, (3, 1, 4))
        largest = max(largest, difference(pieces, whole, "three chunks through the map of states"))
    return Checked(largest, SIZES, bool(about["streaming"]))


def open_session(content: bytes) -> Any:
    """ONNX Runtime on one thread."""
    runtime = require("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(session: Any, given: Arrays) -> Arrays:
    """Outputs by name."""
    return dict(zip((out.name for out in session.get_outputs()), session.run(None, given), strict=True))


def inputs_of(session: Any, about: dict[str, Any], model: Any, rng: Any, rows: int, steps: int) -> Arrays:
    """Random inputs: one row full, one empty where there are three, states as after earlier chunks."""
    lengths = rng.integers(1, steps + 1, rows)
    lengths[0] = steps
    if rows > 2:
        lengths[-1] = 0
    given: Arrays = {"lengths": lengths}
    sizes = {"batch": rows, "time": steps, "letters": 6, "horizon": 4}
    states = {one["input"]: one for one in about["states"]}
    for info in session.get_inputs():
        shape = [sizes.get(axis, axis) for axis in info.shape]
        name = info.name
        if name in states:
            given[name] = _state(name, shape, rng)
        elif name == "series":
            given[name] = rng.integers(0, len(about["series"]), shape)
        elif model.task == "forecast" and name != "lengths":
            given[name] = rng.normal(size=shape).astype(np.float32)
        elif name == "features":
            scaler = model.reading.scaler
            given[name] = (rng.normal(size=shape) * scaler.scale + scaler.mean).astype(np.float32)
        elif name == "widths":
            given[name] = rng.integers(0, sizes["letters"] + 1, shape)
        elif name != "lengths":
            vocabulary = model.reading.letters if name == "letters" else model.reading.vocabulary
            given[name] = rng.integers(0, len(vocabulary), shape)
    return given


def _state(name: str, shape: list[int], rng: Any) -> np.ndarray:
    if name == "steps":
        return rng.integers(1, 9, shape)
    values = rng.normal(size=shape).astype(np.float32)
    return np.abs(values) + 1 if name == "pool_weight" else values


def in_pieces(session: Any, about: dict[str, Any], given: Arrays, sizes: tuple[int, ...]) -> Arrays:
    """The same in chunks of time, each fed the states that the one before gave: a loop that reads only the metadata."""
    states = {one["input"]: given[one["input"]] for one in about["states"]}
    timed = [info.name for info in session.get_inputs() if "time" in info.shape]
    start, scores, result = 0, [], Arrays()
    for size in sizes:
        chunk = {name: given[name][:, start : start + size] for name in timed}
        chunk["lengths"] = np.clip(given["lengths"] - start, 0, size)
        result = run(session, given | chunk | states)
        states = {one["input"]: result[one["output"]] for one in about["states"]}
        scores.append(result["scores"])
        start += size
    if "time" in next(out.shape for out in session.get_outputs() if out.name == "scores"):
        result["scores"] = np.concatenate(scores, axis=1)
    return result


def truth(model: Any, given: Arrays) -> Arrays:
    """What the runtime says of the same inputs."""
    if model.task == "forecast":
        return _forecast(model, given)
    body, lengths = model.body, given["lengths"]
    inputs = given["features"] if model.features else given["ids"]
    side = SideBySide(inputs, lengths, given.get("letters"), given.get("widths"))
    state = tuple(given[name] for name in "hc" if name in given)
    out, after = body.recurrent.run(body.inputs.vectors(side), state, lengths)
    found: Arrays = {f"{name}_out": part for name, part in zip("hc", after, strict=False)}
    if model.task == "classify":
        pooled, more = _pooled(model, given, out, after[0])
        return found | more | {"scores": model.output(pooled.astype(np.float32))}
    scores = model.output(out) if model.task == "tag" else model.logits(out)
    return found | {"scores": np.swapaxes(scores, 0, 1)}


def _forecast(model: Any, given: Arrays) -> Arrays:
    """The raw numbers of a forecaster."""
    network, lengths = model.network, given["lengths"]
    features = given["features"]
    features = np.where((np.arange(features.shape[1]) < lengths[:, None])[..., None], features, 0)
    state = tuple(given[name] for name in "hc" if name in given)
    out, after = network.read(features, given.get("series", np.zeros(len(features), np.int64)), state, lengths)
    raw = network.look_ahead(after[0][-1], given["ahead"]) if network.is_direct else network.say(out, features)
    return {f"{name}_out": part for name, part in zip("hc", after, strict=False)} | {"scores": raw}


def _pooled(model: Any, given: Arrays, out: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, Arrays]:
    """The pooled vectors, and the sums of a model of one direction."""
    lengths = given["lengths"]
    if model.body.recurrent.shape.bidirectional:
        return model.pool(out, h, lengths), {}
    steps = np.minimum(np.arange(1, len(out) + 1)[:, None], lengths) + given["steps"]
    sums = {name: given[f"pool_{name}"].astype(np.float64) for name in model.pooling.NAMES}
    sums = {name: part[:, 0] if name in ("largest", "weight") else part for name, part in sums.items()}
    valid = np.arange(len(out))[:, None] < lengths
    if model.pooling.NAMES:
        pooled = model.pooling.running(out, valid, sums, steps)[-1]
    else:
        pooled = h[-1]
    more = {f"pool_{name}_out": part[:, None] if part.ndim == 1 else part for name, part in sums.items()}
    return pooled, more | {"steps_out": given["steps"] + lengths}


def difference(found: Arrays, wanted: Arrays, where: str) -> float:
    """The largest, of numbers up to 1; of larger ones, the share.

    Raises:
        ConvertError: it is above `TOLERANCE`.
    """
    largest = 0.0
    for name, right in wanted.items():
        got = found[name]
        if got.shape != right.shape:
            raise ConvertError(
                expected(f"{name} on {where}", right.shape, got.shape, "The export is wrong: report it.")
            )
        scale = max(1.0, float(np.abs(right).max(initial=0)))
        error = float(np.abs(got.astype(np.float64) - right).max(initial=0)) / scale
        if not error <= TOLERANCE:
            wanted_text = f"the runtime's numbers to {TOLERANCE:g}"
            raise ConvertError(expected(f"{name} on {where}", wanted_text, f"a difference of {error:.2e}"))
        largest = max(largest, error)
    return largest
