"""`resets`: a row starts again inside a batch, in one call, in both directions.

True at (b, t) cuts row b between t - 1 and t. Nothing crosses: no value, no gradient. A reset at step 0 keeps `hx` out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import unrolled
from oracles.cases import CELLS, LENGTHS, case, pair, randomise, split_state, truth
from oracles.compare import assert_bitwise, assert_near
from oracles.segments import by_pieces

PATTERNS = {
    "one": [[0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]],
    "many": [[0, 1, 1, 1, 0], [0, 1, 0, 1, 1], [0, 0, 1, 1, 0]],
    "at the start": [[1, 0, 0, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]],
    "past the end": [[0, 0, 0, 1, 1], [1, 0, 0, 0, 1], [1, 1, 0, 0, 0]],
    "all": [[1] * 5] * 3,
    "none": [[0] * 5] * 3,
}  # fmt: skip


def resets_of(name: str) -> Tensor:
    return torch.tensor(PATTERNS[name], dtype=torch.bool)


@pytest.mark.parametrize("lengths", [None, LENGTHS, [5, 1, 4]], ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("cell", CELLS)
def test_values_and_gradients_are_those_of_the_pieces(cell: str, pattern: str, lengths: list[int] | None) -> None:
    mine, other = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    this, resets = case(cell), resets_of(pattern)
    exact = truth(cell, mine, this, lengths, layers=2, bidirectional=True, resets=resets)
    found = []
    for layer in (mine, other):
        inputs = [t.detach().clone().requires_grad_() for t in (this.x, this.h0, this.c0) if t is not None]
        if layer is mine:
            state = inputs[1] if cell != "lstm" else (inputs[1], inputs[2])
            out, last = mine(inputs[0], state, lengths=lengths, resets=resets)
            h, c = split_state(last)
        else:
            out, h, c = by_pieces(other, *inputs, lengths=lengths or [5] * 3, resets=resets)
        parts = [p for p in (out, h, c) if p is not None]
        loss = sum((p * torch.linspace(-1, 2, p.numel(), dtype=p.dtype).reshape(p.shape)).sum() for p in parts)
        targets = [*inputs, *layer.parameters()]
        gradient = torch.autograd.grad(loss, targets, allow_unused=True)
        found.append((parts, [torch.zeros_like(t) if g is None else g for t, g in zip(targets, gradient, strict=True)]))
    (parts, gradients), (_, wanted) = found
    for got, want in zip(parts, (exact.out, exact.h_n, exact.c_n), strict=False):
        assert_near(got, want)
    for got, want in zip(gradients, wanted, strict=True):
        assert_near(got, want)


@pytest.mark.parametrize("cell", CELLS)
def test_a_reset_row_is_two_runs(cell: str) -> None:
    """Row 0 = run(x[:2]), then run(x[2:]) from zeros; row 1 is not touched."""
    mine, _ = pair(cell, num_layers=2, batch_first=True)
    x = case(cell, batch=2, steps=4).x
    resets = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)
    out, state = mine(x, resets=resets)
    head, _ = mine(x[:1, :2])
    tail, tail_state = mine(x[:1, 2:])
    assert_near(out[:1], torch.cat([head, tail], dim=1))
    assert_near(out[1:], mine(x[1:])[0])
    assert_near(split_state(state)[0][:, :1], split_state(tail_state)[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_no_gradient_crosses(cell: str, bidirectional: bool) -> None:
    mine, _ = pair(cell, num_layers=2, bidirectional=bidirectional, batch_first=True)
    this = case(cell, bidirectional=bidirectional)
    x = this.x.requires_grad_()
    resets = torch.zeros(3, 5, dtype=torch.bool)
    resets[:, 2] = True
    out, _ = mine(x, this.state, resets=resets)
    (late,) = torch.autograd.grad(out[:, 2:].sum(), x, retain_graph=True)
    (early,) = torch.autograd.grad(out[:, :2].sum(), x)
    assert_bitwise(late[:, :2], torch.zeros_like(late[:, :2]))
    assert_bitwise(early[:, 2:], torch.zeros_like(early[:, 2:]))
    assert late[:, 2:].abs().min() > 0 or cell == "relu"


@pytest.mark.parametrize("cell", CELLS)
def test_hx_is_an_old_documents_state_after_a_reset(cell: str) -> None:
    mine, _ = pair(cell, num_layers=2, batch_first=True)
    this = case(cell, bidirectional=False)
    h0 = this.h0.requires_grad_()
    state = h0 if this.c0 is None else (h0, this.c0)
    resets = torch.zeros(3, 5, dtype=torch.bool)
    resets[0, 0] = True
    out, last = mine(this.x, state, resets=resets)
    assert_near(out[:1], mine(this.x[:1])[0])
    assert_near(out[1:].detach(), mine(this.x, state)[0][1:])
    (gradient,) = torch.autograd.grad(out.sum() + split_state(last)[0].sum(), h0)
    assert_bitwise(gradient[:, 0], torch.zeros_like(gradient[:, 0]))


def test_a_nan_in_the_old_state_does_not_cross() -> None:
    """A document that ended badly does not spoil the next one, in values or gradients."""
    for cell in CELLS:
        mine, _ = pair(cell, batch_first=True)
        x = case(cell).x
        x[0, :2] = float("nan")
        x.requires_grad_()
        resets = torch.zeros(3, 5, dtype=torch.bool)
        resets[0, 2] = True
        out, _ = mine(x, resets=resets)
        assert torch.isfinite(out[0, 2:]).all(), cell
        (gradient,) = torch.autograd.grad(out[0, 2:].sum(), x)
        assert torch.isfinite(gradient[:, 2:]).all(), cell


@pytest.mark.parametrize("batch_first", [False, True])
def test_resets_are_batch_first_whatever_batch_first_says(batch_first: bool) -> None:
    first, _ = pair("gru", batch_first=True)
    mine, _ = pair("gru", batch_first=batch_first)
    x, resets = case("gru").x, resets_of("one")
    got = mine(x if batch_first else x.transpose(0, 1), resets=resets)[0]
    assert_near(got if batch_first else got.transpose(0, 1), first(x, resets=resets)[0])


@pytest.mark.parametrize("kind", ["list", "numpy", "strided", "0 and 1"])
def test_kinds_of_resets(kind: str) -> None:
    mine, _ = pair("gru", batch_first=True, bidirectional=True)
    x, resets = case("gru").x, resets_of("many")
    given: Any = {
        "list": resets.tolist(),
        "numpy": resets.numpy(),
        "strided": resets.T.contiguous().T,
        "0 and 1": resets.int(),
    }[kind]
    assert_bitwise(mine(x, resets=given)[0], mine(x, resets=resets)[0])


@pytest.mark.parametrize("shape", [(5, 3), (3,), (3, 4), (3, 5, 1)])
def test_a_wrong_shape_names_its_axes(shape: tuple[int, ...]) -> None:
    mine, _ = pair("gru", batch_first=False)
    with pytest.raises(ValueError, match=r"resets: expected \(3, 5\) \(batch, time\)"):
        mine(case("gru").x.transpose(0, 1), resets=torch.zeros(shape, dtype=torch.bool))


def test_packed_input_with_resets() -> None:
    """Packed or padded, sorted or not, resets belong to rows in the caller's order."""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    mine, _ = pair("lstm", num_layers=2, bidirectional=True, batch_first=True)
    this, lengths = case("lstm"), [2, 5, 3]
    resets = resets_of("many")
    packed = pack_padded_sequence(this.x, lengths, batch_first=True, enforce_sorted=False)
    out, (h, c) = mine(packed, this.state, resets=resets)
    want, (want_h, want_c) = mine(this.x, this.state, lengths=lengths, resets=resets)
    assert_near(pad_packed_sequence(out, batch_first=True)[0], want)
    assert_near(h, want_h)
    assert_near(c, want_c)


def test_unbatched_input_with_resets() -> None:
    mine, _ = pair("gru", bidirectional=True)
    x, resets = case("gru").x[0], resets_of("one")[:1]
    assert_near(mine(x, resets=resets)[0], mine(x[:, None], resets=resets)[0][:, 0])


def test_one_call_and_no_python_loop_over_rows() -> None:
    """Resets cost no step by step loop on the engine that torch brings: the kernel is entered once a direction."""
    from unittest import mock

    layer = randomise(unrolled.GRU(4, 3, batch_first=True, backend="torch"), 1)
    x = case("gru", dtype=torch.float32).x
    with mock.patch("torch.gru", wraps=torch.gru) as kernel:
        layer(x, lengths=[3, 5, 0], resets=resets_of("many"))
    assert kernel.call_count == 1
