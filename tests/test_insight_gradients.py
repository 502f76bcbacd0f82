"""Gradients through time and products of Jacobians: held to autograd, to closed forms, and to inequalities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unrolled
from oracles.compare import assert_digits
from test_insight_gates import LENGTHS, OURS, randomised, scalar_lstm
from unrolled.errors import RunError, ShapeError
from unrolled.insight import attribute, gates, gradient_flow, jacobians, judge
from unrolled.insight.jacobians import spread, step_jacobians


def as_tuple(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("kind", OURS)
def test_a_row_of_the_triangle_is_autograds(kind: str) -> None:
    """∂L_t/∂h_k of both layers: the layers are taken apart by hand at step k, and h_k is a leaf."""
    lower = randomised(OURS[kind]()).double()
    upper = randomised(OURS[kind.replace("-projected", "")](num_layers=1)).double()
    width = lower.proj_size or 3
    upper = randomised(type(upper)(width, 3)).double()
    stack = nn.ModuleList([lower, upper])
    x = torch.randn(6, 2, 4, dtype=torch.float64)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lower, self.upper = stack

        def forward(self, x: Tensor) -> Tensor:
            return self.upper(self.lower(x)[0])[0].square().sum(-1).T  # (B, T) losses

    below, above = gradient_flow(Both(), x, losses=lambda out: out)
    out, _ = lower(x)
    for k in range(6):
        _, state = lower(x[: k + 1])
        h = as_tuple(state)[0][0].detach().requires_grad_()
        parts = (h[None], *(part.detach() for part in as_tuple(state)[1:]))
        later = lower(x[k + 1 :], parts if len(parts) > 1 else parts[0])[0] if k < 5 else out[:0]
        losses = upper(torch.cat([out[:k].detach(), h[None], later]))[0].square().sum(-1)
        for t in range(6):
            (wanted,) = torch.autograd.grad(losses[t].sum(), h, retain_graph=True)
            for row in range(2):
                found = float(below.norms[t, k, row])
                if k > t:
                    assert math.isnan(found)
                    assert float(wanted[row].norm()) == 0
                else:
                    assert found == pytest.approx(float(wanted[row].norm()), rel=1e-9, abs=1e-300)
    assert bool(above.norms.isnan().any(-1)[0, 1:].all())  # k > t is empty in the layer above too


@pytest.mark.parametrize("kind", OURS)
def test_padding_is_excluded_and_a_padded_row_is_as_alone(kind: str) -> None:
    layer = randomised(OURS[kind](num_layers=2, bidirectional=True))
    x = torch.randn(5, 3, 4)
    together = gradient_flow(layer, x, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        if not length:
            assert all(flow.norms[:, :, row].isnan().all() for flow in together)
            continue
        alone = gradient_flow(layer, x[:length, row : row + 1])
        for mine, wanted in zip(together, alone, strict=True):
            torch.testing.assert_close(
                mine.norms[:length, :length, row], wanted.norms[:, :, 0], rtol=1e-9, atol=1e-12, equal_nan=True
            )
            assert mine.norms[length:, :, row].isnan().all()
            assert mine.norms[:, length:, row].isnan().all()


def test_directions_reach_where_they_read() -> None:
    layer = randomised(unrolled.GRU(4, 3, 2, bidirectional=True))
    flows = gradient_flow(layer, torch.randn(5, 1, 4))
    steps = torch.arange(5)
    for flow in flows[2:]:
        empty = steps < steps[:, None] if flow.direction else steps > steps[:, None]
        assert flow.norms[:, :, 0][empty].isnan().all()
        assert (flow.norms[:, :, 0][~empty] > 0).all()
    for flow in flows[:2]:  # the layer above reads both ways, so every state of the layer below counts everywhere
        assert (flow.norms > 0).all()


def test_cuts_of_truncated_backpropagation() -> None:
    layer, x = randomised(unrolled.LSTM(4, 3, 2)), torch.randn(7, 2, 4)
    whole, cut = gradient_flow(layer, x), gradient_flow(layer, x, chunk=3)
    assert cut[0].cuts == (3, 6)
    for t in range(7):
        for k in range(t + 1):
            for row in range(2):
                found = float(cut[1].norms[t, k, row])
                if t // 3 != k // 3:
                    assert found == 0
                else:
                    assert found == pytest.approx(float(whole[1].norms[t, k, row]), rel=1e-9)
    with pytest.raises(ValueError, match="bidirectional"):
        gradient_flow(unrolled.GRU(4, 3, bidirectional=True), x, chunk=3)
    with pytest.raises(ValueError, match="chunk: expected a whole number"):
        gradient_flow(layer, x, chunk=0)


def test_no_gradient_crosses_a_reset() -> None:
    layer, resets = randomised(unrolled.GRU(4, 3)), torch.tensor([[0, 0, 0, 1, 0]]).bool()
    (flow,) = gradient_flow(layer, torch.randn(5, 1, 4), resets=resets)
    assert (flow.norms[3:, :3] == 0).all()
    assert (flow.norms[3:, 3:, 0].nan_to_num(1) > 0).all()


def test_gradient_of_the_last_output_by_the_inputs() -> None:
    found = attribute(
        scalar_lstm(),
        torch.tensor([1.0, 2, 3, 4], dtype=torch.float64)[:, None, None],
        target=lambda output: output[0][-1, :, 0],
        method="gradient",
    )
    assert_digits(found.scores[0], [0.00734692, 0.00576956, 0.00496764, 0.02408813], digits=7)


def test_targets_are_spread_and_a_single_loss_has_one_row() -> None:
    layer, x = randomised(unrolled.GRU(4, 3)), torch.randn(100, 1, 4)
    (flow,) = gradient_flow(layer, x)
    assert len(flow.targets) == 64
    assert flow.skipped == 36
    assert flow.targets[[0, -1]].tolist() == [0, 99]
    (one,) = gradient_flow(layer, x, losses=lambda output: output[0][-1].sum(-1))
    torch.testing.assert_close(one.norms[0], flow.norms[-1], rtol=1e-9, atol=0)
    (some,) = gradient_flow(layer, x, targets=[3, 99])
    torch.testing.assert_close(some.norms[1], flow.norms[-1], rtol=1e-9, atol=0)
    with pytest.raises(ValueError, match="targets"):
        gradient_flow(layer, x, targets=[100])
    with pytest.raises(ShapeError, match="losses"):
        gradient_flow(layer, x, losses=lambda output: output[0].sum())


def test_the_mean_by_lag() -> None:
    """A linear unit with the weight 1/2: every lag k has exactly 2^-k."""
    layer = unrolled.RNN(1, 1, nonlinearity="relu", bias=False)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.fill_(0.5)
    (flow,) = gradient_flow(layer, torch.ones(9, 2, 1), lengths=[9, 4])
    torch.testing.assert_close(flow.by_lag(), -torch.arange(9).double() * math.log10(2), rtol=1e-12, atol=1e-12)


# Jacobians


@pytest.mark.parametrize("kind", OURS)
def test_products_are_autograds(kind: str) -> None:
    """Lags 1 to 20 against torch.autograd.functional.jacobian of the layer itself."""
    layer = randomised(OURS[kind]()).double()
    x = torch.randn(22, 1, 4, dtype=torch.float64)
    state = jacobians(layer, x)[0]
    assert state.path == "state"
    for lag in range(1, 21):
        before = as_tuple(layer(x[: 22 - lag])[1])
        sizes = [part.shape[-1] for part in before]

        def last(joined: Tensor, lag: int = lag, sizes: list[int] = sizes) -> Tensor:
            parts = tuple(part[None, None] for part in joined.split(sizes))
            after = layer(x[22 - lag :], parts if len(parts) > 1 else parts[0])[1]
            return torch.cat([part[0, 0] for part in as_tuple(after)])

        wanted = torch.autograd.functional.jacobian(last, torch.cat([part[0, 0] for part in before]))
        singular = torch.linalg.svdvals(wanted)
        assert state.value(lag) == pytest.approx(float(singular[0]), rel=1e-5)
        found = 10 ** float(state.frobenius[lag - 1, 0])
        assert found == pytest.approx(float(torch.linalg.matrix_norm(wanted)), rel=1e-5, abs=1e-300)
        middle = float(singular.sort().values.median())
        if not state.median[lag - 1, 0].isnan():
            assert 10 ** float(state.median[lag - 1, 0]) == pytest.approx(middle, rel=1e-3, abs=1e-300)


@pytest.mark.parametrize("kind", ["lstm", "gru-after"])
def test_one_step_of_any_direction_and_row(kind: str) -> None:
    layer = randomised(OURS[kind](num_layers=2, bidirectional=True)).double()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    for made in jacobians(layer, x, lengths=LENGTHS):
        assert made.largest[:, 2].isnan().all()  # a row without steps
        assert (~made.largest[:, 0].isnan()).sum() == 3
        assert (~made.largest[:, 1].isnan()).sum() == 5
    alone = jacobians(layer, x[:3, :1])
    for mine, wanted in zip(jacobians(layer, x, lengths=LENGTHS), alone, strict=True):
        torch.testing.assert_close(mine.largest[:3, 0], wanted.largest[:, 0], rtol=1e-9, atol=1e-12)


def linear(scale: float, kind: str = "rnn", size: int = 8) -> Any:
    """Its state stays at 0, where tanh is the identity: a linear network of scale × orthogonal weights."""
    layer = unrolled.RNN(4, size, bias=False, dtype=torch.float64)
    assert kind == "rnn"
    with torch.no_grad():
        nn.init.orthogonal_(layer.weight_hh_l0)
        layer.weight_hh_l0.mul_(scale)
    return layer


def test_half_an_orthogonal_matrix_gives_powers_of_a_half() -> None:
    (made,) = jacobians(linear(0.5), torch.zeros(60, 1, 4, dtype=torch.float64))
    for lag in made.lags:
        assert made.value(lag) == pytest.approx(0.5**lag, rel=1e-12)
        assert 10 ** float(made.median[made.lags.index(lag), 0]) == pytest.approx(0.5**lag, rel=1e-12)
        assert 10 ** float(made.bound[made.lags.index(lag), 0]) == pytest.approx(0.5**lag, rel=1e-12)
        assert 10 ** float(made.frobenius[made.lags.index(lag), 0]) == pytest.approx(math.sqrt(8) * 0.5**lag, rel=1e-12)
    torch.testing.assert_close(made.per_step, torch.full_like(made.per_step, 0.5), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("scale", "steps"), [(0.5, 2000), (2.0, 2000), (0.9, 400), (1.0, 400)])
def test_beyond_the_range_of_numbers(scale: float, steps: int) -> None:
    (made,) = jacobians(linear(scale, size=3), torch.zeros(steps, 1, 4, dtype=torch.float64), max_lag=steps)
    wanted = torch.tensor(made.lags).double() * math.log10(scale)
    torch.testing.assert_close(made.largest[:, 0], wanted, rtol=1e-10, atol=1e-10)
    assert made.lags[-1] == steps
    if scale == 2:
        assert made.value(steps) == math.inf


def test_1e300_and_its_inverse_are_numbers() -> None:
    for scale in (1e-30, 1e30):
        layer = unrolled.RNN(1, 2, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight_hh_l0.copy_(scale * torch.eye(2, dtype=torch.float64))
        (made,) = jacobians(layer, torch.zeros(10, 1, 1, dtype=torch.float64))
        assert made.value(10) == pytest.approx(scale**10, rel=1e-9)


def test_a_dead_network_is_zero_and_says_so() -> None:
    layer = unrolled.RNN(4, 3, nonlinearity="relu")
    with torch.no_grad():
        layer.bias_ih_l0.fill_(-100)
    (made,) = jacobians(layer, torch.randn(5, 1, 4))
    assert (made.largest == -math.inf).all()
    assert made.value(1) == 0
    assert judge([made]).word == "vanishing"


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_the_bound_holds(kind: str, scale: float) -> None:
    layer = randomised(OURS[kind]())
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "hh" in name or "hr" in name:
                parameter.mul_(scale)
    for made in jacobians(layer, torch.randn(30, 2, 4)):
        there = ~made.largest.isnan()
        assert there.any()
        assert (made.largest[there] <= made.bound[there] + 1e-9).all()


def test_the_path_through_the_cell_is_the_product_of_the_forget_gates() -> None:
    layer, x = randomised(unrolled.LSTM(4, 3)), torch.randn(12, 2, 4)
    (trace,) = gates(layer, x)
    state, cell = jacobians(layer, x)
    assert (state.path, cell.path) == ("state", "cell")
    for lag in range(1, 13):
        kept = trace.gates["f"][12 - lag :].prod(0)
        for row in range(2):
            assert cell.value(lag, row) == pytest.approx(float(kept[row].max()), rel=1e-12)
            assert 10 ** float(cell.median[lag - 1, row]) == pytest.approx(float(kept[row].median()), rel=1e-12)
            assert 10 ** float(cell.frobenius[lag - 1, row]) == pytest.approx(float(kept[row].norm()), rel=1e-12)


def test_a_reset_ends_the_product() -> None:
    layer, resets = randomised(unrolled.GRU(4, 3)), torch.tensor([[0, 0, 0, 1, 0, 0]]).bool()
    (made,) = jacobians(layer, torch.randn(6, 1, 4), resets=resets)
    assert made.lags == (1, 2)


def test_caps_and_wrong_lags() -> None:
    layer, x = randomised(unrolled.GRU(4, 3)), torch.randn(40, 1, 4)
    (made,) = jacobians(layer, x, max_lag=5)
    assert made.capped
    assert made.lags == (1, 2, 3, 4, 5)
    assert not jacobians(layer, x)[0].capped
    with pytest.raises(ValueError, match="lag: expected one of 1, 2, 3, 4, 5"):
        made.value(6)
    with pytest.raises(ValueError, match="max_lag"):
        jacobians(layer, x, max_lag=0)
    assert spread(1000)[-1] == 1000
    assert spread(0) == ()


def test_a_single_factor_is_the_equations_derivative() -> None:
    layer = randomised(unrolled.RNN(4, 3)).double()
    (trace,) = gates(layer, torch.randn(5, 1, 4, dtype=torch.float64))
    (factor,) = step_jacobians(trace, 0, torch.tensor([4]))
    wanted = unrolled.equations.rnn_jacobian(trace.h[4], trace.weights.U[0])[0]
    torch.testing.assert_close(factor, wanted, rtol=1e-12, atol=1e-12)


# verdicts


@pytest.mark.parametrize(("scale", "word"), [(0.1, "vanishing"), (1.5, "exploding"), (1.0, "healthy")])
def test_the_verdict_names_the_slope(scale: float, word: str) -> None:
    """W_hh = scale × the identity; the padding holds what would change the verdict if it were read."""
    layer = unrolled.RNN(4, 8, nonlinearity="relu")
    with torch.no_grad():
        layer.weight_hh_l0.copy_(scale * torch.eye(8))
        layer.weight_ih_l0.abs_()
        layer.bias_ih_l0.fill_(1)
        layer.bias_hh_l0.fill_(1)
    x = torch.rand(40, 2, 4)
    x[25:, 1] = -1e9
    verdict = judge(jacobians(layer, x, lengths=[40, 25]), gates(layer, x, lengths=[40, 25])[0])
    assert verdict.word == word
    assert verdict.slope == pytest.approx(math.log10(scale), abs=1e-7)
    assert verdict.span == 40
    assert f"multiplies by {scale:.3g} " in str(verdict)
    if word == "vanishing":
        assert verdict.memory == pytest.approx(2, rel=1e-6)
        assert "gated_cell" in [one.key for one in verdict.remedies]
    if word == "exploding":
        assert "clip" in [one.key for one in verdict.remedies]
    if word == "healthy":
        assert not verdict.remedies


def test_what_clipping_and_truncation_do_is_said() -> None:
    from unrolled.insight.verdict import Clipping

    layer = linear(0.5)
    made = jacobians(layer, torch.zeros(30, 1, 4, dtype=torch.float64))
    verdict = judge(made, chunk=3, clipping=Clipping(5.0, 40, (20, 60), 12.5))
    text = str(verdict)
    assert "clipping at 5 touched 2 of 40 logged steps (largest norm 12.5)" in text
    assert "cannot repair vanishing" in text
    assert "goes back 3 steps at most: less than the memory" in text  # 1 % is left after 6.6 steps
    assert verdict.memory == pytest.approx(math.log(0.01) / math.log(0.5), rel=1e-6)


def test_too_short_and_not_finite_are_words() -> None:
    layer = unrolled.GRU(4, 3)
    assert judge(jacobians(layer, torch.randn(1, 1, 4))).word == "too short"
    assert judge(jacobians(layer, torch.randn(4, 1, 4), lengths=[0])).word == "too short"
    with torch.no_grad():
        layer.weight_hh_l0[0, 0] = math.nan
    assert judge(jacobians(layer, torch.randn(4, 1, 4))).word == "not finite"


def test_no_recurrent_layer() -> None:
    for look in (gradient_flow, jacobians):
        with pytest.raises(RunError, match="recurrent layers, found none in Linear"):
            look(nn.Linear(4, 3), torch.randn(5, 2, 4))
