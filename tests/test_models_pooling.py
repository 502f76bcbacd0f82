"""Pooling never sees padding."""

from __future__ import annotations

import math

import pytest
import torch

from unrolled import GRU, LSTM, RNN
from unrolled.models import POOLINGS, Attention, Batch, Classifier, FeatureInput, max_pool, mean_pool

LENGTHS = torch.tensor([3, 5, 0])


def classifier(pooling: str, cell: type = LSTM, *, bidirectional: bool = True, layers: int = 2, **more) -> Classifier:
    layer = cell(4, 3, layers, batch_first=True, bidirectional=bidirectional, **more)
    return Classifier(FeatureInput(4), layer, 6, pooling=pooling).double().eval()


def test_the_largest_of_negative_values_is_negative_and_a_mean_has_its_own_length():
    out, lengths = (
        torch.tensor([[[-0.3], [-0.1], [0.0], [0.0]], [[-0.9], [-0.8], [-0.7], [-0.6]]]),
        torch.tensor([2, 4]),
    )
    torch.testing.assert_close(max_pool(out, lengths), torch.tensor([[-0.1], [-0.6]]))
    torch.testing.assert_close(mean_pool(out, lengths), torch.tensor([[-0.2], [-0.75]]))
    turned, order = out.flip(0), lengths.flip(0)
    torch.testing.assert_close(max_pool(turned, order), torch.tensor([[-0.6], [-0.1]]))
    torch.testing.assert_close(mean_pool(turned, order), torch.tensor([[-0.75], [-0.2]]))


@pytest.mark.parametrize("cell", [RNN, LSTM, GRU])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_in_a_batch_is_the_row_alone(pooling, cell):
    model, x = classifier(pooling, cell), torch.randn(3, 5, 4, dtype=torch.float64)
    x[0, 3:], x[2] = math.nan, math.inf
    together = model(Batch(x, LENGTHS))
    for b, n in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(model(Batch(x[b : b + 1, :n], LENGTHS[b : b + 1])), together[b : b + 1])
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(Batch(x[order], LENGTHS[order])), together[order])


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_without_steps_pools_to_zero(pooling, learned):
    model, x = classifier(pooling, learn_initial_state=learned), torch.randn(3, 5, 4, dtype=torch.float64)
    for parameter in model.parameters():
        parameter.data.uniform_(-1, 1)
    assert not model.pool(Batch(x, LENGTHS))[2].any()
    assert not model.pool(Batch(x, torch.zeros(3, dtype=torch.long))).any()
    assert not model.pool(Batch(x[:, :0], torch.zeros(3, dtype=torch.long))).any()
    assert model(Batch(x[:0], LENGTHS[:0])).shape == (0, 6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_are_finite_and_none_reaches_the_padding(pooling):
    model, x = classifier(pooling), torch.randn(3, 5, 4, dtype=torch.float64)
    x[0, 3:], x[2] = math.nan, math.inf
    x.requires_grad_()
    model(Batch(x, LENGTHS)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    assert not x.grad[0, 3:].any()
    assert not x.grad[2].any()
    assert x.grad[1].all()


def test_the_last_state_is_each_directions_own_end():
    """S9: scalar tanh RNN with w = 1, u = 0.5, b = 0.1 on 1, 2, 3."""
    layer = RNN(1, 1, batch_first=True, bidirectional=True)
    values = {"weight_ih": 1.0, "weight_hh": 0.5, "bias_ih": 0.1, "bias_hh": 0.0}
    for name, parameter in layer.named_parameters():
        parameter.data.fill_(values[name.split("_l0")[0]])
    model = Classifier(FeatureInput(1), layer, 2)
    x = torch.tensor([[1.0, 2, 3], [1, 2, math.nan]])[..., None]
    wanted = torch.tensor([[0.99848786, 0.92083516], [0.98662093, 0.91941413]])
    torch.testing.assert_close(model.pool(Batch(x, torch.tensor([3, 2]))), wanted)


def test_the_last_state_is_the_top_layers():
    model, x = classifier("last"), torch.randn(1, 5, 4, dtype=torch.float64)
    out, _ = model.recurrent(x)
    torch.testing.assert_close(model.pool(Batch(x, LENGTHS[1:2])), torch.cat([out[:, -1, :3], out[:, 0, 3:]], dim=1))


def test_attention_weights_are_a_share_of_each_valid_step():
    attention, out = Attention(6), torch.randn(3, 5, 6)
    weights = attention.weights(out, LENGTHS)
    torch.testing.assert_close(weights.sum(1), torch.tensor([1.0, 1.0, 0.0]))
    assert not weights[0, 3:].any()
    assert (weights[1] > 0).all()
    scores = torch.tanh(out[0, :3] @ attention.hidden.weight.T + attention.hidden.bias) @ attention.query.weight[0]
    torch.testing.assert_close(weights[0, :3], scores.softmax(0))
    torch.testing.assert_close(attention(out, LENGTHS)[0], weights[0, :3] @ out[0, :3])


def test_attention_at_padding_is_zero_even_where_the_scores_are_low():
    attention = Attention(1)
    attention.hidden.weight.data.fill_(1e4)
    attention.query.weight.data.fill_(-1e30)
    weights = attention.weights(torch.ones(1, 3, 1), torch.tensor([1]))
    assert weights.tolist() == [[1, 0, 0]]


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="pooling: expected one of last, mean, max, attention, found 'sum'"):
        classifier("sum")
