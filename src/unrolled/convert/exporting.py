"""Export: a trained model as one checked ONNX file, or as a bundle, with int8 weights on request. Needs no PyTorch.

export(run, "model.onnx", to="onnx")
export(run, "small.safetensors", to="bundle", int8=True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.convert.spec import ConvertError
from unrolled.errors import expected
from unrolled.runtime.load import model_file, model_of

__all__ = ["FORMATS", "Exported", "export", "matrices"]

FORMATS = ("onnx", "bundle")


@dataclass(frozen=True)
class Exported:
    """What was written."""

    paths: tuple[Path, ...]  # one file; of an encoder–decoder two
    size: int  # bytes of all of them
    before: int  # bytes of the bundle that was exported
    notes: tuple[str, ...]  # what was checked


def export(run: str | Path, path: str | Path, *, to: str = "onnx", int8: bool = False) -> Exported:
    """Write the model of a run folder, or of a bundle, in another form.

    Args:
        path: the file to write; it is replaced whole, and only if the check passes. An encoder–decoder becomes two ONNX
            files beside it: model.onnx becomes model.encoder.onnx and model.decoder.onnx.
        to: "onnx", or "bundle", which `unrolled.runtime` and `unrolled.training` read.
        int8: of a bundle: matrices as int8 with one float32 scale a row, a quarter of the size. They are float32 again
            when they are loaded, so sums are float32's, and the speed is as before.

    Raises:
        ConvertError: the check failed, or the two options do not go together.
        BundleError: the bundle is damaged.
    """
    if to not in FORMATS:
        raise ConvertError(expected("to", "one of " + ", ".join(FORMATS), repr(to)))
    if int8 and to != "bundle":
        raise ConvertError(expected("int8", "to='bundle'", f"to={to!r}", "ONNX Runtime brings its own quantisation."))
    source, target = model_file(run), Path(path)
    tensors, header = bundle.load(source)
    model = model_of(str(source), dict(tensors), header)
    if to == "onnx":
        paths, notes = _write_onnx(model, tensors, target)
    else:
        paths, notes = (target,), _write_bundle(tensors, header, target, int8)
    return Exported(paths, sum(one.stat().st_size for one in paths), source.stat().st_size, notes)


def _write_onnx(model: Any, tensors: Mapping[str, np.ndarray], path: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    from unrolled.convert import pair_check, task_check
    from unrolled.convert.task_graph import onnx_models

    made = onnx_models(model, tensors)
    if "decoder" in made:
        checked = pair_check.check(made["encoder"], made["decoder"], model)
        streamed = "the decoder goes on token by token through the map of states"
    else:
        checked = task_check.check(made[""], model)
        streamed = "chunks through the map of states give the whole"
    paths = tuple(path.with_name(f"{path.stem}.{part}{path.suffix}") if part else path for part in made)
    for target, proto in zip(paths, made.values(), strict=True):
        bundle.write_atomically(target, proto.SerializeToString())
    sizes = ", ".join(f"{rows}×{steps}" for rows, steps in checked.sizes)
    found = f"largest difference {checked.largest:.1e} (allowed {task_check.TOLERANCE:g})"
    both = "bidirectional: whole sequences only; the metadata says so"
    return paths, (
        f"ONNX Runtime on batch × time {sizes}, unequal lengths: {found}",
        streamed if checked.streamed else both,
    )


def matrices(tensors: Mapping[str, np.ndarray]) -> list[str]:
    """The names of the weights that int8 is for: matrices, but neither a CRF's table of tags nor where series stand."""
    apart = ("crf.", "memory_")
    return [name for name, value in tensors.items() if value.ndim == 2 and not name.startswith(apart)]


def _write_bundle(tensors: dict[str, np.ndarray], header: dict[str, Any], path: Path, int8: bool) -> tuple[str, ...]:
    rest = {key: value for key, value in header.items() if key not in ("format", "int8")}
    names = matrices(tensors) if int8 else []
    bundle.save(path, tensors, rest, int8=names)
    if not int8:
        return ("the same numbers",)
    kept, _ = bundle.load(path)
    errors = [
        np.abs(kept[name] - tensors[name]).max(initial=0) / np.abs(tensors[name]).max(initial=1e-30) for name in names
    ]
    worst = f"{100 * max(errors, default=0.0):.2f} %"
    said = f"{len(names)} matrices as int8; the largest error is {worst} of a matrix's largest weight"
    return (said, f"score it: unrolled evaluate {path} DATA")
