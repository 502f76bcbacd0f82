"""Our own files: a trained run's bundle, and a bundle that holds any converted network without loss.

Form     the tensors of a network by part, 0.weight, 1.weight_ih_l0, with torch's names; the header lists the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.convert.files import read_metadata, read_safetensors
from unrolled.convert.named import Tree
from unrolled.convert.options import Options
from unrolled.convert.spec import MERGES, ConvertError, Dense, Embedding, Network, Part, Recurrent, refuse
from unrolled.convert.states import NAME, levels_of, state_of
from unrolled.convert.trees import make_dense
from unrolled.errors import expected

__all__ = ["KIND", "is_ours", "read", "write"]

KIND = "network"
_FLAGS = ("every", "backwards", "reverse", "hold")


def is_ours(path: Path) -> bool:
    """Has the file the entry of our bundles?"""
    return bundle.KEY in read_metadata(path)


def read(path: Path, options: Options) -> Network:
    """A network from a bundle: one that `write` made, or a trained model that is a plain stack.

    Raises:
        ConvertError: parts of the model have no counterpart elsewhere; the message names them.
    """
    if path.is_dir():
        path = path / "model.safetensors"
    tree = Tree(read_safetensors(path), str(path))
    header = bundle.read_header(path)
    if header.get("kind") == KIND:
        return _network(header, tree)
    return _trained(header, tree, options)


def _network(header: dict[str, Any], tree: Tree) -> Network:
    described = header.get("parts")
    if not isinstance(described, list):
        raise ConvertError(expected(tree.where, "a list of parts in the header", type(described).__name__))
    parts = [_part(one, number, tree) for number, one in enumerate(described)]
    tree.finish()
    return Network(tuple(parts), header.get("batch_first") is not False, header.get("layer") is True)


def _part(described: Any, number: int, tree: Tree) -> Part:
    kind = described.get("part") if isinstance(described, dict) else None
    if kind == "embedding":
        return Embedding(tree.take(f"{number}/weight"), described.get("mask_zero") is True)
    if kind == "dense":
        bias = tree.take(f"{number}/bias") if f"{number}/bias" in tree else None
        dense = make_dense(tree.take(f"{number}/weight").T, bias, f"part {number}")
        return Dense(dense.weight, dense.bias, str(described.get("activation", "linear")), f"part {number}")
    if kind != "recurrent":
        raise ConvertError(expected(f"{tree.where}: part {number}", "embedding, recurrent or dense", repr(kind)))
    level = _level(tree, str(number), described)
    flags = {name: described.get(name) is True for name in _FLAGS}
    merge = described.get("merge")
    if merge not in MERGES:
        wanted = "one of " + ", ".join(map(str, MERGES))
        raise ConvertError(expected(f"{tree.where}: part {number}: merge", wanted, repr(merge)))
    return Recurrent(level.units, merge, **flags)


def _level(tree: Tree, prefix: str, described: dict[str, Any]) -> Recurrent:
    leaves = [path.removeprefix(f"{prefix}/") for path in tree.left() if path.startswith(f"{prefix}/")]
    taken = {leaf: tree.take(f"{prefix}/{leaf}") for leaf in leaves if NAME.match(leaf)}
    if not taken:
        raise ConvertError(expected(f"{tree.where}: part {prefix}", "its weights", "none"))
    reset_after = described.get("reset_after") is not False
    levels = levels_of(taken, f"{prefix}.", nonlinearity=described.get("nonlinearity"), reset_after=reset_after)
    if len(levels) != 1:
        raise ConvertError(expected(f"{tree.where}: part {prefix}", "one layer", len(levels)))
    return levels[0]


def write(network: Network, path: Path, options: Options) -> None:
    """A bundle that holds the network as it is: any cell, any structure."""
    del options
    if path.suffix != ".safetensors":
        raise ConvertError(expected(str(path), ".safetensors", repr(path.suffix)))
    tensors: dict[str, np.ndarray] = {}
    described = []
    for number, part in enumerate(network.parts):
        tensors |= dict(_tensors(part, number))
        described.append(_described(part))
    header = {"kind": KIND, "parts": described, "batch_first": network.batch_first, "layer": network.layer}
    bundle.save(path, tensors, header)


def _tensors(part: Part, number: int) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(part, Recurrent):
        yield from state_of([part], f"{number}.", own=True)
        return
    yield f"{number}.weight", part.weight.T if isinstance(part, Dense) else part.weight
    if isinstance(part, Dense) and part.bias is not None:
        yield f"{number}.bias", part.bias


def _described(part: Part) -> dict[str, Any]:
    if isinstance(part, Embedding):
        return {"part": "embedding", "mask_zero": part.mask_zero}
    if isinstance(part, Dense):
        return {"part": "dense", "activation": part.activation}
    unit = part.units[0]
    said: dict[str, Any] = {"part": "recurrent", "cell": unit.cell, "merge": part.merge}
    said |= {name: getattr(part, name) for name in _FLAGS}
    if unit.cell == "rnn":
        said["nonlinearity"] = unit.nonlinearity
    if unit.cell == "gru":
        said["reset_after"] = unit.reset_after
    return said


# a trained run


def _trained(header: dict[str, Any], tree: Tree, options: Options) -> Network:
    recipe = header.get("recipe")
    if not isinstance(recipe, dict) or recipe.get("task") not in ("classify", "tag", "lm"):
        task = recipe.get("task") if isinstance(recipe, dict) else None
        way_out = "Other tasks are not one stack: use unrolled export."
        raise refuse(tree.where, "a classifier, tagger or language model", repr(task), way_out)
    task = recipe["task"]
    for name, wanted in (("crf", False), ("characters", False), ("learn_initial_state", False)):
        if recipe.get(name, wanted) != wanted:
            raise refuse(f"recipe: {name}", f"{wanted}: no other framework's stack has it", recipe.get(name))
    if task == "classify" and recipe.get("pooling", "last") != "last":
        raise refuse("recipe: pooling", "last: a stack reads the final step", repr(recipe.get("pooling")))
    parts: list[Part] = []
    if "inputs/embedding/weight" in tree:
        parts.append(Embedding(tree.take("inputs/embedding/weight")))
    prefix = "recurrent"
    leaves = [path.removeprefix(f"{prefix}/") for path in tree.left() if path.startswith(f"{prefix}/")]
    taken = {leaf: tree.take(f"{prefix}/{leaf}") for leaf in leaves if NAME.match(leaf)}
    reset_after = recipe.get("reset_after") is not False
    levels = levels_of(taken, f"{prefix}.", nonlinearity="tanh", reset_after=reset_after)
    if task == "classify":
        levels[-1] = Recurrent(levels[-1].units, every=False)
    weight, bias = ("output_weight", "output_bias") if task == "lm" else ("output/weight", "output/bias")
    head = tree.look("inputs/embedding/weight") if task == "lm" and weight not in tree else tree.take(weight)
    parts += [*levels, make_dense(head.T, tree.take(bias), "output")]
    tree.finish()
    notes = ["the vocabulary, labels and scales of features stay in the bundle: this is the network between them"]
    return Network(tuple(parts), True if options.batch_first is None else options.batch_first, notes=tuple(notes))
