"""PyTorch: a state_dict in .pt (weights only) or .safetensors, of a layer, a cell, or a module that is a plain stack.

Names    whatever stands before weight_ih_l0 is one recurrent module; a `weight` whose name has "emb" in it, or which
         has no bias and stands before the others, is the embedding; another `weight` is the dense head.
Order    a state_dict keeps the order in which modules were registered, a .safetensors file does not: where the order
         is known, a Linear before a recurrent module is refused, since it may read the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unrolled.convert.files import read_tensors, write_safetensors
from unrolled.convert.named import Found, Tree, assemble
from unrolled.convert.options import Options, without_structure
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Recurrent, Unit, refuse
from unrolled.convert.states import NAME, levels_of, state_of
from unrolled.convert.trees import make_dense
from unrolled.errors import expected, require

__all__ = ["network_of_state", "read", "write"]


def read(path: Path, options: Options) -> Network:
    """A network from a state_dict in a file.

    Raises:
        ConvertError: the file is damaged, holds code, or its keys are missing, unused, or of the wrong shape.
    """
    return network_of_state(read_tensors(path), str(path), options, ordered=path.suffix.lower() != ".safetensors")


def network_of_state(tensors: dict[str, np.ndarray], where: str, options: Options, *, ordered: bool = True) -> Network:
    """A network from a state_dict's arrays; `ordered` where they stand as the modules were registered."""
    tree = Tree(tensors, where)
    found = Found()
    modules: dict[str, list[str]] = {}
    for path in tree.left():
        prefix, _, leaf = path.rpartition("/")
        if NAME.match(leaf):
            modules.setdefault(prefix, []).append(leaf)
    for prefix, leaves in modules.items():
        taken = {leaf: tree.take(f"{prefix}/{leaf}".lstrip("/")) for leaf in leaves}
        _check_biases(taken, prefix, options)
        reset_after = options.reset_after is not False
        dotted = prefix.replace("/", ".") + "." if prefix else ""
        levels = levels_of(taken, dotted, nonlinearity=options.nonlinearity, reset_after=reset_after)
        found.levels.append((prefix, levels))
    _rest(tree, found, ordered=ordered)
    if ordered:
        _check_order(tree, found)
    return assemble(found, tree, options, batch_first=bool(found.embeddings or found.dense))


def _check_biases(taken: dict[str, np.ndarray], prefix: str, options: Options) -> None:
    """torch.nn has both biases or none, in every layer alike."""
    sides = {NAME.match(leaf)[1] for leaf in taken}  # type: ignore[index]  # matched when they were taken
    wanted = {"weight_ih", "weight_hh"} | (sides & {"weight_hr"})
    if sides & {"bias_ih", "bias_hh"}:
        wanted |= {"bias_ih"} if options.single_bias else {"bias_ih", "bias_hh"}
    suffixes = {leaf[NAME.match(leaf).end(1) :] for leaf in taken}  # type: ignore[union-attr]  # the same
    for suffix in sorted(suffixes):
        for side in sorted(wanted):
            if side + suffix not in taken:
                name = f"{prefix}/{side}{suffix}".lstrip("/").replace("/", ".")
                way_out = "A layer of unrolled with single_bias=True has none: pass single_bias=True for one."
                raise ConvertError(
                    expected(name, "this key", "none: it is missing", way_out if side == "bias_hh" else "")
                )


def _rest(tree: Tree, found: Found, *, ordered: bool) -> None:
    for path in tree.left():
        parent, _, leaf = path.rpartition("/")
        if leaf != "weight":
            continue
        bias_path = f"{parent}/bias".lstrip("/")
        array = tree.look(path)
        if array.ndim != 2 or 0 in array.shape:
            continue  # it stays unused, and is named as such
        tree.take(path)
        first = ordered and bias_path not in tree and not found.embeddings and _is_first(path, tree)
        if first and "emb" not in parent.lower() and array.shape[0] == array.shape[1]:
            way_out = "Give its module a name with emb in it, as embedding.weight, if it is looked up by ids."
            name = path.replace("/", ".")
            raise refuse(
                f"{tree.where}: {name}", "an embedding or a dense head", "a square that may be either", way_out
            )
        if "emb" in parent.lower() or first:
            found.embeddings.append((path, array))
        else:
            bias = tree.take(bias_path) if bias_path in tree else None
            found.dense.append((path, make_dense(array.T, bias, path)))


def _check_order(tree: Tree, found: Found) -> None:
    """The head was registered after every recurrent module."""
    paths = tree.all()
    last = max((number for number, path in enumerate(paths) if NAME.match(path.rpartition("/")[2])), default=-1)
    for path, _ in found.dense:
        if paths.index(path) < last:
            name, after = path.replace("/", "."), paths[last].replace("/", ".")
            way_out = (
                "If it does read their output, register it after them, or move its keys to the end: "
                f"state[{name!r}] = state.pop({name!r}). If it reads the input, convert from a file that holds the "
                "structure, or the recurrent layers alone."
            )
            found_there = f"one before {after}, which may read the input"
            raise refuse(f"{tree.where}: {name}", "a dense head after the recurrent layers", found_there, way_out)


def _is_first(path: str, tree: Tree) -> bool:
    """Registered before every other module, as the files keep the order of the modules."""
    return next(iter(tree.all())) == path


def write(network: Network, path: Path, options: Options) -> None:
    """A state_dict that torch.nn loads: of one layer alone, or of modules named embedding, recurrent and output.

    Raises:
        ConvertError: torch.nn cannot compute the same.
    """
    network = without_structure(network, "torch", options)
    tensors = dict(_state(network))
    if path.suffix == ".safetensors":
        write_safetensors(path, tensors, {"framework": "torch"})
    elif path.suffix in (".pt", ".pth"):
        _save(path, tensors)
    else:
        raise ConvertError(expected(str(path), ".pt, .pth or .safetensors", repr(path.suffix)))


def _save(path: Path, tensors: dict[str, np.ndarray]) -> None:
    import io

    from unrolled.bundle import write_atomically

    torch = require("torch", "torch")
    buffer = io.BytesIO()
    torch.save({name: torch.from_numpy(np.array(array, order="C")) for name, array in tensors.items()}, buffer)
    write_atomically(path, buffer.getvalue())


def _state(network: Network) -> Iterator[tuple[str, np.ndarray]]:
    modules = list(modules_of(network.recurrent))
    alone = len(network.parts) == len(network.recurrent) and len(modules) == 1
    for part in network.parts:
        if isinstance(part, Embedding):
            yield "embedding.weight", part.weight
    for number, levels in enumerate(modules):
        prefix = "" if alone else "recurrent." if len(modules) == 1 else f"recurrent.{number}."
        yield from state_of(levels, prefix)
    for part in network.parts:
        if isinstance(part, Dense):
            yield "output.weight", part.weight.T
            if part.bias is not None:
                yield "output.bias", part.bias


def modules_of(levels: tuple[Recurrent, ...]) -> Iterator[list[Recurrent]]:
    """Neighbours that one module of torch.nn holds: same cell, sizes, directions, and biases or none."""
    held: list[Recurrent] = []
    for level in levels:
        keys = {_key(level), *(_key(one) for one in held[-1:])}
        if len({_variant(unit) for unit in level.units}) > 1:
            raise refuse(level.units[0].where, "two directions of one size", "different ones")
        if len(keys) > 1:
            yield held
            held = []
        held.append(level)
    yield held


def _key(level: Recurrent) -> tuple[object, ...]:
    return (len(level.units), *_variant(level.units[0]))


def _variant(unit: Unit) -> tuple[object, ...]:
    cell, nonlinearity, reset, dtype, hidden, state, no_b, no_b_h, no_V = unit.variant
    return (cell, nonlinearity, reset, dtype, hidden, state, no_b and no_b_h, no_V)
