"""Every number that the two textbook chapters work out, to the digits they print, and what their samples print."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn

import unrolled
from oracles.compare import assert_bitwise, assert_digits, assert_near, error
from unrolled import equations

DTYPE = torch.float64


def t(*values: object) -> Tensor:
    return torch.tensor(values[0] if len(values) == 1 else values, dtype=DTYPE)


def count(module: torch_nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# The tanh RNN of three steps: x = 1, 0, -1; W = 1, U = 0.5, no bias, h_0 = 0


def three_steps() -> list[Tensor]:
    h, states = t([[0.0]]), []
    for x in (1.0, 0.0, -1.0):
        h = equations.rnn_step(t([[x]]), h, t([[1.0]]), t([[0.5]]))
        states.append(h)
    return states


def test_three_steps_of_a_tanh_rnn() -> None:
    states = three_steps()
    assert_digits(torch.cat(states)[:, 0], [0.7616, 0.3634, -0.6741])
    before = [1.0, 0.5 * states[0].item(), -1 + 0.5 * states[1].item()]
    assert_digits(t(before), [1, 0.3808, -0.8183])
    assert states[1].item() != 0, "the second input is zero, and the state still remembers the first"


def test_three_steps_by_the_layer() -> None:
    layer = unrolled.RNN(1, 1, batch_first=True, single_bias=True, dtype=DTYPE)
    with torch.no_grad():
        for name, value in {"weight_ih_l0": 1.0, "weight_hh_l0": 0.5, "bias_ih_l0": 0.0}.items():
            getattr(layer, name).fill_(value)
    out, h_n = layer(t([[[1.0], [0.0], [-1.0]]]))
    assert_near(out[0], torch.cat(three_steps()))
    assert_bitwise(h_n[0, 0], out[0, 2])


def test_probabilities_and_loss() -> None:
    h = three_steps()[-1]
    logits = equations.output_logits(h, t([[1.0, -1.0]]))
    assert_digits(logits, [[-0.6741, 0.6741]])
    assert_digits(equations.softmax(logits), [[0.2062, 0.7938]])
    assert_digits(equations.cross_entropy(logits, torch.tensor([1])), [0.2309])
    mask = torch.tensor([True])
    assert_digits(equations.masked_cross_entropy(logits, torch.tensor([1]), mask), 0.2309)


# Two sentences of five tokens, embedding of 4, state of 3, 2 classes


class Small(torch_nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch_nn.Embedding(10, 4)
        self.rnn = unrolled.RNN(4, 3, batch_first=True, single_bias=True)
        self.output = torch_nn.Linear(3, 2)


def test_the_shapes_of_a_batch_and_its_32_parameters() -> None:
    model = Small()
    tokens = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
    x = model.embedding(tokens)
    assert x.shape == (2, 5, 4)
    states, h_n = model.rnn(x, lengths=[5, 3])
    assert states.shape == (2, 5, 3)
    last = unrolled.last_valid(states, [5, 3], batch_first=True)
    assert_bitwise(last, h_n[0])
    assert model.output(last).shape == (2, 2)
    assert count(model.rnn) == 24
    assert count(model.output) == 8
    assert count(model.rnn) + count(model.output) == 32
    assert count(unrolled.RNN(4, 3)) == 24 + 3, "two biases count H more"
    assert (x[:, 0] @ model.rnn.weight_ih_l0.T).shape == (2, 3)


def test_the_state_after_three_words_is_not_the_state_after_two_pads() -> None:
    """H_3 against H_5: even zero vectors move the state, and more steps of padding move it further."""
    model = Small()
    x = model.embedding(torch.tensor([[6, 7, 8]]))
    padded = torch_nn.functional.pad(x, (0, 0, 0, 2))
    h_3 = model.rnn(x)[1]
    assert error(model.rnn(padded)[1], h_3) > 1e-2
    out, kept = model.rnn(padded, lengths=[3])
    assert_near(kept, h_3)
    held = unrolled.hold_last(out, [3], batch_first=True)
    assert_near(held[0, 3:], h_3[0, 0].expand(2, 3))


def test_parameters_are_shared_and_states_are_not() -> None:
    """Quiz 1: the same weights at every step, whatever T is; the states differ."""
    layer = unrolled.RNN(4, 8, batch_first=True)
    before = count(layer)
    x = torch.ones(1, 100, 4)
    out, _ = layer(x)
    assert count(layer) == before == 4 * 8 + 8 * 8 + 2 * 8
    assert out.shape[1] == 100
    assert error(out[0, 0], out[0, 1]) > 1e-3


# Gradients through time


@pytest.mark.parametrize(
    ("factor", "steps", "printed"), [(0.5, 20, 9.54e-7), (1.5, 20, 3325), (0.8, 100, 2e-10), (1.5, 100, 4e17)]
)
def test_products_of_local_derivatives(factor: float, steps: int, printed: float) -> None:
    """A scalar linear recurrence measures them: relu at positive states has the derivative U."""
    start = torch.ones(1, 1, dtype=DTYPE, requires_grad=True)
    h = start
    for _ in range(steps):
        h = equations.rnn_step(t([[0.0]]), h, t([[0.0]]), t([[factor]]), nonlinearity="relu")
    (gradient,) = torch.autograd.grad(h.sum(), start)
    assert gradient.item() == pytest.approx(factor**steps, rel=1e-12)
    assert gradient.item() == pytest.approx(printed, rel=0.02 if printed in (9.54e-7, 3325) else 0.1)


def random_rnn(steps: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    shapes = ((steps, 1, 4), (1, 3), (4, 3), (3, 3), (3,))
    return tuple(2 * torch.rand(s, generator=g, dtype=DTYPE) - 1 for s in shapes)  # type: ignore[return-value]


def test_the_ordered_product_of_jacobians_is_autograds() -> None:
    """∂h_T/∂h_0 = J_T ... J_1, in this order; the other order is another matrix."""
    x, h0, W, U, b = random_rnn()

    def run(start: Tensor) -> Tensor:
        h = start
        for step in x:
            h = equations.rnn_step(step, h, W, U, b)
        return h[0]

    product, other, h = torch.eye(3, dtype=DTYPE), torch.eye(3, dtype=DTYPE), h0
    for step in x:
        h = equations.rnn_step(step, h, W, U, b)
        J = equations.rnn_jacobian(h, U)[0]
        product, other = J @ product, other @ J
    want = torch.autograd.functional.jacobian(run, h0)[:, 0]
    assert_near(product, want)
    assert error(other, want) > 1e-3


def test_the_largest_singular_value_bounds_the_growth() -> None:
    """An upper bound, and no more: above 1 it does not make a gradient explode."""
    x, h, W, U, b = random_rnn(40)
    U = 1.3 * U / torch.linalg.matrix_norm(U, 2)
    bound, product = 1.0, torch.eye(3, dtype=DTYPE)
    for step in x:
        h = equations.rnn_step(step, h, W, U, b)
        product = equations.rnn_jacobian(h, U)[0] @ product
        bound *= 1.3
        assert torch.linalg.matrix_norm(product, 2) <= bound
    assert torch.linalg.matrix_norm(product, 2) < 1e-3


def test_a_spectral_radius_below_one_can_grow_first() -> None:
    """Two matrices of spectral radius 0 whose product has norm 100."""
    A, C = t([[0.0, 10.0], [0.0, 0.0]]), t([[0.0, 0.0], [10.0, 0.0]])
    for M in (A, C):
        assert torch.linalg.eigvals(M).abs().max() == 0
    assert torch.linalg.matrix_norm(A @ C, 2).item() == pytest.approx(100)


def test_the_gradient_of_a_shared_weight_is_the_sum_over_the_steps_that_use_it() -> None:
    """∂L/∂W_h for losses at every step: one copy of the weight a step, its gradients added up."""
    x, h0, W, U, b = random_rnn()
    copies = [U.clone().requires_grad_() for _ in x]
    h, loss = h0, torch.zeros((), dtype=DTYPE)
    for step, copy in zip(x, copies, strict=True):
        h = equations.rnn_step(step, h, W, copy, b)
        loss = loss + h.square().sum()
    parts = torch.autograd.grad(loss, copies)
    layer = unrolled.RNN(4, 3, single_bias=True, dtype=DTYPE)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(W.T)
        layer.weight_hh_l0.copy_(U.T)
        layer.bias_ih_l0.copy_(b)
    layer(x, h0[None])[0].square().sum().backward()
    assert_near(layer.weight_hh_l0.grad, sum(parts).T)
    assert all(float(part.abs().max()) > 1e-6 for part in parts)


def test_clipping_scales_the_whole_set_of_gradients() -> None:
    layer = unrolled.RNN(4, 8, batch_first=True)
    (1e3 * layer(torch.randn(3, 5, 4))[0]).sum().backward()
    before = torch.cat([p.grad.flatten() for p in layer.parameters()])
    norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)
    after = torch.cat([p.grad.flatten() for p in layer.parameters()])
    assert norm.item() == pytest.approx(before.norm().item(), rel=1e-5)
    assert after.norm().item() == pytest.approx(1.0, rel=1e-4)
    assert_near(after / after.norm(), before / before.norm())


# LSTM


@pytest.mark.parametrize(
    ("c", "f", "i", "g", "o", "memory", "shown"),
    [
        (0.8, 0.9, 0.2, -0.5, 0.75, 0.62, 0.4133),
        (0.8, 0.7, 0.4, 1.0, 0.5, 0.96, 0.372),
        (0.8, 0.1, 0.4, 1.0, 0.5, 0.48, None),
        (0.8, 0.7, 0.0, 1.0, 0.5, 0.56, None),
    ],
)
def test_lstm_numbers(c: float, f: float, i: float, g: float, o: float, memory: float, shown: float | None) -> None:
    new = equations.lstm_update(*(t([[v]]) for v in (c, i, f, g, o)))
    assert_digits(new.c, [[memory]], digits=10)
    if shown is not None:
        assert_digits(new.h, [[shown]], digits=4 if shown == 0.4133 else 3)


@pytest.mark.parametrize(
    ("cell", "sizes", "options", "parameters"),
    [
        ("LSTM", (4, 3), {"single_bias": True}, 96),
        ("LSTM", (4, 3), {}, 108),
        ("LSTM", (256, 256), {"bias": False}, 524_288),
        ("LSTM", (256, 256), {"single_bias": True}, 525_312),
        ("LSTM", (256, 256), {}, 526_336),
        ("GRU", (4, 3), {"single_bias": True}, 72),
        ("GRU", (256, 256), {"bias": False}, 393_216),
        ("RNN", (4, 3), {"single_bias": True}, 24),
        ("RNN", (4, 3), {}, 27),
    ],
)
def test_parameter_counts(cell: str, sizes: tuple[int, int], options: dict[str, bool], parameters: int) -> None:
    assert count(getattr(unrolled, cell)(*sizes, **options)) == parameters


def test_a_gru_has_a_quarter_less() -> None:
    """Quiz 3: three blocks for four, and no memory of its own besides the state."""
    lstm, gru = (getattr(unrolled, cell)(256, 256, bias=False) for cell in ("LSTM", "GRU"))
    assert count(gru) / count(lstm) == 0.75
    x = torch.zeros(1, 1, 256)
    assert isinstance(lstm(x)[1], tuple)
    assert isinstance(gru(x)[1], Tensor)


def test_a_forget_bias_of_one_starts_at_073() -> None:
    layer = unrolled.LSTM(4, 3, forget_bias=1.0, dtype=DTYPE)
    gates = equations.lstm_gates(
        torch.zeros(1, 4, dtype=DTYPE), torch.zeros(1, 3, dtype=DTYPE),
        layer.weight_ih_l0.view(4, 3, 4).mT, layer.weight_hh_l0.view(4, 3, 3).mT,
        layer.bias_ih_l0.view(4, 3), layer.bias_hh_l0.view(4, 3),
    )  # fmt: skip
    assert_digits(gates.f, [[0.73] * 3], digits=2)


# GRU


def test_gru_candidate_and_mix() -> None:
    h, r, z = t([[0.8]]), 0.25, 0.75
    candidate = torch.tanh(t([[0.5 * 1 + 1 * (r * 0.8)]]))
    assert_digits(candidate, [[0.6044]])
    assert_digits(equations.gru_update(h, t([[z]]), candidate), [[0.7511]])
    # The same through the whole step, with biases that put the gates where the example wants them. One channel: both
    # orders agree.
    W, U = t([[[0.0]], [[0.0]], [[0.5]]]), t([[[0.0]], [[0.0]], [[1.0]]])
    b = torch.cat([torch.logit(t([[r], [z]])), t([[0.0]])])
    for reset_after in (True, False):
        gates = equations.gru_gates(t([[1.0]]), h, W, U, b, reset_after=reset_after)
        assert_digits(gates.n, [[0.6044]])
        assert_digits(equations.gru_step(t([[1.0]]), h, W, U, b, reset_after=reset_after), [[0.7511]])


@pytest.mark.parametrize(("z", "want"), [(0.6, [1.8, 2.8]), (1.0, [1, 2]), (0.0, [3, 4])])
def test_gru_mix_of_two_channels(z: float, want: list[float]) -> None:
    assert_digits(equations.gru_update(t([[1.0, 2]]), t([[z, z]]), t([[3.0, 4]])), [want], digits=10)
