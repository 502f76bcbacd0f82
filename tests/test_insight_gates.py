"""Gates and states at every step: equal to the layer's own results and to hand counts, padding left out."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import unrolled
from oracles.compare import assert_digits
from unrolled.errors import RunError
from unrolled.insight import gates, half_life, memory, saturation
from unrolled.insight.stepping import Trace

LENGTHS = [3, 5, 0]


def randomised(layer: nn.Module) -> Any:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.6)
    return layer


OURS: dict[str, Any] = {
    "rnn": lambda **o: unrolled.RNN(4, 3, **o),
    "relu": lambda **o: unrolled.RNN(4, 3, nonlinearity="relu", **o),
    "lstm": lambda **o: unrolled.LSTM(4, 3, **o),
    "lstm-projected": lambda **o: unrolled.LSTM(4, 3, proj_size=2, **o),
    "lstm-single": lambda **o: unrolled.LSTM(4, 3, single_bias=True, learn_initial_state=True, **o),
    "gru-after": lambda **o: unrolled.GRU(4, 3, **o),
    "gru-before": lambda **o: unrolled.GRU(4, 3, reset_after=False, **o),
}
TORCHS: dict[str, Any] = {
    "rnn": lambda **o: nn.RNN(4, 3, **o),
    "relu": lambda **o: nn.RNN(4, 3, nonlinearity="relu", **o),
    "lstm": lambda **o: nn.LSTM(4, 3, **o),
    "lstm-projected": lambda **o: nn.LSTM(4, 3, proj_size=2, **o),
    "gru-after": lambda **o: nn.GRU(4, 3, **o),
    "no-bias": lambda **o: nn.GRU(4, 3, bias=False, **o),
}


def assert_same(found: list[Trace], layer: Any, out: Tensor, state: Any, lengths: list[int]) -> None:
    """The traces of the top layer are `out` (T, B, D·P) at valid steps, and those of all layers end in `state`."""
    directions = 2 if layer.bidirectional else 1
    states = state if isinstance(state, tuple) else (state,)
    assert len(found) == layer.num_layers * directions
    top = torch.cat([trace.h for trace in found[-directions:]], -1)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(top[:length, row], out[:length, row].double(), rtol=0, atol=1e-5)
        assert top[length:, row].isnan().all()
        for index, trace in enumerate(found):
            if length:
                end = 0 if trace.direction else length - 1
                parts = (trace.h,) if trace.c is None else (trace.h, trace.c)
                for mine, its in zip(parts, states, strict=True):
                    torch.testing.assert_close(mine[end, row], its[index, row].double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_ours_with_lengths_resets_layers_and_directions(kind: str, batch_first: bool) -> None:
    layer = randomised(OURS[kind](num_layers=2, bidirectional=True, batch_first=batch_first))
    x, resets = torch.randn(5, 3, 4), torch.tensor([[0, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    x[3:, 0] = math.nan
    given = x.transpose(0, 1) if batch_first else x
    options = {"lengths": LENGTHS, "resets": resets}
    for _ in range(2):  # and once more with other weights
        out, state = layer(given, **options)
        out = out.transpose(0, 1) if batch_first else out
        assert_same(gates(layer, given, **options), layer, out, state, LENGTHS)
        randomised(layer)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # torch's own remark
@pytest.mark.parametrize("kind", TORCHS)
def test_torchs_own(kind: str) -> None:
    layer = randomised(TORCHS[kind](num_layers=2, bidirectional=True, dropout=0.5)).eval()
    x = torch.randn(5, 3, 4)
    out, state = layer(x)
    found = gates(layer.train(), x)  # dropout does not act on what is looked at
    assert_same(found, layer, out, state, [5, 5, 5])
    assert layer.training


def test_packed_unbatched_and_half() -> None:
    layer = randomised(nn.GRU(4, 3, batch_first=True))
    x = torch.randn(3, 5, 4)
    packed = pack_padded_sequence(x, torch.tensor([3, 5, 2]), batch_first=True, enforce_sorted=False)
    (trace,) = gates(layer, packed)
    assert trace.valid.sum(0).tolist() == [3, 5, 2]
    torch.testing.assert_close(trace.h[:3, 0], layer(x[0, :3])[0].double(), rtol=0, atol=1e-6)
    (alone,) = gates(layer, x[1])
    torch.testing.assert_close(alone.h, trace.h[:, 1:2], rtol=0, atol=1e-12)
    (half,) = gates(copy.deepcopy(layer).to(torch.bfloat16), x[1].to(torch.bfloat16))
    torch.testing.assert_close(half.h, alone.h, rtol=0, atol=0.05)


def scalar_lstm() -> Any:
    """The LSTM of one unit whose numbers an independent program worked out."""
    layer = unrolled.LSTM(1, 1, single_bias=True, dtype=torch.float64)
    rows = torch.tensor([[0.5, 0.6, 0.7, 0.8], [0.1, 0.2, 0.3, 0.4], [0.01, 0.02, 0.03, 0.04]], dtype=torch.float64)
    with torch.no_grad():
        for parameter, row in zip(layer.parameters(), rows, strict=True):
            parameter.copy_(row.reshape(parameter.shape))
    return layer


def test_every_cell_state_and_a_restart_from_it() -> None:
    layer, x = scalar_lstm(), torch.tensor([1.0, 2, 3, 4], dtype=torch.float64)[:, None, None]
    (trace,) = gates(layer, x)
    assert trace.c is not None
    assert_digits(trace.h[:, 0, 0], [0.25895774, 0.63842069, 0.8719124, 0.95830509], digits=7)
    assert_digits(trace.c[:, 0, 0], [0.38929526, 0.97312824, 1.66420788, 2.43550513], digits=7)
    tail, _ = layer(x[2:], (trace.h[1][None], trace.c[1][None]))
    torch.testing.assert_close(tail, trace.h[2:], rtol=0, atol=1e-12)


def test_gates_by_hand() -> None:
    layer, x = scalar_lstm(), torch.tensor([[[1.0]], [[2.0]]], dtype=torch.float64)
    (trace,) = gates(layer, x)
    h, sigmoid = float(trace.h[0]), lambda a: 1 / (1 + math.exp(-a))
    wanted = {
        "i": sigmoid(0.5 * 2 + 0.1 * h + 0.01),
        "f": sigmoid(0.6 * 2 + 0.2 * h + 0.02),
        "g": math.tanh(0.7 * 2 + 0.3 * h + 0.03),
        "o": sigmoid(0.8 * 2 + 0.4 * h + 0.04),
    }
    for name, value in wanted.items():
        assert float(trace.gates[name][1]) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("library", [unrolled, nn])
@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_cells_that_a_loop_calls_are_one_sequence(library: Any, cell: str) -> None:
    layer = randomised(getattr(nn, cell)(4, 3))

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = getattr(library, cell + "Cell")(4, 3)
            self.cell.load_state_dict({name.removesuffix("_l0"): p for name, p in layer.state_dict().items()})

        def forward(self, x: Tensor) -> Any:
            state = None
            for step in x:
                state = self.cell(step, state)
            return state

    x = torch.randn(5, 2, 4)
    (seen,), (whole,) = gates(Loop(), x), gates(layer, x)
    torch.testing.assert_close(seen.h, whole.h, rtol=0, atol=1e-12)
    assert seen.name == "cell"


def test_calls_of_one_step_are_one_sequence_and_others_are_not() -> None:
    layer = randomised(unrolled.LSTM(4, 3, 2))

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor, again: bool) -> None:
            state = None
            for step in x:
                _, state = self.layer(step[None], state)
            if again:
                self.layer(x)

    x = torch.randn(5, 2, 4)
    found, whole = gates(Steps(), x, False), gates(layer, x)
    assert [trace.steps for trace in found] == [5, 5]
    torch.testing.assert_close(found[1].h, whole[1].h, rtol=0, atol=1e-12)
    assert len(gates(Steps(), x, True)) == 4


def test_counts_equal_numpys() -> None:
    layer = randomised(unrolled.LSTM(4, 7))
    x = 3 * torch.randn(20, 3, 4)
    (trace,) = gates(layer, x, lengths=[20, 0, 11])
    for name, low in (("i", 0.1), ("f", 0.1), ("g", -0.9), ("o", 0.1)):
        seen = np.concatenate([trace.gates[name][:20, 0].numpy(), trace.gates[name][:11, 2].numpy()])
        found = saturation(trace, name)
        assert found.steps == 31
        np.testing.assert_array_equal(found.left.numpy(), (seen < low).mean(0))
        np.testing.assert_array_equal(found.right.numpy(), (seen > 0.9).mean(0))
    loose = saturation(trace, "f", low=0.4, high=0.6)
    assert loose.total()[0] > saturation(trace, "f").total()[0]


@pytest.mark.parametrize(("bias", "wanted"), [(20.0, (0.0, 1.0)), (-20.0, (1.0, 0.0))])
def test_forget_gates_forced_open_or_shut(bias: float, wanted: tuple[float, float]) -> None:
    layer = unrolled.LSTM(4, 3, single_bias=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.bias_ih_l0[3:6] = bias
    (trace,) = gates(layer, torch.randn(6, 2, 4))
    assert saturation(trace, "f").total() == wanted


def test_saturation_of_units_without_gates() -> None:
    tanh = unrolled.RNN(1, 1, single_bias=True, dtype=torch.float64)
    relu = unrolled.RNN(1, 1, nonlinearity="relu", single_bias=True, dtype=torch.float64)
    with torch.no_grad():
        for layer in (tanh, relu):
            layer.weight_ih_l0.fill_(1)
            layer.weight_hh_l0.zero_()
            layer.bias_ih_l0.zero_()
    x = torch.tensor([-3.0, 0.1, 3.0, 3.0], dtype=torch.float64)[:, None, None]
    assert saturation(gates(tanh, x)[0], "h").total() == (0.25, 0.5)
    assert saturation(gates(relu, x)[0], "h").total() == (0.25, 0.0)
    with pytest.raises(ValueError, match="one of h, which rnn_tanh has"):
        saturation(gates(tanh, x)[0], "f")
    with pytest.raises(ValueError, match="low"):
        saturation(gates(tanh, x)[0], "h", low=0.9, high=0.1)


def test_half_lives() -> None:
    for kept, steps in ((0.9, 6.6), (0.99, 69.0), (0.999, 692.8)):
        assert round(half_life(kept), 1) == steps
    assert (half_life(1.0), half_life(0.0)) == (math.inf, 0.0)
    assert half_life(0.5) == pytest.approx(1)
    with pytest.raises(ValueError, match="from 0 to 1"):
        half_life(1.1)


@pytest.mark.parametrize(("bias", "gate"), [(1.0, 0.731), (2.0, 0.881)])
def test_forget_bias_and_the_half_life_it_gives(bias: float, gate: float) -> None:
    layer = unrolled.LSTM(4, 3, forget_bias=bias)
    with torch.no_grad():
        layer.weight_ih_l0.zero_()
        layer.weight_hh_l0.zero_()
    (trace,) = gates(layer, torch.randn(6, 2, 4))
    assert round(float(trace.gates["f"][0, 0, 0]), 3) == gate
    lives = memory(trace)
    assert lives is not None
    torch.testing.assert_close(lives, torch.full((3,), math.log(0.5) / math.log(1 / (1 + math.exp(-bias)))).double())
    assert memory(gates(unrolled.RNN(4, 3), torch.randn(6, 2, 4))[0]) is None


def test_what_cannot_be_read_is_refused() -> None:
    class Other(nn.LSTM):
        def forward(self, *args: Any) -> Any:  # type: ignore[override]
            out, (h, c) = super().forward(*args)
            return out, (h + 1e-3, c)

    x = torch.randn(5, 2, 4)
    with pytest.raises(RunError, match=r"Other.*final state of its equations.*0\.001"):
        gates(Other(4, 3), x)
    with pytest.raises(RunError, match="recurrent layers, found none in Linear"):
        gates(nn.Linear(4, 3), x)
    uncalled = nn.Linear(4, 3)
    uncalled.layer = nn.GRU(4, 3)
    with pytest.raises(RunError, match="'layer', which the model did not call"):
        gates(uncalled, x)


@pytest.mark.parametrize("library", [unrolled, nn])
def test_nothing_of_the_model_changes(library: Any) -> None:
    model = nn.Sequential(library.LSTM(4, 3, 2, dropout=0.5)).train()
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    gates(model, torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(torch.rand(3), wanted, rtol=0, atol=0)
    assert model.training
    assert "forward" not in vars(model[0])
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_parametrised_weights_are_read_as_they_are_used() -> None:
    layer = nn.utils.parametrizations.orthogonal(unrolled.RNN(4, 4), "weight_hh_l0")
    (trace,) = gates(layer, torch.randn(5, 2, 4))
    torch.testing.assert_close(trace.weights.U[0] @ trace.weights.U[0].T, torch.eye(4).double(), rtol=0, atol=1e-5)


def test_an_exploding_network_is_still_read() -> None:
    """Its float32 state is infinite at the end; in float64 it is a number, and the equations agree on it."""
    layer = nn.RNN(2, 2, nonlinearity="relu")
    with torch.no_grad():
        layer.weight_hh_l0.copy_(2 * torch.eye(2))
        layer.bias_ih_l0.fill_(1)
    x = torch.rand(200, 1, 2)
    assert not layer(x)[1].isfinite().any()
    assert gates(layer, x)[0].h.isfinite().all()
