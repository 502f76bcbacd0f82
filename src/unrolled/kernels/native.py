"""The native engine behind the signature of the reference scan: one call over the whole sequence, each way.

Axes     as in `reference`.
Source   native/core; its backward is derived by hand from the same equations.
Variant  every cell and option of the reference, float32 and float64, on the CPU.

In eager mode tensors go to the engine by their addresses, inside one autograd node. A compiler, an exporter or a
dispatch mode sees the operators `unrolled::scan` and `unrolled::scan_backward` instead, which call the same engine.
A second derivative, which the engine does not have, is taken through the reference scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import forward_ad

from unrolled.kernels.autograd import under_transform
from unrolled.kernels.layer_calls import LayerCall
from unrolled.kernels.native_calls import (
    GRU_AFTER,
    GRU_BEFORE,
    LSTM,
    LSTM_PROJECTED,
    MISSING,
    RNN_RELU,
    RNN_TANH,
    Scan,
    Tensors,
    run_scans,
)

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
    options = {"lengths": lengths, "resets": resets, "restart_h": restart_h, "reverse": reverse}
    ((out, h),) = run_scans([_rnn(x, h, W, U, b, b_h, nonlinearity=nonlinearity, **options)])
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
    options = {"lengths": lengths, "resets": resets, "reverse": reverse}
    scan = _lstm(x, h, c, W, U, b, b_h, V, restart_h=restart_h, restart_c=restart_c, **options)
    ((out, h, c),) = run_scans([scan])
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
    options = {"lengths": lengths, "resets": resets, "restart_h": restart_h, "reverse": reverse}
    ((out, h),) = run_scans([_gru(x, h, W, U, b, b_h, reset_after=reset_after, **options)])
    return out, h


def refusal(_name: str, x: Tensor, **_options: object) -> str | None:
    """Why the engine cannot run a scan on this input; None where it can."""
    if MISSING is not None:
        return MISSING
    if x.device.type != "cpu":
        return f"the native engine runs on the CPU, x is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the native engine takes float32 and float64, x is {x.dtype}"
    if under_transform():
        return "inside a torch.func transform, for which the native engine has no rule"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation, for which the native engine has no rule"
    return None


def recomputing(name: str, *arguments: Any, **options: Any) -> State:
    """The scan `name`, which keeps the states for backward and computes the gates again."""
    return run_scans([_READERS[name](*arguments, recompute=True, **options)])[0]


def run_layers(name: str, calls: Sequence[LayerCall], variant: dict[str, Any], *, recompute: bool) -> list[State]:
    """(out, h) or (out, h, c) of each layer and direction; they run side by side on the cores."""
    return run_scans([_of_layer(name, call, variant, recompute) for call in calls])


def _of_layer(name: str, call: LayerCall, variant: dict[str, Any], recompute: bool) -> tuple[Scan, Tensors]:
    weight_hr = call.weights[4]
    if name == "lstm_scan":
        cell = LSTM if weight_hr is None else LSTM_PROJECTED
    elif name == "gru_scan":
        cell = GRU_AFTER if variant["reset_after"] else GRU_BEFORE
    else:
        cell = RNN_TANH if variant["nonlinearity"] == "tanh" else RNN_RELU
    h, c = call.state if len(call.state) == 2 else (call.state[0], None)
    restart_h, restart_c = (*(call.restart or ()), None, None)[:2]
    tensors = (call.x, h, c, *call.weights, restart_h, restart_c)
    return _scan(cell, call.lengths, call.resets, call.reverse, recompute, flat=True), tensors


def _rnn(x, h, W, U, b=None, b_h=None, *, nonlinearity="tanh", restart_h=None, **options: Any) -> tuple[Scan, Tensors]:
    cell = RNN_TANH if nonlinearity == "tanh" else RNN_RELU
    return _scan(cell, **options), (x, h, None, W[None], U[None], b, b_h, None, restart_h, None)


def _lstm(
    x, h, c, W, U, b=None, b_h=None, V=None, *, restart_h=None, restart_c=None, **options: Any
) -> tuple[Scan, Tensors]:
    cell = LSTM if V is None else LSTM_PROJECTED
    return _scan(cell, **options), (x, h, c, W, U, b, b_h, V, restart_h, restart_c)


def _gru(x, h, W, U, b=None, b_h=None, *, reset_after=True, restart_h=None, **options: Any) -> tuple[Scan, Tensors]:
    cell = GRU_AFTER if reset_after else GRU_BEFORE
    return _scan(cell, **options), (x, h, None, W, U, b, b_h, None, restart_h, None)


def _scan(cell: int, lengths=None, resets=None, reverse=False, recompute=False, *, flat: bool = False) -> Scan:
    if lengths is not None and not (lengths.dtype == torch.int64 and lengths.is_cpu and lengths.is_contiguous()):
        lengths = lengths.to("cpu", torch.int64).contiguous()
    if resets is not None and not resets.is_cpu:
        resets = resets.cpu()
    return Scan(cell, lengths, resets, reverse, recompute, flat)


_READERS: dict[str, Callable[..., tuple[Scan, Tensors]]] = {"rnn_scan": _rnn, "lstm_scan": _lstm, "gru_scan": _gru}
