"""One cell of a recurrent layer, with its gates in sight.

Axes     B batch, I input, H hidden, P state (= H without a projection).
Source   the step functions of `unrolled.equations`; no law is written here.
Variant  five kinds, by the names of the engines: rnn_tanh, rnn_relu, lstm, gru_after, gru_before. torch.nn's layers and
         cells become ours with the same weights first, so every kind is read in one way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.equations import gru_gates, gru_update, lstm_gates, lstm_update, rnn_step
from unrolled.errors import RunError, expected
from unrolled.layers import GRU, LSTM, RNN, GRUCell, LSTMCell, Recurrent, RNNCell
from unrolled.models import CharacterInput

__all__ = ["KEEPS", "Cell", "Step", "cell_of", "is_recurrent", "spells", "twin_of"]

State = tuple[Tensor, ...]
KEEPS = {"lstm": "f", "gru_after": "z", "gru_before": "z"}  # the gate that is 1 where the old memory stays
OURS = (Recurrent, RNNCell, LSTMCell, GRUCell)
TORCHS = (nn.RNNBase, nn.RNNCellBase)
SAME = {nn.RNN: RNN, nn.LSTM: LSTM, nn.GRU: GRU, nn.RNNCell: RNNCell, nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell}


class Step(NamedTuple):
    """What one step made."""

    state: State  # (h,), or (h, c) of an LSTM
    gates: dict[str, Tensor]  # (B, H) each; none of an RNN


class Cell(NamedTuple):
    """The weights of one layer and direction, and which equations they go into."""

    kind: str
    W: Tensor  # (gates, I, H)
    U: Tensor  # (gates, P, H)
    b: Tensor | None  # (gates, H)
    b_h: Tensor | None  # (gates, H)
    V: Tensor | None  # (H, P)

    @property
    def names(self) -> tuple[str, ...]:
        """The gates, in the order of the weights' blocks: i f g o, r z n, or none."""
        return {"lstm": LSTM.GATES, "gru_after": GRU.GATES, "gru_before": GRU.GATES}.get(self.kind, ())

    @property
    def keeps(self) -> str | None:
        """The gate that is 1 where the old memory stays: f of an LSTM, z of a GRU, none of an RNN."""
        return KEEPS.get(self.kind)

    def step(self, x: Tensor, *state: Tensor) -> Step:
        """One step by the equations: x (B, I), h (B, P), and c (B, H) of an LSTM."""
        W, U, b, b_h = self.W, self.U, self.b, self.b_h
        if self.kind == "lstm":
            h, c = state
            opened = lstm_gates(x, h, W, U, b, b_h)
            after = lstm_update(c, *opened)
            shown = after.h if self.V is None else after.h @ self.V
            return Step((shown, after.c), opened._asdict())
        if self.kind.startswith("gru"):
            (h,) = state
            gates = gru_gates(x, h, W, U, b, b_h, reset_after=self.kind == "gru_after")
            return Step((gru_update(h, gates.z, gates.n),), gates._asdict())
        (h,) = state
        biases = (None if b is None else b[0], None if b_h is None else b_h[0])
        phi: Any = "relu" if self.kind == "rnn_relu" else "tanh"
        return Step((rnn_step(x, h, W[0], U[0], *biases, nonlinearity=phi),), {})


def is_recurrent(module: nn.Module) -> bool:
    """Whether the module is a recurrent layer or cell that can be looked into."""
    return isinstance(module, (*OURS, *TORCHS))


def spells(model: nn.Module, name: str) -> bool:
    """Whether a layer reads the letters of words: its rows are then words, not rows of the batch."""
    parts = name.split(".")
    above = (model.get_submodule(".".join(parts[:i])) for i in range(len(parts)))
    return any(isinstance(module, CharacterInput) for module in above)


def cell_of(module: Any, layer: int = 0, direction: int = 0) -> Cell:
    """The weights of one of our layers, or of a cell, as the equations take them."""
    weights = module.gates(layer, direction) if isinstance(module, Recurrent) else module.gates()
    return Cell(_kind(module), *weights)


def _kind(module: Any) -> str:
    if isinstance(module, LSTM | LSTMCell):
        return "lstm"
    if isinstance(module, GRU | GRUCell):
        return "gru_after" if module.reset_after else "gru_before"
    if isinstance(module, RNN | RNNCell):
        return f"rnn_{module.nonlinearity}"
    way_out = "Give the cell a place in unrolled.insight.cells, or look at the models that have one."
    raise RunError(expected("model", "layers of RNN, LSTM or GRU", type(module).__name__, way_out))


@torch.no_grad()
def twin_of(module: Any) -> Any:
    """A layer or cell of ours with the same weights, without dropout, on which nothing done is seen by the module."""
    if isinstance(module, OURS):
        twin = type(module).__new__(type(module))  # copy.copy refuses parametrised modules
        twin.__dict__ |= module.__dict__
        twin.dropout, twin.backend = 0.0, "reference"
        return twin
    kind = next(kind for kind in type(module).__mro__ if kind in SAME or kind in TORCHS)
    if kind not in SAME:
        raise RunError(expected("model", "layers of RNN, LSTM or GRU", type(module).__name__))
    first = next(module.parameters())
    options: dict[str, Any] = {"bias": module.bias, "device": first.device, "dtype": first.dtype}
    if hasattr(module, "nonlinearity"):
        options["nonlinearity"] = module.nonlinearity
    if isinstance(module, nn.RNNBase):
        names = ("num_layers", "batch_first", "bidirectional", "proj_size")
        options |= {name: getattr(module, name) for name in names if name != "proj_size" or module.proj_size}
    with torch.random.fork_rng(devices=[]):  # a layer draws its first weights, which nobody should notice
        twin = SAME[kind](module.input_size, module.hidden_size, **options)
    for name, parameter in twin.named_parameters():
        parameter.copy_(getattr(module, name))  # by attribute: a parametrised weight is computed there
    return twin
