"""An exported encoder and decoder against the runtime, by ONNX Runtime: each alone, and a target written by both.

Axes     B batch, S source positions. What stands in the padding of a source is NaN, or any id: it must not matter.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from unrolled.convert.task_check import Arrays, Checked, difference, open_session, run
from unrolled.convert.task_graph import KEY
from unrolled.data.reading import SideBySide

__all__ = ["Step", "check"]

SIZES = ((1, 1), (3, 9), (4, 17))  # (B, S)
TOKENS = 4  # that are written through the map of states


def check(encoder: Any, decoder: Any, model: Any) -> Checked:
    """Run both files.

    Raises:
        ConvertError: a number differs by more than the tolerance; says which, on which size, and by how much.
    """
    reads, writes = (open_session(proto.SerializeToString()) for proto in (encoder, decoder))
    rng, largest = np.random.default_rng(0), 0.0
    for rows, steps in SIZES:
        where, given = f"batch {rows}, source {steps}", sources(model, rng, rows, 1 if model.vector else steps)
        side = SideBySide(given["features" if model.features else "ids"], given["lengths"], None, None)
        found, wanted = run(reads, _fed(reads, given)), _encoded(model, side)
        largest = max(largest, difference(found, wanted, f"the encoder, {where}"))
        step = Step(writes, found | given)
        state, memory = model.encode(side)
        fed = np.zeros((rows, model.decoder.width), np.float32) if model.feeding else None
        for number in range(TOKENS):
            ids = rng.integers(0, len(model.vocabulary), rows)
            scores, weights, state, fed = model.decode(ids, state, fed, memory)
            right = {"scores": scores} | ({} if weights is None else {"weights": weights})
            right |= {f"{name}_out": part for name, part in zip("hc", state, strict=False)}
            largest = max(largest, difference(step(ids), right, f"token {number + 1} of the decoder, {where}"))
    return Checked(largest, SIZES, True)


def sources(model: Any, rng: Any, rows: int, steps: int) -> Arrays:
    """Random sources of unequal length, one of them whole."""
    lengths = rng.integers(1, steps + 1, rows)
    lengths[0] = steps
    if not model.features:
        return {"ids": rng.integers(0, len(model.reading.vocabulary), (rows, steps)), "lengths": lengths}
    scaler = model.reading.scaler
    values = rng.normal(size=(rows, steps, len(scaler.mean))) * scaler.scale + scaler.mean
    values[np.arange(steps) >= lengths[:, None]] = np.nan
    return {"features": values.astype(np.float32), "lengths": lengths}


def _fed(session: Any, given: Arrays) -> Arrays:
    """The inputs of a graph; a vector has no time axis."""
    shapes = {info.name: len(info.shape) for info in session.get_inputs()}
    return {name: given[name][:, 0] if given[name].ndim > axes else given[name] for name, axes in shapes.items()}


def _encoded(model: Any, side: SideBySide) -> Arrays:
    if model.features:
        valid = np.arange(side.inputs.shape[1]) < side.lengths[:, None]
        side = side._replace(inputs=np.where(valid[..., None], side.inputs, 0))
    state, memory = model.encode(side)
    found = dict(zip("hc", state, strict=False))
    if memory is not None:
        found["memory"] = memory.values
        if model.kind != "dot":
            found["keys"] = memory.keys
    return found


class Step:
    """The decoder's file from token to token, by what its metadata says.

    Args:
        begin: what the encoder gave, and the sources' lengths.
    """

    def __init__(self, session: Any, begin: Arrays) -> None:
        self.session = session
        about = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
        self.states, rows = about["states"], len(begin["lengths"])
        self.kept = {name: begin[name] for name in about["memory"]}
        if about["lengths"]:
            self.kept["lengths"] = begin["lengths"]
        self.state: Arrays = {}
        for one in self.states:
            first = one["initial"]
            shape = [rows if axis == "batch" else axis for axis in one["axes"]]
            from_encoder = isinstance(first, dict)
            self.state[one["input"]] = begin[first["encoder"]] if from_encoder else np.full(shape, first, np.float32)

    def __call__(self, ids: np.ndarray) -> Arrays:
        """Write on: the outputs of the graph."""
        found = run(self.session, {"ids": ids, **self.kept, **self.state})
        self.state = {one["input"]: found[one["output"]] for one in self.states}
        return found
