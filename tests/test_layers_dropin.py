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
EXTRAS = {"single_bias", "reset_after", "forget_bias", "init", "learn_initial_state", "memory", "backend"}
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
        extras = set(mine) - set(wanted) - {"nonlinearity"}
        assert extras <= EXTRAS, f"{name}: {extras - EXTRAS}"
        for key in extras:
            assert mine[key].kind is inspect.Parameter.KEYWORD_ONLY, f"{name}.{key} must be keyword-only"


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
    assert_no_worse(got if batch_first else got.transpose(0, 1), eager if batch_first else eager.transpose(0, 1), exact.out)
    assert_no_worse(h, other_h, exact.h_n)
    assert_no_worse(c, other_c, exact.c_n)
    for a, b in zip(grads(got, (h, c), list(mine.parameters())), grads(eager, (other_h, other_c), list(other.parameters())), strict=True):
        assert_near(a, b)


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_projection_is_for_lstm_only(name: str) -> None:
    with pytest.raises((ValueError, TypeError), match="proj_size"):
        getattr(unrolled, name)(4, 3, proj_size=2)


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
    """Unsorted rows, distinct states: the packing comes back as it was, the states in the caller's order (C2, C5)."""
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
        grads(got.data, last, list(mine.parameters())), grads(eager.data, other_last, list(other.parameters())), strict=True
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


def test_packed_and_lengths_together_are_refused() -> None:
    packed = pack_padded_sequence(case("gru").x, [5, 3, 2], batch_first=True)
    with pytest.raises((ValueError, RuntimeError), match="lengths"):
        unrolled.GRU(4, 3, dtype=torch.float64)(packed, lengths=[5, 3, 2])


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
    messages = []
    for package in (unrolled, nn):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            getattr(package, name)(4, 3, dropout=0.5)
        messages.append([(w.category, str(w.message)) for w in caught])
    assert len(messages[0]) == 1
    assert messages[0] == messages[1]


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_between_layers(cell: str) -> None:
    """S10, N1, N4: training draws, evaluation does not, one seed gives one result, the last layer is not dropped."""
    mine, _ = pair(cell, dropout=0.5, num_layers=2, bidirectional=True, batch_first=True)
    plain, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    x = case(cell).x
    torch.manual_seed(1)
    first = mine(x)[0]
    torch.manual_seed(1)
    assert_bitwise(mine(x)[0], first)
    assert (mine(x)[0] - first).abs().max() > 1e-4
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


@pytest.mark.parametrize("dropout", [-0.1, 1.5, True, "half"])
def test_dropout_out_of_range(dropout: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="dropout"):
        unrolled.GRU(4, 3, 2, dropout=dropout)


@pytest.mark.parametrize(
    "options", [{"hidden_size": 0}, {"hidden_size": -1}, {"num_layers": 0}, {"input_size": -1}, {"hidden_size": 2.5}], ids=str
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
    with pytest.raises(ValueError, match="nonlinearity"):
        unrolled.RNN(4, 3, nonlinearity="gelu")
    with pytest.raises(ValueError, match="backend"):
        unrolled.RNN(4, 3, backend="fastest")
    with pytest.raises(ValueError, match="memory"):
        unrolled.RNN(4, 3, memory="forget")
    with pytest.raises(ValueError, match="init"):
        unrolled.RNN(4, 3, init="magic")


def bad(build: Any, **call: Any) -> Any:
    return build, call


WRONG = {
    "width": (torch.zeros(5, 3, 2, dtype=torch.float64), None, RuntimeError, r"(?s)input.*4.*2"),
    "four axes": (torch.zeros(5, 3, 4, 2, dtype=torch.float64), None, ValueError, r"4"),
    "one axis": (torch.zeros(4, dtype=torch.float64), None, ValueError, r"1"),
    "layers": (torch.zeros(5, 3, 4, dtype=torch.float64), torch.zeros(2, 3, 3, dtype=torch.float64), RuntimeError, r"(?s)4.*3.*3.*2.*3.*3"),
    "one row for three": (torch.zeros(5, 3, 4, dtype=torch.float64), torch.zeros(4, 1, 3, dtype=torch.float64), RuntimeError, r"(?s)4.*3.*3.*4.*1.*3"),
    "hidden": (torch.zeros(5, 3, 4, dtype=torch.float64), torch.zeros(4, 3, 7, dtype=torch.float64), RuntimeError, r"(?s)4.*3.*3.*4.*3.*7"),
    "no layer axis": (torch.zeros(5, 3, 4, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64), RuntimeError, r"hx"),
    "unbatched with batched state": (torch.zeros(5, 4, dtype=torch.float64), torch.zeros(4, 3, 3, dtype=torch.float64), RuntimeError, r"hx"),
    "integers": (torch.zeros(5, 3, 4, dtype=torch.int64), None, ValueError, r"(?s)float64.*int64"),
    "half the precision": (torch.zeros(5, 3, 4), None, ValueError, r"(?s)float64.*float32"),
    "state of other precision": (torch.zeros(5, 3, 4, dtype=torch.float64), torch.zeros(4, 3, 3), (RuntimeError, ValueError), r"(?s)hx.*float64.*float32"),
    "device": (torch.zeros(5, 3, 4, dtype=torch.float64, device="meta"), None, (RuntimeError, ValueError), r"(?s)cpu.*meta"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_wrong_input_says_what_was_wanted_and_found(cell: str, what: str) -> None:
    """M1-M5, M7: the error is of torch's kind, and names the argument, both sizes or types, and never sums up."""
    x, h0, kind, words = WRONG[what]
    layer = ours(cell, 4, 3, 2, bidirectional=True, dtype=torch.float64)
    state = h0
    if cell == "lstm" and h0 is not None:
        state = (h0, torch.zeros_like(h0))
    with pytest.raises(kind, match=words) as found:
        layer(x, state)
    assert ":" in str(found.value), "the house form is 'argument: expected ..., found ...'"
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


CELL_CLASSES = {"RNNCell": {}, "LSTMCell": {}, "GRUCell": {}}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELL_CLASSES)
def test_cells(name: str, bias: bool) -> None:
    torch.manual_seed(2)
    mine = getattr(unrolled, name)(4, 3, bias=bias, dtype=torch.float64)
    torch.manual_seed(2)
    other = getattr(nn, name)(4, 3, bias=bias, dtype=torch.float64)
    assert list(mine.state_dict()) == list(other.state_dict())
    for key, value in other.state_dict().items():
        assert_bitwise(mine.state_dict()[key], value)
    other.load_state_dict(randomise(mine, 3).state_dict())
    this = case("lstm", layers=1, bidirectional=False)
    x, h, c = this.x[:, 0], this.h0[0], this.c0[0]
    state = (h, c) if name == "LSTMCell" else h
    for arguments in ((x,), (x, state)):
        got, want = mine(*arguments), other(*arguments)
        for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
            assert_near(a, b)
    row = (h[0], c[0]) if name == "LSTMCell" else h[0]
    got, want = mine(x[0], row), other(x[0], row)
    first = (got[0], want[0]) if name == "LSTMCell" else (got, want)
    assert first[0].shape == first[1].shape
    assert_near(*first)


@pytest.mark.parametrize("name", CELL_CLASSES)
def test_cells_refuse_wrong_shapes(name: str) -> None:
    cell = getattr(unrolled, name)(4, 3)
    with pytest.raises((RuntimeError, ValueError), match=r"(?s)4.*2"):
        cell(torch.zeros(3, 2))
    with pytest.raises((RuntimeError, ValueError), match=r"(?s)3.*7"):
        state = torch.zeros(3, 7)
        cell(torch.zeros(3, 4), (state, state) if name == "LSTMCell" else state)


def test_relu_cell() -> None:
    mine, other = unrolled.RNNCell(4, 3, nonlinearity="relu"), nn.RNNCell(4, 3, nonlinearity="relu")
    mine.load_state_dict(other.state_dict())
    x = torch.randn(3, 4)
    assert_near(mine(x), other(x))


@pytest.mark.parametrize("name", CLASSES)
def test_model_code_sees_the_same_attributes(name: str) -> None:
    mine, other = getattr(unrolled, name)(4, 3, 2, bidirectional=True), getattr(nn, name)(4, 3, 2, bidirectional=True)
    for key in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"):
        assert getattr(mine, key) == getattr(other, key)
    assert [[p.shape for p in row] for row in mine.all_weights] == [[p.shape for p in row] for row in other.all_weights]
    mine.flatten_parameters()  # present, and does nothing
    assert "4, 3" in repr(mine)
    before = [p.detach().clone() for p in mine.parameters()]
    mine.reset_parameters()
    assert max(float((a - b).abs().max()) for a, b in zip(before, mine.parameters(), strict=True)) > 0


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_float32(name: str, low: torch.dtype) -> None:
    """M8: own type in and out, errors of rounding the inputs and outputs only."""
    layer = randomise(getattr(unrolled, name)(4, 3, 2, bidirectional=True), 1)
    x = case("gru").x.transpose(0, 1).to(low)
    half = getattr(unrolled, name)(4, 3, 2, bidirectional=True, dtype=low)
    half.load_state_dict(layer.state_dict())
    wide = getattr(unrolled, name)(4, 3, 2, bidirectional=True)
    wide.load_state_dict(half.state_dict())
    got, want = half(x)[0], wide(x.float())[0]
    assert got.dtype == low
    # One rounding for each layer's output: the second layer reads what the first one rounded.
    assert error(got.float(), want) <= 8 * torch.finfo(low).eps


def test_deepcopy_and_to() -> None:
    import copy

    layer = randomise(unrolled.LSTM(4, 3, 2, bidirectional=True), 1)
    x = case("lstm", dtype=torch.float32).x.transpose(0, 1)
    assert_bitwise(copy.deepcopy(layer)(x)[0], layer(x)[0])
    wide = layer.double()(x.double())[0]
    assert wide.dtype == torch.float64
    assert_near(layer.float()(x)[0], wide)
