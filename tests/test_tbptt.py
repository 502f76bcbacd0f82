"""Truncated BPTT, tested by gradients: what crosses a cut and what does not."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import unrolled
from unrolled.errors import RunError, ShapeError
from unrolled.training.losses import cross_entropy
from unrolled.training.tbptt import Block, TruncatedBPTT, detach, select_rows

FULL = [0.42565407, 0.19199238, 0.06854281, 0.02408813]
TRUNCATED = [0.38388472, 0.15779537, 0.06854281, 0.02408813]


def small_lstm() -> torch.nn.Module:
    """The scalar LSTM of a worked example, one bias."""
    layer = unrolled.LSTM(1, 1, single_bias=True, batch_first=True, dtype=torch.float64)
    values = {"weight_ih_l0": (0.5, 0.6, 0.7, 0.8), "weight_hh_l0": (0.1, 0.2, 0.3, 0.4)}
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            rows = values.get(name, (0.01, 0.02, 0.03, 0.04))
            parameter.copy_(torch.tensor(rows).reshape(parameter.shape))
    return layer


def make(kind: type, **options) -> torch.nn.Module:
    torch.manual_seed(3)
    layer = kind(4, 3, num_layers=2, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.7)  # biases too, and not small
    return layer


def sequence(batch: int = 3, steps: int = 7) -> Tensor:
    return torch.randn(batch, steps, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


# --- gradients


@pytest.mark.parametrize(("chunk", "wanted"), [(2, TRUNCATED), (4, FULL), (9, FULL)])
def test_worked_gradients_tell_where_the_cut_is(chunk, wanted):
    layer = small_lstm()
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).reshape(1, 4, 1).requires_grad_()
    total = 0.0
    for piece in TruncatedBPTT(chunk).chunks(x):
        out, state = layer(piece.inputs, piece.state)
        loss = out.sum()
        loss.backward()
        total += loss.item()
        piece.carry(state)
    assert total == pytest.approx(2.72759592, abs=1e-8)
    torch.testing.assert_close(x.grad.flatten(), torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", [unrolled.RNN, unrolled.LSTM, unrolled.GRU])
def test_nothing_flows_across_a_cut_and_something_within(kind):
    layer, x = make(kind), sequence().requires_grad_()
    grads = []
    for piece in TruncatedBPTT(3).chunks(x):
        out, state = layer(piece.inputs, piece.state)
        grads += torch.autograd.grad(out.sum(), x, retain_graph=True)
        piece.carry(state)
    for (start, end), grad in zip([(0, 3), (3, 6), (6, 7)], grads, strict=True):
        inside = torch.zeros(7, dtype=torch.bool)
        inside[start:end] = True
        assert (grad[:, inside] != 0).all()
        assert grad[:, ~inside].abs().max() == 0


def gradients(layer: torch.nn.Module) -> list[Tensor]:
    found = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    return found


@pytest.mark.parametrize(("k1", "k2"), [(1, 3), (2, 4), (3, 3), (2, 8)])
@pytest.mark.parametrize("kind", [unrolled.LSTM, unrolled.GRU])
def test_window_equals_a_naive_recompute(kind, k1, k2):
    """TBPTT(k1, k2), the loss of each k1 new steps sent back k2 steps."""
    layer, x = make(kind), sequence()
    loss_weights = torch.arange(1.0, 8.0, dtype=torch.float64)

    states = [None]
    with torch.no_grad():
        for t in range(7):
            states.append(layer(x[:, t : t + 1], states[-1])[1])
    for start in range(0, 7, k1):
        begin, end = max(0, start + k1 - k2), min(start + k1, 7)
        out, _ = layer(x[:, begin:end], states[begin])
        (out.sum((0, 2)) * loss_weights[begin:end])[start - begin :].sum().backward()
    naive = gradients(layer)

    for piece in TruncatedBPTT(k1, window=k2).chunks(x, loss_weights.expand(3, 7)):
        out, state = layer(piece.inputs, piece.state)
        (out.sum(-1) * piece.targets)[piece.mask].sum().backward()
        piece.carry(state)
    for got, wanted in zip(gradients(layer), naive, strict=True):
        torch.testing.assert_close(got, wanted)


def test_window_goes_with_an_optimizer_step_after_every_chunk():
    layer, x = make(unrolled.GRU), sequence()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    counted = 0
    for piece in TruncatedBPTT(1, window=3).chunks(x, lengths=[7, 0, 4]):
        out, state = layer(piece.inputs, piece.state, lengths=piece.lengths)
        optimizer.zero_grad()
        out[piece.mask].sum().backward()
        optimizer.step()
        counted += piece.steps
        piece.carry(state)
    assert counted == 11


# --- values


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1, 3, 7])
@pytest.mark.parametrize("kind", [unrolled.RNN, unrolled.LSTM, unrolled.GRU])
def test_chunks_equal_the_whole_where_rows_end_in_different_chunks(kind, chunk, window):
    layer, x, lengths = make(kind), sequence(4), torch.tensor([7, 4, 0, 2])
    x[1, 4:] = float("nan")
    resets = torch.zeros(4, 7, dtype=torch.bool)
    resets[0, [0, 3, 5]] = True
    resets[3, 1] = True
    shape = (2, 4, 3)
    start = torch.full(shape, 0.7, dtype=torch.float64)
    initial = (start, start / 2) if kind is unrolled.LSTM else start
    whole, final = layer(x, initial, lengths=lengths, resets=resets)
    seen, state = torch.zeros_like(whole), None
    for piece in TruncatedBPTT(chunk, window=window * chunk).chunks(x, lengths=lengths, resets=resets, state=initial):
        out, state = layer(piece.inputs, piece.state, lengths=piece.lengths, resets=piece.resets)
        new = out[:, -min(chunk, 7 - piece.start) :]
        seen[:, piece.start : piece.start + new.shape[1]] = new
        state = piece.carry(state)
    torch.testing.assert_close(seen, whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(state, detach(final), rtol=0, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_weighted_losses_add_up_to_the_mean_over_valid_positions(chunk, window):
    layer, x = make(unrolled.GRU), sequence()
    targets = torch.randint(3, (3, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([7, 4, 0])
    with torch.no_grad():
        whole = cross_entropy(layer(x, lengths=lengths)[0], targets, lengths=lengths)
        total, steps = torch.zeros((), dtype=torch.float64), []
        for piece in TruncatedBPTT(chunk, window=chunk * window).chunks(x, targets, lengths=lengths):
            out, state = layer(piece.inputs, piece.state, lengths=piece.lengths)
            total += piece.weight * cross_entropy(out, piece.targets, mask=piece.mask)
            steps.append(piece.steps)
            piece.carry(state)
    torch.testing.assert_close(total, whole, rtol=0, atol=1e-6)
    assert sum(steps) == 11


def test_gradient_of_weighted_losses_with_one_chunk_is_that_of_the_mean():
    layer, x = make(unrolled.LSTM), sequence()
    targets = torch.randint(3, (3, 7), generator=torch.Generator().manual_seed(1))
    cross_entropy(layer(x, lengths=[7, 4, 0])[0], targets, lengths=[7, 4, 0]).backward()
    wanted = gradients(layer)
    # A window as long as the sequence truncates nothing, whatever the chunk.
    for piece in TruncatedBPTT(2, window=8).chunks(x, targets, lengths=[7, 4, 0]):
        out, state = layer(piece.inputs, piece.state, lengths=piece.lengths)
        (piece.weight * cross_entropy(out, piece.targets, mask=piece.mask)).backward()
        piece.carry(state)
    for got, want in zip(gradients(layer), wanted, strict=True):
        torch.testing.assert_close(got, want)


def test_loss_mask_leaves_positions_out_of_the_loss_only():
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[:, 2] = False
    counted = []
    for piece in TruncatedBPTT(2).chunks(sequence(), mask=mask, lengths=[7, 3, 0]):
        counted.append((piece.steps, piece.lengths.tolist(), piece.weight))
        piece.carry(None)
    assert counted == [
        (4, [2, 2, 0], 0.5),
        (1, [2, 1, 0], 1 / 8),
        (2, [2, 0, 0], 0.25),
        (1, [1, 0, 0], 1 / 8),
    ]


# --- chunks and streams


def test_chunk_counts():
    assert TruncatedBPTT(3).bounds(7) == [(0, 3), (3, 6), (6, 7)]
    sizes, indices = [], []
    for piece in TruncatedBPTT(3).chunks(sequence()):
        sizes.append(piece.inputs.shape[1])
        indices.append(piece.index)
        piece.carry(None)
    assert sizes == [3, 3, 1]
    assert indices == [0, 1, 2]
    assert list(TruncatedBPTT(3).chunks(sequence(steps=0))) == []
    # No chunk of nothing but padding is run.
    assert [p.carry(None) for p in TruncatedBPTT(2).chunks(sequence(), lengths=[1, 3, 0])] == [None, None]


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [4, 3], [2, 0, 5]])
@pytest.mark.parametrize(("chunk", "window"), [(3, 3), (2, 4), (1, 3), (10, 10)])
def test_a_stream_is_cut_as_the_whole(sizes, chunk, window):
    x, targets = sequence(), torch.arange(21).reshape(3, 7)
    resets = torch.arange(21).reshape(3, 7) % 4 == 0
    blocks = [
        Block(*parts) for parts in zip(*(tensor.split(sizes, dim=1) for tensor in (x, targets, resets)), strict=True)
    ]
    tbptt = TruncatedBPTT(chunk, window=window)
    lengths = [6, 2, 0]
    whole = tbptt.chunks(x, targets, resets=resets, lengths=lengths)
    streamed = tbptt.stream(iter(blocks), lengths=lengths)
    for a, b in zip(whole, streamed, strict=True):
        for name in ("inputs", "targets", "resets", "mask", "lengths"):
            torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=0, atol=0)
        assert (a.index, a.start, a.steps, a.total, a.weight) == (
            b.index,
            b.start,
            b.steps,
            b.total,
            b.weight,
        )
        a.carry(None)
        b.carry(None)


def test_a_stream_is_read_as_it_is_used():
    read = []

    def blocks():
        for number in range(1000):
            read.append(number)
            yield torch.zeros(2, 5, 1)

    for piece in TruncatedBPTT(10).stream(blocks()):
        piece.carry(None)
        assert len(read) == 2 * (piece.index + 1)
    with pytest.raises(RunError, match="Pass lengths= or total= to stream"):
        _ = piece.weight
    (piece,) = TruncatedBPTT(10).stream([torch.zeros(2, 5, 1)], total=20)
    assert piece.weight == 0.5


# --- the state


class Pair(NamedTuple):
    h: Tensor
    c: Tensor


def test_nested_states_are_detached_and_keep_their_form():
    leaf = torch.ones(2, 3, 4, requires_grad=True) * 2
    state = {"encoder": Pair(leaf, leaf), "rest": [(leaf, None), leaf], "none": None}
    for cut in (detach(state), select_rows(detach(state), [2, 0])):
        assert isinstance(cut["encoder"], Pair)
        assert isinstance(cut["rest"][0], tuple)
        assert cut["rest"][0][1] is None
        for tensor in (*cut["encoder"], cut["rest"][0][0], cut["rest"][1]):
            assert not tensor.requires_grad
    assert leaf.requires_grad  # what was given is left as it was
    with pytest.raises(TypeError, match="state: expected tensors"):
        detach("state")


def test_select_rows_by_number_and_by_mask():
    state = torch.arange(3.0).reshape(1, 3, 1).expand(2, 3, 2)
    assert select_rows(state, [2, 0])[0, :, 0].tolist() == [2, 0]
    assert select_rows((state, None), torch.tensor([True, False, True]))[0][0, :, 0].tolist() == [0, 2]


def test_state_of_another_batch_size_says_what_to_do():
    """The last batch is smaller."""
    layer = make(unrolled.LSTM)
    for piece in TruncatedBPTT(7).chunks(sequence(4)):
        _, state = layer(piece.inputs, piece.state)
        state = piece.carry(state)
    with pytest.raises(ShapeError, match=r"state: expected 3 rows .* found shape \[2, 4, 3\].*select_rows"):
        next(TruncatedBPTT(7).chunks(sequence(3), state=state))
    piece = next(TruncatedBPTT(7).chunks(sequence(3), state=select_rows(state, [0, 1, 3])))
    assert layer(piece.inputs, piece.state)[0].shape == (3, 7, 3)
    with pytest.raises(ShapeError, match="state: expected 3 rows"):
        piece.carry(state)


def test_a_state_that_was_not_carried_is_an_error():
    with pytest.raises(RunError, match=r"chunk 0 handed on no state: call piece.carry\(state\)"):
        list(TruncatedBPTT(3).chunks(sequence()))


def test_state_from_the_last_batch_brings_no_graph():
    """Not even when the loop keeps the model's own state instead of what `carry` returned."""
    layer, state = make(unrolled.GRU), None
    for _ in range(3):
        for piece in TruncatedBPTT(4).chunks(sequence(), state=state):
            out, state = layer(piece.inputs, piece.state)
            out.sum().backward()
            piece.carry(state)


# --- memory


def peak_saved(chunk: int, batches: int, *, window: int | None = None) -> list[int]:
    """Numbers held for backward passes, the peak within each batch of 80 steps."""
    layer, x = make(unrolled.GRU), sequence(steps=80)
    live, peak, state = [0], [0], None

    class Held:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor
            live[0] += tensor.numel()
            peak[0] = max(peak[0], live[0])
            weakref.finalize(self, drop, tensor.numel())

    def drop(count: int) -> None:
        live[0] -= count

    peaks = []
    with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
        for _ in range(batches):
            peak[0] = live[0]
            for piece in TruncatedBPTT(chunk, window=window).chunks(x, state=state):
                out, state = layer(piece.inputs, piece.state)
                out[piece.mask].sum().backward()
                state = piece.carry(state)
                del out
            peaks.append(peak[0])
    assert live[0] == 0
    return peaks


def test_memory_is_flat_over_a_hundred_batches():
    peaks = peak_saved(40, batches=100)
    assert peaks[0] > 0
    assert set(peaks) == {peaks[0]}


def test_memory_is_proportional_to_the_chunk():
    small, middle, large = (peak_saved(chunk, batches=2)[-1] for chunk in (5, 10, 20))
    assert large - middle == pytest.approx(2 * (middle - small), rel=0.05)
    assert 3 < large / small <= 4.1
    assert peak_saved(5, batches=1, window=20)[-1] == pytest.approx(large, rel=0.05)


# --- arguments


@pytest.mark.parametrize("chunk", [0, -1, 2.0, True, "3"])
def test_chunk_is_a_positive_whole_number(chunk):
    with pytest.raises(ValueError, match="chunk: expected a whole number"):
        TruncatedBPTT(chunk)


@pytest.mark.parametrize("window", [2, 4, 3.0])
def test_window_is_a_multiple_of_the_chunk(window):
    with pytest.raises(ValueError, match=r"window: expected a multiple of chunk=3.*try 3"):
        TruncatedBPTT(3, window=window)


def test_bad_tensors_are_named():
    tbptt, x = TruncatedBPTT(3), sequence()
    with pytest.raises(ShapeError, match=r"inputs: expected \(batch, time"):
        tbptt.chunks(x[0, 0])
    with pytest.raises(ShapeError, match=r"targets: expected \[3, 7\]"):
        tbptt.chunks(x, torch.zeros(3, 6))
    with pytest.raises(ShapeError, match="resets: expected boolean"):
        tbptt.chunks(x, resets=torch.zeros(3, 7))
    with pytest.raises(ShapeError, match="lengths: expected at most T = 7 steps, found 8 in row 1"):
        tbptt.chunks(x, lengths=[7, 8, 1])
    with pytest.raises(ShapeError, match="lengths: expected 0 or more, found -1 in row 2"):
        tbptt.chunks(x, lengths=[7, 7, -1])
    with pytest.raises(ShapeError, match=r"lengths: expected \[3\]"):
        tbptt.chunks(x, lengths=[7, 7])
    with pytest.raises(ShapeError, match="targets: expected in every block"):
        list(tbptt.stream([Block(x[:, :2], x[:, :2]), Block(x[:, 2:])]))
    with pytest.raises(ShapeError, match="lengths: expected at most the 7 steps of the stream, found 9"):
        [piece.carry(None) for piece in tbptt.stream([x], lengths=[9, 1, 1])]
