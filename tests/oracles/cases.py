"""The default test shape, and how a layer of ours, one of torch.nn's and the NumPy oracle get the same case.

B=3, T=5, I=4, H=3, two layers, both directions, lengths [3, 5, 0], random non-zero biases and initial state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import unrolled
from oracles.compare import assert_near
from oracles.scan import Result, extended, scan

BATCH, STEPS, INPUT, HIDDEN, LAYERS = 3, 5, 4, 3, 2
LENGTHS = [3, 5, 0]
CELLS = ("tanh", "relu", "lstm", "gru")


def ours(cell: str, *args: Any, **options: Any) -> nn.Module:
    """A layer of this library: cell "tanh", "relu", "lstm" or "gru"."""
    if cell in ("tanh", "relu"):
        return unrolled.RNN(*args, nonlinearity=cell, **options)
    return (unrolled.LSTM if cell == "lstm" else unrolled.GRU)(*args, **options)


def theirs(cell: str, *args: Any, **options: Any) -> nn.RNNBase:
    """The layer of torch.nn."""
    if cell in ("tanh", "relu"):
        return nn.RNN(*args, nonlinearity=cell, **options)
    return (nn.LSTM if cell == "lstm" else nn.GRU)(*args, **options)


def randomise(module: nn.Module, seed: int, scale: float = 0.7) -> nn.Module:
    """Fill every parameter with values that are far from zero and from each other."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            sign = torch.where(torch.rand(parameter.shape, generator=generator) < 0.5, -1.0, 1.0)
            parameter.copy_(((0.2 + 0.8 * values) * scale * sign).to(parameter.dtype))
    return module


def pair(cell: str, seed: int = 1, *, dtype: torch.dtype = torch.float64, extras: Any = None, **options: Any):
    """(ours, theirs) with the same random weights."""
    sizes = (options.pop("input_size", INPUT), options.pop("hidden_size", HIDDEN))
    mine = ours(cell, *sizes, dtype=dtype, **options, **(extras or {}))
    other = theirs(cell, *sizes, dtype=dtype, **options)
    randomise(other, seed)
    mine.load_state_dict(other.state_dict())
    return mine, other


@dataclass
class Case:
    """One batch: x (B, T, I), h0, c0 (layers * directions, B, .)."""

    x: Tensor
    h0: Tensor
    c0: Tensor | None

    @property
    def state(self) -> Any:
        return self.h0 if self.c0 is None else (self.h0, self.c0)


def case(
    cell: str,
    seed: int = 2,
    *,
    batch: int = BATCH,
    steps: int = STEPS,
    width: int = INPUT,
    hidden: int = HIDDEN,
    layers: int = LAYERS,
    bidirectional: bool = True,
    proj_size: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Case:
    generator = torch.Generator().manual_seed(seed)
    rows = layers * (2 if bidirectional else 1)

    def draw(*shape: int) -> Tensor:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * 1.6 - 0.8).to(dtype)

    c0 = draw(rows, batch, hidden) if cell == "lstm" else None
    return Case(2 * draw(batch, steps, width), draw(rows, batch, proj_size or hidden), c0)


def split_state(state: Any) -> tuple[Tensor, Tensor | None]:
    """A layer's second result as (h, c or None)."""
    return state if isinstance(state, tuple) else (state, None)


def truth(cell: str, module: nn.Module, this: Case, lengths: Sequence[int] | None = None, **options: Any) -> Result:
    """The NumPy oracle on the module's own weights, in long double. `this.x` is batch-first."""
    weights = {name: extended(value.detach().double()) for name, value in module.named_parameters()}
    resets = options.pop("resets", None)
    return scan(
        cell,
        weights,
        extended(this.x.detach().double()),
        h0=extended(this.h0.detach().double()),
        c0=None if this.c0 is None else extended(this.c0.detach().double()),
        lengths=None if lengths is None else [int(n) for n in lengths],
        resets=None if resets is None else np.asarray(resets),
        **options,
    )


def assert_layer_is_right(
    cell: str,
    layer: nn.Module,
    this: Case,
    *,
    lengths: Sequence[int] | None = None,
    resets: Tensor | None = None,
    restart: tuple[np.ndarray, np.ndarray | None] = (None, None),  # type: ignore[assignment]
    given_state: bool = True,
    ulps: float = 64.0,
) -> None:
    """Output and final state of a layer against the NumPy oracle, positions past the end against 0.

    `this.x` is batch-first, the layer is fed as it likes; `restart` is the state that resets and calls without a
    state start from, (layers * directions, .), zeros if None.
    """
    x = this.x if layer.batch_first else this.x.transpose(0, 1)
    if not given_state:
        rows = this.h0.shape[1]
        starts = [
            torch.zeros_like(old) if new is None
            else torch.as_tensor(np.asarray(new, np.float64))[:, None].expand(-1, rows, -1)
            for old, new in zip((this.h0, this.c0), restart, strict=True) if old is not None
        ]  # fmt: skip
        this = Case(this.x, starts[0], starts[1] if cell == "lstm" else None)
    out, last = layer(x, this.state if given_state else None, lengths=lengths, resets=resets)
    h, c = split_state(last)
    exact = truth(
        cell, layer, this, lengths, layers=layer.num_layers, bidirectional=layer.bidirectional, resets=resets,
        reset_after=getattr(layer, "reset_after", True), restart_h=restart[0], restart_c=restart[1],
    )  # fmt: skip
    assert_near(out if layer.batch_first else out.transpose(0, 1), exact.out, ulps=ulps)
    assert_near(h, exact.h_n, ulps=ulps)
    if c is not None:
        assert_near(c, exact.c_n, ulps=ulps)
