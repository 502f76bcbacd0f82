"""What a converted network is made of, as plain arrays: the middle between two frameworks.

Axes     gates are an axis, in the order of `conventions.OURS`: W (G, I, H), U (G, P, H), b and b_h (G, H), V (H, P).
         An embedding is (tokens, E), a dense weight (inputs, outputs).
Variant  GRU: z = 1 keeps the old state. What other frameworks do is turned into this by `packing`, and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from unrolled.conventions import Layout
from unrolled.errors import UnrolledError, expected

__all__ = ["MERGES", "ConvertError", "Dense", "Embedding", "Network", "Origin", "Recurrent", "Unit", "refuse"]

MERGES = ("concat", "sum", "mul", "ave", None)  # of two directions; None is a pair


class ConvertError(UnrolledError, ValueError):
    """A file cannot be read as weights, or a conversion would not be exact."""


def refuse(tensor: str, wanted: object, found: object, choice: str = "") -> ConvertError:
    """The error of a conversion that cannot be exact: what, why, and what can be chosen instead."""
    return ConvertError(expected(tensor, wanted, found, choice))


@dataclass(frozen=True)
class Origin:
    """The tensors of one unit as the other framework holds them, and the row of the table that says what they mean."""

    layout: Layout
    raw: Mapping[str, np.ndarray]
    where: str
    forget_offset: float = 0.0
    nonlinearity: str = "tanh"  # of an RNN, in the source's own word


@dataclass(frozen=True, eq=False)
class Unit:
    """One layer in one direction."""

    cell: str  # rnn, lstm, gru
    W: np.ndarray
    U: np.ndarray
    b: np.ndarray | None = None
    b_h: np.ndarray | None = None
    V: np.ndarray | None = None
    nonlinearity: str = "tanh"  # of the RNN
    reset_after: bool = True  # of the GRU
    where: str = "layer 0"  # how messages call it
    origin: Origin | None = field(default=None, repr=False)

    @property
    def input_size(self) -> int:
        return self.W.shape[1]

    @property
    def hidden_size(self) -> int:
        return self.W.shape[2]

    @property
    def state_size(self) -> int:
        """What the next step sees: P with a projection, else H."""
        return self.U.shape[1]

    @property
    def variant(self) -> tuple[object, ...]:
        """Two units can be parts of one torch-style layer if these are equal."""
        sizes = (self.hidden_size, self.state_size, self.b is None, self.b_h is None, self.V is None)
        return (self.cell, self.nonlinearity, self.reset_after, self.W.dtype, *sizes)


@dataclass(frozen=True)
class Embedding:
    """A row of `weight` (tokens, E) for each id."""

    weight: np.ndarray
    mask_zero: bool = False  # Keras: id 0 is padding


@dataclass(frozen=True)
class Recurrent:
    """One layer over a whole sequence, in one direction or both.

    `backwards` reads the sequence from its end and leaves the output in reading order, as Keras's go_backwards;
    `reverse` reads from the end and puts the output back in order. `every` gives the output of every step, else only
    the final one. `hold` repeats the last valid output past a row's end, as Keras does with a mask.
    """

    units: tuple[Unit, ...]
    merge: str | None = "concat"  # one of MERGES
    every: bool = True
    backwards: bool = False
    reverse: bool = False
    hold: bool = False

    @property
    def plain(self) -> bool:
        """Is this what a layer of torch.nn does?"""
        return self.merge == "concat" and self.every and not (self.backwards or self.reverse or self.hold)

    @property
    def width(self) -> int:
        size = self.units[0].state_size
        return 2 * size if len(self.units) == 2 and self.merge == "concat" else size


@dataclass(frozen=True)
class Dense:
    """x @ weight + bias, then the activation, over the last axis."""

    weight: np.ndarray  # (inputs, outputs)
    bias: np.ndarray | None = None
    activation: str = "linear"
    where: str = "dense"


Part = Embedding | Recurrent | Dense


@dataclass(frozen=True)
class Network:
    """Parts in the order in which they run, and how the whole is called."""

    parts: tuple[Part, ...]
    batch_first: bool = True
    layer: bool = False  # called like a layer, (output, state); else like a stack, output alone
    notes: tuple[str, ...] = ()  # what a reader of the report should know

    def __post_init__(self) -> None:
        check_chain(self.parts)

    @property
    def recurrent(self) -> tuple[Recurrent, ...]:
        return tuple(part for part in self.parts if isinstance(part, Recurrent))

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for part in self.recurrent for unit in part.units)

    def noted(self, *notes: str) -> Network:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def check_chain(parts: tuple[Part, ...]) -> None:
    """Each part's input is as wide as the output of the part before it.

    Raises:
        ConvertError: no recurrent layer at all, an embedding that is not first, or two parts that do not fit.
    """
    if not any(isinstance(part, Recurrent) for part in parts):
        raise refuse("the file", "at least one RNN, LSTM or GRU", "none")
    width: int | None = None
    for number, part in enumerate(parts):
        if isinstance(part, Embedding):
            if number:
                raise refuse(f"part {number}", "an embedding only at the start", "an embedding after another part")
            width = part.weight.shape[1]
            continue
        inputs, where = _inputs_of(part)
        for size in inputs:
            if width is not None and size != width:
                raise refuse(where, f"{width} inputs, the width of what stands before it", size)
        if isinstance(part, Recurrent):
            _check_after(part, parts[number + 1 :])
        width = part.width if isinstance(part, Recurrent) else part.weight.shape[1]


def _inputs_of(part: Recurrent | Dense) -> tuple[list[int], str]:
    if isinstance(part, Dense):
        return [part.weight.shape[0]], part.where
    return [unit.input_size for unit in part.units], part.units[0].where


def _check_after(part: Recurrent, rest: tuple[Part, ...]) -> None:
    where = part.units[0].where
    if not part.every and any(isinstance(later, Recurrent) for later in rest):
        raise refuse(where, "every step's output, since a recurrent layer follows", "the final output only")
    if part.merge is None and len(part.units) == 2 and rest:
        raise refuse(where, "a merge of the two directions, since a part follows", "merge_mode=None, a pair")
