"""The comparison of `test_native_numbers.py` refuses wrong engines.

Each mutant is the oracle with one thing changed, rounded as an engine would round it; unchanged, it is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from oracles import native_truth, tape
from oracles.native import GATES, Problem, labels
from oracles.native_truth import assert_right
from oracles.tape import Cell, Var

RIGHT = Cell.step
State = tuple[Var, Var | None]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def problem(cell: str, dtype: torch.dtype) -> Problem:
    """Every option at once, so that every fault can show."""
    state = 7 if cell == "lstm_projected" else 9
    return Problem(cell, 6, 5, 8, 9, state, dtype, 2, True, True, True, seed=700)


def made_by(this: Problem) -> list[torch.Tensor]:
    """The oracle as it is now, rounded to the problem's type."""
    return [torch.from_numpy(np.array(value, np.float64)).to(this.dtype) for value in native_truth.computed(this)]


def with_gates(first: int, second: int) -> Callable[..., State]:
    """Two gates change places."""

    def turn(self: Cell) -> None:
        for part in (self.W, self.U, self.b, self.b_h):
            part[first], part[second] = part[second], part[first]

    def step(self: Cell, x: Var, h: Var, c: Var | None) -> State:
        turn(self)
        after = RIGHT(self, x, h, c)
        turn(self)
        return after

    return step


def without(name: str, gate: int | None = None) -> Callable[..., State]:
    """A bias, or one gate's part of it, is left out."""

    def step(self: Cell, x: Var, h: Var, c: Var | None) -> State:
        kept = getattr(self, name)
        zero = Var(kept[0].value * 0)
        setattr(self, name, [zero if gate in (None, k) else v for k, v in enumerate(kept)])
        after = RIGHT(self, x, h, c)
        setattr(self, name, kept)
        return after

    return step


def other_side(self: Cell, x: Var, h: Var, c: Var | None) -> State:
    mine = self.cell
    self.cell = "gru_before" if mine == "gru_after" else "gru_after"
    after = RIGHT(self, x, h, c)
    self.cell = mine
    return after


def outside(self: Cell, x: Var, h: Var, _c: Var | None) -> State:
    r, z = (tape.sigmoid(x @ self.W[k] + self.b[k] + h @ self.U[k] + self.b_h[k]) for k in (0, 1))
    n = tape.tanh(x @ self.W[2] + self.b[2] + r * (h @ self.U[2]) + self.b_h[2])
    return n + z * (h - n), None


def flipped(self: Cell, x: Var, h: Var, c: Var | None) -> State:
    """sigmoid(-a) = 1 - sigmoid(a): the update gate keeps what it should take."""
    mine = [(part, part[1]) for part in (self.W, self.U, self.b, self.b_h)]
    for part, gate in mine:
        part[1] = Var(np.zeros_like(gate.value)) - gate
    after = RIGHT(self, x, h, c)
    for part, gate in mine:
        part[1] = gate
    return after


def cut(part: str) -> Callable[..., State]:
    """No gradient passes through a part of the state: the results are right, the gradients are not."""

    def step(self: Cell, x: Var, h: Var, c: Var | None) -> State:
        if part == "h":
            return RIGHT(self, x, Var(h.value), c)
        return RIGHT(self, x, h, None if c is None else Var(c.value))

    return step


BIASES = {"input bias left out": without("b"), "state bias left out": without("b_h")}
ANY = BIASES | {"state without a gradient": cut("h")}
LSTM = ANY | {
    "i and f swapped": with_gates(0, 1), "o and g swapped": with_gates(2, 3), "memory without a gradient": cut("c"),
}  # fmt: skip
GRU = ANY | {
    "r and z swapped": with_gates(0, 1), "z flipped": flipped, "reset on the wrong side": other_side,
    "b_hn left out": without("b_h", 2),
}  # fmt: skip
MUTANTS: dict[str, dict[str, Any]] = {
    "rnn_tanh": ANY, "rnn_relu": ANY, "lstm": LSTM, "lstm_projected": LSTM,
    "gru_after": GRU | {"b_hn outside r": outside}, "gru_before": GRU,
}  # fmt: skip


@DTYPES
@pytest.mark.parametrize(("cell", "change"), [(cell, change) for cell, all_ in MUTANTS.items() for change in all_])
def test_a_wrong_step_is_refused(monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype) -> None:
    this = problem(cell, dtype)
    assert_right(this, made_by(this))
    monkeypatch.setattr(Cell, "step", MUTANTS[cell][change])
    with pytest.raises(AssertionError, match="budget"):
        assert_right(this, made_by(this))


@DTYPES
@pytest.mark.parametrize("cell", GATES)
def test_each_number_is_held_to_its_budget(cell: str, dtype: torch.dtype) -> None:
    """One element of one result or gradient, off by a hundred epsilons, is seen, and so is a NaN."""
    this = problem(cell, dtype)
    right = made_by(this)
    for number, name in enumerate(labels(this)):
        for wrong in (100 * torch.finfo(dtype).eps * max(1.0, float(right[number].abs().max())), float("nan")):
            off = [t.clone() for t in right]
            off[number].view(-1)[-1] += wrong
            with pytest.raises(AssertionError, match=f"{name}: "):
                assert_right(this, off)


OPTIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "pad step executed": lambda o: o.update(lengths=np.minimum(o["lengths"] + 1, 6)),
    "lengths ignored": lambda o: o.update(lengths=None),
    "resets ignored": lambda o: o.update(resets=None),
    "reset one step late": lambda o: o.update(resets=np.roll(o["resets"], 1, axis=1)),
    "direction ignored": lambda o: o.update(reverse=not o["reverse"]),
}


@DTYPES
@pytest.mark.parametrize("change", OPTIONS)
@pytest.mark.parametrize("cell", GATES)
def test_a_wrong_scan_is_refused(monkeypatch: pytest.MonkeyPatch, cell: str, change: str, dtype: torch.dtype) -> None:
    this, real = problem(cell, dtype), tape.scan

    def scan(*arguments: Any, **options: Any) -> Any:
        OPTIONS[change](options)
        return real(*arguments, **options)

    native_truth.truth(this)  # before the change
    monkeypatch.setattr(tape, "scan", scan)
    with pytest.raises(AssertionError, match="budget"):
        assert_right(this, made_by(this))
