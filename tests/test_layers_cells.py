"""Cells against torch.nn's, and how layers live in others' code: attributes, copies, precision, devices, threads."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import unrolled
from oracles.cases import case, randomise
from oracles.compare import assert_bitwise, assert_near, error

CLASSES = ("RNN", "LSTM", "GRU")


CELL_CLASSES = ("RNNCell", "LSTMCell", "GRUCell")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELL_CLASSES)
def test_cells(name: str, bias: bool) -> None:
    torch.manual_seed(2)
    mine = getattr(unrolled, name)(4, 3, bias=bias, dtype=torch.float64)
    torch.manual_seed(2)
    other = getattr(nn, name)(4, 3, bias=bias, dtype=torch.float64)
    assert list(mine.state_dict()) == list(other.state_dict())
    for key, value in other.state_dict().items():
        assert_bitwise(mine.state_dict()[key], value)
    other.load_state_dict(randomise(mine, 3).state_dict())
    this = case("lstm", layers=1, bidirectional=False)
    x, h, c = this.x[:, 0], this.h0[0], this.c0[0]
    state = (h, c) if name == "LSTMCell" else h
    for arguments in ((x,), (x, state)):
        got, want = mine(*arguments), other(*arguments)
        for a, b in zip(
            got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
        ):
            assert_near(a, b)
    row = (h[0], c[0]) if name == "LSTMCell" else h[0]
    got, want = mine(x[0], row), other(x[0], row)
    first = (got[0], want[0]) if name == "LSTMCell" else (got, want)
    assert first[0].shape == first[1].shape
    assert_near(*first)


def test_relu_cell() -> None:
    mine, other = unrolled.RNNCell(4, 3, nonlinearity="relu"), nn.RNNCell(4, 3, nonlinearity="relu")
    mine.load_state_dict(other.state_dict())
    x = torch.randn(3, 4)
    assert_near(mine(x), other(x))


@pytest.mark.parametrize("name", CLASSES)
def test_model_code_sees_the_same_attributes(name: str) -> None:
    mine, other = getattr(unrolled, name)(4, 3, 2, bidirectional=True), getattr(nn, name)(4, 3, 2, bidirectional=True)
    for key in (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ):
        assert getattr(mine, key) == getattr(other, key)
    assert [[p.shape for p in row] for row in mine.all_weights] == [[p.shape for p in row] for row in other.all_weights]
    mine.flatten_parameters()  # present, and does nothing
    assert "4, 3" in repr(mine)
    before = [p.detach().clone() for p in mine.parameters()]
    mine.reset_parameters()
    assert max(error(a, b) for a, b in zip(before, mine.parameters(), strict=True)) > 0


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_float32(name: str, low: torch.dtype) -> None:
    """Own type in and out, errors of rounding the inputs and outputs only."""
    layer = randomise(getattr(unrolled, name)(4, 3, 2, bidirectional=True), 1)
    x = case("gru").x.transpose(0, 1).to(low)
    half = getattr(unrolled, name)(4, 3, 2, bidirectional=True, dtype=low)
    half.load_state_dict(layer.state_dict())
    wide = getattr(unrolled, name)(4, 3, 2, bidirectional=True)
    wide.load_state_dict(half.state_dict())
    got, want = half(x)[0], wide(x.float())[0]
    assert got.dtype == low
    # One rounding for each layer's output: the second layer reads what the first one rounded.
    assert error(got.float(), want) <= 8 * torch.finfo(low).eps


def test_deepcopy_and_to() -> None:
    layer = randomise(unrolled.LSTM(4, 3, 2, bidirectional=True), 1)
    x = case("lstm", dtype=torch.float32).x.transpose(0, 1)
    assert_bitwise(copy.deepcopy(layer)(x)[0], layer(x)[0])
    wide = layer.double()(x.double())[0]
    assert wide.dtype == torch.float64
    assert_near(layer.float()(x)[0], wide)


@pytest.mark.parametrize("name", CLASSES)
def test_shapes_without_memory(name: str) -> None:
    """The meta device, and torch's own way to skip the initial values."""
    layer = getattr(unrolled, name)(4, 3, 2, bidirectional=True, device="meta")
    assert layer(torch.zeros(5, 3, 4, device="meta"))[0].shape == (5, 3, 6)
    empty = nn.utils.skip_init(getattr(unrolled, name), 4, 3)
    assert empty.weight_ih_l0.shape == getattr(nn, name)(4, 3).weight_ih_l0.shape


@pytest.mark.parametrize("name", CLASSES)
def test_autocast(name: str) -> None:
    """Lower precision before, float32 state given: it runs, and errs by that precision only."""
    layer, before = randomise(getattr(unrolled, name)(4, 3, 2), 1), randomise(nn.Linear(4, 4), 2)
    x, h = torch.randn(5, 3, 4), torch.zeros(2, 3, 3)
    state = (h, h) if name == "LSTM" else h
    want = layer(before(x), state)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert error(layer(before(x), state)[0], want) < 0.05
        layer(before(x), state)[0].float().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("name", CLASSES)
def test_many_threads_at_once(name: str) -> None:
    layer = getattr(unrolled, name)(4, 3, 2, bidirectional=True)
    x = torch.randn(5, 3, 4)
    want = layer(x, lengths=[5, 2, 0])[0]
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: layer(x, lengths=[5, 2, 0])[0], range(32)):
            assert_bitwise(got, want)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("memory", ["store", "recompute"])
def test_autocast_with_lengths(name: str, memory: str) -> None:
    layer, x = getattr(unrolled, name)(4, 3, 2, bidirectional=True, memory=memory), torch.randn(5, 3, 4)
    want = layer(x, lengths=[3, 0, 5])[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert error(layer(x, lengths=[3, 0, 5])[0], want) < 0.05


def test_a_cell_takes_its_own_state_back_under_autocast() -> None:
    cell, x = unrolled.RNNCell(4, 3, bias=False), torch.randn(2, 4)
    want = cell(x, cell(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert error(cell(x, cell(x)).float(), want) < 0.05


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_a_cell_in_half_precision_rounds_once(name: str) -> None:
    """The result is that of float32, rounded once."""
    torch.manual_seed(0)
    cell = getattr(unrolled, name)(64, 64).to(torch.bfloat16)
    x = torch.randn(5, 64).to(torch.bfloat16)
    got = cell(x)
    wide = cell.to(torch.float32)(x.float())
    for half, full in zip(*((part,) if isinstance(part, torch.Tensor) else part for part in (got, wide)), strict=True):
        torch.testing.assert_close(half, full.to(torch.bfloat16), rtol=0, atol=0)
