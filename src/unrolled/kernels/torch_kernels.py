"""torch's own kernels behind the signature of the reference scan: oneDNN, cuDNN or ATen, whichever torch picks.

Axes     as in `reference`.
Variant  what torch computes: no GRU with the reset before the product.

Unequal lengths, empty rows, resets and the reverse direction all become one thing, runs of steps that nothing
interrupts (`segments.Segments`), and torch gets those runs packed: padding costs nothing and is never read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unrolled.kernels.autograd import once_differentiable
from unrolled.kernels.reference import gru_scan as _gru_reference
from unrolled.kernels.reference import lstm_scan as _lstm_reference
from unrolled.kernels.reference import rnn_scan as _rnn_reference
from unrolled.kernels.segments import Segments

State = tuple[Tensor, ...]


def rnn_scan(
    x: Float[Tensor, "T B I"],
    h: Float[Tensor, "B H"],
    W: Float[Tensor, "I H"],
    U: Float[Tensor, "H H"],
    b: Float[Tensor, "H"] | None = None,
    b_h: Float[Tensor, "H"] | None = None,
    *,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    lengths: Int[Tensor, "B"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
    restart_h: Float[Tensor, "H"] | None = None,
    reverse: bool = False,
) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "B H"]]:
    kernel = torch.rnn_tanh if nonlinearity == "tanh" else torch.rnn_relu

    def fast(x, h, W, U, b, b_h, restart_h):
        weights = _torch_weights(W[None], U[None], b, b_h)
        return _run(kernel, x, (h,), (restart_h,), weights, lengths, resets, reverse)

    def slow(x, h, W, U, b, b_h, restart_h):
        return _rnn_reference(
            x,
            h,
            W,
            U,
            b,
            b_h,
            nonlinearity=nonlinearity,
            lengths=lengths,
            resets=resets,
            restart_h=restart_h,
            reverse=reverse,
        )

    run = once_differentiable(fast, slow) if x.is_cuda else fast
    out, h = run(x, h, W, U, b, b_h, restart_h)
    return out, h


def lstm_scan(
    x: Float[Tensor, "T B I"],
    h: Float[Tensor, "B P"],
    c: Float[Tensor, "B H"],
    W: Float[Tensor, "4 I H"],
    U: Float[Tensor, "4 P H"],
    b: Float[Tensor, "4 H"] | None = None,
    b_h: Float[Tensor, "4 H"] | None = None,
    V: Float[Tensor, "H P"] | None = None,
    *,
    lengths: Int[Tensor, "B"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
    restart_h: Float[Tensor, "P"] | None = None,
    restart_c: Float[Tensor, "H"] | None = None,
    reverse: bool = False,
) -> tuple[Float[Tensor, "T B P"], Float[Tensor, "B P"], Float[Tensor, "B H"]]:
    def fast(x, h, c, W, U, b, b_h, V, restart_h, restart_c):
        weights = _torch_weights(W, U, b, b_h, V)
        return _run(torch.lstm, x, (h, c), (restart_h, restart_c), weights, lengths, resets, reverse)

    def slow(x, h, c, W, U, b, b_h, V, restart_h, restart_c):
        return _lstm_reference(
            x,
            h,
            c,
            W,
            U,
            b,
            b_h,
            V,
            lengths=lengths,
            resets=resets,
            restart_h=restart_h,
            restart_c=restart_c,
            reverse=reverse,
        )

    # oneDNN's dense float32 kernel and cuDNN's have no derivative of their backward; ATen's loop has.
    fused = x.is_cuda or (x.dtype == torch.float32 and V is None)
    run = once_differentiable(fast, slow) if fused else fast
    out, h, c = run(x, h, c, W, U, b, b_h, V, restart_h, restart_c)
    return out, h, c


def gru_scan(
    x: Float[Tensor, "T B I"],
    h: Float[Tensor, "B H"],
    W: Float[Tensor, "3 I H"],
    U: Float[Tensor, "3 H H"],
    b: Float[Tensor, "3 H"] | None = None,
    b_h: Float[Tensor, "3 H"] | None = None,
    *,
    reset_after: bool = True,
    lengths: Int[Tensor, "B"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
    restart_h: Float[Tensor, "H"] | None = None,
    reverse: bool = False,
) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "B H"]]:
    if not reset_after:
        raise RuntimeError("gru_scan: torch has no GRU with the reset before the product; use the reference scan.")

    def fast(x, h, W, U, b, b_h, restart_h):
        weights = _torch_weights(W, U, b, b_h)
        return _run(torch.gru, x, (h,), (restart_h,), weights, lengths, resets, reverse)

    def slow(x, h, W, U, b, b_h, restart_h):
        return _gru_reference(x, h, W, U, b, b_h, lengths=lengths, resets=resets, restart_h=restart_h, reverse=reverse)

    run = once_differentiable(fast, slow) if x.is_cuda else fast
    out, h = run(x, h, W, U, b, b_h, restart_h)
    return out, h


def _torch_weights(W: Tensor, U: Tensor, b: Tensor | None, b_h: Tensor | None, V: Tensor | None = None) -> list[Tensor]:
    """torch's flat list: the gate axis folded into the rows of (G·H, I) and (G·H, H)."""
    weights = [W.mT.flatten(0, 1), U.mT.flatten(0, 1)]
    if b is not None:
        # One bias per gate is torch's pair with the second one zero: no gate of torch's scales its input bias.
        weights += [b.flatten(), b.new_zeros(b.numel()) if b_h is None else b_h.flatten()]
    if V is not None:
        weights.append(V.mT)
    return weights


def _run(
    kernel: Callable,
    x: Tensor,
    state: State,
    restart: tuple[Tensor | None, ...],
    weights: list[Tensor],
    lengths: Tensor | None,
    resets: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """One layer and direction by torch's kernel: out and the final state, flat."""
    if 0 in x.shape[:2]:  # torch refuses an empty axis
        return (x.new_zeros(*x.shape[:2], state[0].shape[-1]), *state)
    biased = len(weights) >= 4
    tail = (weights, biased, 1, 0.0, False, False)  # one layer, no dropout, one direction
    if lengths is None and resets is None:
        hx = [part[None].contiguous() for part in state]
        out, *last = kernel(
            x.flip(0) if reverse else x, hx[0] if len(hx) == 1 else hx, *tail, False
        )  # batch_first=False
        return (out.flip(0) if reverse else out, *(part[0] for part in last))

    segments = Segments.cut(x, lengths, resets, reverse)
    if segments.number == 0:
        return (x.new_zeros(*x.shape[:2], state[0].shape[-1]), *state)
    hx = [part[None] for part in segments.start(state, restart)]
    data, *last = kernel(segments.pack(x), segments.batch_sizes, hx[0] if len(hx) == 1 else hx, *tail)
    return (segments.unpack(data), *segments.finish(tuple(part[0] for part in last), state))
