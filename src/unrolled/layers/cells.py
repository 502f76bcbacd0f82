"""Cells: one step of one layer, drop-in for torch.nn's. The equation is called as it stands.

Axes     B batch, I input, H hidden; input (B, I) or (I,) unbatched, state (B, H) or (H,).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from unrolled import init as initialisers
from unrolled.equations import gru_step, lstm_step, rnn_step
from unrolled.errors import DtypeError, ShapeError, expected
from unrolled.layers.inputs import compute_dtype
from unrolled.layers.recurrent import Gates


class _Cell(nn.Module):
    GATES: ClassVar[tuple[str, ...]] = ()
    BLOCKS: ClassVar[int] = 1
    STATES: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        device: Any,
        dtype: torch.dtype | None,
        *,
        single_bias: bool = False,
        init: str | Callable[[Any], None] = "torch",
    ) -> None:
        super().__init__()
        if single_bias and not bias:
            raise ValueError(f"{type(self).__name__}: single_bias=True contradicts bias=False.")
        if not callable(init) and init not in initialisers.NAMED:
            raise ValueError(expected("init", f"a callable or one of {list(initialisers.NAMED)}", repr(init)))
        self.input_size, self.hidden_size = input_size, hidden_size
        self.bias, self.single_bias, self.init = bias, single_bias, init

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        rows = self.BLOCKS * hidden_size
        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        self.register_parameter("bias_ih", parameter(rows) if bias else None)
        self.register_parameter("bias_hh", parameter(rows) if bias and not single_bias else None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Fill the weights: torch's uniform rule, then the named or given initialiser."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        fill = initialisers.NAMED[self.init] if isinstance(self.init, str) else self.init
        if fill is not None:
            fill(self)

    def gates(self, dtype: torch.dtype | None = None) -> Gates:
        """The weights with the gates as an axis: views, no copies, unless another dtype is wanted."""

        def blocks(flat: Any) -> Any:
            return None if flat is None else flat.to(dtype or flat.dtype).unflatten(0, (self.BLOCKS, self.hidden_size))

        W, U = blocks(self.weight_ih).mT, blocks(self.weight_hh).mT
        return Gates(W, U, blocks(self.bias_ih), blocks(self.bias_hh), None)

    def all_gates(self) -> Iterator[Gates]:
        """One item, so that an initialiser treats a cell as a layer."""
        yield self.gates()

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        shown += ["bias=False"] if not self.bias else []
        shown += ["single_bias=True"] if self.single_bias else []
        return ", ".join(shown)

    def _read(self, x: Tensor, hx: Any) -> tuple[Tensor, tuple[Tensor, ...], bool]:
        """The input and the state, batched and checked, and whether they came batched."""
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise TypeError(expected("input", "a tensor", type(x).__name__))
        if x.dim() not in (1, 2):
            raise ShapeError(f"{name}: Expected input to be 1D or 2D, got {x.dim()}D instead: {tuple(x.shape)}.")
        batched = x.dim() == 2
        x = x if batched else x[None]
        if x.shape[1] != self.input_size:
            raise ShapeError(expected("input", f"{self.input_size} features (input_size)", x.shape[1]))
        if x.dtype != self.weight_ih.dtype and not torch.is_autocast_enabled(x.device.type):
            way_out = f"Use input.to({self.weight_ih.dtype})."
            raise DtypeError(expected("input", f"{self.weight_ih.dtype} as the weights", x.dtype, way_out))
        inside = compute_dtype(x.dtype, x.device)
        shape = (x.shape[0], self.hidden_size)
        if hx is None:
            return x.to(inside), tuple(x.new_zeros(shape, dtype=inside) for _ in self.STATES), batched
        parts = (hx,) if len(self.STATES) == 1 else tuple(hx)
        if len(parts) != len(self.STATES):
            raise ShapeError(expected("hx", f"the pair ({', '.join(self.STATES)})", f"{len(parts)} parts"))
        wanted = shape if batched else shape[1:]
        for label, part in zip(self.STATES, parts, strict=True):
            if not isinstance(part, Tensor):
                raise TypeError(expected(f"hx ({label})", "a tensor", type(part).__name__))
            if tuple(part.shape) != wanted:
                axes = "(batch, hidden)" if batched else "(hidden,)"
                raise ShapeError(expected(f"hx ({label})", f"{wanted} {axes}", tuple(part.shape)))
            if part.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
                raise DtypeError(expected(f"hx ({label})", f"{x.dtype} as the input", part.dtype))
        parts = parts if batched else tuple(part[None] for part in parts)
        return x.to(inside), tuple(part.to(inside) for part in parts), batched


class RNNCell(_Cell):
    """One step of `unrolled.equations.rnn_step`, as torch.nn.RNNCell."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity: expected 'tanh' or 'relu', found {nonlinearity!r}.")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype, **options)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state (B, H) after the step; zeros before it where hx is None."""
        x, (h,), batched = self._read(input, hx)
        W, U, b, b_h, _ = self.gates(x.dtype)
        biases = (None if b is None else b[0], None if b_h is None else b_h[0])
        h = rnn_step(x, h, W[0], U[0], *biases, nonlinearity=self.nonlinearity)
        return h.to(input.dtype) if batched else h[0].to(input.dtype)


class LSTMCell(_Cell):
    """One step of `unrolled.equations.lstm_step`, as torch.nn.LSTMCell."""

    GATES = ("i", "f", "g", "o")
    BLOCKS = 4
    STATES = ("h", "c")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        forget_bias: float | None = None,
        **options: Any,
    ) -> None:
        if forget_bias is not None and not bias:
            raise ValueError(f"forget_bias: expected None with bias=False, found {forget_bias}.")
        self.forget_bias = forget_bias
        super().__init__(input_size, hidden_size, bias, device, dtype, **options)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        initialisers.set_forget_bias(self, self.forget_bias)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The pair (h, c), (B, H) each, after the step; zeros before it where hx is None."""
        x, (h, c), batched = self._read(input, hx)
        W, U, b, b_h, _ = self.gates(x.dtype)
        h, c = lstm_step(x, h, c, W, U, b, b_h)
        h, c = h.to(input.dtype), c.to(input.dtype)
        return (h, c) if batched else (h[0], c[0])


class GRUCell(_Cell):
    """One step of `unrolled.equations.gru_step`, as torch.nn.GRUCell; reset_after=False gives the paper's form."""

    GATES = ("r", "z", "n")
    BLOCKS = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        reset_after: bool = True,
        **options: Any,
    ) -> None:
        self.reset_after = reset_after
        super().__init__(input_size, hidden_size, bias, device, dtype, **options)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state (B, H) after the step; zeros before it where hx is None."""
        x, (h,), batched = self._read(input, hx)
        W, U, b, b_h, _ = self.gates(x.dtype)
        h = gru_step(x, h, W, U, b, b_h, reset_after=self.reset_after)
        return h.to(input.dtype) if batched else h[0].to(input.dtype)
