"""The native engine as two operators of torch, so that compilers, exporters and dispatch modes see one node a scan.

Axes     as in `reference`; `unrolled::scan` returns out, h, c and what backward reads, empty where a cell has none.

An operator costs some twenty microseconds a call more than the direct way of `native_calls`, which eager mode takes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unrolled.kernels import native_calls
from unrolled.kernels.native_calls import TENSORS, Scan, Tensors, kept_row, parts_of

# Rows are dealt out as for so many threads, in both passes, whatever number runs them: one for the whole process,
# because a graph cannot ask.
THREADS = torch.get_num_threads()


def run(scan: Scan, tensors: Tensors) -> tuple[Tensor, ...]:
    """(out, h) or (out, h, c) through the operator."""
    tensors = scan.with_gates(tensors)  # the operator knows one form only
    keep = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    options = (scan.cell, scan.lengths, scan.resets, scan.reverse, scan.recompute)
    out, h, c, _ = torch.ops.unrolled.scan(*tensors, *options, THREADS, keep)
    return (out, h, c) if scan.has_memory else (out, h)


_INPUTS = (
    "Tensor x, Tensor h, Tensor? c, Tensor W, Tensor U, Tensor? b, Tensor? b_h, Tensor? V, "
    "Tensor? restart_h, Tensor? restart_c"
)
_OPTIONS = "int cell, Tensor? lengths, Tensor? resets, bool reverse, bool recompute, int threads"


@torch.library.custom_op(
    "unrolled::scan",
    mutates_args=(),
    device_types="cpu",
    schema=f"({_INPUTS}, {_OPTIONS}, bool keep) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _scan(
    x: Tensor, h: Tensor, c: Tensor | None, W: Tensor, U: Tensor, b: Tensor | None, b_h: Tensor | None,
    V: Tensor | None, restart_h: Tensor | None, restart_c: Tensor | None,
    cell: int, lengths: Tensor | None, resets: Tensor | None, reverse: bool, recompute: bool, threads: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    tensors = (x, h, c, W, U, b, b_h, V, restart_h, restart_c)
    scan = Scan(cell, lengths, resets, reverse, recompute)
    # As large as without lengths, because a compiler must know the size, and zero where nothing is written.
    kept = x.new_zeros(_kept_size(scan, tensors) if keep else 0)
    (made,) = native_calls.forward([(scan, tensors)], parts_of(x.shape[1], threads=threads), keep=keep, room=kept)
    out, h_n, *c_n = made.results
    return out, h_n, c_n[0] if c_n else x.new_empty(0), kept


def _kept_size(scan: Scan, tensors: Tensors) -> int:
    return tensors[0].shape[0] * tensors[0].shape[1] * kept_row(scan, tensors)


@_scan.register_fake
def _(x, h, c, W, U, b, b_h, V, restart_h, restart_c, cell, lengths, resets, reverse, recompute, _threads, keep):
    steps, batch, _ = x.shape
    tensors = (x, h, c, W, U, b, b_h, V, restart_h, restart_c)
    scan = Scan(cell, lengths, resets, reverse, recompute)
    hidden, state = scan.sizes(tensors)
    c_n = x.new_empty(batch, hidden) if scan.has_memory else x.new_empty(0)
    kept = x.new_empty(_kept_size(scan, tensors) if keep else 0)
    return x.new_empty(steps, batch, state), x.new_empty(batch, state), c_n, kept


@torch.library.custom_op(
    "unrolled::scan_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor d_out, Tensor d_h, Tensor? d_c, {_INPUTS}, Tensor out, Tensor kept, {_OPTIONS}, bool[] wanted) "
    "-> Tensor[]",
)
def _scan_backward(
    d_out: Tensor, d_h: Tensor, d_c: Tensor | None,
    x: Tensor, h: Tensor, c: Tensor | None, W: Tensor, U: Tensor, b: Tensor | None, b_h: Tensor | None,
    V: Tensor | None, restart_h: Tensor | None, restart_c: Tensor | None, out: Tensor, kept: Tensor,
    cell: int, lengths: Tensor | None, resets: Tensor | None, reverse: bool, recompute: bool, threads: int,
    wanted: list[bool],
) -> list[Tensor]:  # fmt: skip
    tensors = (x, h, c, W, U, b, b_h, V, restart_h, restart_c)
    scan = Scan(cell, lengths, resets, reverse, recompute)
    given = (d_out, d_h, d_c) if scan.has_memory else (d_out, d_h)
    parts = parts_of(x.shape[1], threads=threads)
    (found,) = native_calls.backward([(scan, tensors)], [out], [kept], parts, [given], [wanted])
    return [gradient.contiguous() for gradient in found if gradient is not None]


@_scan_backward.register_fake
def _(*inputs):
    tensors, wanted = inputs[3 : 3 + TENSORS], inputs[-1]  # after the gradients of out, h and c
    return [t.new_empty(t.shape) for t, need in zip(tensors, wanted, strict=True) if need]


def _setup(ctx, inputs, output) -> None:
    tensors, ctx.options = inputs[:TENSORS], inputs[TENSORS:-1]
    ctx.save_for_backward(*tensors, output[0], output[3], *ctx.options[1:3])


def _backward(ctx, d_out, d_h, d_c, _d_kept):
    *tensors, out, kept, lengths, resets = ctx.saved_tensors
    cell, _, _, reverse, recompute, threads = ctx.options
    wanted = [bool(need) for need in ctx.needs_input_grad[:TENSORS]]
    options = (cell, lengths, resets, reverse, recompute, threads, wanted)
    d_c = d_c if Scan(*options[:5]).has_memory else None
    found = iter(torch.ops.unrolled.scan_backward(d_out, d_h, d_c, *tensors, out, kept, *options))
    return (*(next(found) if need else None for need in wanted), *(None,) * 7)


_scan.register_autograd(_backward, setup_context=_setup)
