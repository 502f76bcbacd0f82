"""RNN, LSTM and GRU: drop-in for torch.nn, with lengths, resets and named variants.

Axes     T time, B batch, I input, H hidden, P state (= H without a projection), L layers, D directions.
         Input (T, B, I), or (B, T, I) with batch_first, or (T, I) unbatched, or a PackedSequence.
         Output the same axes with D·P features; states (L·D, B, P), and (L·D, B, H) for the LSTM's c.
Source   the equations of `unrolled.equations`, run by an engine of `unrolled.kernels`.
Variant  constructor, parameters, state_dict and results as torch.nn's; what goes beyond is keyword-only.

A layer remembers nothing between calls and reads its weights at every call.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unrolled import init as initialisers
from unrolled.kernels import Choice, Gates, LayerCall, choose
from unrolled.layers import inputs
from unrolled.layers.stream import Stream

Initialiser = Callable[[Any], None]
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")  # torch.nn's names, and their order


class Recurrent(nn.Module):
    """What the three layers share: parameters, stacking and directions. Use `RNN`, `LSTM` or `GRU`."""

    GATES: ClassVar[tuple[str, ...]] = ()  # the names of the blocks, in the order of the rows of weight_ih
    BLOCKS: ClassVar[int] = 1
    SCAN: ClassVar[str]
    STATES: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        single_bias: bool = False,
        init: str | Initialiser = "torch",
        learn_initial_state: bool = False,
        memory: Literal["store", "recompute"] = "store",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self.single_bias = single_bias
        self.init = init
        self.learn_initial_state = learn_initial_state
        self.memory = memory
        self.backend = backend
        inputs.check_options(self, dropout)
        if self.dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} acts between layers, and num_layers=1 has no between: it does nothing.",
                UserWarning,
                stacklevel=3,
            )
        has = (True, True, bias, bias and not single_bias, proj_size > 0)
        self._names = [
            tuple(kind + suffix if there else None for kind, there in zip(WEIGHTS, has, strict=True))
            for _, suffix in self._suffixes()
        ]
        self._make_parameters(device, dtype)
        self.reset_parameters()

    # parameters

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The last axis of each part of the state: (P,), or (P, H) for the LSTM."""
        return (self.proj_size or self.hidden_size, self.hidden_size)[: len(self.STATES)]

    def _make_parameters(self, device: Any, dtype: torch.dtype | None) -> None:
        """torch.nn's names and shapes, registered in torch.nn's order; the learned initial state comes last."""
        state_size = self.state_sizes[0]

        def add(name: str, *shape: int) -> None:
            self.register_parameter(name, nn.Parameter(torch.empty(*shape, device=device, dtype=dtype)))

        rows = self.BLOCKS * self.hidden_size
        for layer, suffix in self._suffixes():
            add(
                f"weight_ih{suffix}",
                rows,
                self.input_size if layer == 0 else state_size * self.num_directions,
            )
            add(f"weight_hh{suffix}", rows, state_size)
            if self.bias:
                add(f"bias_ih{suffix}", rows)
            if self.bias and not self.single_bias:
                add(f"bias_hh{suffix}", rows)
            if self.proj_size:
                add(f"weight_hr{suffix}", self.proj_size, self.hidden_size)
        if self.learn_initial_state:
            for _, suffix in self._suffixes():
                for name, size in zip(self.STATES, self.state_sizes, strict=True):
                    add(f"initial_{name}{suffix}", size)

    def _suffixes(self) -> Iterator[tuple[int, str]]:
        for layer in range(self.num_layers):
            for direction in range(self.num_directions):
                yield layer, f"_l{layer}" + ("_reverse" if direction else "")

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Fill the weights: torch's uniform rule, then the named or given initialiser on top of it."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("initial_"):
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -bound, bound)
        fill = initialisers.NAMED[self.init] if isinstance(self.init, str) else self.init
        if fill is not None:
            fill(self)

    def gates(self, layer: int = 0, direction: int = 0) -> Gates:
        """The weights of one layer and direction, as the equations take them: views of the parameters.

        >>> GRU(4, 3).gates(0).W.shape
        torch.Size([3, 4, 3])
        """
        return Gates.of(self._weights(layer, direction), self.BLOCKS)

    def _weights(self, layer: int, direction: int) -> tuple[Any, ...]:
        """weight_ih, weight_hh, bias_ih, bias_hh, weight_hr; None where there is none."""
        own = self._parameters  # a parametrization takes a weight out of it, and then only the attribute knows it
        names = self._names[layer * self.num_directions + direction]
        return tuple([None if name is None else own[name] if name in own else getattr(self, name) for name in names])

    def all_gates(self) -> Iterator[Gates]:
        """`gates` of every layer and direction, layer 0 forward first."""
        for layer in range(self.num_layers):
            for direction in range(self.num_directions):
                yield self.gates(layer, direction)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """As torch.nn's: one list of parameters a layer and direction."""
        return [[getattr(self, name) for name in names if name is not None] for names in self._names]

    def flatten_parameters(self) -> None:
        """Nothing to do: weights are read at every call. Here so that code written for torch.nn runs."""

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in inputs.DEFAULTS.items():
            value = getattr(self, name, default)
            if value != default:
                shown.append(f"{name}={getattr(value, '__qualname__', repr(value))}")
        return ", ".join(shown)

    # forward

    def forward(
        self, input: Tensor | PackedSequence, hx: Any = None, *, lengths: Any = None, resets: Any = None
    ) -> tuple[Any, Any]:
        """Run over whole sequences.

        Args:
            input: (T, B, I), (B, T, I) with batch_first, (T, I) unbatched, or a PackedSequence.
            hx: the initial state, (L·D, B, P), and the pair (h, c) for an LSTM; zeros, or the learned one, where None.
            lengths: (B,) steps of each row, of any integer type, in any order, 0 allowed; all T where None.
            resets: bool (B, T); True at (b, t) starts row b again before step t, from zeros or the learned state.

        Returns:
            The output, 0 past each row's length, and the state after each row's own last step.

        Raises:
            ShapeError: an axis has the wrong size; the message names it.
            DtypeError: the input, the state or the lengths have the wrong type of number.
        """
        call = inputs.read(self, input, hx, lengths, resets)
        x, state = call.x, call.state
        finals: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            results = self._scan(x, state, layer, call)
            outs = [out for out, *_ in results]
            finals += [final for _, *final in results]
            x = outs[0] if len(outs) == 1 else torch.cat(outs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = nn.functional.dropout(x, self.dropout, training=True)
        ends = zip(*finals, strict=True)
        last = tuple([part[0].unsqueeze(0) if len(part) == 1 else torch.stack(part) for part in ends])
        return inputs.write(self, x, last, call)

    def _scan(self, x: Tensor, state: tuple[Any, ...], layer: int, call: inputs.Call) -> list[tuple[Tensor, ...]]:
        """The output and the final state of each direction of one layer."""
        calls = []
        for direction in range(self.num_directions):
            index = layer * self.num_directions + direction
            weights = self._weights(layer, direction)
            if weights[0].dtype != x.dtype:  # half precision computes in single
                weights = tuple(None if w is None else w.to(x.dtype) for w in weights)
            own = tuple([None if part is None else part[index] for part in state])
            restart = None if call.restart is None else tuple(part[index] for part in call.restart)
            calls.append(LayerCall(x, own, weights, restart, call.lengths, call.resets, direction == 1))
        return self._choose(x).each(calls, self._variant())

    def _choose(self, x: Tensor) -> Choice:
        return choose(self.SCAN, x, backend=self.backend, memory=self.memory)

    def _variant(self) -> dict[str, Any]:
        """The cell's own keywords."""
        return {}

    def stream(self, batch_size: int = 1) -> Stream:
        """A stream that carries the state from push to push.

        Raises:
            ValueError: the layer is bidirectional: its reverse direction needs the end, which has not come yet.
        """
        return Stream(self, batch_size)


class RNN(Recurrent):
    """Simple (Elman) recurrent layer, as torch.nn.RNN: h_t = φ(x_t W + b + h_{t-1} U + b_h), φ tanh or relu."""

    SCAN = "rnn_scan"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        inputs.refuse_projection(type(self).__name__, options)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity: expected 'tanh' or 'relu', found {nonlinearity!r}.")
        self.nonlinearity = nonlinearity
        layout = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(input_size, hidden_size, *layout, **options)

    def _variant(self) -> dict[str, Any]:
        return {"nonlinearity": self.nonlinearity}


class LSTM(Recurrent):
    """Long short-term memory, as torch.nn.LSTM; see `unrolled.equations.lstm_step`.

    forget_bias sets the effective forget bias at initialisation, halved over the two biases so that the sum is exact.
    """

    GATES = ("i", "f", "g", "o")
    BLOCKS = 4
    SCAN = "lstm_scan"
    STATES = ("h", "c")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        forget_bias: float | None = None,
        **options: Any,
    ) -> None:
        if forget_bias is not None and not bias:
            raise ValueError(f"forget_bias: expected None with bias=False, found {forget_bias}.")
        self.forget_bias = forget_bias
        layout = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__(input_size, hidden_size, *layout, **options)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        initialisers.set_forget_bias(self, self.forget_bias)


class GRU(Recurrent):
    """Gated recurrent unit, as torch.nn.GRU; reset_after=False gives the published form of Cho et al. (2014)."""

    GATES = ("r", "z", "n")
    BLOCKS = 3
    SCAN = "gru_scan"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        reset_after: bool = True,
        **options: Any,
    ) -> None:
        inputs.refuse_projection(type(self).__name__, options)
        self.reset_after = reset_after
        layout = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(input_size, hidden_size, *layout, **options)

    def _choose(self, x: Tensor) -> Choice:
        return choose(self.SCAN, x, reset_after=self.reset_after, backend=self.backend, memory=self.memory)

    def _variant(self) -> dict[str, Any]:
        return {"reset_after": self.reset_after}
