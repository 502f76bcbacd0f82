"""`_native.Layer`: the engine over NumPy arrays, which the runtime without torch runs on."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from oracles.compare import assert_near, assert_no_worse
from oracles.native import GATES, Problem, arguments
from oracles.native_truth import truth
from unrolled import _native
from unrolled.kernels import reference

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
EACH = pytest.mark.parametrize("cell", GATES)
Arrays = list[Any]


def problem(cell: str, dtype: torch.dtype = torch.float64, **options: Any) -> Problem:
    wanted = {"is_ragged": True, "has_resets": True, "has_restart": True} | options
    return Problem(cell, 6, 5, 7, 9, 5 if cell == "lstm_projected" else 9, dtype, seed=900, **wanted)


def arrays(this: Problem) -> Arrays:
    return [None if t is None else t.numpy() for t in this.tensors()]


def built(this: Problem, given: Arrays) -> Any:
    _, _, _, W, U, b, b_h, V, _, _ = given
    return _native.Layer("lstm" if this.name == "lstm_scan" else this.cell, W, U, b, b_h, V)


def ran(layer: Any, this: Problem, given: Arrays, **options: Any) -> list[np.ndarray]:
    x, h, c, _, _, _, _, _, restart_h, restart_c = given
    is_lstm = this.name == "lstm_scan"
    chosen = {name: None if t is None or isinstance(t, bool) else t.numpy() for name, t in this.options().items()}
    chosen["reverse"] = this.reverse
    restart = None if restart_h is None else ((restart_h, restart_c) if is_lstm else (restart_h,))
    out, state = layer.run(x, (h, c) if is_lstm else (h,), **{"restart": restart, **chosen, **options})
    return [out, *state]


@DTYPES
@pytest.mark.parametrize("threads", [1, 2, 5])
@EACH
def test_run_is_the_equation(cell: str, threads: int, dtype: torch.dtype) -> None:
    for batch, steps, reverse in ((5, 6, False), (17, 4, True), (1, 1, False), (0, 3, False), (3, 0, True)):
        this = replace(problem(cell, dtype, reverse=reverse), batch=batch, steps=steps)
        positional, options = arguments(this, this.tensors())
        slow = getattr(reference, this.name)(*positional, **options)
        got = ran(built(this, arrays(this)), this, arrays(this), threads=threads)
        assert len(got) == len(slow)
        for found, eager, exact in zip(got, slow, truth(this), strict=False):
            assert_no_worse(torch.from_numpy(found), eager, exact)


@DTYPES
@EACH
def test_steps_are_the_run(cell: str, dtype: torch.dtype) -> None:
    """In place, one row or several; a whole sequence step by step."""
    this = problem(cell, dtype, is_ragged=False, has_resets=False)
    given = arrays(this)
    layer, (x, h, c) = built(this, given), given[:3]
    want = ran(layer, this, given)
    state = [None if part is None else part.copy() for part in (h, c)]
    single = [None if part is None else part[2].copy() for part in (h, c)]
    for t in range(this.steps):
        assert layer.step(x[t], *state) is None
        layer.step(x[t, 2], *single)
        assert_near(state[0], want[0][t], ulps=8)
        assert_near(single[0], want[0][t, 2], ulps=8)
    if c is not None:
        assert_near(state[1], want[2], ulps=8)
        assert_near(single[1], want[2][2], ulps=8)
    empty = [None if part is None else part[:0].copy() for part in (h, c)]
    layer.step(x[0, :0], *empty)


def test_what_it_says_of_itself() -> None:
    layer = built(problem("lstm_projected"), arrays(problem("lstm_projected")))
    assert (layer.input_size, layer.hidden_size, layer.state_size) == (7, 9, 5)
    assert (layer.cell, layer.dtype) == ("lstm", "float64")
    assert built(problem("gru_before", torch.float32), arrays(problem("gru_before", torch.float32))).dtype == "float32"


@EACH
def test_arrays_of_any_strides(cell: str) -> None:
    """Reversed, transposed, every second and read-only; what is read is not changed."""
    this = problem(cell, torch.float32)
    given = arrays(this)
    want = ran(built(this, given), this, given)
    turned = [None if a is None else np.asfortranarray(a) for a in given]
    spread = [None if a is None else np.repeat(a, 2, axis=-1)[..., ::2] for a in given]
    backwards = [None if a is None else np.ascontiguousarray(a[::-1])[::-1] for a in given]
    for other in (turned, spread, backwards):
        mixed = [b if i in (0, 3, 4, 7) else a for i, (a, b) in enumerate(zip(given, other, strict=True))]
        for array in mixed:
            if array is not None:
                array.flags.writeable = False
        copies = [None if a is None else a.copy() for a in mixed]
        for got, exact in zip(ran(built(this, mixed), this, mixed), want, strict=True):
            np.testing.assert_array_equal(got, exact)
        for array, copy in zip(mixed, copies, strict=True):
            if array is not None:
                np.testing.assert_array_equal(array, copy)
    wide = np.broadcast_to(given[0][:1, :1], given[0].shape)
    given[0] = wide
    got = ran(built(this, given), this, given)
    given[0] = wide.copy()
    np.testing.assert_array_equal(got[0], ran(built(this, given), this, given)[0])


def test_weights_are_packed_once() -> None:
    """Changing the arrays afterwards changes nothing, and they may go."""
    this = problem("gru_after")
    given = arrays(this)
    layer = built(this, given)
    want = ran(layer, this, given)[0]
    for array in given[3:8]:
        if array is not None:
            array[...] = np.nan
    np.testing.assert_array_equal(ran(layer, this, given)[0], want)


def test_states_default_to_zeros() -> None:
    this = problem("lstm", has_restart=False)
    given = arrays(this)
    layer, x = built(this, given), given[0]
    given[1], given[2] = np.zeros_like(given[1]), np.zeros_like(given[2])
    np.testing.assert_array_equal(
        layer.run(x, lengths=this.options()["lengths"].numpy(), resets=this.options()["resets"].numpy())[0],
        ran(layer, this, given)[0],
    )


W, U, X, H = np.ones((4, 3, 5)), np.ones((4, 5, 5)), np.ones((2, 6, 3)), np.ones((6, 5))
F32 = np.float32
WEIGHTS: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown cell": ("cell: expected 'rnn_tanh'.*found 'lstn'", {"cell": "lstn"}),
    "W of two axes": ("W: expected 3 axes", {"W": W[0]}),
    "W of five axes": ("W: expected at most 4 axes", {"W": W[None, None]}),
    "W of another type": ("W: expected float32 or float64", {"W": W.astype(int)}),
    "W of half precision": ("W: expected float32 or float64", {"W": W.astype(np.float16)}),
    "W of the other byte order": ("W: expected float32 or float64", {"W": W.astype(">f8")}),
    "too few gates": (r"W: expected \(4, 3, 5\) \(gates, input, hidden\), found \(3, 3, 5\)", {"W": W[:3]}),
    "no input": ("W: expected at least one input", {"W": W[:, :0]}),
    "no unit": ("W: expected at least one input and one unit", {"W": W[:, :, :0]}),
    "U of another type": ("U: expected float64 as the weights", {"U": U.astype(F32)}),
    "U of another shape": (r"U: expected \(4, 5, 5\) \(gates, state, hidden\)", {"U": U[:, 1:]}),
    "b of another shape": (r"b: expected \(4, 5\) \(gates, hidden\), found \(20,\)", {"b": np.ones(20)}),
    "b of another type": ("b: expected float64", {"b": np.ones((4, 5), F32)}),
    "b not contiguous": ("b: expected a C-contiguous array", {"b": np.ones((5, 4)).T}),
    "b_h of another shape": (r"b_h: expected \(4, 5\)", {"b_h": np.ones((1, 5))}),
    "V of another shape": (
        r"V: expected \(5, 2\) \(hidden, state\), found \(4, 2\)", {"V": np.ones((4, 2)), "U": U[:, :2]}
    ),
    "V of three axes": (r"V: expected \(5, 5\)", {"V": np.ones((1, 5, 5))}),
    "a GRU that projects": ("V: expected None", {"cell": "gru_after", "W": W[:3], "U": U[:3], "V": np.ones((5, 2))}),
}  # fmt: skip


@pytest.mark.parametrize("what", WEIGHTS)
def test_weights_that_do_not_fit(what: str) -> None:
    message, change = WEIGHTS[what]
    with pytest.raises(ValueError, match=message):
        _native.Layer(**{"cell": "lstm", "W": W, "U": U, **change})


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "x of two axes": ("x: expected 3 axes", {"x": X[0]}),
    "x of another width": (r"x: expected \(2, 6, 3\) \(time, batch, input\), found \(2, 6, 2\)", {"x": X[..., 1:]}),
    "x of another type": ("x: expected float64 as the weights", {"x": X.astype(F32)}),
    "whole numbers": ("x: expected float64 as the weights", {"x": X.astype(int)}),
    "elements of no size": ("x: expected", {"x": np.empty((2, 6, 3), np.dtype([]))}),
    "part of a record": ("x: expected", {"x": np.zeros((2, 6, 3), [("a", "u1"), ("b", "f8")])["b"]}),
    "one state": (r"state: expected a tuple \(h, c\), found 1 parts", {"state": (H,)}),
    "a bare state": (r"state: expected a tuple \(h, c\)", {"state": H}),
    "a list": (r"state: expected a tuple \(h, c\)", {"state": [H, H]}),
    "h of another batch": (r"state h: expected \(6, 5\) \(batch, state\), found \(5, 5\)", {"state": (H[1:], H)}),
    "c of another type": ("state c: expected float64", {"state": (H, H.astype(F32))}),
    "h not contiguous": ("state h: expected a C-contiguous array", {"state": (np.ones((5, 6)).T, H)}),
    "lengths of another batch": (r"lengths: expected \(6,\) \(batch,\), found \(5,\)", {"lengths": np.ones(5, int)}),
    "small lengths": ("lengths: expected int64", {"lengths": np.ones(6, np.int32)}),
    "unsigned lengths": ("lengths: expected int64", {"lengths": np.ones(6, np.uint64)}),
    "lengths below zero": (
        "lengths: expected 0 to 2 in every row, found -1 in row 3", {"lengths": np.array([1, 2, 0, -1, 2, 2])}
    ),
    "lengths past the end": (
        "lengths: expected 0 to 2 in every row, found 3 in row 5", {"lengths": np.array([1, 2, 0, 1, 2, 3])}
    ),
    "every second length": ("lengths: expected a C-contiguous array", {"lengths": np.ones(12, int)[::2]}),
    "resets time first": (
        r"resets: expected \(6, 2\) \(batch, time\), found \(2, 6\)", {"resets": np.ones((2, 6), bool)}
    ),
    "resets of numbers": ("resets: expected bool", {"resets": np.ones((6, 2), np.uint8)}),
    "restart of another size": (r"restart c: expected \(5,\) \(hidden,\)", {"restart": (H[0], H[0, 1:])}),
    "one restart": (r"restart: expected a tuple \(h, c\)", {"restart": (H[0],)}),
    "no threads": ("threads: expected at least 1, found 0", {"threads": 0}),
    "fewer than no threads": ("threads: expected at least 1, found -2", {"threads": -2}),
}  # fmt: skip


@pytest.mark.parametrize("what", RUNS)
def test_runs_that_do_not_fit(what: str) -> None:
    message, change = RUNS[what]
    with pytest.raises(ValueError, match=message):
        _native.Layer("lstm", W, U).run(**{"x": X, **change})


STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "x of another width": (r"x: expected \(6, 3\) \(batch, input\)", {"x": X[0, :, 1:]}),
    "x not contiguous": ("x: expected a C-contiguous array", {"x": np.ones((3, 6)).T}),
    "x of three axes": ("x: expected", {"x": X}),
    "x without axes": ("x: expected", {"x": np.float64(1.0)}),
    "h of another batch": (r"h: expected \(6, 5\) \(batch, state\)", {"h": H[1:].copy()}),
    "h of another type": ("h: expected float64", {"h": H.astype(F32)}),
    "h read-only": ("h: expected a writable array", {"h": np.broadcast_to(1.0, (6, 5))}),
    "c read-only": ("c: expected a writable array", {"c": np.broadcast_to(1.0, (6, 5))}),
    "no c": ("c: expected .*None", {"c": None}),
}  # fmt: skip


@pytest.mark.parametrize("what", STEPS)
def test_steps_that_do_not_fit(what: str) -> None:
    message, change = STEPS[what]
    with pytest.raises(ValueError, match=message):
        _native.Layer("lstm", W, U).step(**{"x": X[0].copy(), "h": H.copy(), "c": H.copy(), **change})


def test_a_cell_without_memory_takes_none() -> None:
    layer = _native.Layer("gru_after", W[:3], U[:3])
    with pytest.raises(ValueError, match="c: expected None"):
        layer.step(X[0].copy(), H.copy(), H.copy())
    with pytest.raises(ValueError, match=r"state: expected a tuple \(h,\), found 2 parts"):
        layer.run(X, (H, H))


def test_what_is_no_array_is_a_type_error() -> None:
    layer = _native.Layer("lstm", W, U)
    for wrong in (None, 3.0, [[[1.0]]], "x"):
        with pytest.raises((TypeError, BufferError, ValueError)):
            layer.run(wrong)
        with pytest.raises((TypeError, BufferError, ValueError)):
            _native.Layer("lstm", wrong, U)


def test_a_refused_array_is_let_go() -> None:
    """An error holds no reference to the array."""
    layer = _native.Layer("lstm", W, U)
    for wrong in (
        np.ones((1, 2, 6, 3, 1)),
        np.ones((2, 6, 4)),
        np.ones((2, 6, 3), F32),
        np.zeros((2, 6, 3), np.dtype([])),
    ):
        before = sys.getrefcount(wrong)
        for _ in range(3):
            with pytest.raises(ValueError, match="x: expected"):
                layer.run(wrong)
        assert sys.getrefcount(wrong) == before


def test_one_layer_in_many_threads() -> None:
    this = replace(problem("lstm", torch.float32), batch=9, steps=30)
    given = arrays(this)
    layer = built(this, given)
    want = ran(layer, this, given)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda k: ran(layer, this, given, threads=1 + k % 3), range(200)):
            for a, b in zip(got, want, strict=True):  # who finds the threads busy works alone, and rounds otherwise
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
