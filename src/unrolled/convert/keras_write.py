"""Keras 3 files, written without Keras: see `keras_files` for their form."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unrolled.bundle import write_atomically
from unrolled.conventions import find
from unrolled.convert import keras_config as config
from unrolled.convert.keras_files import layer_names
from unrolled.convert.options import Options, check_heads
from unrolled.convert.packing import pack
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Unit, refuse
from unrolled.errors import expected, require

__all__ = ["write"]

VERSION = "3.0.0"  # the form has not changed since
MADE = (1980, 1, 1, 0, 0, 0)  # the same weights give the same bytes


def write(network: Network, path: Path, options: Options) -> None:
    """A Sequential model as .keras, or its weights as .weights.h5.

    Raises:
        ConvertError: Keras cannot compute the same: a projection, or a reverse reading in order.
    """
    del options
    for part in network.recurrent:
        if part.reverse:
            raise refuse(part.units[0].where, "go_backwards, which leaves the output in reading order, or forward",
                         "a reverse reading put back in order", "Keras has no such layer: use ONNX.")  # fmt: skip
    if path.name.endswith(".h5"):
        check_heads(network, ".weights.h5", "Choose .keras or unrolled, which hold it.")
    names = list(layer_names(network.parts))
    weights = _h5(network.parts, names)
    if path.name.endswith(".h5"):
        write_atomically(path, weights)
        return
    if path.suffix != ".keras":
        raise ConvertError(expected(str(path), ".keras or .weights.h5", repr(path.suffix)))
    dtype = network.units[0].W.dtype.name
    document = config.describe(network.parts, names, dtype)
    metadata = {"keras_version": VERSION, "date_saved": "1980-01-01@00:00:00"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in (
            ("metadata.json", json.dumps(metadata)),
            ("config.json", json.dumps(document)),
            ("model.weights.h5", weights),
        ):
            archive.writestr(zipfile.ZipInfo(name, MADE), content)
    write_atomically(path, buffer.getvalue())


def _h5(parts: tuple[Part, ...], names: list[str]) -> bytes:
    h5py = require("h5py", "interop")
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_group("vars")  # the model's own: none
        for part, name in zip(parts, names, strict=True):
            for inside, arrays in _variables(part):
                group = file.create_group(f"layers/{name}/{inside}vars")
                for number, array in enumerate(arrays):
                    group.create_dataset(str(number), data=array, track_times=False)
    return buffer.getvalue()


def _variables(part: Part) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The groups of a layer, and the variables in each."""
    if isinstance(part, Embedding):
        yield "", [part.weight]
    elif isinstance(part, Dense):
        yield "", [part.weight, *([] if part.bias is None else [part.bias])]
    elif len(part.units) == 1:
        yield "", []
        yield "cell/", _arrays(part.units[0])
    else:
        yield "", []
        for unit, inside in zip(part.units, ("forward_layer/", "backward_layer/"), strict=True):
            yield inside, []
            yield f"{inside}cell/", _arrays(unit)


def _arrays(unit: Unit) -> list[np.ndarray]:
    kind = ("after" if unit.reset_after else "before") if unit.cell == "gru" else ""
    layout = find("keras", unit.cell, kind)
    assert layout is not None
    raw = pack(layout, unit)
    arrays = [raw["W"], raw["U"]]
    if "b_h" in raw:
        arrays.append(np.stack([raw["b"], raw["b_h"]]))
    elif "b" in raw:
        arrays.append(raw["b"])
    return arrays
