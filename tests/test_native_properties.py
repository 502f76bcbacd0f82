"""Any problem at all, and any order of problems: the native engine against the truth, and against its own past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from oracles.cases import CELLS, case, ours, randomise, split_state
from oracles.compare import assert_bitwise
from oracles.native import GATES, Problem, run
from oracles.native_truth import assert_right
from unrolled.kernels import native

SMALL = st.sampled_from([1, 2, 3, 5, 7, 8, 9, 16, 17, 33])


@st.composite
def drawn(draw: st.DrawFn) -> Problem:
    cell = draw(st.sampled_from(list(GATES)))
    hidden, batch = draw(SMALL), draw(st.integers(0, 13))
    return Problem(
        cell, draw(st.integers(0, 40 // max(1, batch) + 1)), batch, draw(SMALL), hidden,
        draw(SMALL) if cell == "lstm_projected" else hidden, draw(st.sampled_from([torch.float32, torch.float64])),
        draw(st.integers(0, 2)), *(draw(st.booleans()) for _ in range(5)), seed=draw(st.integers(0, 10_000)),
    )  # fmt: skip


def axes_turned(t: Tensor) -> Tensor:
    return t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim())))


def spread(t: Tensor) -> Tensor:
    wide = torch.full((*t.shape[:-1], 2 * t.shape[-1] + 1), float("nan"), dtype=t.dtype)
    wide[..., 1::2] = t
    return wide[..., 1::2]


FORMS: list[Callable[[Tensor], Tensor]] = [lambda t: t, axes_turned, spread]


@settings(max_examples=120)
@given(drawn(), st.lists(st.sampled_from(FORMS), min_size=10, max_size=10), st.sampled_from([1, 2, 3, 8]))
def test_any_problem(problem: Problem, forms: list[Callable[[Tensor], Tensor]], threads: int) -> None:
    """Shapes, lengths, resets, restarts, directions, biases, recomputation, strides of each tensor, threads."""
    tensors = [None if t is None else form(t) for t, form in zip(problem.tensors(), forms, strict=True)]
    torch.set_num_threads(threads)
    try:
        got = run(problem, native, tensors)
    finally:
        torch.set_num_threads(1)
    assert_right(problem, got)


@settings(max_examples=25)
@given(st.lists(drawn(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_what_ran_before_changes_nothing(problems: list[Problem], random: Any) -> None:
    """Scratch is reused between calls of any cell, size and type: the same bits in any order."""
    first = {problem: run(problem, native) for problem in problems}
    order = problems * 2
    random.shuffle(order)
    for problem in order:
        for got, want in zip(run(problem, native), first[problem], strict=True):
            assert_bitwise(got, want)


# One layer over its life. Each call equals that of a fresh layer with the same weights, bit for bit.


def assert_fresh(cell: str, layer: nn.Module, x: Tensor, lengths: Any, state: Any = None) -> None:
    other = ours(cell, layer.input_size, layer.hidden_size, 2, bidirectional=True, memory=layer.memory)
    other.load_state_dict({name: value.clone() for name, value in layer.state_dict().items()})
    found = []
    for module in (layer, other.train(layer.training)):
        out, last = module(x, state, lengths=lengths)
        loss = out.square().sum() + split_state(last)[0].sum()
        found.append([out, split_state(last)[0], *torch.autograd.grad(loss, list(module.parameters()))])
    for got, want in zip(*found, strict=True):
        assert_bitwise(got, want)


@pytest.mark.parametrize("memory", ["store", "recompute"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_has_no_past(cell: str, memory: str) -> None:
    """Weights, T, B and lengths change every call; training and inference take turns."""
    layer = randomise(ours(cell, 5, 9, 2, bidirectional=True, memory=memory), 1, scale=0.4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    rng = np.random.default_rng(0)
    for number, steps in enumerate((9, 8, 1, 0, 7, 12, 3, 12)):
        batch = int(rng.integers(1, 7))
        x = torch.randn(steps, batch, 5, generator=torch.Generator().manual_seed(number))
        lengths = None if number % 3 == 2 else rng.integers(0, steps + 1, batch)
        layer.train(number % 2 == 0)
        assert_fresh(cell, layer, x, lengths)
        with torch.inference_mode():
            layer(x[:2], lengths=None)
        optimizer.zero_grad()
        layer(x, lengths=lengths)[0].square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("cell", CELLS)
def test_a_failed_call_leaves_nothing_behind(cell: str) -> None:
    layer, x = randomise(ours(cell, 5, 9, 2, bidirectional=True), 1), torch.randn(4, 3, 5)
    for wrong in ({"lengths": [5, 1, 1]}, {"lengths": [-1, 1, 1]}, {"resets": torch.zeros(2, 2)}):
        with pytest.raises((ValueError, RuntimeError)):
            layer(x, **wrong)
        assert_fresh(cell, layer, x, [4, 0, 2])


def test_training_is_the_same_twice() -> None:
    """Fifty optimizer steps from one seed, on one thread count: the same bits."""
    ends = []
    for _ in range(2):
        layer = randomise(ours("gru", 4, 17, 2, bidirectional=True), 1, scale=0.2)
        optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
        x = case("gru", batch=9, steps=7, dtype=torch.float32).x.transpose(0, 1)
        for step in range(50):
            optimizer.zero_grad()
            layer(x, lengths=[7, 3, 0, 1, 7, 6, 5, 4, step % 8])[0].square().mean().backward()
            optimizer.step()
        ends.append([p.detach() for p in layer.parameters()])
    for a, b in zip(*ends, strict=True):
        assert_bitwise(a, b)
