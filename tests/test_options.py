"""What goes beyond torch.nn, by keyword: one bias, reset before, forget bias, initialisers, a learned initial state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unrolled
from oracles.cases import CELLS, LENGTHS, assert_layer_is_right, case, ours, randomise, split_state
from oracles.compare import assert_bitwise, assert_near, error

BACKENDS = ("native", "reference", "torch")
RESETS = torch.tensor([[0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)


def layer_of(cell: str, **options: Any) -> nn.Module:
    layer = ours(cell, 4, 3, 2, bidirectional=True, batch_first=True, dtype=torch.float64, **options)
    return randomise(layer, 1)


# One bias per gate


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cell", CELLS)
def test_single_bias(cell: str, backend: str) -> None:
    """No bias_hh in the state_dict; the same numbers as two biases of which the second is zero."""
    one, two = layer_of(cell, single_bias=True, backend=backend), layer_of(cell, backend=backend)
    assert not [name for name in one.state_dict() if name.startswith("bias_hh")]
    assert [n for n in two.state_dict() if not n.startswith("bias_hh")] == list(one.state_dict())
    this = case(cell)
    assert_layer_is_right(cell, one, this, lengths=LENGTHS, resets=RESETS)
    values = {name: one.state_dict().get(name, torch.zeros_like(value)) for name, value in two.state_dict().items()}
    two.load_state_dict(values)
    assert_near(one(this.x, this.state, lengths=LENGTHS)[0], two(this.x, this.state, lengths=LENGTHS)[0])


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_single_bias_without_bias_is_a_contradiction(name: str) -> None:
    with pytest.raises(ValueError, match="bias"):
        getattr(unrolled, name)(4, 3, bias=False, single_bias=True)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_cells_take_the_same_extras(name: str) -> None:
    """One step of the layer is the cell, for each variant."""
    variants = [{"single_bias": True}, *([{"reset_after": False}] if name == "GRU" else [])]
    for options in variants:
        layer = randomise(getattr(unrolled, name)(4, 3, dtype=torch.float64, **options), 1)
        cell = getattr(unrolled, name + "Cell")(4, 3, dtype=torch.float64, **options)
        cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
        this = case("lstm" if name == "LSTM" else "gru", layers=1, bidirectional=False)
        state = (this.h0[0], this.c0[0]) if name == "LSTM" else this.h0[0]
        got, want = cell(this.x[:, 0], state), layer(this.x[:, :1].transpose(0, 1), this.state)[0][0]
        assert_near(got[0] if name == "LSTM" else got, want)


# The reset before the product


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("single_bias", [False, True])
def test_reset_before(single_bias: bool, backend: str) -> None:
    layer = layer_of("gru", reset_after=False, single_bias=single_bias, backend=backend)
    this = case("gru")
    assert_layer_is_right("gru", layer, this, lengths=LENGTHS, resets=RESETS)
    after = layer_of("gru", single_bias=single_bias)
    after.load_state_dict(layer.state_dict())
    assert error(after(this.x)[0], layer(this.x)[0]) > 1e-3


def test_reset_before_by_a_named_engine_that_has_none() -> None:
    layer = layer_of("gru", reset_after=False, backend="torch")
    with pytest.raises(RuntimeError, match=r"(?s)reset before.*backend='auto'"):
        layer(case("gru").x)


# Forget bias


@pytest.mark.parametrize("value", [1.0, 0.1, -0.3, 2.7, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("single_bias", [False, True])
def test_the_sum_of_the_forget_biases_is_exact(value: float, dtype: torch.dtype, single_bias: bool) -> None:
    """Setting both to 1 makes it 2; here b_if + b_hf is the value, to the last bit."""
    layer = unrolled.LSTM(4, 3, 2, bidirectional=True, forget_bias=value, single_bias=single_bias, dtype=dtype)
    for suffix in ("_l0", "_l0_reverse", "_l1", "_l1_reverse"):
        total = getattr(layer, "bias_ih" + suffix)[3:6].detach()
        if not single_bias:
            total = total + getattr(layer, "bias_hh" + suffix)[3:6].detach()
        assert_bitwise(total, torch.full((3,), value, dtype=dtype))
    torch.manual_seed(1)
    plain = unrolled.LSTM(4, 3, single_bias=single_bias, dtype=dtype)
    torch.manual_seed(1)
    biased = unrolled.LSTM(4, 3, single_bias=single_bias, dtype=dtype, forget_bias=value)
    for name, before in plain.state_dict().items():
        after = biased.state_dict()[name]
        rest = [0, 1, 2, 6, 7, 8, 9, 10, 11] if "bias" in name else slice(None)
        assert_bitwise(after[rest], before[rest])


def test_forget_bias_is_set_again_and_wins_over_the_initialiser() -> None:
    layer = unrolled.LSTM(4, 3, forget_bias=3.0, init="keras")
    assert_bitwise(layer.bias_ih_l0[3:6].detach() + layer.bias_hh_l0[3:6].detach(), torch.full((3,), 3.0))
    randomise(layer, 1)
    layer.reset_parameters()
    assert_bitwise(layer.bias_ih_l0[3:6].detach() + layer.bias_hh_l0[3:6].detach(), torch.full((3,), 3.0))
    cell = unrolled.LSTMCell(4, 3, forget_bias=1.0)
    assert_bitwise(cell.bias_ih[3:6].detach() + cell.bias_hh[3:6].detach(), torch.ones(3))


def test_forget_bias_needs_a_bias_and_an_lstm() -> None:
    with pytest.raises(ValueError, match="forget_bias"):
        unrolled.LSTM(4, 3, bias=False, forget_bias=1.0)
    with pytest.raises(TypeError, match="forget_bias"):
        unrolled.GRU(4, 3, forget_bias=1.0)
    with pytest.raises(TypeError, match="reset_after"):
        unrolled.LSTM(4, 3, reset_after=False)


# Initialisers


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_keras_rule(name: str) -> None:
    """Each gate's recurrent block is orthogonal; inputs within Glorot's bound; biases 0, the forget bias 1."""
    layer = getattr(unrolled, name)(20, 16, 2, bidirectional=True, init="keras")
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[name]
    for suffix in ("_l0", "_l0_reverse", "_l1", "_l1_reverse"):
        for block in getattr(layer, "weight_hh" + suffix).detach().split(16):
            assert_near(block @ block.T, torch.eye(16))
        W = getattr(layer, "weight_ih" + suffix).detach()
        bound = (6 / (W.shape[1] + gates * 16)) ** 0.5
        assert float(W.abs().max()) <= bound
        assert float(W.abs().max()) > 0.9 * bound
        b, b_h = getattr(layer, "bias_ih" + suffix).detach(), getattr(layer, "bias_hh" + suffix).detach()
        want = torch.zeros(gates * 16)
        if name == "LSTM":
            want[16:32] = 1
        assert_bitwise(b + b_h, want)


def test_irnn_rule() -> None:
    """Le, Jaitly & Hinton (2015): identity and small inputs; with relu the state is kept."""
    layer = unrolled.RNN(4, 8, 2, nonlinearity="relu", init="irnn")
    for k in (0, 1):
        assert_bitwise(getattr(layer, f"weight_hh_l{k}").detach(), torch.eye(8))
        W = getattr(layer, f"weight_ih_l{k}").detach()
        assert 0 < float(W.abs().max()) < 0.01
        assert_bitwise(getattr(layer, f"bias_ih_l{k}").detach(), torch.zeros(8))
    _, h = layer(torch.zeros(50, 1, 4), torch.full((2, 1, 8), 0.5))
    assert_near(h[0], torch.full((1, 8), 0.5))


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
@pytest.mark.parametrize("single_bias", [False, True])
def test_chrono_rule(name: str, single_bias: bool) -> None:
    """Tallec & Ollivier (2018): b_f = log U(1, max_lag - 1), b_i = -b_f; for a GRU the gate that keeps is z."""
    layer = getattr(unrolled, name)(4, 64, init=unrolled.init.chrono(max_lag=200), single_bias=single_bias)
    total = layer.bias_ih_l0.detach() + (0 if single_bias else layer.bias_hh_l0.detach())
    keep = total.split(64)[1]
    assert float(keep.min()) >= 0
    assert float(keep.max()) <= np.log(199) + 1e-5
    assert float(keep.exp().median()) == pytest.approx(100, abs=40)
    if name == "LSTM":
        assert_bitwise(total.split(64)[0], -keep)


def test_chrono_needs_gates_and_a_lag() -> None:
    with pytest.raises(ValueError, match="chrono"):
        unrolled.RNN(4, 3, init=unrolled.init.chrono(max_lag=20))
    with pytest.raises(ValueError, match="bias"):
        unrolled.LSTM(4, 3, bias=False, init=unrolled.init.chrono(max_lag=20))
    with pytest.raises(ValueError, match="max_lag"):
        unrolled.init.chrono(max_lag=2)


def test_any_callable_initialises() -> None:
    def ones(layer: nn.Module) -> None:
        for weights in layer.all_gates():
            weights.W.fill_(1.0)

    layer = unrolled.GRU(4, 3, 2, init=ones)
    assert_bitwise(layer.weight_ih_l1.detach(), torch.ones(9, 3))
    cell = unrolled.GRUCell(4, 3, init=ones)
    assert_bitwise(cell.weight_ih.detach(), torch.ones(9, 4))


@pytest.mark.parametrize("rule", ["torch", "keras", "irnn"])
def test_one_seed_one_start(rule: str) -> None:
    layers = []
    for _ in range(2):
        torch.manual_seed(5)
        layers.append(unrolled.LSTM(4, 3, 2, init=rule))
    for a, b in zip(*(layer.state_dict().values() for layer in layers), strict=True):
        assert_bitwise(a, b)


# A learned initial state


def initial(layer: nn.Module, part: str) -> list[tuple[str, nn.Parameter]]:
    return [(n, p) for n, p in layer.named_parameters() if n.startswith(f"initial_{part}")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cell", CELLS)
def test_the_learned_state_starts_and_restarts_a_row(cell: str, backend: str) -> None:
    """One vector a layer and direction; resets and empty rows use it; a given hx replaces it, until a reset."""
    layer = layer_of(cell, learn_initial_state=True, backend=backend)
    this = case(cell)
    h = np.stack([p.detach().numpy() for _, p in initial(layer, "h")]).astype(np.longdouble)
    assert h.shape == (4, 3)
    c = np.stack([p.detach().numpy() for _, p in initial(layer, "c")]).astype(np.longdouble) if cell == "lstm" else None
    for given in (False, True):
        assert_layer_is_right(cell, layer, this, lengths=LENGTHS, resets=RESETS, restart=(h, c), given_state=given)
    _, state = layer(this.x, lengths=LENGTHS)
    assert_bitwise(split_state(state)[0][:, 2].detach(), torch.as_tensor(h.astype(np.float64)))


@pytest.mark.parametrize("cell", CELLS)
def test_its_gradient_is_the_sum_over_the_batch(cell: str) -> None:
    """As if every row had its own copy, summed; a reset adds its use."""
    layer = layer_of(cell, learn_initial_state=True)
    this = case(cell)
    layer(this.x)[0].square().sum().backward()
    copies = [
        torch.stack([p.detach() for _, p in initial(layer, part)])[:, None].repeat(1, 3, 1).requires_grad_()
        for part in (("h", "c") if cell == "lstm" else ("h",))
    ]
    out, _ = layer(this.x, tuple(copies) if cell == "lstm" else copies[0])
    found = torch.autograd.grad(out.square().sum(), copies)
    for part, gradient in zip("hc", found, strict=False):
        for index, (_, parameter) in enumerate(initial(layer, part)):
            assert_near(parameter.grad, gradient[index].sum(0))
            assert parameter.grad.abs().max() > 0

    layer.zero_grad()
    resets = torch.zeros(3, 5, dtype=torch.bool)
    resets[:, 0] = True  # the forward direction restarts at once, whatever hx says
    forward = layer(this.x, this.state, resets=resets)[0][..., :3]
    forward.square().sum().backward()
    assert initial(layer, "h")[0][1].grad.abs().max() > 0


def test_it_is_in_the_state_dict_after_torchs_names() -> None:
    layer = unrolled.LSTM(4, 3, 2, bidirectional=True, learn_initial_state=True)
    names = list(layer.state_dict())
    other = list(nn.LSTM(4, 3, 2, bidirectional=True).state_dict())
    assert names[: len(other)] == other
    assert sorted(names[len(other) :]) == sorted(
        f"initial_{part}_l{k}{way}" for part in "hc" for k in (0, 1) for way in ("", "_reverse")
    )
    for name in names[len(other) :]:
        assert_bitwise(layer.state_dict()[name], torch.zeros(3))
    projected = unrolled.LSTM(4, 3, proj_size=2, learn_initial_state=True)
    assert projected.initial_h_l0.shape == (2,)
    assert projected.initial_c_l0.shape == (3,)


def test_it_trains_packed_and_unbatched() -> None:
    from torch.nn.utils.rnn import pack_padded_sequence

    layer = layer_of("gru", learn_initial_state=True)
    x = case("gru").x
    packed = pack_padded_sequence(x, [2, 5, 3], batch_first=True, enforce_sorted=False)
    assert_near(layer(packed)[1], layer(x, lengths=[2, 5, 3])[1])
    assert_near(layer(x[0])[0], layer(x)[0][0])
    layer(packed)[0].data.sum().backward()
    assert layer.initial_h_l0.grad.abs().max() > 0


# Memory, drop-out of the backend


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps", [0, 1, 2, 10, 17])
def test_recompute_at_any_length(cell: str, steps: int) -> None:
    store, again = layer_of(cell), layer_of(cell, memory="recompute")
    this = case(cell, steps=steps)
    (a, a_state), (b, b_state) = store(this.x, this.state), again(this.x, this.state)
    assert_near(b, a)
    assert_near(split_state(b_state)[0], split_state(a_state)[0])


def saved_bytes(backend: str, memory: str) -> int:
    """What autograd saves for a long sequence; a storage that is saved twice counts once."""
    layer = unrolled.GRU(8, 16, backend=backend, memory=memory)
    storages: dict[int, int] = {}

    def count(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
        out = layer(torch.randn(400, 4, 8))[0]
    out.sum().backward()
    return sum(storages.values())


@pytest.mark.parametrize(("backend", "share"), [("reference", 4), ("torch", 2), ("native", 2)])
def test_recompute_keeps_less(backend: str, share: int) -> None:
    """The native engine keeps states, not gates, and keeps little to begin with: less than either other engine."""
    again, store = saved_bytes(backend, "recompute"), saved_bytes(backend, "store")
    assert again < store / share
    assert saved_bytes("native", "store") <= 1.02 * store  # rows of the engine are padded to whole vectors


def test_native_is_refused_by_name_where_it_cannot_run() -> None:
    """Complex numbers have no order; a named engine says so, and falls back to nothing."""
    layer = unrolled.GRU(4, 3, backend="native", dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=r"(?s)native.*complex64.*backend='auto'"):
        layer(torch.zeros(5, 3, 4, dtype=torch.complex64))
