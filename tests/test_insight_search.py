"""Where numbers stop being finite, what an answer rests on, and how numbers travel into JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unrolled
from test_insight_gates import LENGTHS, OURS, randomised
from unrolled.errors import RunError, ShapeError
from unrolled.insight import attention, attribute, find_non_finite
from unrolled.insight.attribution import occlusions
from unrolled.insight.packing import heat, numbers, unpack
from unrolled.models import Batch, TokenInput, build

# not finite


def exploding(library: Any = unrolled, layers: int = 2) -> Any:
    """A relu network whose recurrent weights are twice the identity: the state doubles, and float32 ends at 2^128."""
    layer = library.RNN(2, 3, layers, nonlinearity="relu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_hh_l0.copy_(2 * torch.eye(3))
        layer.bias_ih_l0.fill_(1)
    return layer


@pytest.mark.parametrize("library", [unrolled, nn])
def test_the_first_infinite_step_of_an_exploding_network(library: Any) -> None:
    """h_t = 2^(t+1) - 1: past 1e4 at step 13 (16,383), past float32 at step 127."""
    layer = exploding(library)
    found = find_non_finite(layer, torch.zeros(200, 2, 2))
    assert found is not None
    assert (found.what, found.where, found.tensor, found.value) == ("not finite", "forward", "h", math.inf)
    assert (found.layer, found.direction, found.step, found.row, found.large_since) == (0, 0, 127, 0, 13)
    assert "layer 0, step 127, row 0 is inf; large since step 13" in str(found)
    large = find_non_finite(layer, torch.zeros(20, 2, 2))
    assert large is not None
    assert (large.what, large.step, large.value) == ("large", 13, 16383)
    assert find_non_finite(layer, torch.zeros(20, 2, 2), limit=1e9) is None
    assert find_non_finite(layer.double(), torch.zeros(200, 2, 2).double(), limit=1e99) is None  # its own type counts


@pytest.mark.parametrize("kind", OURS)
def test_a_nan_in_the_data_and_none_in_the_padding(kind: str) -> None:
    layer = randomised(OURS[kind](num_layers=2, bidirectional=True))
    x = torch.randn(5, 3, 4)
    x[3:, 0] = math.nan
    assert find_non_finite(layer, x, lengths=LENGTHS) is None
    x[2, 1, 3] = math.nan
    found = find_non_finite(layer, x, lengths=LENGTHS)
    assert found is not None
    assert (found.where, found.tensor, found.step, found.row) == ("input", "input", 2, 1)


def test_a_broken_weight_is_named_before_anything_runs() -> None:
    model = nn.Sequential(nn.Linear(4, 4), randomised(unrolled.LSTM(4, 3, 2)))
    with torch.no_grad():
        model[1].weight_hh_l1[5, 1] = math.inf
    found = find_non_finite(model, torch.randn(5, 2, 4))
    assert found is not None
    assert (found.where, found.module, found.tensor, found.value) == ("parameter", "1", "weight_hh_l1", math.inf)


@pytest.mark.parametrize("batch_first", [False, True])
def test_lengths_resets_layers_and_directions_are_minded(batch_first: bool) -> None:
    """h_t = 2^t from a single 1: 2^128 is the first that overflows float32."""
    layer = unrolled.RNN(1, 1, 2, nonlinearity="relu", bias=False, bidirectional=True, batch_first=batch_first)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(2.0 if name == "weight_hh_l1" else float("ih" in name))  # only the upper layer explodes
    x = torch.zeros(2, 200, 1)
    x[:, 0] = 1.0
    resets = torch.zeros(2, 200, dtype=torch.bool)
    resets[1, 10] = True

    def found() -> Any:
        given = x if batch_first else x.transpose(0, 1)
        return find_non_finite(layer, given, lengths=[100, 200], resets=resets, limit=math.inf)

    assert found() is None
    x[1, 10] = 1.0
    place = found()
    assert (place.what, place.layer, place.direction, place.row) == ("not finite", 1, 0, 1)
    assert place.step == 137  # both directions hand up 1 each: h = 2, 4, 8, … from step 10 on


def test_a_model_without_recurrent_layers() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    assert find_non_finite(model, torch.ones(3, 2), losses=lambda out: out.sum(-1)) is None
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    found = find_non_finite(model, torch.full((3, 2), 9.0))
    assert (found.where, found.module, found.value) == ("forward", "0", math.inf)  # type: ignore[union-attr]
    assert not any(module._forward_hooks for module in model.modules())


class Head(nn.Module):
    """A recurrent layer and what comes after it."""

    def __init__(self, after: Any) -> None:
        super().__init__()
        self.layer = exploding(layers=1)
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.layer(x)[0])


class Log(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x - 1)  # the first state is exactly 1


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x - 1)  # finite, and its slope at 0 is not


def test_what_breaks_outside_of_recurrent_layers() -> None:
    x = torch.zeros(4, 2, 2)
    found = find_non_finite(Head(Log()), x)
    assert found is not None
    assert (found.where, found.module, found.tensor, found.value) == ("forward", "after", "output", -math.inf)
    assert find_non_finite(Head(Root()), x) is None
    found = find_non_finite(Head(Root()), x, losses=lambda out: out.sum(-1).T)
    assert found is not None
    assert (found.where, found.tensor, found.layer, found.step, found.row) == ("gradient", "h", 0, 0, 0)
    found = find_non_finite(Head(nn.Identity()), x, losses=lambda out: (out.sum(-1).T - 21).log())
    assert found is not None
    assert (found.where, found.row, found.step) == ("loss", 0, 0)


def test_anomaly_recording_names_the_operation() -> None:
    class Nan(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt(x - 1) * 0

    found = find_non_finite(Head(Nan()), torch.zeros(4, 2, 2), losses=lambda out: out.sum(-1).T, anomaly=True)
    assert found is not None
    assert found.anomaly is not None
    assert "SqrtBackward0" in found.anomaly
    assert "torch.sqrt(x - 1) * 0" in found.anomaly  # the line that called it


# attribution


@pytest.mark.parametrize("kind", OURS)
def test_integrated_gradients_are_complete(kind: str) -> None:
    batch_first = kind.startswith("lstm")
    layer = randomised(OURS[kind](num_layers=2, bidirectional=True, batch_first=batch_first))
    x = torch.randn(3, 5, 4)
    given = x if batch_first else x.transpose(0, 1)

    def target(output: Any) -> Tensor:
        h = output[1][0] if isinstance(output[1], tuple) else output[1]
        return h[-2:].tanh().sum((0, 2))

    found = attribute(layer, given, target=target, lengths=LENGTHS)
    assert float(found.gap[:2].max()) < 0.01
    assert found.nodes is not None
    assert found.scores.shape == (3, 5)
    assert (found.scores[0, 3:] == 0).all()
    assert (found.scores[2] == 0).all()
    torch.testing.assert_close(found.scores.sum(1), found.value - found.baseline, rtol=0.01, atol=1e-9)


def test_gradients_are_autograds_and_occlusion_is_a_forward_pass() -> None:
    layer = randomised(unrolled.LSTM(4, 3, 2, batch_first=True)).double()
    x = torch.randn(2, 6, 4, dtype=torch.float64)

    def target(output: Any) -> Tensor:
        return output[0][:, 4, 1]

    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(target(layer(leaf)).sum(), leaf)
    torch.testing.assert_close(attribute(layer, x, target=target, method="gradient").scores, wanted.norm(dim=-1))
    found = attribute(layer, x, target=target, method="gradient_x_input").scores
    torch.testing.assert_close(found, (wanted * x).sum(-1))
    occluded = attribute(layer, x, target=target, method="occlusion")
    for t in range(6):
        without = x.clone()
        without[:, t] = 0
        change = target(layer(x)) - target(layer(without))
        torch.testing.assert_close(occluded.scores[:, t], change.detach(), rtol=1e-12, atol=1e-12)
    assert (occluded.scores[:, 5] == 0).all()  # after the step that is explained
    for method in ("occlusion", "integrated_gradients"):
        options: Any = {"target": target, "method": method}
        together, one_by_one = (attribute(layer, x, rows_alike=how, **options) for how in (True, False))
        torch.testing.assert_close(together.scores, one_by_one.scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alike", [True, False])
def test_several_targets_take_one_run_of_each_variant(alike: bool) -> None:
    layer = randomised(unrolled.GRU(4, 3, batch_first=True))
    x = torch.randn(2, 6, 4)
    targets = [lambda output, t=t: output[0][:, t, t % 3] for t in (5, 0, 3)]
    calls: list[int] = []

    def counted(output: Any) -> Tensor:
        calls.append(len(output[0]))
        return targets[0](output)

    together = occlusions(layer, x, targets=[counted, *targets[1:]], rows_alike=alike)
    assert sum(calls) == 2 * (2 + 6), "the input, the baseline, and six variants of two rows, once"
    for found, target in zip(together, targets, strict=True):
        alone = attribute(layer, x, target=target, method="occlusion", rows_alike=alike)
        torch.testing.assert_close(found.scores, alone.scores, rtol=0, atol=1e-14)
        torch.testing.assert_close(found.value, alone.value, rtol=0, atol=0)
        torch.testing.assert_close(found.baseline, alone.baseline, rtol=0, atol=0)
    assert (together[1].scores[:, 1:] == 0).all()
    assert (together[0].scores != 0).any(0).all()


def test_the_warning_stands_beside_every_gradient() -> None:
    layer, x = unrolled.GRU(4, 3), torch.randn(5, 1, 4)
    for method in ("gradient", "gradient_x_input", "integrated_gradients"):
        found = attribute(layer, x, target=lambda output: output[0][-1].sum(-1), method=method)
        assert found.warning is not None
        assert "Ismail" in found.warning
    assert attribute(layer, x, target=lambda output: output[0][-1].sum(-1), method="occlusion").warning is None


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_occlusion_finds_the_planted_token(cell: str) -> None:
    """In half of the rows token 3 is a 7, and the class says so; all others are drawn at random from 0 to 6."""
    generator = torch.Generator().manual_seed(1)
    sizes: Any = {"vocabulary": 8, "unknown": 0, "classes": 2, "hidden": 16, "embedding": 8}
    model: Any = build("classify", cell=cell, pooling="last", **sizes)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)

    def drawn(count: int) -> tuple[Batch, Tensor]:
        ids, classes = torch.randint(0, 7, (count, 7), generator=generator), torch.arange(count) % 2
        ids[1::2, 3] = 7
        return Batch(ids, torch.full((count,), 7)), classes

    for _ in range(100):
        batch, classes = drawn(32)
        loss = nn.functional.cross_entropy(model(batch), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    batch, classes = drawn(40)
    assert (model(batch).argmax(-1) == classes).all()
    found = attribute(model, batch, target=lambda scores: scores[:, 1] - scores[:, 0], method="occlusion")
    assert (found.scores[1::2].argmax(1) == 3).all()


def test_what_attribution_refuses() -> None:
    layer, x = unrolled.GRU(4, 3), torch.randn(5, 2, 4)
    with pytest.raises(ValueError, match="method: expected one of gradient"):
        attribute(layer, x, target=lambda output: output[0][-1, :, 0], method="magic")
    with pytest.raises(ShapeError, match="target: expected one number a row"):
        attribute(layer, x, target=lambda output: output[0].sum())
    with pytest.raises(RunError, match="module: expected one of ''"):
        attribute(layer, x, target=lambda output: output[0][-1, :, 0], module="encoder")
    with pytest.raises(RunError, match="recurrent layers, found none"):
        attribute(nn.Linear(4, 3), x, target=lambda output: output[-1, :, 0])


def test_a_taggers_letters_are_not_its_steps() -> None:
    model: Any = build(
        "tag", hidden=5, embedding=4, vocabulary=9, unknown=0, classes=3, characters=(3, 2), character_vocabulary=6
    )
    assert isinstance(model.inputs, TokenInput)
    batch = Batch(
        torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]),
        torch.tensor([4, 2]),
        torch.randint(0, 6, (2, 4, 5)),
        torch.tensor([[3, 5, 1, 2], [2, 4, 0, 0]]),
    )
    found = attribute(model, batch, target=lambda scores: scores[:, 1, 2])
    assert found.scores.shape == (2, 4)
    assert (found.scores[1, 2:] == 0).all()
    from unrolled.insight import gates, gradient_flow

    assert {trace.name for trace in gates(model, batch)} == {"inputs.characters.recurrent", "recurrent"}
    assert {flow.name for flow in gradient_flow(model, batch)} == {"recurrent"}


# attention


def test_the_weights_of_a_pooling_classifier() -> None:
    model: Any = build("classify", hidden=5, embedding=4, vocabulary=9, unknown=0, classes=3, pooling="attention")
    batch = Batch(torch.randint(0, 9, (3, 5)), torch.tensor(LENGTHS))
    (found,) = attention(model, batch)
    assert (found.name, found.kind) == ("attention", "pooling")
    assert found.weights.shape == (3, 1, 5)
    torch.testing.assert_close(found.weights.sum(-1)[:, 0], torch.tensor([1.0, 1, 0]).double())
    assert (found.weights[0, 0, 3:] == 0).all()
    assert attention(unrolled.GRU(4, 3), torch.randn(5, 2, 4)) == []


@pytest.mark.parametrize("kind", ["additive", "general"])
def test_the_weights_of_a_decoder(kind: str) -> None:
    from unrolled.insight import gates
    from unrolled.models import build_encoder_decoder

    model: Any = build_encoder_decoder(
        cell="lstm", hidden=5, embedding=4, vocabulary=9, unknown=0, target_vocabulary=7, attention=kind
    ).eval()
    batch, previous = Batch(torch.randint(0, 9, (2, 6)), torch.tensor([6, 4])), torch.randint(0, 7, (2, 3))
    (found,) = attention(model, batch, previous)
    assert found.kind == "source"
    torch.testing.assert_close(found.weights.float(), model.run(batch, previous).weights, rtol=0, atol=1e-6)
    steps = {trace.name: trace.steps for trace in gates(model, batch, previous)}
    assert steps == {"encoder": 6, "decoder": 3}


# packing


def test_bytes_are_near_and_say_what_is_not_a_number() -> None:
    table = np.random.default_rng(0).normal(size=(7, 9)) * 3 + 1
    table[0, 0], table[1, 1], table[2, 2] = np.nan, -np.inf, np.inf
    packed = heat(table)
    found = unpack(packed)
    shown = np.isfinite(table)
    span = table[shown].max() - table[shown].min()
    assert np.abs(found[shown] - table[shown]).max() <= span / 500
    assert (packed["smallest"], packed["largest"]) == (
        pytest.approx(table[shown].min(), rel=1e-5),
        pytest.approx(table[shown].max(), rel=1e-5),
    )
    assert np.isnan(found[0, 0])
    assert found[1, 1] == -np.inf
    assert np.isnan(found[2, 2])
    json.dumps(packed, allow_nan=False)


@pytest.mark.parametrize("table", [np.zeros((2, 3)), np.full((2, 3), np.nan), np.zeros((0, 3)), np.full((1, 1), 1e300)])
def test_flat_and_empty_tables(table: np.ndarray) -> None:
    np.testing.assert_allclose(unpack(heat(table)), table, rtol=1e-12)


def test_numbers_that_json_does_not_have_are_words() -> None:
    given = {"a": [math.nan, math.inf, -math.inf, 1 / 3, 7, True, None, "x"], "b": torch.tensor([0.5])}
    assert numbers(given) == {"a": ["nan", "inf", "-inf", 0.333333, 7, True, None, "x"], "b": [0.5]}
