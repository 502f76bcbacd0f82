"""Load, save and convert: find the reader and the writer, check, and say what was done."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.convert import keras_files, keras_write, onnx_read, onnx_write, own, rtneural, torch_files, trees
from unrolled.convert.check import Difference, check
from unrolled.convert.files import open_file, read_tensors, refuse_pickle
from unrolled.convert.modules import network_of
from unrolled.convert.options import Options
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Recurrent
from unrolled.convert.stack import module_of
from unrolled.errors import RecipeError, expected

__all__ = ["FRAMEWORKS", "Report", "convert", "load", "save", "source_of", "target_of"]

Reader = Callable[[Path, Options], Network]
Writer = Callable[[Network, Path, Options], None]


def _tree_reader(framework: str) -> Reader:
    return lambda path, options: trees.read(framework, path, options)


def _tree_writer(framework: str) -> Writer:
    return lambda network, path, options: trees.write(framework, network, path, options)


READERS: dict[str, Reader] = {
    "torch": torch_files.read,
    "keras": keras_files.read,
    **{name: _tree_reader(name) for name in trees.FRAMEWORKS},
    "onnx": onnx_read.read,
    "rtneural": rtneural.read,
    "unrolled": own.read,
}
WRITERS: dict[str, Writer] = {
    "torch": torch_files.write,
    "keras": keras_write.write,
    **{name: _tree_writer(name) for name in trees.FRAMEWORKS},
    "onnx": onnx_write.write,
    "rtneural": rtneural.write,
    "unrolled": own.write,
}
FRAMEWORKS = tuple(READERS)
_BY_SUFFIX = {".keras": "keras", ".h5": "keras", ".onnx": "onnx", ".json": "rtneural"}
_BY_SUFFIX |= {".pt": "torch", ".pth": "torch", ".bin": "torch"}


@dataclass(frozen=True)
class Report:
    """What a conversion did, and how far the two sides are apart."""

    source: str
    target: str  # "" where nothing was written
    layers: tuple[str, ...]  # one line a part
    difference: Difference
    parameters: int
    notes: tuple[str, ...] = ()
    verified: Mapping[str, float] = field(default_factory=dict)  # the differences from frameworks that were run

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "layers": list(self.layers),
            "parameters": self.parameters,
            "difference": {"weights": self.difference.weights, "random": self.difference.random},
            "verified": dict(self.verified),
            "notes": list(self.notes),
        }


def load(path: str | Path, source: str | None = None, *, verify: bool = False, **options: Any) -> Any:
    """A module from another framework's file, checked against that framework's convention.

    Args:
        path: .pt, .pth, .safetensors, .npz, .keras, .weights.h5, .onnx, .json, or a run folder of ours.
        source: one of `FRAMEWORKS`, or "flax"; None finds it by the file's name and the names in it.
        verify: run the framework itself on the file too, where it is installed.
        options: what the file does not say; see `unrolled.convert.options.Options`.

    Returns:
        One of our layers, called (output, state) = layer(input, hx), where the file holds a layer or cells; else a
        `Stack`, called output = stack(input), with the axes of the network that it came from. `conversion` on it is
        the `Report`.

    Raises:
        ConvertError: the file is damaged or holds code, a key is missing or unused, a shape is wrong, the file does
            not say something that must be passed, or the conversion would not be exact.
    """
    path, chosen = Path(path), Options.of(dict(options))
    source = source_of(path, source)
    network = READERS[source](path, chosen)
    module = module_of(network)
    report = _report(network, source, "", check(network, module))
    module.conversion = _verified(report, {source: (path, network)}, module) if verify else report
    return module


def save(module: Any, path: str | Path, target: str | None = None, *, verify: bool = False, **options: Any) -> Report:
    """Another framework's file from a module; read back and checked before it takes its place.

    Args:
        module: a layer or cell, ours or torch.nn's, a `Stack`, or a model of `unrolled.models` that is a plain stack.
        target: one of `FRAMEWORKS`; None takes it from the path's ending, .safetensors being torch's.

    Raises:
        ConvertError: the target cannot compute the same; the message names the tensor, the reason and the choice.
    """
    path, chosen = Path(path), Options.of(dict(options))
    return _write(network_of(module), path, target_of(path, target), chosen, "memory", verify)


def convert(
    source: str | Path,
    target: str | Path,
    *,
    read: str | None = None,
    write: str | None = None,
    verify: bool = False,
    **options: Any,
) -> Report:
    """From file to file; `read` and `write` name the frameworks where the files' names do not tell.

    Raises:
        ConvertError: as `load` and `save`.
    """
    path, chosen = Path(source), Options.of(dict(options))
    framework = source_of(path, read)
    network = READERS[framework](path, chosen)
    module = module_of(network)
    check(network, module)
    report = _write(network, Path(target), target_of(Path(target), write), chosen, framework, verify)
    return _verified(report, {framework: (path, network)}, module) if verify else report


def _write(network: Network, path: Path, target: str, options: Options, source: str, verify: bool) -> Report:
    """Write beside the target, read it back by the target's convention, compare, and only then move it."""
    if not path.parent.is_dir():
        raise ConvertError(expected(str(path), "a path in a folder that is there", f"no folder {path.parent}"))
    module = module_of(network)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".convert-") as folder:
        draft = Path(folder) / path.name
        WRITERS[target](network, draft, options)
        read_back = READERS[target](draft, _for_reading(network, options, target, path))
        written = _with_structure_of(network, read_back)
        difference = check(written, module, rounded=True)
        report = _report(network, source, target, difference)
        if verify:
            report = _verified(report, {target: (draft, written)}, module)
        draft.replace(path)
    known = read_back.notes if target == "onnx" else ()  # what weights alone do not say is known here
    notes = tuple(dict.fromkeys((*network.notes, *known)))
    if target == "onnx" and network.units[0].W.dtype != np.float32:
        notes += (f"the weights are {network.units[0].W.dtype}: ONNX Runtime's recurrent nodes may take float32 only",)
    return replace(report, notes=(*notes, *(note for note in report.notes if note not in notes)))


def _verified(report: Report, files: Mapping[str, tuple[Path, Network]], module: Any) -> Report:
    """The report, with the difference from each framework that can be run; a note for one that cannot."""
    from unrolled.convert.verify import RUNNABLE, verify

    found, notes = dict(report.verified), list(report.notes)
    for name, (path, network) in files.items():
        if name in RUNNABLE:
            found[name] = verify(path, name, network, module)
        elif name != "unrolled":
            notes.append(f"{name} cannot be run here: its convention was checked, as published")
    return replace(report, verified=found, notes=tuple(notes))


def _with_structure_of(network: Network, written: Network) -> Network:
    """The tensors that were written, in the structure that they were written from.

    A file of bare weights does not hold the structure; one that does must hold the same.
    """
    parts: list[Part] = []
    for number, (ours, theirs) in enumerate(zip(network.parts, written.parts, strict=True)):
        if isinstance(ours, Recurrent) and isinstance(theirs, Recurrent) and len(ours.units) == len(theirs.units):
            parts.append(replace(ours, units=theirs.units))
        elif isinstance(ours, Dense) and isinstance(theirs, Dense):
            parts.append(replace(theirs, activation=ours.activation))
        elif isinstance(ours, Embedding) and isinstance(theirs, Embedding):
            parts.append(replace(theirs, mask_zero=ours.mask_zero))
        else:
            kinds = [type(part).__name__.lower() for part in (ours, theirs)]
            way_out = "Nothing was written."
            raise ConvertError(expected(f"self-check: part {number}", f"a part that is {kinds[0]}", kinds[1], way_out))
    return replace(network, parts=tuple(parts))


def _for_reading(network: Network, options: Options, target: str, path: Path) -> Options:
    """What the written file does not say, said by the network that was written."""
    last = network.recurrent[-1]
    cells = [unit for unit in network.units if unit.cell == "rnn"]
    gru = [unit for unit in network.units if unit.cell == "gru"]
    headed = isinstance(network.parts[-1], Dense) or not last.every
    order: tuple[str, ...] = ()
    if path.name.endswith(".weights.h5"):
        order = tuple(keras_files.recurrent_names(network.parts))
    elif target in ("haiku", "tf1"):  # their names tell the kind of the cell, and so not the order
        order = tuple(trees.names(target, network))
    return replace(
        options,
        nonlinearity=cells[0].nonlinearity if cells else None,
        reset_after=gru[0].reset_after if gru and gru[0].b is None else None,
        head=("every" if last.every else "last") if headed else None,
        batch_first=network.batch_first,
        order=order,
        bidirectional=False,
        single_bias=False,
    )


def _report(network: Network, source: str, target: str, difference: Difference) -> Report:
    lines = []
    parameters = 0
    for part in network.parts:
        if isinstance(part, Recurrent):
            unit = part.units[0]
            both = "bidirectional " if len(part.units) == 2 else ""
            lines.append(f"{both}{unit.cell} {unit.input_size} → {part.width}")
            arrays: list[Any] = [a for u in part.units for a in (u.W, u.U, u.b, u.b_h, u.V)]
        elif isinstance(part, Dense):
            lines.append(f"dense {part.weight.shape[0]} → {part.weight.shape[1]} {part.activation}")
            arrays = [part.weight, part.bias]
        else:
            lines.append(f"embedding {part.weight.shape[0]} → {part.weight.shape[1]}")
            arrays = [part.weight]
        parameters += sum(np.size(array) for array in arrays if array is not None)
    return Report(source, target, tuple(lines), difference, parameters, network.notes)


def source_of(path: Path, named: str | None) -> str:
    """The framework that a file comes from.

    Raises:
        ConvertError: the file is not there, is a pickle, or does not tell.
        RecipeError: a name that is none of `FRAMEWORKS`.
    """
    if path.is_dir() and (named in (None, "unrolled")):
        return "unrolled"
    open_file(path)
    refuse_pickle(path)
    if named is not None and named != "flax":
        return _known("source", named)
    by_name = _BY_SUFFIX.get(path.suffix.lower())
    if by_name is not None:
        return by_name
    if path.suffix == ".safetensors" and own.is_ours(path):
        return "unrolled"
    found = trees.sniff(list(read_tensors(path)))
    if found is None or (named == "flax" and not found.startswith("flax")):
        way_out = "Name the framework: " + ", ".join(FRAMEWORKS) + "."
        raise ConvertError(expected(str(path), "names of weights that tell the framework", "none that do", way_out))
    return found


def target_of(path: Path, named: str | None) -> str:
    """The framework that a file is for."""
    if named is not None:
        if named == "flax":
            raise RecipeError(expected("target", "flax-linen or flax-nnx: their cells differ", "flax"))
        return _known("target", named)
    by_name = {**_BY_SUFFIX, ".safetensors": "torch"}.get(path.suffix.lower())
    if by_name is None:
        way_out = "Name the framework: " + ", ".join(FRAMEWORKS) + "."
        raise RecipeError(expected(str(path), "an ending that tells the framework", repr(path.suffix), way_out))
    return by_name


def _known(what: str, name: str) -> str:
    if name not in FRAMEWORKS:
        raise RecipeError(expected(what, "one of " + ", ".join(FRAMEWORKS), repr(name)))
    return name
