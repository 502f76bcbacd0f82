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

__all__ = ["Constant", "Data", "Moves", "Side", "Zero", "is_zero", "kind_of"]


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
    """What stands beside the stack.

    kind    state: a state that the graph is given. lengths: those that it is given, or counts from its ids. padding
            and mask: where ids are 0, and where they are not. final: a state that a node gives out. shape: all else.
    source  the input that a state or lengths come from; "" where lengths are counted.
    place   where a state is cut out of its input along the first axis; () for the whole of it.
    axis    of lengths that are counted: the axis of the ids that they are counted along.
    """

    kind: str
    source: str = ""
    place: tuple[int, ...] = ()
    axis: str = ""


FLOATS, INTEGERS = {1, 11}, {6, 7}  # of TensorProto: FLOAT and DOUBLE, INT32 and INT64


def is_zero(value: Any) -> bool:
    """Is it zeros, whatever goes into the graph?"""
    return isinstance(value, Zero) or (isinstance(value, Constant) and not value.array.any())


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
            self._set(node, Zero() if is_zero(given[0]) else Side("shape"))
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
        if node.op_type == "Cast" and isinstance(given[0], Constant):
            kind = self.onnx.helper.tensor_dtype_to_np_dtype(attributes["to"])
            self._set(node, Constant(given[0].array.astype(kind)))
            return
        kinds = {"state": FLOATS, "lengths": INTEGERS}
        if node.op_type == "Cast" and isinstance(given[0], Side) and given[0].kind in kinds:
            exact = attributes.get("to") in kinds[given[0].kind]
            self._set(node, given[0] if exact else Side("shape"))
            return
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
        if isinstance(given[0], Data):
            raise refuse(f"{self.where}: {name}", "a chain", f"{node.op_type} of the value that flows")
        self._set(node, Zero() if is_zero(given[0]) else Side("shape"))

    _tile = _expand

    def _shape(self, node: Any, given: list[Any], name: str) -> None:
        del given, name
        self._set(node, Side("shape"))

    _size = _shape

    def _pass(self, node: Any, given: list[Any], name: str) -> None:
        """Slices, splits and joins of states; of the data itself only the final states may be joined."""
        if given and isinstance(given[0], Data) and not given[0].final:
            raise refuse(f"{self.where}: {name}", "the whole value", f"{node.op_type} of it")
        held = given if node.op_type == "Concat" else given[:1]
        first = held[0] if held else None
        if held and all(is_zero(one) for one in held):
            self._all(node, Zero())
        elif any(isinstance(one, Data) or one == Side("final") for one in held):
            self._all(node, Side("final"))
        elif node.op_type == "Unsqueeze" and isinstance(first, Side):
            self._all(node, first)
        elif node.op_type in ("Slice", "Split") and isinstance(first, Side) and first.kind == "state":
            for number, output in enumerate(node.output):
                place = number if node.op_type == "Split" else self._start(node, given)
                self.values[output] = self._part(node, first, place)
        else:
            self._all(node, Side("shape"))

    _slice = _split = _concat = _unsqueeze = _pass

    def _part(self, node: Any, state: Side, place: int | None) -> Side:
        """The rows of a state for one layer, unless they are cut along another axis or from the end."""
        if place is None or (node.op_type == "Split" and self._attributes(node).get("axis", 0) != 0):
            return Side("shape")
        return replace(state, place=(*state.place, place))

    def _start(self, node: Any, given: list[Any]) -> int | None:
        """Where a Slice along the first axis begins, if the file says it."""
        said: dict[str, Any] = {"axes": [0], "steps": [1], **self._attributes(node)}
        for key, value in zip(("starts", "ends", "axes", "steps"), given[1:], strict=False):
            if value is not None:
                said[key] = value.array.tolist() if isinstance(value, Constant) else None
        if said["axes"] != [0] or said["steps"] != [1] or not said["starts"] or said["starts"][0] < 0:
            return None
        return int(said["starts"][0])

    def _equal(self, node: Any, given: list[Any], name: str) -> None:
        ids, other = given if isinstance(given[0], Data) else given[::-1]
        if not isinstance(ids, Data):
            self._all(node, Side("shape"))
            return
        if ids.stage or len(ids.axes) != 2 or not isinstance(other, Constant) or other.array.any():
            raise refuse(f"{self.where}: {name}", "ids compared with 0, the padding", "another comparison")
        self._set(node, Side("padding"))

    def _reducesum(self, node: Any, given: list[Any], name: str) -> None:
        if given[0] != Side("mask"):
            raise refuse(f"{self.where}: {name}", "the lengths counted from a mask of ids", kind_of(given[0]))
        axes = self._attributes(node).get("axes")
        if len(given) > 1 and isinstance(given[1], Constant):
            axes = given[1].array.tolist()
        if not axes or len(axes) != 1 or axes[0] not in (-2, -1, 0, 1):
            raise refuse(f"{self.where}: {name}", "a sum over the time axis of the ids", axes)
        self._set(node, Side("lengths", axis=("first", "second")[axes[0]]))

    def _not(self, node: Any, given: list[Any], name: str) -> None:
        del name
        turned = {Side("padding"): Side("mask"), Side("mask"): Side("padding")}
        self._set(node, turned.get(given[0], Side("shape")) if isinstance(given[0], Side) else Side("shape"))
