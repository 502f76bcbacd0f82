"""The step functions: against loops over scalars, against each other, and the laws that tell the variants apart."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oracles import scan as oracle
from oracles.compare import assert_bitwise, assert_near, error
from unrolled import equations, kernels
from unrolled.kernels import native, reference, torch_kernels

B, I, H, P = 3, 4, 3, 2
DTYPE = torch.float64


def draw(*shape: int, seed: int = 0) -> Tensor:
    values = torch.rand(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=DTYPE)
    return 2 * values - 1


def rows(W: Tensor) -> np.ndarray:
    """(G, I, H), gates as an axis and rows times matrix, as torch's (G * H, I), matrix times columns."""
    return oracle.extended((W.mT.flatten(0, 1) if W.dim() == 3 else W.mT).numpy())


def weights(W: Tensor, U: Tensor, b: Tensor | None, b_h: Tensor | None) -> dict[str, np.ndarray]:
    zero = np.zeros(len(rows(W)), np.longdouble)
    flat = [zero if v is None else oracle.extended(v.flatten().numpy()) for v in (b, b_h)]
    return {"ih": rows(W), "hh": rows(U), "b_ih": flat[0], "b_hh": flat[1]}


BIASES = pytest.mark.parametrize(("one", "two"), [(True, True), (True, False), (False, False)])


@BIASES
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_rnn_step(nonlinearity: str, one: bool, two: bool) -> None:
    x, h, W, U = draw(B, I), draw(B, H), draw(I, H), draw(H, H)
    b, b_h = draw(H) if one else None, draw(H, seed=1) if two else None
    got = equations.rnn_step(x, h, W, U, b, b_h, nonlinearity=nonlinearity)
    w = weights(W, U, b, b_h)
    want = [oracle.rnn_step(oracle.extended(x[i]), oracle.extended(h[i]), w, nonlinearity == "relu") for i in range(B)]
    assert_near(got, want, ulps=8)


@BIASES
@pytest.mark.parametrize("projected", [False, True])
def test_lstm_step(projected: bool, one: bool, two: bool) -> None:
    size = P if projected else H
    x, h, c, W, U = draw(B, I), draw(B, size), draw(B, H), draw(4, I, H), draw(4, size, H)
    b, b_h = draw(4, H) if one else None, draw(4, H, seed=1) if two else None
    V = draw(H, P) if projected else None
    got = equations.lstm_step(x, h, c, W, U, b, b_h, V)
    w = weights(W, U, b, b_h)
    if V is not None:
        w["hr"] = rows(V)
    want = [oracle.lstm_step(*(oracle.extended(v[i]) for v in (x, h, c)), w) for i in range(B)]
    assert_near(got.h, [h for h, _ in want], ulps=8)
    assert_near(got.c, [c for _, c in want], ulps=8)


@BIASES
@pytest.mark.parametrize("reset_after", [True, False])
def test_gru_step(reset_after: bool, one: bool, two: bool) -> None:
    x, h, W, U = draw(B, I), draw(B, H), draw(3, I, H), draw(3, H, H)
    b, b_h = draw(3, H) if one else None, draw(3, H, seed=1) if two else None
    got = equations.gru_step(x, h, W, U, b, b_h, reset_after=reset_after)
    w = weights(W, U, b, b_h)
    want = [oracle.gru_step(oracle.extended(x[i]), oracle.extended(h[i]), w, reset_after) for i in range(B)]
    assert_near(got, want, ulps=8)


def test_steps_are_torchs_cells() -> None:
    x, h, c = draw(B, I), draw(B, H), draw(B, H, seed=1)
    lstm, gru, rnn = (cell(I, H, dtype=DTYPE) for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell))
    with torch.no_grad():

        def blocks(cell: nn.Module, gates: int) -> list[Tensor]:
            W, U = cell.weight_ih.view(gates, H, I).mT, cell.weight_hh.view(gates, H, H).mT
            return [W, U, cell.bias_ih.view(gates, H), cell.bias_hh.view(gates, H)]

        for got, want in zip(equations.lstm_step(x, h, c, *blocks(lstm, 4)), lstm(x, (h, c)), strict=True):
            assert_near(got, want, ulps=8)
        assert_near(equations.gru_step(x, h, *blocks(gru, 3)), gru(x, h), ulps=8)
        assert_near(equations.rnn_step(x, h, *(part[0] for part in blocks(rnn, 1))), rnn(x, h), ulps=8)


def test_the_two_reset_orders_differ_on_a_mixing_matrix() -> None:
    """... and agree where U_n is diagonal and b_hn is zero, which is why H = 1 proves nothing."""
    x, h, W, U, b = draw(B, I), draw(B, H), draw(3, I, H), draw(3, H, H), draw(3, H)

    def both(U: Tensor, b_h: Tensor | None) -> float:
        after, before = (equations.gru_step(x, h, W, U, b, b_h, reset_after=order) for order in (True, False))
        return float((after - before).abs().max())

    assert both(U, None) > 1e-2
    diagonal = U.clone()
    diagonal[2] = torch.diag(U[2].diagonal())
    assert both(diagonal, None) < 1e-15
    assert both(diagonal, draw(3, H)) > 1e-2


def test_z_keeps_and_negating_its_blocks_swaps_the_mix() -> None:
    """Z = 1 keeps the state. The other convention is the same unit with the z blocks negated, exactly."""
    x, h, W, U, b = draw(B, I), draw(B, H), draw(3, I, H), draw(3, H, H), draw(3, H)
    keep, forget = b.clone(), b.clone()
    keep[1], forget[1] = 1e3, -1e3
    assert_bitwise(equations.gru_step(x, h, W, U, keep), h)
    gates = equations.gru_gates(x, h, W, U, forget)
    assert_bitwise(equations.gru_step(x, h, W, U, forget), gates.n)

    sign = torch.tensor([1.0, -1, 1], dtype=DTYPE)
    gates = equations.gru_gates(x, h, W, U, b)
    swapped = (1 - gates.z) * h + gates.z * gates.n
    negated = equations.gru_step(x, h, W * sign[:, None, None], U * sign[:, None, None], b * sign[:, None])
    assert_near(negated, swapped, ulps=4)


def test_one_bias_is_the_sum_of_two_except_in_the_candidate_of_a_gru() -> None:
    """B + b_h may be folded for RNN, LSTM and the GRU that resets before; not for b_hn behind r."""
    x, h, c = draw(B, I), draw(B, H), draw(B, H, seed=1)
    b, b_h = draw(4, H), draw(4, H, seed=1)
    W, U = draw(4, I, H), draw(4, H, H)
    assert_near(equations.rnn_step(x, h, W[0], U[0], b[0] + b_h[0]), equations.rnn_step(x, h, W[0], U[0], b[0], b_h[0]))
    assert_near(equations.lstm_step(x, h, c, W, U, b + b_h).h, equations.lstm_step(x, h, c, W, U, b, b_h).h)
    three = [v[:3] for v in (W, U, b, b_h)]
    folded = [*three[:2], three[2] + three[3]]
    before = {"reset_after": False}
    assert_near(equations.gru_step(x, h, *folded, **before), equations.gru_step(x, h, *three, **before))
    assert error(equations.gru_step(x, h, *folded), equations.gru_step(x, h, *three)) > 1e-2


def test_the_lstm_of_1997_is_f_equal_to_one() -> None:
    """Without a forget gate the memory only grows by what is written: c = c + i g."""
    x, h, c, W, U, b = draw(B, I), draw(B, H), draw(B, H, seed=1), draw(4, I, H), draw(4, H, H), draw(4, H)
    i, _, g, o = equations.lstm_gates(x, h, W, U, b)
    old = equations.lstm_update(c, i, torch.ones_like(c), g, o)
    assert_bitwise(old.c, c + i * g)
    b[1] = 1e3  # an open gate is the same cell
    assert_bitwise(equations.lstm_step(x, h, c, W, U, b).c, old.c)
    assert_bitwise(equations.lstm_step(x, h, c, W, U, b).h, old.h)


def test_the_memory_path_has_the_derivative_f() -> None:
    """∂c_t/∂c_{t-1} = f with the gates held fixed; that of a chain has more terms."""
    c = draw(1, H).requires_grad_()
    i, f, g, o = (draw(1, H, seed=s).sigmoid() for s in range(4))
    (gradient,) = torch.autograd.grad(equations.lstm_update(c, i, f, g, o).c.sum(), c)
    assert_bitwise(gradient, f)

    W, U, b = draw(4, I, H), draw(4, H, H), draw(4, H)
    state, product = equations.LSTMState(torch.zeros(1, H, dtype=DTYPE), c), torch.ones(1, H, dtype=DTYPE)
    for t in range(3):
        product = product * equations.lstm_gates(draw(1, I, seed=t), state.h, W, U, b).f
        state = equations.lstm_step(draw(1, I, seed=t), *state, W, U, b)
    (full,) = torch.autograd.grad(state.c.sum(), c)
    assert error(full, product) > 1e-3


def test_jacobian_of_one_step_is_autograds() -> None:
    x, W, U, b = draw(1, I), draw(I, H), draw(H, H), draw(H)
    start = draw(1, H)
    h = equations.rnn_step(x, start, W, U, b)
    want = torch.autograd.functional.jacobian(lambda s: equations.rnn_step(x, s, W, U, b)[0], start)[:, 0]
    assert_near(equations.rnn_jacobian(h, U)[0], want, ulps=8)


def test_jacobian_of_a_relu_unit() -> None:
    x, W, U, b, start = draw(6, I), draw(I, H), draw(H, H), draw(H), draw(6, H)
    h = equations.rnn_step(x, start, W, U, b, nonlinearity="relu")
    assert (h > 0).any()
    assert (h == 0).any()
    made = equations.rnn_jacobian(h, U, nonlinearity="relu")
    for row in range(6):

        def step(state: Tensor, row: int = row) -> Tensor:
            return equations.rnn_step(x[row : row + 1], state[None], W, U, b, nonlinearity="relu")[0]

        assert_near(made[row], torch.autograd.functional.jacobian(step, start[row]), ulps=8)


@pytest.mark.parametrize("width", [H, 2])
def test_jacobian_of_an_lstm_step_is_autograds(width: int) -> None:
    """The whole of it, ∂(h, c)/∂(h, c), for two rows with biases on both sides, also with a projection."""
    V = None if width == H else draw(H, width)
    x, h, c = draw(2, I), draw(2, width), draw(2, H)
    W, U, b, b_h = draw(4, I, H), draw(4, width, H), draw(4, H), draw(4, H)
    made = equations.lstm_jacobian(c, *equations.lstm_gates(x, h, W, U, b, b_h), U, V)
    for row in range(2):

        def step(state: Tensor, row: int = row) -> Tensor:
            after = equations.lstm_step(x[row : row + 1], state[None, :width], state[None, width:], W, U, b, b_h, V)
            return torch.cat([after.h[0], after.c[0]])

        want = torch.autograd.functional.jacobian(step, torch.cat([h[row], c[row]]))
        assert_near(made[row], want, ulps=32)


@pytest.mark.parametrize("reset_after", [True, False])
def test_jacobian_of_a_gru_step_is_autograds(reset_after: bool) -> None:
    x, h = draw(2, I), draw(2, H)
    W, U, b, b_h = draw(3, I, H), draw(3, H, H), draw(3, H), draw(3, H)
    gates = equations.gru_gates(x, h, W, U, b, b_h, reset_after=reset_after)
    made = equations.gru_jacobian(h, *gates, U, b_h, reset_after=reset_after)
    other = equations.gru_jacobian(h, *gates, U, b_h, reset_after=not reset_after)
    for row in range(2):

        def step(state: Tensor, row: int = row) -> Tensor:
            return equations.gru_step(x[row : row + 1], state[None], W, U, b, b_h, reset_after=reset_after)[0]

        want = torch.autograd.functional.jacobian(step, h[row])
        assert_near(made[row], want, ulps=32)
        assert error(other[row], want) > 1e-3, "the other order has another derivative"


def test_softmax_and_cross_entropy() -> None:
    o, y = 5 * draw(2, 5, 6), torch.arange(10).reshape(2, 5) % 6
    assert_near(equations.softmax(o), torch.softmax(o, -1), ulps=4)
    assert_near(equations.cross_entropy(o, y), nn.functional.cross_entropy(o.mT, y, reduction="none"), ulps=8)
    far = torch.tensor([[1e4, 0.0, -1e4]], dtype=DTYPE)
    assert_bitwise(equations.softmax(far), torch.tensor([[1.0, 0, 0]], dtype=DTYPE))
    assert_bitwise(equations.cross_entropy(far, torch.tensor([2])), torch.tensor([2e4], dtype=DTYPE))
    h, W, b = draw(2, 5, H), draw(H, 6), draw(6)
    assert_near(equations.output_logits(h, W, b), nn.functional.linear(h, W.mT, b), ulps=8)


def test_masked_loss_is_a_mean_over_valid_positions() -> None:
    """[1, 3, pad, pad] and [2, 2, 2, 2] have the mean 2, however they are batched."""
    p = torch.tensor([[1.0, 3, 9, 9], [2, 2, 2, 2]], dtype=DTYPE).neg().exp()
    o = torch.stack([p.log(), (1 - p).log()], dim=-1)
    y = torch.zeros(2, 4, dtype=torch.int64)
    m = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    assert_near(equations.masked_cross_entropy(o, y, m), torch.tensor(12 / 6, dtype=DTYPE), ulps=8)
    assert_near(equations.masked_cross_entropy(o.flip(0), y, m.flip(0)), torch.tensor(2.0, dtype=DTYPE), ulps=8)


def test_masked_loss_never_reads_the_padding() -> None:
    """NaN scores and labels out of range at invalid positions change neither the loss nor the gradient."""
    o, y = draw(2, 4, 3), torch.ones(2, 4, dtype=torch.int64)
    m = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    want = equations.masked_cross_entropy(o, y, m)
    o[0, 2:], y[0, 2:] = float("nan"), -100
    o.requires_grad_()
    loss = equations.masked_cross_entropy(o, y, m)
    assert_bitwise(loss.detach(), want)
    loss.backward()
    assert torch.isfinite(o.grad).all()
    assert_bitwise(o.grad[0, 2:], torch.zeros(2, 3, dtype=DTYPE))
    nothing = equations.masked_cross_entropy(o, y, torch.zeros_like(m))
    assert_bitwise(nothing.detach(), torch.tensor(0.0, dtype=DTYPE))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_engines_have_one_signature(name: str) -> None:
    for engine in (torch_kernels, native):
        assert inspect.signature(getattr(reference, name)) == inspect.signature(getattr(engine, name))


@pytest.mark.parametrize("engine", [reference, torch_kernels, native], ids=["reference", "torch", "native"])
def test_whole_is_split(engine: object) -> None:
    """Carrying the state across a cut changes nothing: bitwise for the equations."""
    x, h, c = draw(5, B, I), draw(B, H), draw(B, H, seed=1)
    W, U, b, b_h = draw(4, I, H), draw(4, H, H), draw(4, H), draw(4, H, seed=1)
    compare = assert_bitwise if engine is reference else assert_near
    whole = engine.lstm_scan(x, h, c, W, U, b, b_h)
    head = engine.lstm_scan(x[:2], h, c, W, U, b, b_h)
    tail = engine.lstm_scan(x[2:], *head[1:], W, U, b, b_h)
    compare(torch.cat([head[0], tail[0]]), whole[0])
    compare(tail[1], whole[1])
    compare(tail[2], whole[2])
    three = [v[:3] for v in (W, U, b, b_h)]
    whole = engine.gru_scan(x, h, *three)
    head = engine.gru_scan(x[:2], h, *three)
    compare(torch.cat([head[0], engine.gru_scan(x[2:], head[1], *three)[0]]), whole[0])


def test_the_annotations_run() -> None:
    """The suite runs with the jaxtyping hook: a transposed weight is caught at the call."""
    from jaxtyping import TypeCheckError

    with pytest.raises(TypeCheckError, match="U"):
        equations.gru_step(draw(B, I), draw(B, H), draw(3, I, H), draw(3, I, H))
    with pytest.raises(TypeCheckError):
        equations.rnn_step(draw(B, I), draw(B, H), draw(H, I), draw(H, H))


def test_choose_says_why() -> None:
    x = torch.zeros(5, 3, 4)
    assert kernels.choose("gru_scan", x).run is native.gru_scan
    assert kernels.choose("gru_scan", x, reset_after=False).run is native.gru_scan
    assert kernels.choose("lstm_scan", x, backend="reference").run is reference.lstm_scan
    half = kernels.choose("gru_scan", x.half())
    assert half.run is torch_kernels.gru_scan
    assert "native engine takes float32 and float64, x is torch.float16" in half.reason
    before = kernels.choose("gru_scan", x.half(), reset_after=False)
    assert before.run is reference.gru_scan
    assert before.name == "reference"
    assert "reset before" in before.reason


def test_a_named_backend_never_falls_back() -> None:
    x = torch.zeros(5, 3, 4)
    with pytest.raises(RuntimeError, match="reset before") as found:
        kernels.choose("gru_scan", x, reset_after=False, backend="torch")
    assert "backend='auto'" in str(found.value)
    with pytest.raises(ValueError, match="backend"):
        kernels.choose("gru_scan", x, backend="fastest")
