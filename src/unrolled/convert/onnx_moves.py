"""What flows through a graph of ONNX, and the operators that change its axes or stand beside it.

Axes     by name: first and second of the input, D directions, H hidden, F features. Each operator is a method named
         after it, so what has no method is not understood, and is refused where the data meets it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrolled.convert.spec import ConvertError, Part, Recurrent, refuse
from unrolled.errors import expected, require

__all__ = ["Constant", "Data", "Moves", "Side", "Zero", "kind_of"]


@dataclass(frozen=True)
class Data:
    """What flows through the stack. `stage` counts the parts before it, so that a branch is noticed."""

    axes: tuple[str, ...]
    stage: int
    final: bool = False


@dataclass(frozen=True)
class Constant:
    """A tensor of the file."""

    array: np.ndarray


@dataclass(frozen=True)
class Zero:
    """A tensor of zeros whose shape is computed."""


@dataclass(frozen=True)
class Side:
    """What stands beside the stack: a state that is passed in or out, lengths, a mask, a computed shape."""

    kind: str


def kind_of(value: Any) -> str:
    """How messages call a value."""
    return "nothing" if value is None else type(value).__name__.lower()


class Moves:
    """The values of a graph by name, and the operators that move their axes."""

    def __init__(self, where: str) -> None:
        self.onnx = require("onnx", "export")
        self.where = where
        self.parts: list[Part] = []
        self.values: dict[str, Any] = {"": None}
        self.padding: set[str] = set()  # values that say where ids are 0

    def _array(self, tensor: Any, name: str) -> np.ndarray:
        size = tensor.ByteSize()
        count = 1
        for length in tensor.dims:
            count *= max(int(length), 0)
        if count > 8 * size:  # every element takes at least a bit of the file
            raise ConvertError(
                expected(f"{self.where}: {name}", f"at most the {size} bytes it has", tuple(tensor.dims))
            )
        try:
            return np.asarray(self.onnx.numpy_helper.to_array(tensor))
        except Exception as error:
            raise ConvertError(
                expected(f"{self.where}: {name}", "a whole tensor", str(error).splitlines()[0])
            ) from None

    def _set(self, node: Any, value: Any) -> None:
        self.values[node.output[0]] = value

    def _all(self, node: Any, value: Any) -> None:
        for name in node.output:
            self.values[name] = value

    def _here(self, value: Any, name: str) -> Data:
        """The value that flows, not one from before the last part."""
        if not isinstance(value, Data):
            raise refuse(f"{self.where}: {name}", "the value that flows through the stack", kind_of(value))
        if value.stage != len(self.parts):
            raise refuse(f"{self.where}: {name}", "a chain", "a branch from an earlier part")
        return value

    def _attributes(self, node: Any) -> dict[str, Any]:
        return {one.name: self.onnx.helper.get_attribute_value(one) for one in node.attribute}

    # moving axes

    def _transpose(self, node: Any, given: list[Any], name: str) -> None:
        if isinstance(given[0], Constant):
            perm = self._attributes(node).get("perm")
            self._set(node, Constant(np.transpose(given[0].array, perm)))
            return
        if not isinstance(given[0], Data):
            self._set(node, given[0])
            return
        perm = self._attributes(node).get("perm", range(len(given[0].axes))[::-1])
        if sorted(perm) != list(range(len(given[0].axes))):
            raise refuse(f"{self.where}: {name}", f"an order of {len(given[0].axes)} axes", list(perm))
        self._set(node, replace(given[0], axes=tuple(given[0].axes[n] for n in perm)))

    def _squeeze(self, node: Any, given: list[Any], name: str) -> None:
        if not isinstance(given[0], Data):
            self._set(node, given[0])
            return
        x = given[0]
        axes = self._attributes(node).get("axes")
        if axes is None and len(given) > 1 and isinstance(given[1], Constant):
            axes = given[1].array.tolist()
        last = self.parts[-1] if self.parts else None
        names = [x.axes[n] for n in axes] if axes and all(-len(x.axes) <= n < len(x.axes) for n in axes) else []
        if names != ["D"] or not isinstance(last, Recurrent) or len(last.units) != 1:
            raise refuse(f"{self.where}: {name}", "the one direction squeezed away", names or "other axes")
        self._set(node, replace(x, axes=tuple(axis for axis in x.axes if axis != "D")))

    def _reshape(self, node: Any, given: list[Any], name: str) -> None:
        if not isinstance(given[0], Data):
            self._set(node, Side("shape") if isinstance(given[0], Constant) else given[0])
            return
        x = given[0]
        if x.axes[-2:] != ("D", "H"):
            raise refuse(f"{self.where}: {name}", "the directions joined, (…, D, H) to (…, D·H)", x.axes)
        shape = given[1].array.tolist() if isinstance(given[1], Constant) else None
        if shape is not None and (len(shape) != len(x.axes) - 1 or any(n > 0 for n in shape[:-1])):
            way_out = "Batch and time must stay open: write 0 for them."
            raise refuse(f"{self.where}: {name}", "axes kept, the last two joined", shape, way_out)
        self._set(node, replace(x, axes=(*x.axes[:-2], "F")))

    def _same(self, node: Any, given: list[Any], name: str) -> None:
        attributes = self._attributes(node)
        if node.op_type == "Cast" and isinstance(given[0], Data) and not self.parts and len(given[0].axes) == 2:
            self._set(node, given[0])  # ids to another type of integer
            return
        if node.op_type == "Cast" and isinstance(given[0], Data):
            raise refuse(f"{self.where}: {name}", "one type of number throughout", f"a cast to {attributes.get('to')}")
        if node.op_type == "Dropout" and len(given) > 2 and isinstance(given[2], Constant) and given[2].array.any():
            raise refuse(f"{self.where}: {name}", "training_mode False", True)
        self._set(node, given[0])

    _identity = _dropout = _cast = _same

    # beside the stack: states, lengths, shapes

    def _constant(self, node: Any, given: list[Any], name: str) -> None:
        del given
        value = self._attributes(node)
        if "value" in value:
            self._set(node, Constant(self._array(value["value"], name)))
        elif {"value_int", "value_ints", "value_float", "value_floats"} & value.keys():
            self._set(node, Constant(np.asarray(next(iter(value.values())))))
        else:
            raise refuse(f"{self.where}: {name}", "a constant of numbers", ", ".join(value))

    def _constantofshape(self, node: Any, given: list[Any], name: str) -> None:
        del given
        value = self._attributes(node).get("value")
        zero = value is None or not self._array(value, name).any()
        self._set(node, Zero() if zero else Side("shape"))

    def _expand(self, node: Any, given: list[Any], name: str) -> None:
        del name
        zero = isinstance(given[0], Zero) or (isinstance(given[0], Constant) and not given[0].array.any())
        self._set(node, Zero() if zero else Side("shape"))

    def _shape(self, node: Any, given: list[Any], name: str) -> None:
        del given, name
        self._set(node, Side("shape"))

    _size = _shape

    def _pass(self, node: Any, given: list[Any], name: str) -> None:
        """Slices, splits and joins of states; of the data itself only the final states may be joined."""
        first = given[0] if given else None
        if isinstance(first, Data) and not first.final:
            raise refuse(f"{self.where}: {name}", "the whole value", f"{node.op_type} of it")
        if all(isinstance(one, Constant) for one in given):
            self._all(node, Side("shape"))
            return
        joined = any(isinstance(one, Data) for one in given) or first == Side("state")
        self._all(node, Side("state") if joined else first if isinstance(first, Zero | Side) else Side("shape"))

    _slice = _split = _concat = _unsqueeze = _pass

    def _equal(self, node: Any, given: list[Any], name: str) -> None:
        ids, other = given if isinstance(given[0], Data) else given[::-1]
        if not isinstance(ids, Data):
            self._all(node, Side("shape"))
            return
        if self.parts or not isinstance(other, Constant) or other.array.any():
            raise refuse(f"{self.where}: {name}", "ids compared with 0, the padding", "another comparison")
        self.padding.add(node.output[0])
        self._set(node, Side("mask"))

    def _reducesum(self, node: Any, given: list[Any], name: str) -> None:
        if given[0] != Side("mask"):
            raise refuse(f"{self.where}: {name}", "the lengths counted from a mask of ids", kind_of(given[0]))
        self._set(node, Side("lengths"))

    def _not(self, node: Any, given: list[Any], name: str) -> None:
        del name
        self._set(node, given[0] if isinstance(given[0], Side) else Side("shape"))
