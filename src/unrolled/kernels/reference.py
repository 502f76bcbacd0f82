"""Reference scan: the equation once a step, in a Python loop that autograd can follow anywhere.

Axes     x (T, B, I), states (B, H), lengths (B,), resets (B, T), out (T, B, H).
Source   the step functions of `unrolled.equations`; nothing about a cell is repeated here.

What every engine promises is written once, in `_scan`:
 - a row of length n takes n steps; past them its state stands still and its output is 0, and whatever the input holds
   there (NaN included) has no effect and gets no gradient;
 - the reverse direction starts at each row's own last step;
 - resets[b, t] cuts row b between t - 1 and t: whichever side is computed second starts from the restart state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unrolled.equations import gru_step, lstm_step, rnn_step

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
    def step(x_t: Tensor, h: Tensor) -> State:
        return (rnn_step(x_t, h, W, U, b, b_h, nonlinearity=nonlinearity),)

    out, (h,) = _scan(step, x, (h,), (restart_h,), lengths, resets, reverse)
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
    def step(x_t: Tensor, h: Tensor, c: Tensor) -> State:
        return lstm_step(x_t, h, c, W, U, b, b_h, V)

    out, (h, c) = _scan(step, x, (h, c), (restart_h, restart_c), lengths, resets, reverse)
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
    def step(x_t: Tensor, h: Tensor) -> State:
        return (gru_step(x_t, h, W, U, b, b_h, reset_after=reset_after),)

    out, (h,) = _scan(step, x, (h,), (restart_h,), lengths, resets, reverse)
    return out, h


def _scan(
    step: Callable[..., State],
    x: Tensor,
    state: State,
    restart: tuple[Tensor | None, ...],
    lengths: Tensor | None,
    resets: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, State]:
    steps = x.shape[0]
    valid = None if lengths is None else torch.arange(steps, device=x.device)[:, None] < lengths  # (T, B)
    if valid is not None:
        x = x.masked_fill(~valid[:, :, None], 0)  # a NaN in the padding would come back as 0 * NaN
    cuts = None if resets is None else _cuts(resets.T, valid, reverse)

    outputs = [x.new_empty(0)] * steps
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        if cuts is not None:
            state = restarted(state, restart, cuts[t])
        after = step(x[t], *state)
        if valid is None:
            state, outputs[t] = after, after[0]
        else:
            here = valid[t, :, None]
            state = tuple(torch.where(here, new, old) for new, old in zip(after, state, strict=True))
            outputs[t] = after[0].masked_fill(~here, 0)
    out = torch.stack(outputs) if steps else x.new_zeros(0, *state[0].shape)
    return out, tuple(state)


def restarted(state: State, restart: tuple[Tensor | None, ...], cut: Tensor) -> State:
    """The state, put back to the restart state (zeros where None) in the rows where cut (B,) is True."""
    return tuple(
        old.masked_fill(cut[:, None], 0) if new is None else torch.where(cut[:, None], new, old)
        for old, new in zip(state, restart, strict=True)
    )


def _cuts(resets: Tensor, valid: Tensor | None, reverse: bool) -> Tensor:
    """(T, B): is the state put back before step t is computed? resets and valid are (T, B)."""
    if valid is not None:
        resets = resets & valid  # a boundary at or past the row's end separates nothing
    if reverse:  # the cut between t and t + 1 is met before step t
        return torch.cat([resets[1:], torch.zeros_like(resets[:1])])
    return resets
