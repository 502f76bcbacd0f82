"""Numbers that an independent float64 program worked out: variants of the GRU, folding of biases, a scalar LSTM."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import unrolled
from oracles.compare import assert_digits, assert_near, error
from unrolled import equations

DTYPE = torch.float64
S2_X, S2_H0 = [[1.0], [-0.5]], [0.5, -0.25]


def s2_weights() -> dict[str, Tensor]:
    return {
        "weight_ih_l0": torch.tensor([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]], dtype=DTYPE),
        "weight_hh_l0": 0.1 * torch.arange(12, dtype=DTYPE).reshape(6, 2) - 0.5,
        "bias_ih_l0": torch.tensor([0.01, 0.02, 0.03, 0.04, 0.05, 0.06], dtype=DTYPE),
        "bias_hh_l0": torch.tensor([-0.1, 0.1, -0.2, 0.2, 0.3, -0.3], dtype=DTYPE),
    }


def negate_z(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The other convention, h = (1 - z) h + z n, as weights of ours."""
    sign = torch.tensor([1.0, 1, -1, -1, 1, 1], dtype=DTYPE)
    return {name: value * (sign[:, None] if value.dim() == 2 else sign) for name, value in weights.items()}


def s2(weights: dict[str, Tensor], *, reset_after: bool = True, **options: object) -> Tensor:
    layer = unrolled.GRU(1, 2, reset_after=reset_after, dtype=DTYPE, **options)
    layer.load_state_dict(weights)
    return layer(torch.tensor(S2_X, dtype=DTYPE), torch.tensor([S2_H0], dtype=DTYPE))[1][0].detach()


AFTER, BEFORE = [0.21741229, -0.11105884], [0.33848032, -0.21210199]


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize(
    ("reset_after", "keep", "want"),
    [
        (True, True, AFTER),
        (False, True, BEFORE),
        (True, False, [0.33550139, 0.01421698]),
        (False, False, [0.43715155, -0.12087055]),
    ],
)
def test_both_resets_and_both_meanings_of_z(reset_after: bool, keep: bool, want: list[float], backend: str) -> None:
    weights = s2_weights() if keep else negate_z(s2_weights())
    assert_digits(s2(weights, reset_after=reset_after, backend=backend), want, digits=8)


def test_is_torchs_for_the_reset_after() -> None:
    layer = nn.GRU(1, 2, dtype=DTYPE)
    layer.load_state_dict(s2_weights())
    assert_digits(layer(torch.tensor(S2_X, dtype=DTYPE), torch.tensor([S2_H0], dtype=DTYPE))[1][0], AFTER, digits=8)


def fold(weights: dict[str, Tensor], rows: int) -> dict[str, Tensor]:
    """The first `rows` of bias_hh added to bias_ih."""
    moved = weights["bias_hh_l0"].clone()
    moved[rows:] = 0
    return weights | {"bias_ih_l0": weights["bias_ih_l0"] + moved, "bias_hh_l0": weights["bias_hh_l0"] - moved}


def test_folding_the_biases() -> None:
    """Folding b_hn too is a wrong number; folding r and z only, or everything before the product, is exact."""
    weights = s2_weights()
    assert_digits(s2(fold(weights, 6)), [0.34054713, -0.19967396], digits=8)
    assert_near(s2(fold(weights, 4)), s2(weights))
    assert_near(s2(fold(weights, 6), reset_after=False), s2(weights, reset_after=False))
    single = {name: value for name, value in fold(weights, 6).items() if name != "bias_hh_l0"}
    assert_digits(s2(single, reset_after=False, single_bias=True), BEFORE, digits=8)


def test_swapped_gates_are_another_number() -> None:
    swapped = {name: value[[2, 3, 0, 1, 4, 5]] for name, value in s2_weights().items()}
    assert_digits(s2(swapped), [0.22233322, -0.08410969], digits=8)
    assert error(s2(swapped), s2(s2_weights())) > 1e-3


def test_one_unit_without_b_hn_cannot_tell_the_orders_apart() -> None:
    """Why the default test shape has H = 3 and biases."""
    layers = [unrolled.GRU(1, 1, dtype=DTYPE, reset_after=order) for order in (True, False)]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(5, 2, 1, dtype=DTYPE)
    for b_hn, agree in ((0.0, True), (0.4, False)):
        for layer in layers:
            layer.bias_hh_l0.data[2] = b_hn
        difference = error(layers[0](x)[0], layers[1](x)[0])
        assert (difference < 1e-14) == agree


def test_the_gate_is_the_sigmoid() -> None:
    """Not the piecewise linear hard sigmoid, which gives 0.7 or 0.66666667."""
    one, none = torch.ones(1, 1, dtype=DTYPE), torch.zeros(1, 1, dtype=DTYPE)
    gates = equations.lstm_gates(one, none, torch.ones(4, 1, 1, dtype=DTYPE), torch.zeros(4, 1, 1, dtype=DTYPE))
    for gate in (gates.i, gates.f, gates.o):
        assert_digits(gate, [[0.73105858]], digits=8)


@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_more_layers_than_the_target_has_is_an_error(cell: str) -> None:
    deep, flat = getattr(unrolled, cell)(4, 3, 2), getattr(unrolled, cell)(4, 3)
    with pytest.raises(RuntimeError, match="weight_ih_l1"):
        flat.load_state_dict(deep.state_dict())


def test_a_second_bias_has_no_place_in_a_layer_with_one() -> None:
    """A bias is never dropped in silence, in either direction."""
    one, two = unrolled.GRU(4, 3, single_bias=True), unrolled.GRU(4, 3)
    with pytest.raises(RuntimeError, match="bias_hh_l0"):
        one.load_state_dict(two.state_dict())
    with pytest.raises(RuntimeError, match="bias_hh_l0"):
        two.load_state_dict(one.state_dict())


@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_each_tensor_in_its_place(cell: str) -> None:
    """Two layers, both ways, each tensor filled with its own number: the flat order is torch's."""
    layer = getattr(unrolled, cell)(4, 3, 2, bidirectional=True)
    names = [
        f"{kind}_l{k}{way}"
        for k in (0, 1)
        for way in ("", "_reverse")
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.fill_(number)
    for number, name in enumerate(names):
        assert float(getattr(layer, name).detach().min()) == float(getattr(layer, name).detach().max()) == number
    assert [len(row) for row in layer.all_weights] == [4] * 4


def s6(backend: str = "auto") -> nn.Module:
    layer = unrolled.LSTM(1, 1, single_bias=True, dtype=DTYPE, backend=backend)
    values = {
        "weight_ih_l0": [0.5, 0.6, 0.7, 0.8],
        "weight_hh_l0": [0.1, 0.2, 0.3, 0.4],
        "bias_ih_l0": [0.01, 0.02, 0.03, 0.04],
    }
    layer.load_state_dict(
        {k: torch.tensor(v, dtype=DTYPE).reshape(-1, *([1] * ("weight" in k))) for k, v in values.items()}
    )
    return layer


def s6_x() -> Tensor:
    return torch.tensor([[1.0], [2], [3], [4]], dtype=DTYPE)[:, None].requires_grad_()


S6_H, S6_C = [0.25895774, 0.63842069, 0.8719124, 0.95830509], [0.38929526, 0.97312824, 1.66420788, 2.43550513]


@pytest.mark.parametrize("backend", ["native", "reference", "torch"])
def test_full_and_truncated_gradients(backend: str) -> None:
    """Chunks of two give the same states and the same loss, and a gradient that stops at the cut."""
    x, layer = s6_x(), s6(backend)
    h = layer(x)[0][:, 0, 0]
    assert_digits(h, S6_H, digits=8)
    assert_digits(h.sum(), 2.72759592, digits=8)
    (full,) = torch.autograd.grad(h.sum(), x)
    assert_digits(full[:, 0, 0], [0.42565407, 0.19199238, 0.06854281, 0.02408813], digits=8)

    head, state = layer(x[:2])
    tail, _ = layer(x[2:], tuple(part.detach() for part in state))
    assert_digits(head.sum() + tail.sum(), 2.72759592, digits=8)
    (truncated,) = torch.autograd.grad(head.sum() + tail.sum(), x)
    assert_digits(truncated[:, 0, 0], [0.38388472, 0.15779537, 0.06854281, 0.02408813], digits=8)


def test_the_last_state_by_each_input() -> None:
    x = s6_x()
    (gradient,) = torch.autograd.grad(s6()(x)[0][-1].sum(), x)
    assert_digits(gradient[:, 0, 0], [0.00734692, 0.00576956, 0.00496764, 0.02408813], digits=8)


def test_the_memory_at_every_step_and_a_restart_from_any() -> None:
    layer, x = s6(), s6_x()
    cells, state = [], None
    for step in x.split(1):
        _, state = layer(step, state)
        cells.append(state[1].flatten())
    assert_digits(torch.cat(cells), S6_C, digits=8)
    _, (h, c) = layer(x[:2])
    assert_near(layer(x[2:], (h, c))[0], layer(x)[0][2:])


@pytest.mark.parametrize("single_bias", [False, True])
def test_a_projection_trains(single_bias: bool) -> None:
    layer = unrolled.LSTM(4, 5, 2, proj_size=2, bidirectional=True, single_bias=single_bias)
    out, (h, c) = layer(torch.randn(6, 3, 4), lengths=[6, 0, 2])
    assert out.shape == (6, 3, 4)
    assert h.shape == (4, 3, 2)
    assert c.shape == (4, 3, 5)
    out.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_first_step_that_is_not_finite_can_be_found() -> None:
    """A relu RNN that doubles its state overflows; before that step everything is finite."""
    layer = unrolled.RNN(1, 2, nonlinearity="relu")
    with torch.no_grad():
        layer.weight_hh_l0.copy_(2 * torch.eye(2))
        for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0"):
            getattr(layer, name).fill_(1.0)
    out = layer(torch.ones(200, 1, 1))[0][:, 0]
    finite = torch.isfinite(out).all(1)
    first = int((~finite).nonzero()[0])
    assert 120 < first < 130
    assert finite[:first].all()
