"""The native engine by addresses: a scan and its gradients as the tuples that native/bind/module.cpp reads.

Axes     as in `oracles.native`; weight gradients lie as torch's parameters do: (gates, H, I), (gates, H, P), (P, H).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oracles.native import GATES, Problem
from unrolled import _native

Description = tuple[Any, ...]


def at(t: Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


def rows_at(t: Tensor | None) -> tuple[int, int]:
    return (0, 0) if t is None else (t.data_ptr(), t.stride(0))


def kept_size(problem: Problem) -> int:
    """How many numbers forward keeps for backward."""
    lengths, cell = problem.options()["lengths"], list(GATES).index(problem.cell)
    row = _native.kept_row(cell, problem.hidden, problem.state, problem.recompute, problem.dtype == torch.float64)
    return row * (problem.steps * problem.batch if lengths is None else int(lengths.sum()))


def scan(
    problem: Problem,
    tensors: Sequence[Any],
    options: dict[str, Any],
    results: Sequence[Any],
    kept: Tensor | None,
    parts: int,
) -> Description:
    """`results` are out (T, B, P), h (B, P) and, for an LSTM, c (B, H), which forward writes."""
    x, h, c, W, U, b, b_h, V, restart_h, restart_c = tensors
    out, h_n, c_n = (*results, None)[:3]
    lengths, resets = options["lengths"], options["resets"]
    sizes = (*x.shape, problem.hidden, problem.state)
    return (
        list(GATES).index(problem.cell), *sizes, problem.reverse, problem.recompute, parts,
        W.data_ptr(), *W.stride(), U.data_ptr(), *U.stride(), at(b), at(b_h),
        *((0, 0, 0) if V is None else (V.data_ptr(), *V.stride())), x.data_ptr(), *x.stride(), *rows_at(h), *rows_at(c),
        at(lengths), *((0, 0, 0) if resets is None else (resets.data_ptr(), *resets.stride())),
        at(restart_h), at(restart_c), out.data_ptr(), *out.stride()[:2], at(h_n), at(c_n), at(kept),
    )  # fmt: skip


def gradients(given: Sequence[Any], own: Sequence[Any]) -> Description:
    """`given`: the gradients of the results; `own`: where those of the ten tensors go, None where not wanted."""
    d_out, d_h, d_c = (*given, None)[:3]
    x, *others = own
    return (
        *((0, 0, 0) if d_out is None else (d_out.data_ptr(), *d_out.stride()[:2])), *rows_at(d_h), *rows_at(d_c),
        *((0, 0, 0) if x is None else (x.data_ptr(), *x.stride()[:2])), *(at(t) for t in others),
    )  # fmt: skip


def turned(number: int) -> bool:
    """Is the gradient of this tensor transposed? W, U and V are."""
    return number in (3, 4, 7)
