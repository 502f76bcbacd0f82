"""Recurrent layers over the native engine: a stack, in one direction or both.

Axes     T time, B batch, I input, P state, L layers, D directions. Time comes first: x (T, B, I) → (T, B, D·P).
         State h (L·D, B, P), and c (L·D, B, H) for an LSTM: layer 0 forward, layer 0 reverse, layer 1 forward, …
Source   weights are torch.nn's, (gates · H, I), gates i f g o and r z n; the laws are those of `unrolled.equations`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.errors import BundleError, MissingExtra, expected
from unrolled.runtime.weights import Weights

__all__ = ["CELLS", "Recurrent", "State", "Steps", "native"]

State = tuple[np.ndarray, ...]  # (h,) or (h, c)
CELLS = {"rnn": 1, "lstm": 4, "gru": 3}  # and how many blocks of rows each has


def native() -> Any:
    """The compiled engine.

    Raises:
        MissingExtra: the package was installed without it, or its file cannot be loaded.
    """
    try:
        return importlib.import_module("unrolled._native")
    except ImportError as error:  # the loader of the system says what is wrong with a file that is there
        absent = isinstance(error, ModuleNotFoundError)
        found = f"is not there ({error.name})" if absent else f"cannot be loaded ({error})"
        way_out = "Install it again with: pip install --force-reinstall unrolled"
        raise MissingExtra(f"The native engine of unrolled {found}. {way_out}") from error


@dataclass(frozen=True)
class Shape:
    """What a stack looks like."""

    cell: str
    input_size: int
    hidden: int
    layers: int = 1
    bidirectional: bool = False
    reset_after: bool = True
    single_bias: bool = False
    learned: bool = False  # the state that a row starts from

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def suffixes(self) -> Iterator[tuple[int, str]]:
        """The layer, and the end of its tensors' names, in the order of the state."""
        for layer in range(self.layers):
            for direction in ("", "_reverse")[: self.directions]:
                yield layer, f"_l{layer}{direction}"


class Recurrent:
    """The layers of a model.

    Args:
        weights: the tensors; those whose names begin with `prefix` are taken.
    """

    def __init__(self, weights: Weights, prefix: str, shape: Shape) -> None:
        if shape.cell not in CELLS:
            raise BundleError(expected(f"{weights.where}: cell", "one of " + ", ".join(CELLS), repr(shape.cell)))
        if shape.layers > len(weights):  # a header must not ask for more than its file holds
            raise BundleError(expected(f"{weights.where}: layers", f"{len(weights)} or fewer", shape.layers))
        self.shape = shape
        self.width = shape.directions * shape.hidden
        self.parts = 2 if shape.cell == "lstm" else 1
        self.layers = [self._layer(weights, prefix, layer, suffix) for layer, suffix in shape.suffixes()]
        self._initial = self._learned(weights, prefix)

    def _layer(self, weights: Weights, prefix: str, layer: int, suffix: str) -> Any:
        """One layer and direction in the engine's order: gates are an axis, rows of x multiply from the left."""
        hidden, gates = self.shape.hidden, CELLS[self.shape.cell]
        inputs = self.width if layer else self.shape.input_size

        def blocks(name: str, *columns: int) -> np.ndarray:
            flat = weights.take(f"{prefix}{name}{suffix}", gates * hidden, *columns)
            return flat.reshape(gates, hidden, *columns)

        W, U = blocks("weight_ih", inputs), blocks("weight_hh", hidden)
        word = {"rnn": "rnn_tanh", "lstm": "lstm", "gru": "gru_after" if self.shape.reset_after else "gru_before"}
        biases = (blocks("bias_ih"), None if self.shape.single_bias else blocks("bias_hh"))
        return native().Layer(word[self.shape.cell], W.transpose(0, 2, 1), U.transpose(0, 2, 1), *biases)

    def _learned(self, weights: Weights, prefix: str) -> State | None:
        """The learned initial state, (L·D, 1, P) a part; None: it starts from zeros."""
        if not self.shape.learned:
            return None
        return tuple(
            np.stack([weights.take(f"{prefix}initial_{part}{suffix}", self.shape.hidden) for _, suffix in
                      self.shape.suffixes()])[:, None]
            for part in "hc"[: self.parts]
        )  # fmt: skip

    def start(self, rows: int) -> State:
        """The state of `rows` rows that have read nothing."""
        shape = (len(self.layers), rows, self.shape.hidden)
        if self._initial is None:
            return tuple(np.zeros(shape, np.float32) for _ in range(self.parts))
        return tuple(np.broadcast_to(part, shape).copy() for part in self._initial)

    def run(self, x: np.ndarray, state: State | None = None, lengths: np.ndarray | None = None) -> Any:
        """x (T, B, I) float32 → the output, 0 past each row's length, and the state after each row's own last step."""
        given = self.start(x.shape[1]) if state is None else state
        finals: list[Any] = []
        x = np.ascontiguousarray(x, np.float32)
        lengths = None if lengths is None else np.ascontiguousarray(lengths, np.int64)
        for layer in range(self.shape.layers):
            outs = []
            for direction in range(self.shape.directions):
                index = layer * self.shape.directions + direction
                before = tuple([np.ascontiguousarray(part[index]) for part in given])
                out, final = self.layers[index].run(x, before, lengths=lengths, reverse=direction == 1)
                outs.append(out)
                finals.append(final)
            x = outs[0] if len(outs) == 1 else np.concatenate(outs, axis=-1)
        if len(finals) == 1:  # a new axis costs less than a stack of one
            return x, tuple([part[None] for part in finals[0]])
        return x, tuple(np.stack(part) for part in zip(*finals, strict=True))

    def steps(self, rows: int = 1) -> Steps:
        """A loop of single steps whose state stays in place."""
        return Steps(self, rows)


class Steps:
    """One step at a time, without allocation: for loops in which a microsecond counts.

    >>> steps = model.recurrent.steps()      # doctest: +SKIP
    >>> out = steps(x)                       # doctest: +SKIP
    """

    def __init__(self, recurrent: Recurrent, rows: int = 1) -> None:
        if recurrent.shape.bidirectional:
            raise ValueError(expected("steps", "layers of one direction", "bidirectional=True"))
        self.state = recurrent.start(rows)
        self._calls = [
            (layer.step, *(part[index] for part in self.state)) for index, layer in enumerate(recurrent.layers)
        ]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """x (B, I) float32 → the new state of the top layer, (B, P): a view that the next call overwrites."""
        for step, *state in self._calls:
            step(x, *state)
            x = state[0]
        return x
