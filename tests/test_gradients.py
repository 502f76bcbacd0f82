"""Clipping by the global norm, and the checks that name what is no longer finite."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import unrolled
from unrolled.errors import RunError
from unrolled.insight import Found
from unrolled.training.gradients import check_finite_loss, clip_gradients


def parameters(*gradients):
    result = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(len(gradient)))
        parameter.grad = torch.tensor(gradient)
        result.append(parameter)
    return result


def test_norm_before_clipping_is_returned_and_direction_is_kept():
    three, four = parameters([3.0, 0.0], [4.0])
    frozen = nn.Parameter(torch.zeros(2))  # no gradient
    assert clip_gradients([three, frozen, four], 1.0) == pytest.approx(5.0)
    torch.testing.assert_close(three.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(four.grad, torch.tensor([0.8]))
    assert frozen.grad is None
    assert clip_gradients([three, four], 1.0) == pytest.approx(1.0)


def test_small_gradients_and_no_limit_change_nothing():
    for limit in (10.0, None):
        (only,) = parameters([3.0, 4.0])
        assert clip_gradients([only], limit) == pytest.approx(5.0)
        assert only.grad.tolist() == [3.0, 4.0]
    assert clip_gradients([], 1.0) == 0.0


def test_agrees_with_torch():
    torch.manual_seed(0)
    ours, theirs = nn.GRU(3, 4), nn.GRU(3, 4)
    theirs.load_state_dict(ours.state_dict())
    for layer in (ours, theirs):
        layer(torch.ones(5, 2, 3))[0].square().sum().backward()
    norm = clip_gradients(ours, 0.1)
    assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_a_norm_that_overflows_is_clipped_all_the_same():
    (huge,) = parameters([3e30, 4e30])
    assert clip_gradients([huge], 5.0) == pytest.approx(5e30)
    torch.testing.assert_close(huge.grad, torch.tensor([3.0, 4.0]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_first_parameter_that_is_not_finite_is_named(value):
    layer = unrolled.GRU(2, 3)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    layer.weight_hh_l0.grad[4, 1] = value
    layer.bias_hh_l0.grad[0] = value
    with pytest.raises(RunError, match=rf"weight_hh_l0 is not finite at step 17: 1 of 27 numbers.* is {value}"):
        clip_gradients(layer.named_parameters(), 1.0, step=17)
    assert layer.weight_ih_l0.grad.min() == 1  # left as they were


def test_bad_limit():
    with pytest.raises(ValueError, match="max_norm: expected a number above 0"):
        clip_gradients([], 0.0)


# --- losses


def test_finite_losses_pass():
    check_finite_loss(torch.tensor([1.0, 2.0]), 3)
    check_finite_loss(torch.tensor(1.0), 3)
    check_finite_loss(torch.zeros(0), 3)


def test_bad_row_step_and_layer_are_named():
    layer = unrolled.LSTM(2, 3)
    losses = torch.tensor([1.0, math.nan, 2.0, math.inf])
    with pytest.raises(RunError, match=r"loss is nan at step 7; in row 1, 3; all parameters are finite"):
        check_finite_loss(losses, 7, model=layer)
    with torch.no_grad():
        layer.weight_hh_l0[0, 0] = math.nan
    with pytest.raises(RunError, match=r"in row a.csv:3, a.csv:9; parameter weight_hh_l0 is not finite"):
        check_finite_loss(losses, 7, model=layer, rows=["a.csv:2", "a.csv:3", "a.csv:5", "a.csv:9"])
    with pytest.raises(RunError, match="row 0, 1, 2, 3, 4 and 3 more"):
        check_finite_loss(torch.full((8,), math.nan), 7)
    found = Found("not finite", "forward", "rnn", "h", math.inf, layer=0, direction=0, step=4, row=2)
    with pytest.raises(
        RunError, match="is nan at step 7; first not finite in the forward: h of rnn, layer 0, step 4, row 2"
    ):
        check_finite_loss(torch.tensor(math.nan), 7, found=found)
