"""A plain stack from tensors that only have names: embedding first, then the recurrent layers, then one dense head.

Order    names with numbers are counted (layer 2 before layer 10); two directions are told by forward and backward, fw
         and bw. Where names do not tell the order, the caller does. Nothing is left over and nothing is made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from unrolled.convert.options import Options
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Recurrent, Unit, refuse
from unrolled.errors import expected

T = TypeVar("T")

__all__ = ["Found", "Tree", "assemble", "assumed", "direction_of"]

_FORWARD = re.compile(r"(?:^|(?<=_))(forward|fwd|fw)(?=_|\d|$)")
_BACKWARD = re.compile(r"(?:^|(?<=_))(backward|bwd|bw|reverse)(?=_|\d|$)")


class Tree:
    """Tensors by path; what is taken is crossed off, and what is left at the end is an error."""

    def __init__(self, tensors: dict[str, np.ndarray], where: str) -> None:
        self.where = where
        self._paths: dict[str, np.ndarray] = {}
        self._left: dict[str, str] = {}
        for name, array in tensors.items():
            path = "/".join(part for part in re.split(r"[/.]", name) if part != "~")
            if array.dtype.kind != "f" or array.dtype.itemsize > 8:
                raise ConvertError(expected(f"{where}: {name}", "floating-point numbers", array.dtype))
            array = array.astype(array.dtype.newbyteorder("="), copy=False)  # torch knows this machine's order only
            if path in self._paths:
                raise ConvertError(expected(f"{where}: {name}", "each name once", "two"))
            self._paths[path] = array
            self._left[path] = name

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def all(self) -> list[str]:
        """Every path, in the order of the file."""
        return list(self._paths)

    def left(self) -> list[str]:
        """The paths that nothing has taken yet."""
        return list(self._left)

    def look(self, path: str) -> np.ndarray:
        """A tensor, left where it is."""
        return self._paths[path]

    def take(self, path: str) -> np.ndarray:
        """A tensor, crossed off.

        Raises:
            ConvertError: the key is missing.
        """
        if path not in self._left:
            near = ", ".join(sorted(self._left.values())[:4]) or "none"
            raise ConvertError(expected(f"{self.where}: {path}", "this key", f"none (there are: {near})"))
        del self._left[path]
        return self._paths[path]

    def finish(self) -> None:
        """Everything has been used.

        Raises:
            ConvertError: keys are left; the message names them.
        """
        if self._left:
            names = sorted(self._left.values())
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            way_out = "A plain stack is an embedding, recurrent layers and one dense head. Leave other tensors out."
            raise ConvertError(expected(self.where, "no unused keys", shown, way_out))


@dataclass
class Found:
    """What a framework's reader has found in a tree."""

    units: list[tuple[str, Unit]] = field(default_factory=list)  # by the path of each cell
    levels: list[tuple[str, list[Recurrent]]] = field(default_factory=list)  # or whole modules, as torch keeps them
    embeddings: list[tuple[str, np.ndarray]] = field(default_factory=list)
    dense: list[tuple[str, Dense]] = field(default_factory=list)


def natural(path: str) -> list[tuple[int, int | str]]:
    """A key by which layer2 stands before layer10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d{1,9})", path) if part]


def assemble(found: Found, tree: Tree, options: Options, *, batch_first: bool) -> Network:
    """The network.

    Raises:
        ConvertError: the order or the use of a part is not told by the file.
    """
    levels = _levels(found, options)
    if not levels:
        names = ", ".join(sorted(tree.left())[:5]) or "nothing more"
        raise ConvertError(expected(tree.where, "a recurrent cell", f"none (left: {names})"))
    tree.finish()
    for kind, listed in (("embedding", found.embeddings), ("dense head", found.dense)):
        if len(listed) > 1:
            names = ", ".join(name for name, _ in listed)
            way_out = (
                "What stands between them is not in a file of weights: convert from a file that holds the structure."
            )
            raise refuse(tree.where, f"at most one {kind}", names, way_out)
    parts: list[Part] = [Embedding(array) for _, array in found.embeddings]
    parts += levels
    if found.dense:
        parts[-1] = Recurrent(levels[-1].units, every=_head_reads(options, found.dense[0][0]))
        parts.append(found.dense[0][1])
    elif options.head == "last":
        parts[-1] = Recurrent(levels[-1].units, every=False)
    bare = len(parts) == len(levels) and levels[-1] is parts[-1]
    batch_first = batch_first if options.batch_first is None else options.batch_first
    return Network(tuple(parts), batch_first, layer=bare)


def assumed(network: Network, options: Options, names: Mapping[str, str], way_out: str) -> Network:
    """The network with a note of all that its file of weights alone does not say and was not asked for.

    `names` holds the framework's words: forward, rnn, gates, merge, every, mask, head, each where it applies.
    """
    cells = {unit.cell for unit in network.units}
    applies = {
        "forward": True,
        "rnn": "rnn" in cells,
        "gates": bool(cells - {"rnn"}),
        "merge": any(len(part.units) == 2 for part in network.recurrent),
        "every": options.head is None,
        "mask": isinstance(network.parts[0], Embedding),
        "head": isinstance(network.parts[-1], Dense),
    }
    said = "; ".join(name for key, name in names.items() if applies[key])
    return network.noted(f"the file holds weights alone, and these were taken: {said}. {way_out}")


def _head_reads(options: Options, name: str) -> bool:
    if options.head is None:
        way_out = "The file does not say it: pass head='every' or head='last'."
        raise refuse(f"{name}: head", "whether it reads every step or the last one", "nothing", way_out)
    return options.head == "every"


def _levels(found: Found, options: Options) -> list[Recurrent]:
    if found.levels:
        ordered = _ordered(found.levels, options)
        return [level for _, levels in ordered for level in levels]
    grouped: dict[str, dict[int, Unit]] = {}
    for path, unit in found.units:
        group, direction = direction_of(path)
        if direction in grouped.setdefault(group, {}):
            raise ConvertError(expected(path, "one cell for each layer and direction", "two"))
        grouped[group][direction] = unit
    for group, units in grouped.items():
        if 0 not in units:
            raise ConvertError(expected(group, "a forward cell beside the backward one", "none"))
    ordered_units = _ordered([(group, [units[n] for n in sorted(units)]) for group, units in grouped.items()], options)
    levels = [tuple(units) for _, units in ordered_units]
    if options.bidirectional and all(len(units) == 1 for units in levels):
        if len(levels) % 2:
            raise ConvertError(expected("bidirectional", "an even number of cells", len(levels)))
        levels = [(*levels[n], *levels[n + 1]) for n in range(0, len(levels), 2)]
    return [Recurrent(units) for units in levels]


def direction_of(path: str) -> tuple[str, int]:
    """The path with the word for its direction starred out, and 0 for forward, 1 for backward."""
    parts = path.split("/")
    for number in range(len(parts) - 1, -1, -1):
        for direction, pattern in enumerate((_FORWARD, _BACKWARD)):
            if pattern.search(parts[number]):
                return "/".join([*parts[:number], pattern.sub("*", parts[number]), *parts[number + 1 :]]), direction
    return path, 0


def _ordered(named: Sequence[tuple[str, T]], options: Options) -> list[tuple[str, T]]:
    if options.order:
        return _as_told(named, options.order)
    if not _counted([path.split("/") for path, _ in named]):
        names = ", ".join(path or "(top)" for path, _ in named)
        way_out = "Name the recurrent layers from first to last, as in order=('encoder', 'top')."
        raise refuse("order", "names that count the recurrent layers", names, way_out)
    return sorted(named, key=lambda pair: natural(pair[0]))


def _counted(paths: list[list[str]]) -> bool:
    """Do the paths differ first in a number, as lstm and lstm_1, or layers/0 and layers/1?"""
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            return len({re.sub(r"_?\d+", "", part) for part in parts}) == 1
    return True


def _as_told(named: Sequence[tuple[str, T]], order: Iterable[str]) -> list[tuple[str, T]]:
    told = ["/".join(re.split(r"[/.]", name)) for name in order]
    chosen = [[pair for pair in named if f"{pair[0]}/".startswith(f"{name}/")] for name in told]
    if any(len(one) != 1 for one in chosen) or len(told) != len(named):
        names = ", ".join(path for path, _ in named)
        raise ConvertError(expected("order", f"each of these once: {names}", ", ".join(told)))
    return [one[0] for one in chosen]
