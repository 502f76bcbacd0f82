"""What the layers refuse: the kinds of torch.nn, naming the argument, what was wanted and what was found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import unrolled
from oracles.cases import case, ours

CLASSES = ("RNN", "LSTM", "GRU")


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_projection_is_for_lstm_only(name: str) -> None:
    with pytest.raises((ValueError, TypeError), match="proj_size"):
        getattr(unrolled, name)(4, 3, proj_size=2)


def test_packed_and_lengths_together_are_refused() -> None:
    packed = pack_padded_sequence(case("gru").x, [5, 3, 2], batch_first=True)
    with pytest.raises((ValueError, RuntimeError), match="lengths"):
        unrolled.GRU(4, 3, dtype=torch.float64)(packed, lengths=[5, 3, 2])


@pytest.mark.parametrize("dropout", [-0.1, 1.5, True, "half"])
def test_dropout_out_of_range(dropout: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="dropout"):
        unrolled.GRU(4, 3, 2, dropout=dropout)


@pytest.mark.parametrize(
    "options",
    [{"hidden_size": 0}, {"hidden_size": -1}, {"num_layers": 0}, {"input_size": -1}, {"hidden_size": 2.5}],
    ids=str,
)
@pytest.mark.parametrize("name", CLASSES)
def test_impossible_sizes_are_refused_as_torch_does(name: str, options: dict[str, Any]) -> None:
    options = {"input_size": 4, "hidden_size": 3, **options}
    with pytest.raises((ValueError, TypeError, RuntimeError)) as wanted:
        getattr(nn, name)(**options)
    with pytest.raises((ValueError, TypeError, RuntimeError)) as found:
        getattr(unrolled, name)(**options)
    if wanted.type in (ValueError, TypeError):
        assert issubclass(found.type, wanted.type)


def test_unknown_words_are_refused() -> None:
    """ValueError; where the annotation already lists the words, the test hook is quicker and raises a TypeError."""
    for key in ("nonlinearity", "memory", "backend", "init"):
        with pytest.raises((ValueError, TypeError), match=key):
            unrolled.RNN(4, 3, **{key: "magic"})
    for key in ("nonlinearity", "init"):
        with pytest.raises((ValueError, TypeError), match=key):
            unrolled.RNNCell(4, 3, **{key: "magic"})


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float64)


WRONG: dict[str, tuple[torch.Tensor, torch.Tensor | None, Any, str]] = {
    "width": (zeros(5, 3, 2), None, RuntimeError, r"(?s)input.*4.*2"),
    "four axes": (zeros(5, 3, 4, 2), None, ValueError, r"4"),
    "one axis": (zeros(4), None, ValueError, r"1"),
    "layers": (zeros(5, 3, 4), zeros(2, 3, 3), RuntimeError, r"hx.*\(4, 3, 3\).*\(2, 3, 3\)"),
    "one row for three": (zeros(5, 3, 4), zeros(4, 1, 3), RuntimeError, r"hx.*\(4, 3, 3\).*\(4, 1, 3\)"),
    "hidden": (zeros(5, 3, 4), zeros(4, 3, 7), RuntimeError, r"hx.*\(4, 3, 3\).*\(4, 3, 7\)"),
    "no layer axis": (zeros(5, 3, 4), zeros(3, 3), RuntimeError, r"hx.*\(4, 3, 3\).*\(3, 3\)"),
    "unbatched with batched state": (zeros(5, 4), zeros(4, 3, 3), RuntimeError, r"hx.*\(4, 3\).*\(4, 3, 3\)"),
    "integers": (zeros(5, 3, 4).long(), None, ValueError, r"(?s)input.*float64.*int64"),
    "half the precision": (zeros(5, 3, 4).float(), None, ValueError, r"(?s)input.*float64.*float32"),
    "state of other precision": (zeros(5, 3, 4), zeros(4, 3, 3).float(), ValueError, r"(?s)hx.*float64.*float32"),
    "device": (zeros(5, 3, 4).to("meta"), None, RuntimeError, r"(?s)input.*(cpu.*meta|meta.*cpu)"),
    "device of the state": (zeros(5, 3, 4), zeros(4, 3, 3).to("meta"), RuntimeError, r"(?s)hx.*(cpu.*meta|meta.*cpu)"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_wrong_input_says_what_was_wanted_and_found(cell: str, what: str) -> None:
    """The error is of torch's kind, and names the argument, both sizes or types, and never sums up."""
    x, h0, kind, words = WRONG[what]
    layer = ours(cell, 4, 3, 2, bidirectional=True, dtype=torch.float64)
    state = h0
    if cell == "lstm" and h0 is not None:
        state = (h0, torch.zeros_like(h0))
    with pytest.raises(kind, match=words) as found:
        layer(x, state)
    if what in ("width", "layers", "hidden"):
        assert any(axis in str(found.value) for axis in ("batch", "layers", "input_size", "features")), str(found.value)


def test_lstm_wants_a_pair() -> None:
    layer = unrolled.LSTM(4, 3)
    with pytest.raises((RuntimeError, ValueError, TypeError), match="hx"):
        layer(torch.zeros(5, 3, 4), torch.zeros(1, 3, 3))
    with pytest.raises((RuntimeError, ValueError), match="hx"):
        layer(torch.zeros(5, 3, 4), (torch.zeros(1, 3, 3), torch.zeros(1, 2, 3)))


def test_error_of_both_kinds() -> None:
    """torch.nn raises RuntimeError for sizes and ValueError for axes; ours can be caught as either."""
    with pytest.raises(RuntimeError):
        unrolled.GRU(4, 3)(torch.zeros(5, 3, 2))
    with pytest.raises(ValueError, match="4"):
        unrolled.GRU(4, 3)(torch.zeros(5, 3, 2))


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_refuse_wrong_shapes(name: str) -> None:
    cell = getattr(unrolled, name)(4, 3)
    with pytest.raises((RuntimeError, ValueError), match=r"(?s)4.*2"):
        cell(torch.zeros(3, 2))
    state = torch.zeros(3, 7)
    with pytest.raises((RuntimeError, ValueError), match=r"(?s)3.*7"):
        cell(torch.zeros(3, 4), (state, state) if name == "LSTMCell" else state)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("value", [[[1.0]], np.zeros((5, 3, 4), np.float32), None], ids=["list", "numpy", "None"])
def test_input_that_is_no_tensor(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match="input"):
        getattr(unrolled, name)(4, 3)(value)


def test_a_state_in_another_order_gets_a_hint() -> None:
    """Batch_first does not move the state; where the sizes tell, the error says so."""
    layer = unrolled.GRU(4, 3, 2, batch_first=True)
    with pytest.raises(RuntimeError, match=r"(?s)\(2, 5, 3\).*\(5, 2, 3\).*transpose"):
        layer(torch.zeros(5, 7, 4), torch.zeros(5, 2, 3))
