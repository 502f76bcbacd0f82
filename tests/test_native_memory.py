"""What the native engine reads and writes: any strides, nothing outside, no padding; and hostile arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import native_address as address
from oracles.compare import assert_bitwise, assert_near
from oracles.native import GATES, NAMES, Problem, arguments, labels, run
from unrolled import _native
from unrolled.kernels import native

NAN = float("nan")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
EACH = pytest.mark.parametrize("cell", GATES)


def problem(cell: str, dtype: torch.dtype = torch.float64, **options: Any) -> Problem:
    state = 5 if cell == "lstm_projected" else 9
    wanted = {"is_ragged": True, "has_resets": True, "has_restart": True} | options
    return Problem(cell, 6, 5, 7, 9, state, dtype, seed=800, **wanted)


# Strides. Each view holds the values of the tensor it stands for, or repeats one of them.


def every_second(t: Tensor) -> Tensor:
    return torch.stack([t, torch.full_like(t, NAN)], dim=-1).flatten(-2)[..., ::2]


def turned(t: Tensor) -> Tensor:
    return t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim())))


def inside(t: Tensor) -> Tensor:
    """Rows that stand apart."""
    wide = torch.full((*t.shape[:-1], t.shape[-1] + 3), NAN, dtype=t.dtype)
    wide[..., 1:-2] = t
    return wide[..., 1:-2]


def repeated(axis: int) -> Callable[[Tensor], Tensor]:
    return lambda t: t.narrow(axis % t.dim(), 0, 1).expand_as(t)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "every second": every_second, "turned": turned, "inside": inside, "one row repeated": repeated(0),
    "one column repeated": repeated(-1), "one middle repeated": repeated(-2),
    "one number": lambda t: t.flatten()[0].expand_as(t),
}  # fmt: skip


@DTYPES
@pytest.mark.parametrize("how", VIEWS)
@EACH
def test_any_strides_are_read(cell: str, how: str, dtype: torch.dtype) -> None:
    """Every tensor at once, forward and backward, bit for bit as if it were contiguous."""
    for reverse in (False, True):
        this = problem(cell, dtype, reverse=reverse, recompute=reverse)
        views = [None if t is None else VIEWS[how](t) for t in this.tensors()]
        plain = [None if t is None else t.contiguous() for t in views]
        before = [None if t is None else t.clone() for t in views]
        for name, got, want in zip(labels(this), run(this, native, views), run(this, native, plain), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")
        for view, old in zip(views, before, strict=True):
            if view is not None and old is not None:
                assert_bitwise(view, old)


@EACH
def test_one_strided_tensor_among_others(cell: str) -> None:
    this = problem(cell)
    want = run(this, native)
    for number, name in enumerate(NAMES):
        tensors = this.tensors()
        if tensors[number] is None:
            continue
        for how in ("every second", "turned", "inside"):
            tensors[number] = VIEWS[how](tensors[number])
            for got, exact in zip(run(this, native, tensors), want, strict=True):
                torch.testing.assert_close(got, exact, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


@DTYPES
@EACH
def test_padding_is_never_read(cell: str, dtype: torch.dtype) -> None:
    """NaN in the input and in the gradient of the output past each row's end; both come out as zeros."""
    for reverse, recompute in ((False, False), (True, False), (True, True)):
        this = problem(cell, dtype, reverse=reverse, recompute=recompute, has_resets=False)
        want, tensors = run(this, native), this.tensors()
        past = torch.arange(this.steps)[:, None] >= this.options()["lengths"]
        assert tensors[0] is not None
        tensors[0][past] = NAN

        class Dirty(Problem):
            def seeds(self, results: Any, past: Tensor = past) -> list[Tensor]:
                seeds = super().seeds(results)
                seeds[0][past] = NAN
                return seeds

        got = run(Dirty(**vars(this)), native, tensors)
        for found, exact in zip(got, want, strict=True):
            assert_bitwise(found, exact)
        for number in (0, 2 if this.name != "lstm_scan" else 3):  # out and the gradient of x
            assert_bitwise(got[number][past], torch.zeros_like(got[number][past]))


# Guards: everything that is written lies inside a larger block of NaN.


class Guarded:
    """Blocks of NaN with a hole each; `check` looks whether anything but the holes was written."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.blocks: list[tuple[Tensor, Tensor]] = []

    def flat(self, *shape: int) -> Tensor:
        """A contiguous hole."""
        count = int(torch.tensor(shape).prod())
        block, edge = torch.full((count + 64,), NAN, dtype=self.dtype), torch.ones(count + 64, dtype=torch.bool)
        edge[33 : 33 + count] = False  # on no boundary of vectors
        self.blocks.append((block, edge))
        return block[33 : 33 + count].view(shape)

    def rows(self, steps: int, batch: int, width: int) -> Tensor:
        """(T, B, width) with space between rows and steps."""
        block = torch.full((steps + 2, batch + 2, width + 5), NAN, dtype=self.dtype)
        edge = torch.ones_like(block, dtype=torch.bool)
        edge[1:-1, 1:-1, 2:-3] = False
        self.blocks.append((block, edge))
        return block[1:-1, 1:-1, 2:-3]

    def check(self, is_full: bool = True) -> None:
        for block, edge in self.blocks:
            assert block[edge].isnan().all(), "something was written outside"
            assert not (is_full and block[~edge].isnan().any()), "something was not written"


@DTYPES
@pytest.mark.parametrize("threads", [1, 2])
@EACH
def test_nothing_is_written_outside(cell: str, threads: int, dtype: torch.dtype) -> None:
    kind = "f64" if dtype == torch.float64 else "f32"
    for batch, reverse, recompute in ((5, False, False), (9, True, True), (1, True, False)):
        this = replace(problem(cell, dtype, reverse=reverse, recompute=recompute), batch=batch)
        tensors, options = this.tensors(), this.options()
        before = [None if t is None else t.clone() for t in tensors]
        guard, parts = Guarded(dtype), _native.choose_parts(batch, threads)
        kept = guard.flat(address.kept_size(this))
        results = [guard.rows(this.steps, batch, this.state), guard.flat(batch, this.state)]
        if this.name == "lstm_scan":
            results.append(guard.flat(batch, this.hidden))
        scan = address.scan(this, tensors, options, results, kept, parts)
        getattr(_native, f"forward_{kind}")([scan], threads)
        guard.check(is_full=False)  # the lanes between the kept blocks stay as they were
        want = run(this, native)
        for got, exact in zip(results, want, strict=False):
            assert_near(got, exact, ulps=8)  # another number of threads rounds otherwise

        shapes = [None if t is None else (t.mT if address.turned(k) else t).shape for k, t in enumerate(tensors)]
        own = [None if shape is None else guard.flat(*shape) for shape in shapes]
        own[0] = guard.rows(this.steps, batch, this.width)
        seeds = this.seeds(results)  # alive until the call is over
        back = address.gradients(seeds, own)
        getattr(_native, f"backward_{kind}")([scan], [back], threads)
        guard.check(is_full=False)
        found = [g.mT if address.turned(k) else g for k, g in enumerate(own) if g is not None]
        for got, exact in zip(found, want[len(results) :], strict=True):
            assert_near(got, exact, ulps=8)
        for tensor, old in zip(tensors, before, strict=True):
            if tensor is not None and old is not None:
                assert_bitwise(tensor, old)


def test_the_guard_itself_can_fail() -> None:
    guard = Guarded(torch.float32)
    guard.rows(2, 2, 3).fill_(1.0)
    guard.check()
    guard.blocks[0][0][1, 1, 5] = 0.0
    with pytest.raises(AssertionError, match="outside"):
        guard.check()
    guard = Guarded(torch.float32)
    guard.flat(3)
    with pytest.raises(AssertionError, match="not written"):
        guard.check()


# Hostile arguments of the address interface


def call() -> tuple[tuple[Any, ...], tuple[Any, ...], list[Any]]:
    """A scan and its gradients as the engine takes them, and what keeps their memory alive."""
    this = problem("lstm")
    tensors, options = this.tensors(), this.options()
    kept = torch.empty(address.kept_size(this), dtype=torch.float64)
    results = [torch.empty(*shape, dtype=torch.float64) for shape in ((6, 5, 9), (5, 9), (5, 9))]
    grads = [torch.zeros_like(r) for r in results]
    scan = address.scan(this, tensors, options, results, kept, 1)
    return scan, address.gradients(grads, [None] * 10), [tensors, options, results, kept, grads]


def test_tuples_of_the_wrong_form() -> None:
    scan, back, _alive = call()
    forward, backward = _native.forward_f64, _native.backward_f64
    forward([scan], 1)
    backward([scan], [back], 1)
    for wrong in (scan[:-1], scan[:3], (), (*scan, 0)):
        with pytest.raises(ValueError, match="a scan is described by"):
            forward([wrong], 1)
        with pytest.raises(ValueError, match="a scan is described by"):
            backward([wrong], [back], 1)
    for wrong in (back[:-1], (), (*back, 0)):
        with pytest.raises(ValueError, match="is described by"):
            backward([scan], [wrong], 1)
    for wrong in (list(scan), "scan", None, 3):
        with pytest.raises(TypeError, match="tuple"):
            forward([wrong], 1)
    for item in ("x", 1.5, [], object()):
        with pytest.raises(TypeError):
            forward([(*scan[:5], item, *scan[6:])], 1)
    with pytest.raises(OverflowError):
        forward([(*scan[:1], 2**70, *scan[2:])], 1)
    for arguments_ in ((scan, 1), ((scan,), 1), ([scan], "1"), ([scan],), (None, 1)):
        with pytest.raises(TypeError):
            forward(*arguments_)
    for gradients in ([], [back, back]):
        with pytest.raises(ValueError, match="as many gradients as scans"):
            backward([scan], gradients, 1)
    forward([], 1)
    backward([], [], 1)


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, -1), (0, 6), (1, -1), (2, -5), (3, 0), (3, -1), (4, 0), (5, -9), (5, 8), (8, 0), (8, -1), (8, 6)],
)
def test_numbers_that_cannot_be(position: int, value: int) -> None:
    """The cell, the sizes and the parts: 0 cell, 1 steps, 2 batch, 3 input, 4 hidden, 5 state, 8 parts."""
    scan, back, _alive = call()
    wrong = (*scan[:position], value, *scan[position + 1 :])
    with pytest.raises(ValueError, match="expected"):
        _native.forward_f64([wrong], 1)
    with pytest.raises(ValueError, match="expected"):
        _native.backward_f64([wrong], [back], 1)


@pytest.mark.parametrize("value", [-1, 7, 2**40, -(2**40)])
def test_lengths_out_of_range(value: int) -> None:
    this = problem("gru_after")
    positional, options = arguments(this, this.tensors())
    options["lengths"] = options["lengths"].clone()
    options["lengths"][3] = value
    with pytest.raises(ValueError, match="lengths"):
        native.gru_scan(*positional, **options)


def test_threads_that_cannot_be() -> None:
    scan, back, _alive = call()
    for threads in (0, -1, 10_000):
        _native.forward_f64([scan], threads)  # never fewer than one, never more than the cores
        _native.backward_f64([scan], [back], threads)
        assert _native.choose_parts(64, threads) >= 1
