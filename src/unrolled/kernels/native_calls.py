"""Tensors to the native engine and back: checks, memory, addresses, and one autograd node.

Axes     as in `reference`; gradients of weights come in torch's layout, (gates, H, I), and are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from unrolled.kernels import reference
from unrolled.kernels.autograd import differentiate_again
from unrolled.kernels.layer_calls import Gates

try:
    from unrolled import _native

    _native.isa()
    _native.adopt_openmp()  # torch's threads: a pool of our own beside it would fight for the cores
    MISSING = None
except ImportError as error:
    MISSING = (
        f"the compiled module unrolled._native cannot be loaded ({error}). Install unrolled again "
        "where a C++ compiler is found"
    )
except RuntimeError as error:  # UNROLLED_ISA names a target that this machine has not
    MISSING = str(error).removesuffix(".")

CELLS = ("rnn_tanh", "rnn_relu", "lstm", "lstm_projected", "gru_after", "gru_before")  # enum Cell of scan.h
RNN_TANH, RNN_RELU, LSTM, LSTM_PROJECTED, GRU_AFTER, GRU_BEFORE = range(6)
_GATES = (1, 1, 4, 4, 3, 3)
NAMES = ("x", "h", "c", "W", "U", "b", "b_h", "V", "restart_h", "restart_c")
TENSORS = len(NAMES)
Tensors = tuple[Any, ...]  # those of one scan, None where there is none
_PLAIN = (Tensor, torch.nn.Parameter)


class Scan(NamedTuple):
    """One scan for the engine: everything but its tensors."""

    cell: int
    lengths: Tensor | None  # int64, on the CPU, contiguous
    resets: Tensor | None  # bool, on the CPU
    reverse: bool
    recompute: bool
    flat: bool = False  # W, U, V and the biases as torch lays parameters out, not with the gates as an axis

    @property
    def has_memory(self) -> bool:
        return self.cell in (LSTM, LSTM_PROJECTED)

    def sizes(self, tensors: Tensors) -> tuple[int, int]:
        """H and P."""
        U: Any = tensors[4]
        return (U.shape[0] // _GATES[self.cell], U.shape[1]) if self.flat else (U.shape[2], U.shape[1])

    def with_gates(self, tensors: Tensors) -> Tensors:
        """The tensors with the gates as an axis and states of zeros where there are none: a scan that is not flat."""
        x: Any
        x, h, c, *weights, restart_h, restart_c = tensors
        hidden, state = self.sizes(tensors)
        if self.flat:
            weights = list(Gates.of(tuple(weights), _GATES[self.cell]))
        h = x.new_zeros(x.shape[1], state) if h is None else h
        c = x.new_zeros(x.shape[1], hidden) if c is None and self.has_memory else c
        return x, h, c, *weights, restart_h, restart_c

    def by_equations(self, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """The same scan by the reference."""
        given: Any = self.with_gates(tensors)
        x, h, c, W, U, b, b_h, V, restart_h, restart_c = given
        options: dict[str, Any] = {"lengths": self.lengths, "resets": self.resets, "reverse": self.reverse}
        options["restart_h"] = restart_h
        if self.has_memory:
            return reference.lstm_scan(x, h, c, W, U, b, b_h, V, restart_c=restart_c, **options)
        if self.cell in (GRU_AFTER, GRU_BEFORE):
            return reference.gru_scan(x, h, W, U, b, b_h, reset_after=self.cell == GRU_AFTER, **options)
        b, b_h = (None if bias is None else bias.flatten() for bias in (b, b_h))
        nonlinearity: Literal["tanh", "relu"] = "tanh" if self.cell == RNN_TANH else "relu"
        return reference.rnn_scan(x, h, W[0], U[0], b, b_h, nonlinearity=nonlinearity, **options)


class Made(NamedTuple):
    """What the engine's forward pass wrote."""

    out: Tensor  # (T, B, P)
    h_n: Tensor | None  # (B, P); None in backward, which does not write it
    c_n: Tensor | None  # (B, H)
    kept: Tensor | None  # what backward reads besides

    @property
    def results(self) -> tuple[Any, ...]:
        return (self.out, self.h_n) if self.c_n is None else (self.out, self.h_n, self.c_n)


def run_scans(scans: Sequence[tuple[Scan, Tensors]]) -> list[tuple[Tensor, ...]]:
    """(out, h) or (out, h, c) of each scan; they run side by side.

    Raises:
        TypeError: a tensor is not of x's type and on the CPU.
    """
    flat = [tensor for _, tensors in scans for tensor in tensors]
    x: Any = flat[0]
    dtype = x.dtype
    for tensor in flat:
        if tensor is not None and (tensor.dtype is not dtype or not tensor.is_cpu):
            raise TypeError(
                f"native scan: expected {x.dtype} on the CPU as x, found {tensor.dtype} on {tensor.device}."
            )
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or type(x) not in _PLAIN:
        from unrolled.kernels import native_ops  # registering operators takes time that plain calls need not spend

        return [native_ops.run(scan, tensors) for scan, tensors in scans]
    if not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in flat)):
        return [made.results for made in forward(scans, parts_of(x.shape[1], len(scans)), keep=False)]
    results = list(_Node.apply(tuple(scan for scan, _ in scans), *flat))
    return [tuple(results.pop(0) for _ in range(3 if scan.has_memory else 2)) for scan, _ in scans]


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scans: tuple[Scan, ...], *flat: Any) -> tuple[Tensor, ...]:
        ctx.scans, ctx.parts = scans, parts_of(flat[0].shape[1], len(scans))
        made = forward([(scan, _own(flat, i)) for i, scan in enumerate(scans)], ctx.parts, keep=True)
        ctx.save_for_backward(*flat, *(m.out for m in made), *(m.kept for m in made))
        ctx.set_materialize_grads(False)
        return tuple(result for m in made for result in m.results)

    @staticmethod
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        scans, saved, left = ctx.scans, ctx.saved_tensors, list(gradients)
        count = len(scans)
        given = [tuple(left.pop(0) for _ in range(3 if scan.has_memory else 2)) for scan in scans]
        tensors = [_own(saved, i) for i in range(count)]
        out, kept = saved[-2 * count : -count], saved[-count:]
        wanted = [_own(ctx.needs_input_grad[1:], i) for i in range(count)]
        found: Sequence[Sequence[Tensor | None]]
        further = torch.is_grad_enabled()  # somebody will differentiate the gradient
        if further or any(g is not None and _is_batched(g) for g in gradients):
            with torch.enable_grad():
                found = [
                    differentiate_again(scan.by_equations, own, want, grad, further=further)
                    for scan, own, want, grad in zip(scans, tensors, wanted, given, strict=True)
                ]
        else:
            found = backward(list(zip(scans, tensors, strict=True)), out, kept, ctx.parts, given, wanted)
        return (None, *(gradient for own in found for gradient in own))


def _is_batched(gradient: Tensor) -> bool:
    """Does it stand for many gradients at once (is_grads_batched=True)? It has no address then."""
    return torch._C._functorch.is_legacy_batchedtensor(gradient) or torch._C._functorch.is_batchedtensor(gradient)


def _own(flat: Sequence[Any], i: int) -> tuple[Any, ...]:
    """The ten entries of scan i."""
    return tuple(flat[i * TENSORS : (i + 1) * TENSORS])


@lru_cache(maxsize=256)
def _kept_row(cell: int, hidden: int, state: int, recompute: bool, is_double: bool) -> int:
    return _native.kept_row(cell, hidden, state, recompute, is_double)


def parts_of(batch: int, scans: int = 1, threads: int | None = None) -> int:
    """How the rows of each scan are dealt out to threads: part of what `kept` means, so both passes need the same."""
    return _native.choose_parts(batch, max(1, (threads or torch.get_num_threads()) // scans))


def kept_row(scan: Scan, tensors: Tensors) -> int:
    """How many numbers a step of one row keeps for backward."""
    hidden, state = map(int, scan.sizes(tensors))  # a compiler's symbols become the numbers that they stand for
    return _kept_row(scan.cell, hidden, state, scan.recompute, tensors[0].dtype == torch.float64)


def forward(scans: Sequence[tuple[Scan, Tensors]], parts: int, *, keep: bool, room: Tensor | None = None) -> list[Made]:
    """Run the scans; with `keep`, what backward needs is kept, in `room` where one is given."""
    made: list[Made] = []
    described: list[tuple] = []
    held: list[tuple] = []  # alive until the call is over
    x = scans[0][1][0]
    for scan, tensors in scans:
        steps, batch, _ = tensors[0].shape
        hidden, state = scan.sizes(tensors)
        out = x.new_empty(steps, batch, state)
        h_n = x.new_empty(batch, state)
        c_n = x.new_empty(batch, hidden) if scan.has_memory else None
        kept: Tensor | None = None
        if keep and room is not None:
            kept = room
        elif keep:
            taken = steps * batch if scan.lengths is None else int(scan.lengths.sum())
            kept = x.new_empty(taken * kept_row(scan, tensors))
        made.append(Made(out, h_n, c_n, kept))
        tensors = _readable(tensors)
        held.append(tensors)
        described.append(_describe(scan, tensors, parts, made[-1]))
    run = _native.forward_f64 if x.dtype == torch.float64 else _native.forward_f32
    run(described, torch.get_num_threads())
    return made


def backward(
    scans: Sequence[tuple[Scan, Tensors]],
    outs: Sequence[Tensor],
    kept: Sequence[Tensor],
    parts: int,
    given: Sequence[tuple[Tensor | None, ...]],
    wanted: Sequence[Sequence[bool]],
) -> list[list[Tensor | None]]:
    """The gradients of each scan's ten tensors, None where they are not wanted; `given` are those of its results."""
    described: list[tuple] = []
    gradients: list[tuple] = []
    held: list[tuple] = []  # alive until the call is over
    found: list[list[Tensor | None]] = []
    x = scans[0][1][0]
    for (scan, tensors), out, keep, grads, want in zip(scans, outs, kept, given, wanted, strict=True):
        turned = () if scan.flat else _TURNED
        own = [_empty_gradient(t, i in turned) if want[i] else None for i, t in enumerate(tensors)]
        tensors = _readable(tensors)
        grads = tuple(None if g is None else _rows(g) for g in grads)
        held += [tensors, grads]
        described.append(_describe(scan, tensors, parts, Made(out, None, None, keep)))
        gradients.append(_describe_gradients(grads, own))
        found.append([g.mT if g is not None and i in turned else g for i, g in enumerate(own)])
    run = _native.backward_f64 if x.dtype == torch.float64 else _native.backward_f32
    run(described, gradients, torch.get_num_threads())
    return found


def _rows(t: Tensor) -> Tensor:
    """The tensor itself, if its features are neighbours in memory."""
    return t if t.stride(-1) == 1 or t.shape[-1] <= 1 else t.contiguous()


def _readable(tensors: Tensors) -> Tensors:
    """The tensors as the engine reads them: x, W, U and V with any strides, states by rows, vectors contiguous."""
    x, h, c, W, U, b, b_h, V, restart_h, restart_c = tensors
    whole = (None if t is None else t.contiguous() for t in (b, b_h, restart_h, restart_c))
    b, b_h, restart_h, restart_c = whole
    return x, None if h is None else _rows(h), None if c is None else _rows(c), W, U, b, b_h, V, restart_h, restart_c


def _at(t: Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


def _describe(scan: Scan, tensors: Tensors, parts: int, made: Made) -> tuple[int, ...]:
    """The scan in the order in which native/bind/module.cpp reads it."""
    x, h, c, W, U, b, b_h, V, restart_h, restart_c = tensors
    hidden, state = scan.sizes(tensors)
    return (
        scan.cell, *x.shape, hidden, state, scan.reverse, scan.recompute, parts,
        W.data_ptr(), *_weight_strides(W, hidden), U.data_ptr(), *_weight_strides(U, hidden), _at(b), _at(b_h),
        *((0, 0, 0) if V is None else (V.data_ptr(), *(V.mT if scan.flat else V).stride())),
        x.data_ptr(), *x.stride(), *_rows_at(h), *_rows_at(c),
        _at(scan.lengths), *((0, 0, 0) if scan.resets is None else (scan.resets.data_ptr(), *scan.resets.stride())),
        _at(restart_h), _at(restart_c),
        made.out.data_ptr(), made.out.stride(0), made.out.stride(1), _at(made.h_n), _at(made.c_n), _at(made.kept),
    )  # fmt: skip


def _rows_at(t: Tensor | None) -> tuple[int, int]:
    return (0, 0) if t is None else (t.data_ptr(), t.stride(0))


def _weight_strides(W: Tensor, hidden: int) -> tuple[int, ...]:
    """Of the gate, the input and the output."""
    if W.dim() == 3:
        return W.stride()
    row, column = W.stride()
    return hidden * row, column, row


def _describe_gradients(given: tuple[Tensor | None, ...], own: list[Tensor | None]) -> tuple[int, ...]:
    out, h_n, c_n = (*given, None)[:3]
    x, h, c, W, U, b, b_h, V, restart_h, restart_c = own
    return (
        *((0, 0, 0) if out is None else (out.data_ptr(), out.stride(0), out.stride(1))),
        *_rows_at(h_n),
        *_rows_at(c_n),
        *((0, 0, 0) if x is None else (x.data_ptr(), x.stride(0), x.stride(1))),
        *(_at(t) for t in (h, c, W, U, b, b_h, V, restart_h, restart_c)),
    )


_TURNED = (3, 4, 7)  # W, U and V, with the gates as an axis


def _empty_gradient(t: Any, turned: bool) -> Tensor:
    return t.new_empty(*t.shape[:-2], t.shape[-1], t.shape[-2]) if turned else t.new_empty(t.shape)
