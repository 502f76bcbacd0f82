"""A stream remembers, a layer does not: chunks of any size are the whole, and rows start again on their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import unrolled
from oracles.cases import CELLS, case, ours, pair, randomise, split_state
from oracles.compare import assert_bitwise, assert_near, error

STEPS = 20


def layer_of(cell: str, batch_first: bool = True, **options: object) -> nn.Module:
    return randomise(ours(cell, 4, 3, 2, batch_first=batch_first, dtype=torch.float64, **options), 1)


def parts(state: object) -> list[Tensor]:
    return [p for p in split_state(state) if p is not None]


@pytest.mark.parametrize("cell", CELLS)
def test_a_plain_call_never_remembers(cell: str) -> None:
    layer, _ = pair(cell, num_layers=2, bidirectional=True)
    x = case(cell).x.transpose(0, 1)
    assert_bitwise(layer(x)[0], layer(x)[0])
    layer.train()
    assert_bitwise(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 7, 20])
@pytest.mark.parametrize("cell", CELLS)
def test_chunks_are_the_whole(cell: str, chunk: int, batch_first: bool) -> None:
    layer = layer_of(cell, batch_first)
    x = case(cell, steps=STEPS).x
    x = x if batch_first else x.transpose(0, 1)
    axis = 1 if batch_first else 0
    stream = layer.stream(batch_size=3)
    outs = [stream.push(piece) for piece in x.split(chunk, dim=axis)]
    whole, last = layer(x)
    assert_near(torch.cat(outs, dim=axis), whole)
    for got, want in zip(parts(stream.state), parts(last), strict=True):
        assert_near(got, want)


def test_a_projected_layer_streams() -> None:
    layer = layer_of("lstm", proj_size=2)
    x = case("lstm", steps=STEPS).x
    stream = layer.stream(batch_size=3)
    assert_near(torch.cat([stream.push(piece) for piece in x.split(3, dim=1)], dim=1), layer(x)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_rows_that_end_in_different_chunks(cell: str) -> None:
    """A reset row equals a fresh row; its neighbours go on."""
    layer = layer_of(cell)
    x = case(cell, steps=12).x
    stream = layer.stream(batch_size=3)
    outs = [stream.push(x[:, :4])]
    stream.reset(rows=[1])
    outs.append(stream.push(x[:, 4:8]))
    stream.reset(rows=torch.tensor([0, 2]))
    outs.append(stream.push(x[:, 8:]))
    got = torch.cat(outs, dim=1)
    resets = torch.zeros(3, 12, dtype=torch.bool)
    resets[1, 4] = resets[0, 8] = resets[2, 8] = True
    assert_near(got, layer(x, resets=resets)[0])
    assert_near(got[1, 4:], layer(x[1:2, 4:])[0][0])
    stream.reset()
    assert_near(stream.push(x), layer(x)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_state_is_a_value(cell: str) -> None:
    """It can be taken, put back, and is not changed behind the caller's back."""
    layer = layer_of(cell)
    x = case(cell, steps=9).x
    stream = layer.stream(batch_size=3)
    stream.push(x[:, :4])
    taken = stream.state
    copies = [p.clone() for p in parts(taken)]
    first = stream.push(x[:, 4:])
    for now, then in zip(parts(taken), copies, strict=True):
        assert_bitwise(now, then)
    stream.state = taken
    assert_bitwise(stream.push(x[:, 4:]), first)
    assert_near(first, layer(x[:, 4:], taken)[0])


def test_a_stream_keeps_no_graph() -> None:
    """Memory does not grow with what has been pushed."""
    layer = layer_of("lstm")
    stream = layer.stream(batch_size=3)
    for piece in case("lstm", steps=6).x.split(2, dim=1):
        stream.push(piece)
        assert all(p.grad_fn is None for p in parts(stream.state))


def test_a_stream_sees_new_weights() -> None:
    layer = layer_of("gru")
    x = case("gru").x
    first, second = layer.stream(batch_size=3), layer.stream(batch_size=3)
    before = first.push(x)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(2)
    assert error(second.push(x), before) > 1e-4
    assert_bitwise(layer.stream(batch_size=3).push(x), layer(x)[0].detach())


def test_two_streams_do_not_meet() -> None:
    layer = layer_of("gru")
    x = case("gru", steps=8).x
    one, two = layer.stream(batch_size=3), layer.stream(batch_size=3)
    one.push(x[:, :4])
    two.push(2 * x[:, :4])
    assert_near(one.push(x[:, 4:]), layer(x)[0][:, 4:])


def test_one_row_is_the_default() -> None:
    layer = layer_of("gru")
    x = case("gru", steps=6).x[:1]
    stream = layer.stream()
    assert_near(torch.cat([stream.push(x[:, :2]), stream.push(x[:, 2:])], dim=1), layer(x)[0])


def test_a_stream_starts_and_restarts_from_the_learned_state() -> None:
    layer = layer_of("lstm", learn_initial_state=True)
    x = case("lstm").x
    stream = layer.stream(batch_size=3)
    want = layer(x)[0]
    assert_near(stream.push(x), want)
    stream.reset()
    assert_near(stream.push(x), want)
    stream.reset(rows=[2])
    assert_near(stream.push(x)[2], want[2])


def test_both_directions_cannot_stream() -> None:
    """Said when the stream is built."""
    with pytest.raises(ValueError, match="bidirectional"):
        unrolled.GRU(4, 3, bidirectional=True).stream()


def test_another_batch_size_is_an_error() -> None:
    """Never a silent broadcast."""
    layer = layer_of("gru")
    stream = layer.stream(batch_size=3)
    stream.push(case("gru").x)
    with pytest.raises(ValueError, match=r"3 rows.*\(2, 5, 4\)"):
        stream.push(case("gru").x[:2])
    one = layer.stream()
    with pytest.raises(ValueError, match=r"1 rows?.*\(3, 5, 4\)"):
        one.push(case("gru").x)


@pytest.mark.parametrize("rows", [[], (), torch.tensor([], dtype=torch.int64), [False, False, False]], ids=str)
def test_resetting_no_rows_changes_nothing(rows: object) -> None:
    layer, x = layer_of("lstm"), case("lstm", steps=6).x
    stream = layer.stream(batch_size=3)
    stream.push(x[:, :3])
    stream.reset(rows=rows)
    assert_near(stream.push(x[:, 3:]), layer(x)[0][:, 3:])


@pytest.mark.parametrize("rows", [1, [1], [-2], [False, True, False], torch.tensor([False, True, False])], ids=str)
def test_ways_to_name_a_row(rows: object) -> None:
    layer, x = layer_of("gru"), case("gru", steps=6).x
    stream = layer.stream(batch_size=3)
    stream.push(x[:, :3])
    stream.reset(rows=rows)
    out = stream.push(x[:, 3:])
    assert_near(out[1:2], layer(x[1:2, 3:])[0])
    assert_near(out[::2], layer(x)[0][::2, 3:])


@pytest.mark.parametrize("backend", ["native", "torch", "reference"])
@pytest.mark.parametrize("cell", CELLS)
def test_any_engine_streams(cell: str, backend: str) -> None:
    layer, x = layer_of(cell, backend=backend), case(cell, steps=6).x
    stream = layer.stream(batch_size=3)
    pieces = [stream.push(x[:, :0]), stream.push(x[:, :4]), stream.push(x[:, 4:])]
    assert_near(torch.cat(pieces, dim=1), layer(x)[0])


def test_rows_of_a_chunk_may_be_shorter_and_start_again_inside() -> None:
    layer, x = layer_of("gru"), case("gru", steps=8).x
    stream = layer.stream(batch_size=3)
    stream.push(x[:, :4], lengths=[4, 2, 0])
    resets = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    out = stream.push(x[:, 4:], resets=resets)
    assert_near(out[1], layer(torch.cat([x[1:2, :2], x[1:2, 4:]], dim=1))[0][0, 2:])
    assert_near(out[2], layer(x[2:, 4:])[0][0])
    assert_near(out[0, 1:], layer(x[:1, 5:])[0][0])


@pytest.mark.parametrize("rows", [[3], [-4], [0.5], "all"])
def test_rows_that_are_not_there(rows: object) -> None:
    stream = layer_of("gru").stream(batch_size=3)
    with pytest.raises((ValueError, TypeError, IndexError), match="row"):
        stream.reset(rows=rows)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_batch_sizes_that_cannot_be(size: object) -> None:
    with pytest.raises((ValueError, TypeError), match="batch_size"):
        layer_of("gru").stream(batch_size=size)


def test_a_wrong_state_is_refused() -> None:
    stream = layer_of("lstm").stream(batch_size=3)
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        stream.state = torch.zeros(2, 3, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"state.*\(2, 3, 3\).*\(2, 1, 3\)"):
        stream.state = (torch.zeros(2, 1, 3, dtype=torch.float64), torch.zeros(2, 3, 3, dtype=torch.float64))
