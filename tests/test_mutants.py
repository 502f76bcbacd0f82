"""Every tolerance owns a mutant: each known fault, put into the code that runs, is refused by the suite's comparison.

The comparison is `assert_layer_is_right` (and `assert_no_worse` for the drop-in budget), which the other files use
too, on the default test shape. A fault is applied in two ways: a wrong step or scan in place of an engine's own, and
weights turned around so that the right code computes the wrong unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles.cases import CELLS, LENGTHS, assert_layer_is_right, case, ours, pair, randomise, truth
from oracles.compare import assert_no_worse
from unrolled.equations import LSTMState
from unrolled.kernels import reference, torch_kernels

RESETS = torch.tensor([[0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def layer_of(cell: str, backend: str, dtype: torch.dtype, **options: Any) -> nn.Module:
    layer = ours(cell, 4, 3, 2, bidirectional=True, batch_first=True, dtype=dtype, backend=backend, **options)
    return randomise(layer, 1)


# Wrong steps. Each is the equation with one thing changed.


def gates(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, b_h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    return [x @ W[k] + b[k] for k in range(len(W))], [h @ U[k] + b_h[k] for k in range(len(W))]


def gru_mutant(change: str) -> Callable[..., Tensor]:
    def step(x, h, W, U, b, b_h, *, reset_after):
        if change == "b_hn dropped":
            b_h = torch.cat([b_h[:2], torch.zeros_like(b_h[2:])])
        if change == "input bias dropped":
            b = torch.zeros_like(b)
        if change == "state bias dropped":
            b_h = torch.zeros_like(b_h)
        a, g = gates(x, h, W, U, b, b_h)
        r, z = torch.sigmoid(a[0] + g[0]), torch.sigmoid(a[1] + g[1])
        if change == "r and z swapped":
            r, z = z, r
        if change == "z flipped":
            z = 1 - z
        if (change == "reset on the wrong side") == reset_after:
            n = torch.tanh(a[2] + (r * h) @ U[2] + b_h[2])
        elif change == "b_hn outside r":
            n = torch.tanh(a[2] + r * (h @ U[2]) + b_h[2])
        else:
            n = torch.tanh(a[2] + r * g[2])
        return z * h + (1 - z) * n

    return step


def lstm_mutant(change: str) -> Callable[..., LSTMState]:
    def step(x, h, c, W, U, b, b_h, V):
        if change == "input bias dropped":
            b = torch.zeros_like(b)
        if change == "state bias dropped":
            b_h = torch.zeros_like(b_h)
        a, s = gates(x, h, W, U, b, b_h)
        i, f, o = (torch.sigmoid(a[k] + s[k]) for k in (0, 1, 3))
        g = torch.tanh(a[2] + s[2])
        if change == "i and f swapped":
            i, f = f, i
        if change == "i and o swapped":
            i, o = o, i
        if change == "forget bias of one added":
            f = torch.sigmoid(a[1] + s[1] + 1)
        c = f * c + i * g
        h = o * (c if change == "tanh of c left out" else torch.tanh(c))
        return LSTMState(h if V is None else h @ V, c)

    return step


def rnn_mutant(change: str) -> Callable[..., Tensor]:
    def step(x, h, W, U, b, b_h, *, nonlinearity):
        U = U.T if change == "U transposed" else U
        total = x @ W + h @ U
        total = total if change == "input bias dropped" else total + b
        total = total if change == "state bias dropped" else total + b_h
        use_tanh = (nonlinearity == "tanh") != (change == "other nonlinearity")
        return torch.tanh(total) if use_tanh else torch.relu(total)

    return step


STEPS: dict[str, tuple[Callable[[str], Callable[..., Any]], list[str]]] = {
    "gru": (gru_mutant, [
        "reset on the wrong side", "b_hn outside r", "b_hn dropped", "r and z swapped", "z flipped",
        "input bias dropped", "state bias dropped",
    ]),
    "lstm": (lstm_mutant, [
        "i and f swapped", "i and o swapped", "input bias dropped", "state bias dropped", "forget bias of one added",
        "tanh of c left out",
    ]),
    "tanh": (rnn_mutant, ["U transposed", "input bias dropped", "state bias dropped", "other nonlinearity"]),
    "relu": (rnn_mutant, ["U transposed", "input bias dropped", "state bias dropped", "other nonlinearity"]),
}  # fmt: skip
STEP_NAMES = {"gru": "gru_step", "lstm": "lstm_step", "tanh": "rnn_step", "relu": "rnn_step"}


@DTYPES
@pytest.mark.parametrize(("cell", "change"), [(cell, change) for cell, (_, all_) in STEPS.items() for change in all_])
def test_a_wrong_step_is_refused(monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype) -> None:
    layer, this = layer_of(cell, "reference", dtype), case(cell, dtype=dtype)
    monkeypatch.setattr(reference, STEP_NAMES[cell], STEPS[cell][0]("nothing"))
    assert_layer_is_right(cell, layer, this, lengths=LENGTHS)  # the copy itself is right ...
    monkeypatch.setattr(reference, STEP_NAMES[cell], STEPS[cell][0](change))
    with pytest.raises(AssertionError, match="budget"):
        assert_layer_is_right(cell, layer, this, lengths=LENGTHS)  # ... and the change is seen


@DTYPES
@pytest.mark.parametrize(("cell", "change"), [(cell, change) for cell, (_, all_) in STEPS.items() for change in all_])
def test_a_wrong_step_is_worse_than_torch(
    monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype
) -> None:
    """The drop-in budget, twice torch's own error and two epsilons, refuses them too."""
    options = {"num_layers": 2, "bidirectional": True, "batch_first": True}
    mine, other = pair(cell, dtype=dtype, extras={"backend": "reference"}, **options)
    this = case(cell, dtype=dtype)
    exact = truth(cell, mine, this, layers=2, bidirectional=True)
    assert_no_worse(mine(this.x, this.state)[0], other(this.x, this.state)[0], exact.out)
    monkeypatch.setattr(reference, STEP_NAMES[cell], STEPS[cell][0](change))
    with pytest.raises(AssertionError, match="budget"):
        assert_no_worse(mine(this.x, this.state)[0], other(this.x, this.state)[0], exact.out)


# Wrong scans: what happens around the step


def scan_mutant(change: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def scan(step, x, state, restart, lengths, resets, reverse):
        here = torch.arange(x.shape[0])[:, None] < lengths
        if (change == "pad step executed" and not reverse) or (change == "reverse starts in the padding" and reverse):
            out, last = real(step, x, state, restart, None, resets, reverse)
            return out.masked_fill(~here[:, :, None], 0), last
        if change == "padding not zeroed":
            out, last = real(step, x, state, restart, lengths, resets, reverse)
            return torch.where(here[:, :, None], out, last[0]), last
        if change == "empty row loses its state":
            out, last = real(step, x, state, restart, lengths, resets, reverse)
            return out, tuple(part.masked_fill((lengths == 0)[:, None], 0) for part in last)
        if change == "reset one step late":
            resets = torch.cat([torch.zeros_like(resets[:, :1]), resets[:, :-1]], dim=1)
        if change == "reset ignored":
            resets = None
        if change == "reverse cut as forward" and reverse:
            resets = torch.cat([torch.zeros_like(resets[:, :1]), resets[:, :-1]], dim=1)
        if change == "reset keeps hx at step 0":
            resets = resets.clone()
            resets[:, 0] = False
        return real(step, x, state, restart, lengths, resets, reverse)

    return scan


SCANS = (
    "pad step executed", "reverse starts in the padding", "padding not zeroed", "empty row loses its state",
    "reset one step late", "reset ignored", "reverse cut as forward", "reset keeps hx at step 0",
)  # fmt: skip


@DTYPES
@pytest.mark.parametrize("change", SCANS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_wrong_scan_is_refused(monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype) -> None:
    layer, this, real = layer_of(cell, "reference", dtype), case(cell, dtype=dtype), reference._scan
    monkeypatch.setattr(reference, "_scan", scan_mutant("nothing", real))
    assert_layer_is_right(cell, layer, this, lengths=LENGTHS, resets=RESETS)
    monkeypatch.setattr(reference, "_scan", scan_mutant(change, real))
    with pytest.raises(AssertionError, match="budget"):
        assert_layer_is_right(cell, layer, this, lengths=LENGTHS, resets=RESETS)


@DTYPES
@pytest.mark.parametrize("change", SCANS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_wrong_torch_engine_is_refused(
    monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype
) -> None:
    """The same faults around torch's own kernel."""
    layer, this, real = layer_of(cell, "torch", dtype), case(cell, dtype=dtype), torch_kernels._run

    def mutant(name: str) -> Callable[..., Any]:
        def run(kernel, x, state, restart, weights, lengths, resets, reverse):
            def inner(kernel, x, state, restart, lengths, resets, reverse):
                out, *last = real(kernel, x, state, restart, weights, lengths, resets, reverse)
                return out, tuple(last)

            out, last = scan_mutant(name, inner)(kernel, x, state, restart, lengths, resets, reverse)
            return (out, *last)

        return run

    monkeypatch.setattr(torch_kernels, "_run", mutant("nothing"))
    assert_layer_is_right(cell, layer, this, lengths=LENGTHS, resets=RESETS)
    monkeypatch.setattr(torch_kernels, "_run", mutant(change))
    with pytest.raises(AssertionError, match="budget"):
        assert_layer_is_right(cell, layer, this, lengths=LENGTHS, resets=RESETS)


# Wrong units from turned weights: any engine


def swap(first: int, second: int) -> Callable[[str, Tensor], Tensor]:
    def turn(_name: str, value: Tensor) -> Tensor:
        blocks = list(value.split(3))
        blocks[first], blocks[second] = blocks[second], blocks[first]
        return torch.cat(blocks)

    return turn


def block(name: str, number: int, change: Callable[[Tensor], Tensor]) -> Callable[[str, Tensor], Tensor]:
    def turn(key: str, value: Tensor) -> Tensor:
        if not key.startswith(name):
            return value
        blocks = list(value.split(3))
        blocks[number] = change(blocks[number])
        return torch.cat(blocks)

    return turn


TURNED: dict[str, tuple[str, Callable[[str, Tensor], Tensor]]] = {
    "r and z swapped": ("gru", swap(0, 1)),
    "z flipped": ("gru", block("", 1, torch.neg)),
    "b_hn dropped": ("gru", block("bias_hh", 2, torch.zeros_like)),
    "i and f swapped": ("lstm", swap(0, 1)),
    "o and g swapped": ("lstm", swap(2, 3)),
    "one bias dropped, lstm": ("lstm", lambda key, v: torch.zeros_like(v) if key.startswith("bias_hh") else v),
    "one bias dropped, tanh": ("tanh", lambda key, v: torch.zeros_like(v) if key.startswith("bias_ih") else v),
    "one bias of the top layer backwards dropped": (
        "relu", lambda key, v: torch.zeros_like(v) if key == "bias_ih_l1_reverse" else v
    ),
}  # fmt: skip


class Turned(nn.Module):
    """Computes with turned weights, and shows the comparison the weights that it should have used."""

    def __init__(self, layer: nn.Module, turn: Callable[[str, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.turn = layer, turn

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)

    def named_parameters(self, *args: Any, **options: Any) -> Any:
        return self.layer.named_parameters(*args, **options)

    def forward(self, *args: Any, **options: Any) -> Any:
        values = {name: self.turn(name, value) for name, value in self.layer.named_parameters()}
        return torch.func.functional_call(self.layer, values, args, options)


@DTYPES
@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
@pytest.mark.parametrize("change", TURNED)
def test_turned_weights_are_refused_on_every_engine(change: str, backend: str, dtype: torch.dtype) -> None:
    cell, turn = TURNED[change]
    layer, this = layer_of(cell, backend, dtype), case(cell, dtype=dtype)
    assert_layer_is_right(cell, Turned(layer, lambda _, value: value), this, lengths=LENGTHS, resets=RESETS)
    with pytest.raises(AssertionError, match="budget"):
        assert_layer_is_right(cell, Turned(layer, turn), this, lengths=LENGTHS, resets=RESETS)


def test_folding_both_biases_of_a_gru_is_refused() -> None:
    """B_hn belongs inside r."""

    def fold(key: str, value: Tensor) -> Tensor:
        other = dict(layer.named_parameters())
        if key.startswith("bias_ih"):
            return value + other[key.replace("ih", "hh")]
        return torch.zeros_like(value) if key.startswith("bias_hh") else value

    layer = layer_of("gru", "auto", torch.float64)
    with pytest.raises(AssertionError, match="budget"):
        assert_layer_is_right("gru", Turned(layer, fold), case("gru"), lengths=LENGTHS)
    layer = layer_of("gru", "auto", torch.float64, reset_after=False)
    assert_layer_is_right("gru", Turned(layer, fold), case("gru"), lengths=LENGTHS)
    layer = layer_of("lstm", "auto", torch.float64)
    assert_layer_is_right("lstm", Turned(layer, fold), case("lstm"), lengths=LENGTHS)


def test_a_nan_is_refused_by_every_comparison() -> None:
    """A comparison that a NaN passes through is no comparison."""
    from oracles.compare import assert_bitwise, assert_digits, assert_near

    wrong, right = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])
    for compare in (assert_near, assert_digits, assert_bitwise, lambda got, want: assert_no_worse(got, want, want)):
        with pytest.raises(AssertionError):
            compare(wrong, right)
        with pytest.raises(AssertionError):
            compare(right[:1], right)
        compare(right, right)
