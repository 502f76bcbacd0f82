"""The native engine's boundary under any array that NumPy can make: the equations' answer, or an error in words."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.lib.stride_tricks import as_strided

import unrolled
from unrolled import _native

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru_after": 3, "gru_before": 3}
SIZES = st.sampled_from([1, 2, 3, 7, 8, 9, 17])
ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-310, 1e-45, -1e-40, 3e38, -3e38, 1e300, 1.0])


def layer_of(cell: str, dtype: Any, width: int, hidden: int, rng: np.random.Generator) -> Any:
    gates, numbers = GATES[cell], lambda *shape: rng.normal(size=shape).astype(dtype)
    return _native.Layer(cell, numbers(gates, width, hidden), numbers(gates, hidden, hidden), numbers(gates, hidden))


# The same numbers as other arrays.


def backwards(a: np.ndarray) -> np.ndarray:
    """Negative strides."""
    turned = a[tuple(slice(None, None, -1) for _ in a.shape)].copy()
    return turned[tuple(slice(None, None, -1) for _ in a.shape)]


def spread(a: np.ndarray) -> np.ndarray:
    wide = np.full((*a.shape[:-1], 3 * a.shape[-1] + 1), np.nan, a.dtype) if a.dtype.kind == "f" else None
    if wide is None:
        wide = np.ones((*a.shape[:-1], 3 * a.shape[-1] + 1), a.dtype)
    wide[..., 1::3] = a
    return wide[..., 1::3]


def turned(a: np.ndarray) -> np.ndarray:
    return np.asfortranarray(a)


def askew(a: np.ndarray) -> np.ndarray:
    """At an address that no element of its kind would have."""
    room = np.zeros(a.nbytes + 1, np.uint8)
    placed = room[1:].view()[: a.nbytes].view(a.dtype) if a.nbytes else a.ravel()
    placed = placed.reshape(a.shape)
    placed[...] = a
    return placed


def locked(a: np.ndarray) -> np.ndarray:
    copied = a.copy()
    copied.flags.writeable = False
    return copied


FORMS = [lambda a: a, backwards, spread, turned, askew, locked]


def results(layer: Any, *arrays: Any, **options: Any) -> list[np.ndarray]:
    out, state = layer.run(*arrays, **options)
    return [out, *state]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_array(data: st.DataObject) -> None:
    """Whatever strides, alignment and rights an array has, the bits are those of plain arrays; or it is refused."""
    draw, cell = data.draw, data.draw(st.sampled_from(list(GATES)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    dtype, steps, batch = (
        draw(st.sampled_from([np.float32, np.float64])),
        draw(st.integers(0, 6)),
        draw(st.integers(0, 9)),
    )
    width, hidden = draw(SIZES), draw(SIZES)
    layer = layer_of(cell, dtype, width, hidden, rng)
    x = rng.normal(size=(steps, batch, width)).astype(dtype)
    for _ in range(draw(st.integers(0, 4)) if x.size else 0):
        with np.errstate(over="ignore"):
            x.flat[int(rng.integers(x.size))] = ODD[int(rng.integers(len(ODD)))].astype(dtype)
    state = tuple(rng.normal(size=(batch, hidden)).astype(dtype) for _ in range(2 if cell == "lstm" else 1))
    lengths, resets = rng.integers(0, steps + 1, batch), rng.random((batch, steps)) < 0.3
    options = {"reverse": draw(st.booleans()), "threads": draw(st.sampled_from([1, 2, 5]))}
    want = results(layer, x, state, lengths=lengths, resets=resets, **options)
    form = [draw(st.sampled_from(FORMS)) for _ in range(4)]
    before = x.copy()
    try:
        given_state = tuple(form[1](part) for part in state)
        got = results(layer, form[0](x), given_state, lengths=form[2](lengths), resets=form[3](resets), **options)
    except ValueError as error:
        if "expected" not in str(error) or not {backwards, spread, turned} & set(form):
            raise
        return
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("cell", list(GATES))
def test_one_array_in_place_of_many(cell: str) -> None:
    """A stride of 0, and rows that overlap: inputs may repeat as they like."""
    layer = layer_of(cell, np.float32, 4, 9, np.random.default_rng(0))
    numbers = np.arange(40, dtype=np.float32) / 40
    for x in (np.broadcast_to(numbers[:4], (6, 5, 4)), as_strided(numbers, (6, 5, 4), (4, 4, 4))):
        for one, other in zip(results(layer, x), results(layer, x.copy()), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("cell", list(GATES))
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_number_stays_in_its_row(cell: str, odd: float) -> None:
    rng = np.random.default_rng(1)
    layer = layer_of(cell, np.float64, 3, 17, rng)
    x = rng.normal(size=(5, 8, 3))
    want = layer.run(x)[0]
    x[2, 4, 1] = odd
    got = layer.run(x)[0]
    others = np.arange(8) != 4
    np.testing.assert_array_equal(got[:, others], want[:, others])
    np.testing.assert_array_equal(got[:2], want[:2])
    assert np.isfinite(got[2:, 4]).all() or not np.isfinite(odd) or abs(odd) > 1e30
    assert np.isnan(got[2:, 4]).all() or not np.isnan(odd)


WRONG: dict[str, dict[str, Any]] = {
    "too long": {"lengths": np.array([5, 1, 1])},
    "far too long": {"lengths": np.array([2**62, 1, 1])},
    "negative": {"lengths": np.array([-1, 1, 1])},
    "the least number": {"lengths": np.array([-(2**63), 1, 1])},
    "lengths of another type": {"lengths": np.array([1, 1, 1], np.int32)},
    "lengths that are no integers": {"lengths": np.array([1.0, 1.0, 1.0])},
    "unsigned lengths": {"lengths": np.array([2**64 - 1, 1, 1], np.uint64)},
    "too few lengths": {"lengths": np.array([1, 1])},
    "lengths of two axes": {"lengths": np.array([[1, 1, 1]])},
    "a list of lengths": {"lengths": [1, 1, 1]},
    "resets of another shape": {"resets": np.zeros((4, 3), bool)},
    "resets that are bytes": {"resets": np.zeros((3, 4), np.uint8)},
    "a state of one row": {"state": (np.zeros((1, 6)),)},
    "a state of another type": {"state": (np.zeros((3, 6), np.float32),)},
    "two states": {"state": (np.zeros((3, 6)), np.zeros((3, 6)))},
    "no state": {"state": ()},
    "a state that is text": {"state": ("x",)},
    "a restart of two axes": {"restart": (np.zeros((1, 6)),)},
}
ARRAYS: dict[str, Any] = {
    "text": "x", "nothing": None, "a number": 3.0, "bytes": b"x" * 400, "a list": [[[0.0] * 5] * 3] * 4,
    "objects": np.zeros((4, 3, 5), object), "float32": np.zeros((4, 3, 5), np.float32),
    "half": np.zeros((4, 3, 5), "e"),
    "big-endian": np.zeros((4, 3, 5), ">f8"), "complex": np.zeros((4, 3, 5), complex), "long": np.zeros((4, 3, 5), "g"),
    "integers": np.zeros((4, 3, 5), int),
    "records": np.zeros((4, 3, 5), [("a", "f8")]),
    "texts": np.zeros((4, 3, 5), "U2"),
    "another width": np.zeros((4, 3, 6)), "no width": np.zeros((4, 3, 0)), "two axes": np.zeros((4, 5)),
    "no axis": np.zeros(()), "nine axes": np.zeros((1,) * 9), "dates": np.zeros((4, 3, 5), "M8[s]"),
    "huge": np.broadcast_to(np.zeros(5), (2**40, 2**10, 5)),
    "wide": np.broadcast_to(np.zeros(()), (1, 1, 2**59)),
    "steps of a byte": np.zeros((4, 3, 5), [("a", "u1"), ("b", "f8")])["b"],
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_options(what: str) -> None:
    layer = layer_of("gru_after", np.float64, 5, 6, np.random.default_rng(0))
    with pytest.raises((ValueError, TypeError)):
        layer.run(np.zeros((4, 3, 5)), **WRONG[what])
    assert layer.run(np.zeros((4, 3, 5)))[0].shape == (4, 3, 6)


@pytest.mark.parametrize("what", ARRAYS)
def test_wrong_arrays(what: str) -> None:
    layer = layer_of("gru_after", np.float64, 5, 6, np.random.default_rng(0))
    with pytest.raises((ValueError, TypeError, BufferError, MemoryError)):
        layer.run(ARRAYS[what])
    with pytest.raises((ValueError, TypeError, BufferError, MemoryError)):
        _native.Layer("gru_after", ARRAYS[what], np.zeros((3, 6, 6)))
    with pytest.raises((ValueError, TypeError, BufferError, MemoryError)):
        layer.step(ARRAYS[what], np.zeros((3, 6)))


def test_a_state_that_may_not_be_written() -> None:
    layer = layer_of("lstm", np.float64, 5, 6, np.random.default_rng(0))
    h, c = np.zeros((3, 6)), np.zeros((3, 6))
    for wrong in (locked(h), turned(np.ones((3, 6))), np.zeros((3, 12))[:, ::2]):
        with pytest.raises(ValueError, match="expected"):
            layer.step(np.zeros((3, 5)), wrong, c)
    assert not h.any()


@pytest.mark.parametrize("wrong", [{"lengths": [-1, 1]}, {"lengths": [4, 1]}, {"lengths": [2**62, 0]}, {"lengths": [1]},
                                   {"lengths": [1.5, 1]}, {"resets": torch.zeros(3, 2)}])  # fmt: skip
@pytest.mark.parametrize("backend", ["native", "auto"])
def test_layers_check_before_an_address_is_passed(backend: str, wrong: dict[str, Any]) -> None:
    layer = unrolled.GRU(3, 4, backend=backend)
    with pytest.raises((ValueError, RuntimeError, TypeError), match="expected"):
        layer(torch.zeros(3, 2, 3), **wrong)


def test_a_size_that_no_machine_has() -> None:
    """The message is one of memory, at once, and the process lives on."""
    layer = unrolled.GRU(1, 4, backend="native")
    with pytest.raises((RuntimeError, MemoryError)):
        layer(torch.zeros(1).expand(2**40, 2**10, 1))
    assert layer(torch.zeros(2, 1, 1))[0].shape == (2, 1, 4)


def test_tuples_that_no_caller_of_ours_makes() -> None:
    for wrong in ([], [()], [(0,)], [("x",) * 44], [None], [(2**70,) * 44], [(99, *[0] * 43)], [(-1, *[0] * 43)]):
        for call in (_native.forward_f32, _native.forward_f64):
            if wrong == []:
                call(wrong, 1)
                continue
            with pytest.raises((ValueError, TypeError, OverflowError)):
                call(wrong, 1)


def test_many_threads_and_arrays_that_change_meanwhile() -> None:
    """What is read while another thread writes is not defined; that the process lives on is."""
    rng = np.random.default_rng(2)
    layer = layer_of("lstm", np.float32, 9, 17, rng)
    x, lengths = rng.normal(size=(40, 12, 9)).astype(np.float32), np.full(12, 40)
    plain = x.copy()
    want = layer.run(plain)[0]
    stop = threading.Event()

    def scribble() -> None:
        while not stop.is_set():
            x[...] = np.nan
            x[...] = plain

    def work() -> None:
        for _ in range(30):
            layer.run(x, lengths=lengths, threads=2)
            np.testing.assert_array_equal(layer.run(plain, threads=2)[0], want)

    threads = [threading.Thread(target=work) for _ in range(4)]
    writer = threading.Thread(target=scribble)
    for thread in (writer, *threads):
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    writer.join(10)
    assert not any(thread.is_alive() for thread in (writer, *threads))
