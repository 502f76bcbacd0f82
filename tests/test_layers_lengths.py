"""`lengths`: padding changes nothing, rows come back in their own order, zero-length rows keep their state.

Laws before numbers: padded is alone, any order of rows, reversed twice is the same, stacked is layer after layer. The
scalar numbers were worked out by an independent float64 program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import unrolled
from oracles.cases import BATCH, CELLS, LENGTHS, STEPS, case, ours, pair, randomise, split_state, truth
from oracles.compare import assert_bitwise, assert_digits, assert_near
from oracles.segments import by_pieces

NAN = float("nan")


def scalar_rnn() -> torch.nn.Module:
    layer = unrolled.RNN(1, 1, bidirectional=True, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(
                1.0 if "weight_ih" in name else 0.5 if "weight_hh" in name else 0.1 if "bias_ih" in name else 0.0
            )
    return layer


ROW_1 = [[0.80049902, 0.92083516], [0.98662093, 0.98898311], [0.99848786, 0.99594936]]
ROW_2 = [[0.80049902, 0.91941413], [0.98662093, 0.97045194], [0.0, 0.0]]


@pytest.mark.parametrize("pad", [NAN, 0.0, 999.0, float("inf")])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_padded_row_is_as_the_row_alone(pad: float, swapped: bool) -> None:
    """Also in the backward direction, whatever stands in the padding."""
    rows = torch.tensor([[1.0, 2, 3], [1, 2, pad]], dtype=torch.float64)[:, :, None]
    lengths, want = [3, 2], torch.tensor([ROW_1, ROW_2], dtype=torch.float64)
    if swapped:
        rows, lengths, want = rows.flip(0), lengths[::-1], want.flip(0)
    x = rows.clone().requires_grad_()
    layer = scalar_rnn()
    out, h_n = layer(x, lengths=lengths)
    assert_digits(out, want, digits=8)
    short = 0 if swapped else 1
    assert_digits(h_n[:, short, 0], [0.98662093, 0.91941413], digits=8)
    assert_digits(h_n[:, 1 - short, 0], [0.99848786, 0.92083516], digits=8)
    sum(out[b, :n].sum() for b, n in enumerate(lengths)).backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad[short, 2, 0] == 0
    for parameter in layer.parameters():
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [LENGTHS, [3, 0, 1], [1, 2, 5], [0, 0, 0], [5, 5, 5]], ids=str)
def test_forward_and_backward_are_those_of_each_row_alone(cell: str, lengths: list[int], batch_first: bool) -> None:
    """Outputs, final states and every gradient, for two sets of weights, with NaN in the padding."""
    mine, other = pair(cell, num_layers=2, bidirectional=True, batch_first=batch_first)
    this = case(cell)
    for seed in (1, 2):
        other.load_state_dict(randomise(mine, seed).state_dict())
        exact = truth(cell, mine, this, lengths, layers=2, bidirectional=True)
        filled = this.x.clone()
        for row, n in enumerate(lengths):
            filled[row, n:] = NAN
        found = []
        for layer, x in ((mine, filled), (other, this.x)):
            inputs = [t.detach().clone().requires_grad_() for t in (x, this.h0, this.c0) if t is not None]
            if layer is mine:
                state = inputs[1] if cell != "lstm" else (inputs[1], inputs[2])
                out, last = mine(inputs[0] if batch_first else inputs[0].transpose(0, 1), state, lengths=lengths)
                out = out if batch_first else out.transpose(0, 1)
                h, c = split_state(last)
            else:
                out, h, c = by_pieces(other, *inputs, lengths=lengths)
            parts = [p for p in (out, h, c) if p is not None]
            loss = sum((p * torch.linspace(-1, 2, p.numel(), dtype=p.dtype).reshape(p.shape)).sum() for p in parts)
            targets = [*inputs, *layer.parameters()]
            gradient = torch.autograd.grad(loss, targets, allow_unused=True)
            found.append(
                (parts, [torch.zeros_like(t) if g is None else g for t, g in zip(targets, gradient, strict=True)])
            )
        (parts, gradients), (_, wanted) = found
        for got, want in zip(parts, (exact.out, exact.h_n, exact.c_n), strict=False):
            assert_near(got, want)
        for got, want in zip(gradients, wanted, strict=True):
            assert_near(got, want)
        assert parts[0].shape[1] == STEPS, "the output keeps T"
        for row, n in enumerate(lengths):
            assert_bitwise(parts[0][row, n:], torch.zeros_like(parts[0][row, n:]))
            assert_bitwise(gradients[0][row, n:], torch.zeros_like(gradients[0][row, n:]))
            if n == 0:
                assert_bitwise(parts[1][:, row], this.h0[:, row])


def test_a_projected_layer_with_lengths() -> None:
    mine, _ = pair("lstm", num_layers=2, bidirectional=True, batch_first=True, proj_size=2)
    this = case("lstm", proj_size=2)
    exact = truth("lstm", mine, this, LENGTHS, layers=2, bidirectional=True)
    out, (h, c) = mine(this.x, this.state, lengths=LENGTHS)
    for got, want in ((out, exact.out), (h, exact.h_n), (c, exact.c_n)):
        assert_near(got, want)


@pytest.mark.parametrize("cell", CELLS)
def test_how_much_padding_does_not_matter(cell: str) -> None:
    """The same rows padded to 5 and to 50 steps are equal."""
    mine, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    this = case(cell)
    long = torch.cat([this.x, torch.full((BATCH, 45, 4), 3.0, dtype=torch.float64)], dim=1)
    (short_out, short_state), (long_out, long_state) = (
        mine(this.x, this.state, lengths=LENGTHS), mine(long, this.state, lengths=LENGTHS),
    )  # fmt: skip
    assert_near(long_out[:, :STEPS], short_out)
    assert_bitwise(long_out[:, STEPS:], torch.zeros_like(long_out[:, STEPS:]))
    for a, b in zip(split_state(long_state), split_state(short_state), strict=True):
        if b is not None:
            assert_near(a, b)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0]])
def test_any_order_of_rows(cell: str, order: list[int]) -> None:
    """Results belong to rows, not to places."""
    mine, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    this = case(cell)
    state = this.h0[:, order] if cell != "lstm" else (this.h0[:, order], this.c0[:, order])
    out, last = mine(this.x, this.state, lengths=LENGTHS)
    moved, moved_last = mine(this.x[order], state, lengths=[LENGTHS[i] for i in order])
    assert_near(moved, out[order])
    assert_near(split_state(moved_last)[0], split_state(last)[0][:, order])


def test_identical_rows_are_identical() -> None:
    """No row starts from another one's state."""
    layer = randomise(unrolled.GRU(5, 10, 2, bidirectional=True, batch_first=True), 1)
    x = torch.randn(1, 7, 5).expand(4, 7, 5)
    out, h = layer(x, lengths=[4, 4, 4, 4])
    for row in range(1, 4):
        assert_bitwise(out[row], out[0])
        assert_bitwise(h[:, row], h[:, 0])


@pytest.mark.parametrize("cell", CELLS)
def test_a_row_does_not_depend_on_its_mates(cell: str) -> None:
    """Alone or beside a longer row."""
    mine, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    row = case(cell).x[:1]
    mate = case(cell, seed=5, steps=40, batch=1).x
    both = torch.cat([torch.nn.functional.pad(row, (0, 0, 0, 35)), mate])
    assert_near(mine(both, lengths=[5, 40])[0][:1, :5], mine(row)[0])
    assert_near(mine(both, lengths=[5, 0])[0][:1, :5], mine(row)[0])


INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
KINDS: dict[str, Any] = {
    "list": [3, 5, 0],
    "tuple": (3, 5, 0),
    "numpy int64": np.array([3, 5, 0]),
    "numpy int8": np.array([3, 5, 0], dtype=np.int8),
    "numpy uint16": np.array([3, 5, 0], dtype=np.uint16),
    "list of numpy": [np.int32(3), np.int64(5), np.uint8(0)],
    **{str(kind): torch.tensor([3, 5, 0], dtype=kind) for kind in INTEGERS},
    "strided": torch.tensor([3, 9, 5, 9, 0, 9])[::2],
    "turned around": np.array([0, 5, 3])[::-1],
    "read-only": np.broadcast_to(np.array([3, 5, 0]), (3,)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_integer(kind: str) -> None:
    mine, _ = pair("gru", batch_first=True, bidirectional=True)
    x = case("gru").x
    assert_bitwise(mine(x, lengths=KINDS[kind])[0], mine(x, lengths=[3, 5, 0])[0])


WRONG: dict[str, Any] = {
    "too long": ([3, 6, 0], r"(?s)lengths.*6"),
    "negative": ([3, -1, 0], r"(?s)lengths.*-1"),
    "too few": ([3, 5], r"(?s)lengths.*3"),
    "too many axes": ([[3, 5, 0]], r"lengths"),
    "a fraction": ([3.0, 5.0, 0.5], r"lengths"),
    "booleans": (torch.tensor([True, True, False]), r"lengths"),
    "a number": (3, r"lengths"),
    "words": ("350", r"lengths"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_lengths(what: str) -> None:
    value, words = WRONG[what]
    with pytest.raises((ValueError, TypeError), match=words):
        unrolled.GRU(4, 3, batch_first=True, dtype=torch.float64)(case("gru").x, lengths=value)


def test_the_row_is_named() -> None:
    with pytest.raises(ValueError, match=r"lengths\[1\].*found 6"):
        unrolled.GRU(4, 3, batch_first=True, dtype=torch.float64)(case("gru").x, lengths=[3, 6, 0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize(("batch", "steps"), [(2, 0), (0, 5), (0, 0), (3, 1)])
def test_no_steps_and_no_rows(cell: str, batch: int, steps: int, backward: bool) -> None:
    """T = 0 returns the given state; B = 0 has a shape; both can be differentiated."""
    mine, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    this = case(cell, batch=batch, steps=steps)
    x, h0 = this.x.requires_grad_(backward), this.h0.requires_grad_(backward)
    state = h0 if this.c0 is None else (h0, this.c0)
    for lengths in (None, [min(steps, 1)] * batch):
        out, last = mine(x, state, lengths=lengths)
        h, c = split_state(last)
        assert out.shape == (batch, steps, 6)
        assert h.shape == (4, batch, 3)
        if steps == 0:
            assert_bitwise(h, h0)
            if c is not None:
                assert_bitwise(c, this.c0)
        if backward:
            gradient = torch.autograd.grad(out.sum() + h.sum(), [x, h0], allow_unused=True)
            if steps == 0:
                assert_bitwise(gradient[1], torch.ones_like(h0))


def test_all_rows_empty() -> None:
    mine, _ = pair("lstm", num_layers=2, bidirectional=True, batch_first=True)
    this = case("lstm")
    out, (h, c) = mine(torch.full_like(this.x, NAN), this.state, lengths=[0, 0, 0])
    assert_bitwise(out, torch.zeros_like(out))
    assert_bitwise(h, this.h0)
    assert_bitwise(c, this.c0)


def test_an_empty_row_passes_the_gradient_of_its_state() -> None:
    """H0 = 0.7; the row with length 0 gives it back, and its gradient is that of h_n."""
    layer = randomise(unrolled.LSTM(4, 3, 2, bidirectional=True, batch_first=True, dtype=torch.float64), 1)
    x = case("lstm").x.requires_grad_()
    h0, c0 = (torch.full((4, 3, 3), 0.7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    out, (h, c) = layer(x, (h0, c0), lengths=[3, 0, 1])
    (out.sum() + 2 * h.sum() + 3 * c.sum()).backward()
    assert_bitwise(h[:, 1], h0[:, 1])
    assert_bitwise(x.grad[1], torch.zeros_like(x.grad[1]))
    assert_bitwise(h0.grad[:, 1], torch.full((4, 3), 2.0, dtype=torch.float64))
    assert_bitwise(c0.grad[:, 1], torch.full((4, 3), 3.0, dtype=torch.float64))


def test_unbatched_input_takes_one_length() -> None:
    mine, _ = pair("gru", bidirectional=True)
    x = case("gru").x[0]
    out, h = mine(x, lengths=[3])
    assert out.shape == (5, 6)
    assert_near(out[:3], mine(x[:3])[0])
    assert_near(h, mine(x[:3])[1])


def test_reversed_twice_is_the_same() -> None:
    """The backward direction of x is the forward direction of each row turned around, turned around again."""
    mine, _ = pair("lstm", bidirectional=True, batch_first=True)
    forward = unrolled.LSTM(4, 3, batch_first=True, dtype=torch.float64)
    forward.load_state_dict(
        {k.removesuffix("_reverse"): v for k, v in mine.state_dict().items() if k.endswith("_reverse")}
    )
    x = case("lstm").x

    def turn(values: Tensor) -> Tensor:
        return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(values, LENGTHS, strict=True)])

    assert_bitwise(turn(turn(x)), x)
    assert_near(turn(forward(turn(x), lengths=LENGTHS)[0]), mine(x, lengths=LENGTHS)[0][..., 3:])


@pytest.mark.parametrize("cell", CELLS)
def test_a_stack_is_layer_after_layer(cell: str) -> None:
    """I = 5, H = 10, two layers, both ways."""
    stack = randomise(ours(cell, 5, 10, 2, bidirectional=True, batch_first=True, dtype=torch.float64), 1, scale=0.4)
    parts = []
    for layer, width in enumerate((5, 20)):
        part = ours(cell, width, 10, bidirectional=True, batch_first=True, dtype=torch.float64)
        part.load_state_dict(
            {k.replace(f"_l{layer}", "_l0"): v for k, v in stack.state_dict().items() if f"_l{layer}" in k}
        )
        parts.append(part)
    x = torch.randn(3, 6, 5, dtype=torch.float64)
    lower, lower_state = parts[0](x, lengths=[4, 6, 0])
    upper, upper_state = parts[1](lower, lengths=[4, 6, 0])
    out, state = stack(x, lengths=[4, 6, 0])
    assert_near(out, upper)
    assert_near(split_state(state)[0], torch.cat([split_state(lower_state)[0], split_state(upper_state)[0]]))


def test_lengths_from_mask() -> None:
    """A prefix mask becomes lengths; left padding and holes name their row."""
    mask = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    for kind in (mask, mask.int(), mask.double(), mask.numpy()):
        assert unrolled.lengths_from_mask(kind).tolist() == [3, 0, 4]
    assert unrolled.lengths_from_mask(mask).dtype == torch.int64
    assert unrolled.lengths_from_mask(torch.zeros(2, 0, dtype=torch.bool)).tolist() == [0, 0]
    for row in ([0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 1, 1]):
        with pytest.raises(ValueError, match=r"row 1\b"):
            unrolled.lengths_from_mask(torch.tensor([[1, 1, 1, 1], row], dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        unrolled.lengths_from_mask(torch.tensor([1, 1, 0]))


def test_a_helper_refuses_lengths_of_another_batch() -> None:
    for helper in (unrolled.last_valid, unrolled.hold_last):
        with pytest.raises(ValueError, match="lengths"):
            helper(torch.zeros(5, 3, 2), [1, 2])
        with pytest.raises(ValueError, match="lengths"):
            helper(torch.zeros(5, 3, 2), [1, 2, 6])


def test_last_valid_is_the_final_state() -> None:
    """Lengths [1, 3] in one direction."""
    layer = randomise(unrolled.GRU(4, 3, batch_first=True, dtype=torch.float64), 1)
    out, h = layer(case("gru", batch=2, steps=3).x, lengths=[1, 3])
    assert_bitwise(unrolled.last_valid(out, [1, 3], batch_first=True), h[0])
    assert_bitwise(unrolled.last_valid(out.transpose(0, 1), [1, 3]), h[0])
    assert_bitwise(unrolled.last_valid(out, torch.tensor([1, 3], dtype=torch.int32), batch_first=True), h[0])
    empty = unrolled.last_valid(out, [0, 3], batch_first=True)
    assert_bitwise(empty[0], torch.zeros_like(empty[0]))


def test_hold_last_repeats_the_last_valid_output() -> None:
    """An option, not the default; a row without steps stays zero."""
    out = torch.arange(1.0, 13).reshape(2, 3, 2)
    held = unrolled.hold_last(out, [1, 3], batch_first=True)
    assert_bitwise(held[0], torch.tensor([[1.0, 2], [1, 2], [1, 2]]))
    assert_bitwise(held[1], out[1])
    empty = unrolled.hold_last(torch.zeros(2, 3, 2), [0, 3], batch_first=True)
    assert_bitwise(empty, torch.zeros(2, 3, 2))


def test_the_order_of_final_states() -> None:
    """(Layer, direction), and not the last output."""
    layer = scalar_rnn()
    x = torch.tensor([[1.0], [2], [3]], dtype=torch.float64)[None]
    out, h_n = layer(x)
    assert_digits(h_n[:, 0, 0], [0.99848786, 0.92083516], digits=8)
    assert_digits(out[0, -1], [0.99848786, 0.99594936], digits=8)
    deep, other = pair("gru", num_layers=2, bidirectional=True, batch_first=True)
    this = case("gru")
    out, h_n = deep(this.x, this.h0)
    assert_near(h_n, other(this.x, this.h0)[1])
    assert_bitwise(out[:, -1, :3], h_n[2])  # layer 1, forwards
    assert_bitwise(out[:, 0, 3:], h_n[3])  # layer 1, backwards
    named = unrolled.layers.state_by_layer(h_n, bidirectional=True)
    assert named.shape == (2, 2, 3, 3)
    assert_bitwise(named[1, 0], h_n[2])
    assert_bitwise(named[0, 1], h_n[1])


def test_the_final_state_is_what_a_classifier_wants() -> None:
    """Both directions after their own last step, also under padding, also of an LSTM's pair."""
    out, h_n = scalar_rnn()(torch.tensor([[1.0], [2], [3]], dtype=torch.float64)[None])
    assert_digits(unrolled.final_state(h_n, bidirectional=True), [[0.99848786, 0.92083516]], digits=8)
    layer, _ = pair("lstm", num_layers=2, bidirectional=True, batch_first=True)
    this = case("lstm")
    out, state = layer(this.x, this.state, lengths=LENGTHS)
    final = unrolled.final_state(state, bidirectional=True)
    assert final.shape == (3, 6)
    assert_bitwise(final, torch.cat([state[0][2], state[0][3]], dim=1))
    assert_bitwise(final[0], torch.cat([out[0, 2, :3], out[0, 0, 3:]]))
    one, _ = pair("gru", num_layers=2, batch_first=True)
    assert_bitwise(unrolled.final_state(one(this.x)[1]), one(this.x)[0][:, -1])
