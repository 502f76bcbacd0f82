"""RNN, LSTM and GRU stand in for torch.nn's: constructor, parameters, results, gradients, errors, warnings.

Truth is the NumPy oracle one precision up; torch's own error sets the budget.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

import unrolled
from oracles.cases import CELLS, case, ours, pair, randomise, split_state, theirs, truth
from oracles.compare import assert_bitwise, assert_near, assert_no_worse, error

CLASSES = ("RNN", "LSTM", "GRU")
STACKS = [
    {"num_layers": layers, "bidirectional": both, "bias": bias}
    for layers, both, bias in itertools.product((1, 2, 3), (False, True), (True, False))
]


def grads(out: Any, state: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Gradient of a weighted sum of everything that a layer returns."""
    total = torch.zeros((), dtype=torch.float64)
    for number, part in enumerate((out, *(p for p in split_state(state) if p is not None))):
        weight = torch.linspace(-1, 1.5, part.numel(), dtype=torch.float64).reshape(part.shape) + 0.1 * number
        total = total + (part.double() * weight).sum()
    return list(torch.autograd.grad(total, inputs))


@pytest.mark.parametrize("bases", [("RNN", "LSTM", "GRU"), ("RNNCell", "LSTMCell", "GRUCell")])
def test_constructor_accepts_what_torch_accepts(bases: tuple[str, ...]) -> None:
    for name in bases:
        mine = inspect.signature(getattr(unrolled, name)).parameters
        # torch.nn.RNN and its kind take *args; nn.RNNBase and the cells spell the names out.
        base = nn.RNNBase if not name.endswith("Cell") else getattr(nn, name)
        wanted = dict(inspect.signature(base).parameters)
        wanted.pop("mode", None)
        if name not in ("LSTM",):
            wanted.pop("proj_size", None)
        for key, parameter in wanted.items():
            assert key in mine, f"{name} has no {key}"
            assert mine[key].default == parameter.default, f"{name}.{key}"
        for key in set(mine) - set(wanted) - {"nonlinearity"}:
            kind = mine[key].kind
            assert kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD), f"{name}.{key}: {kind}"


@pytest.mark.parametrize("name", CLASSES)
def test_extras_are_keywords_and_misspelt_ones_are_refused(name: str) -> None:
    extras = {
        "single_bias": True,
        "init": "keras",
        "learn_initial_state": True,
        "memory": "recompute",
        "backend": "reference",
    }
    own = {"GRU": {"reset_after": False}, "LSTM": {"forget_bias": 1.0}}.get(name, {})
    layer = getattr(unrolled, name)(4, 3, **extras, **own)
    for key, value in (extras | own).items():
        assert getattr(layer, key) == value
        assert key in repr(layer)
    with pytest.raises(TypeError, match="reset_befor"):
        getattr(unrolled, name)(4, 3, reset_befor=True)


@pytest.mark.parametrize("name", CLASSES)
def test_positional_arguments_are_in_torchs_order(name: str) -> None:
    args = (4, 3, 2, "relu", False, True, 0.25, True) if name == "RNN" else (4, 3, 2, False, True, 0.25, True)
    mine, other = getattr(unrolled, name)(*args), getattr(nn, name)(*args)
    for key in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(mine, key) == getattr(other, key), key
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in other.named_parameters()]
    assert mine.dropout == 0.25
    assert {n: p.shape for n, p in mine.named_parameters()} == {n: p.shape for n, p in other.named_parameters()}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("options", STACKS, ids=str)
def test_names_shapes_order_and_first_values(cell: str, options: dict[str, Any]) -> None:
    torch.manual_seed(11)
    mine = ours(cell, 4, 3, **options)
    torch.manual_seed(11)
    other = theirs(cell, 4, 3, **options)
    assert list(mine.state_dict()) == list(other.state_dict())
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in other.named_parameters()]
    for name, value in other.state_dict().items():
        assert_bitwise(mine.state_dict()[name], value)
    other.load_state_dict(randomise(mine, 5).state_dict())
    for name, value in other.state_dict().items():
        assert_bitwise(mine.state_dict()[name], value)


@pytest.mark.parametrize("name", CLASSES)
def test_same_random_numbers_are_drawn(name: str) -> None:
    """What follows a layer in a model starts from the same values too."""
    torch.manual_seed(3)
    getattr(unrolled, name)(4, 3, 2, bidirectional=True)
    after_ours = torch.rand(2)
    torch.manual_seed(3)
    getattr(nn, name)(4, 3, 2, bidirectional=True)
    assert_bitwise(after_ours, torch.rand(2))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("options", STACKS, ids=str)
def test_outputs_and_gradients(cell: str, options: dict[str, Any], batch_first: bool) -> None:
    mine, other = pair(cell, batch_first=batch_first, **options)
    for seed in (1, 8):  # twice, with other weights
        other.load_state_dict(randomise(mine, seed).state_dict())
        this = case(cell, layers=options["num_layers"], bidirectional=options["bidirectional"])
        want = truth(cell, mine, this, layers=options["num_layers"], bidirectional=options["bidirectional"])
        x = this.x if batch_first else this.x.transpose(0, 1)
        results, gradients = [], []
        for layer in (mine, other):
            inputs = [t.detach().clone().requires_grad_() for t in (x, this.h0, this.c0) if t is not None]
            state = inputs[1] if this.c0 is None else (inputs[1], inputs[2])
            out, last = layer(inputs[0], state)
            results.append((out if batch_first else out.transpose(0, 1), *split_state(last)))
            gradients.append(grads(out, last, [*inputs, *layer.parameters()]))
        for got, eager, exact in zip(*results, (want.out, want.h_n, want.c_n), strict=True):
            if exact is not None:
                assert_no_worse(got, eager, exact)
        for got, eager in zip(*gradients, strict=True):
            assert_near(got, eager)


@pytest.mark.parametrize("cell", CELLS)
def test_float32_errs_no_more_than_torch(cell: str) -> None:
    mine, other = pair(cell, dtype=torch.float32, num_layers=2, bidirectional=True, batch_first=True)
    this = case(cell, dtype=torch.float32)
    exact = truth(cell, mine, this, layers=2, bidirectional=True)
    (got, state), (eager, other_state) = mine(this.x, this.state), other(this.x, this.state)
    assert got.dtype == torch.float32
    assert_no_worse(got, eager, exact.out)
    assert_no_worse(split_state(state)[0], split_state(other_state)[0], exact.h_n)


@pytest.mark.parametrize("hidden", [1, 7, 8, 9, 15, 16, 17, 31, 33, 64])
@pytest.mark.parametrize("cell", CELLS)
def test_sizes_around_the_vector_lanes(cell: str, hidden: int) -> None:
    """Input, hidden size and batch straddle the lanes, each on its own."""
    width, batch = {1: 9, 8: 7, 16: 17, 64: 33}.get(hidden, 8), {7: 1, 9: 8, 17: 9}.get(hidden, 3)
    sizes = {"input_size": width, "hidden_size": hidden, "bidirectional": True, "batch_first": True}
    mine, other = pair(cell, dtype=torch.float32, **sizes)
    randomise(mine, 3, scale=1 / max(width, hidden) ** 0.5)
    other.load_state_dict(mine.state_dict())
    this = case(cell, batch=batch, width=width, hidden=hidden, layers=1, dtype=torch.float32)
    exact = truth(cell, mine, this, bidirectional=True)
    assert_no_worse(mine(this.x, this.state)[0], other(this.x, this.state)[0], exact.out)


@pytest.mark.parametrize("cell", CELLS)
def test_without_a_state(cell: str) -> None:
    mine, other = pair(cell, num_layers=2, bidirectional=True)
    x = case(cell).x.transpose(0, 1)
    (got, state), (eager, other_state) = mine(x), other(x)
    assert_near(got, eager)
    for a, b in zip(split_state(state), split_state(other_state), strict=True):
        if b is not None:
            assert_near(a, b)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_projection(layers: int, both: bool, batch_first: bool, bias: bool) -> None:
    options = {"num_layers": layers, "bidirectional": both, "batch_first": batch_first, "proj_size": 2, "bias": bias}
    torch.manual_seed(4)
    fresh = unrolled.LSTM(4, 3, **options)
    torch.manual_seed(4)
    reference = nn.LSTM(4, 3, **options)
    assert list(fresh.state_dict()) == list(reference.state_dict())
    for key, value in reference.state_dict().items():
        assert_bitwise(fresh.state_dict()[key], value)
    mine, other = pair("lstm", **options)
    this = case("lstm", layers=layers, bidirectional=both, proj_size=2)
    exact = truth("lstm", mine, this, layers=layers, bidirectional=both)
    x = this.x if batch_first else this.x.transpose(0, 1)
    (got, (h, c)), (eager, (other_h, other_c)) = mine(x, this.state), other(x, this.state)
    assert h.shape == other_h.shape
    assert c.shape == other_c.shape
    assert_no_worse(
        got if batch_first else got.transpose(0, 1), eager if batch_first else eager.transpose(0, 1), exact.out
    )
    assert_no_worse(h, other_h, exact.h_n)
    assert_no_worse(c, other_c, exact.c_n)
    for a, b in zip(
        grads(got, (h, c), list(mine.parameters())),
        grads(eager, (other_h, other_c), list(other.parameters())),
        strict=True,
    ):
        assert_near(a, b)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_unbatched(cell: str, batch_first: bool) -> None:
    mine, other = pair(cell, num_layers=2, bidirectional=True, batch_first=batch_first)
    this = case(cell)
    x = this.x[0]
    state = this.h0[:, 0] if this.c0 is None else (this.h0[:, 0], this.c0[:, 0])
    for arguments in ((x,), (x, state)):
        (got, last), (eager, other_last) = mine(*arguments), other(*arguments)
        assert got.shape == eager.shape
        assert_near(got, eager)
        for a, b in zip(split_state(last), split_state(other_last), strict=True):
            if b is not None:
                assert a.shape == b.shape
                assert_near(a, b)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_packed_in_packed_out(cell: str, given: bool) -> None:
    """Unsorted rows, distinct states: the packing comes back as it was, the states in the caller's order."""
    mine, other = pair(cell, num_layers=2, bidirectional=True)
    this = case(cell)
    packed = pack_padded_sequence(this.x, [2, 5, 3], batch_first=True, enforce_sorted=False)
    arguments = (packed, this.state) if given else (packed,)
    (got, last), (eager, other_last) = mine(*arguments), other(*arguments)
    assert isinstance(got, PackedSequence)
    assert_near(got.data, eager.data)
    assert_bitwise(got.batch_sizes, eager.batch_sizes)
    assert_bitwise(got.sorted_indices, eager.sorted_indices)
    assert_bitwise(got.unsorted_indices, eager.unsorted_indices)
    for a, b in zip(split_state(last), split_state(other_last), strict=True):
        if b is not None:
            assert_near(a, b)
    for a, b in zip(
        grads(got.data, last, list(mine.parameters())),
        grads(eager.data, other_last, list(other.parameters())),
        strict=True,
    ):
        assert_near(a, b)


def test_packed_without_indices() -> None:
    mine, other = pair("gru", bidirectional=True)
    rows = case("gru").x
    packed = pack_sequence([rows[0], rows[1][:3], rows[2][:1]])
    got, eager = mine(packed)[0], other(packed)[0]
    assert got.sorted_indices is None
    assert got.unsorted_indices is None
    assert_near(got.data, eager.data)


@pytest.mark.parametrize("cell", CELLS)
def test_no_contiguity_is_asked_for(cell: str) -> None:
    mine, other = pair(cell, num_layers=2, bidirectional=True)
    this = case(cell, width=8)
    x = this.x.transpose(0, 1)[..., ::2]
    state = tuple(t.transpose(0, 1).contiguous().transpose(0, 1) for t in (this.h0, this.c0) if t is not None)
    state = state if cell == "lstm" else state[0]
    assert not x.is_contiguous()
    plain = x.contiguous(), tuple(t.contiguous() for t in state) if cell == "lstm" else state.contiguous()
    assert_near(mine(x, state)[0], other(*plain)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_inputs_are_left_alone(cell: str) -> None:
    mine, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    this = case(cell)
    before = [t.clone() for t in (this.x, this.h0, this.c0) if t is not None]
    mine(this.x, this.state, lengths=[3, 5, 0], resets=torch.ones(3, 5, dtype=torch.bool))
    for now, then in zip([t for t in (this.x, this.h0, this.c0) if t is not None], before, strict=True):
        assert_bitwise(now, then)


@pytest.mark.parametrize("name", CLASSES)
def test_dropout_of_one_layer_warns_as_torch(name: str) -> None:
    """The same kind of warning, once, and it names both numbers."""
    found = []
    for package in (unrolled, nn):
        with pytest.warns(UserWarning, match=r"(?s)dropout=0.5.*num_layers=1") as caught:
            getattr(package, name)(4, 3, dropout=0.5)
        found.append([w.category for w in caught])
    assert found[0] == found[1] == [UserWarning]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(unrolled, name)(4, 3, 2, dropout=0.5)


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_between_layers(cell: str) -> None:
    """Training draws, evaluation does not, one seed gives one result, the last layer is not dropped."""
    mine, _ = pair(cell, dropout=0.5, num_layers=2, bidirectional=True, batch_first=True)
    plain, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    x = case(cell).x
    torch.manual_seed(1)
    first = mine(x)[0]
    torch.manual_seed(1)
    assert_bitwise(mine(x)[0], first)
    assert error(mine(x)[0], first) > 1e-4
    mine.eval()
    assert_bitwise(mine(x)[0], mine(x)[0])
    assert_near(mine(x)[0], plain(x)[0])
    assert_near(mine(x[:1])[0], mine(x)[0][:1])


def test_dropout_is_torchs_draw() -> None:
    """One seed, one thread: the same elements between the layers are dropped as in torch.nn."""
    mine, other = pair("gru", dropout=0.5, num_layers=2)
    x = case("gru").x.transpose(0, 1)
    torch.manual_seed(9)
    got = mine(x)[0]
    torch.manual_seed(9)
    assert_near(got, other(x)[0])
