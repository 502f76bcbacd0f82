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
from unrolled.kernels.native_calls import CELLS, MISSING, Scan, Tensors, run_scans

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


def together(name: str, calls: Sequence[tuple[tuple, dict]], *, recompute: bool) -> list[State]:
    """Scans that do not depend on each other, side by side on the cores: (arguments, keywords) of each.

    With `recompute`, gates are not kept for backward but computed again.
    """
    return run_scans([_READERS[name](*arguments, recompute=recompute, **options) for arguments, options in calls])


def _rnn(
    x, h, W, U, b=None, b_h=None, *, nonlinearity="tanh", restart_h=None, **options: Any
) -> tuple[Scan, Tensors]:
    return _scan(f"rnn_{nonlinearity}", **options), (x, h, None, W, U, b, b_h, None, restart_h, None)


def _lstm(
    x, h, c, W, U, b=None, b_h=None, V=None, *, restart_h=None, restart_c=None, **options: Any
) -> tuple[Scan, Tensors]:
    cell = "lstm" if V is None else "lstm_projected"
    return _scan(cell, **options), (x, h, c, W, U, b, b_h, V, restart_h, restart_c)


def _gru(x, h, W, U, b=None, b_h=None, *, reset_after=True, restart_h=None, **options: Any) -> tuple[Scan, Tensors]:
    cell = "gru_after" if reset_after else "gru_before"
    return _scan(cell, **options), (x, h, None, W, U, b, b_h, None, restart_h, None)


def _scan(cell: str, *, lengths=None, resets=None, reverse: bool = False, recompute: bool = False) -> Scan:
    if lengths is not None and (lengths.dtype != torch.int64 or not lengths.is_contiguous() or lengths.device.type != "cpu"):
        lengths = lengths.to("cpu", torch.int64).contiguous()
    if resets is not None and resets.device.type != "cpu":
        resets = resets.cpu()
    return Scan(CELLS.index(cell), lengths, resets, reverse, recompute)


_READERS: dict[str, Callable[..., tuple[Scan, Tensors]]] = {"rnn_scan": _rnn, "lstm_scan": _lstm, "gru_scan": _gru}
