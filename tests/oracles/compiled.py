"""Compile and export, run as a program of its own: the type-checking hook of the suite breaks torch.compile.

Prints one JSON object, name of the check -> "" or what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unrolled
from oracles.cases import case, ours, randomise, split_state
from oracles.compare import assert_near
from oracles.native import GATES, Problem
from unrolled import equations
from unrolled.kernels import native_ops

CELLS = ("tanh", "lstm", "gru")
STEPS = 3
RESETS = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=torch.bool)
LENGTHS = torch.tensor([2, 3, 0])


class Model(nn.Module):
    """Linear, a recurrent layer, Linear."""

    def __init__(self, cell: str, **options: Any) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(6, 2)
        self.layer = ours(cell, 4, 3, 2, bidirectional=True, batch_first=True, **options)
        randomise(self, 1)

    def forward(self, x: Tensor, lengths: Tensor | None = None, resets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, state = self.layer(self.before(x), lengths=lengths, resets=resets)
        return self.after(out), split_state(state)[0]


def compiles(cell: str, backend: str, *arguments: Tensor, **options: Any) -> None:
    torch.compiler.reset()
    model = Model(cell, **options)
    fast = torch.compile(model, fullgraph=True, backend=backend)
    for seed in (1, 2):  # new weights are seen
        randomise(model, seed)
        x = case(cell, steps=STEPS, dtype=torch.float32).x
        found = []
        for run in (fast, model):
            model.zero_grad()
            out, h = run(x, *arguments)
            (out.square().sum() + h.sum()).backward()
            found.append([out, h, *(p.grad for p in model.parameters() if p.grad is not None)])
        for got, want in zip(*found, strict=True):
            assert_near(got, want, ulps=256)


def exports(cell: str, *arguments: Tensor, **options: Any) -> None:
    model = Model(cell, **options).eval()
    x = case(cell, steps=STEPS, dtype=torch.float32).x
    program = torch.export.export(model, (x, *arguments))
    other = case(cell, seed=9, steps=STEPS, dtype=torch.float32).x
    changed = tuple(value.flip(0) for value in arguments)
    for got, want in zip(program.module()(other, *changed), model(other, *changed), strict=True):
        assert_near(got, want, ulps=256)


def exports_any_batch(cell: str) -> None:
    model = Model(cell).eval()
    program = torch.export.export(
        model, (case(cell, steps=STEPS, dtype=torch.float32).x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
    )
    for batch in (2, 7):
        x = case(cell, batch=batch, steps=STEPS, dtype=torch.float32).x
        for got, want in zip(program.module()(x), model(x), strict=True):
            assert_near(got, want, ulps=256)


def exports_any_time(cell: str, **options: Any) -> None:
    """One program for any batch and any number of steps: a scan is one operator in it."""
    model = Model(cell, **options).eval()
    batch, time = torch.export.Dim("batch"), torch.export.Dim("time")
    shapes = {"x": {0: batch, 1: time}, "lengths": {0: batch}, "resets": {0: batch, 1: time}}
    x = case(cell, steps=STEPS, dtype=torch.float32).x
    program = torch.export.export(model, (x, LENGTHS, RESETS), dynamic_shapes=shapes)
    scans = [node for node in program.graph.nodes if "unrolled.scan" in str(node.target)]
    assert len(scans) == 4, program.graph  # two layers, two directions
    for rows, steps in ((2, 9), (7, 2), (5, 40)):
        generator = torch.Generator().manual_seed(rows)
        x = case(cell, batch=rows, steps=steps, dtype=torch.float32).x
        lengths = torch.randint(0, steps + 1, (rows,), generator=generator)
        resets = torch.rand(rows, steps, generator=generator) < 0.3
        for got, want in zip(program.module()(x, lengths, resets), model(x, lengths, resets), strict=True):
            assert_near(got, want, ulps=256)


def compiles_any_time(cell: str) -> None:
    """Other sizes run in the graph that is there; training too."""
    torch.compiler.reset()
    # As many steps as rows would be taken for one size that both share.
    model, x = Model(cell), case(cell, steps=STEPS + 2, dtype=torch.float32).x
    fast = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    fast(x, LENGTHS)[0].sum().backward()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows, steps in ((2, 9), (7, 2), (4, 31)):
            x = case(cell, batch=rows, steps=steps, dtype=torch.float32).x
            lengths, found = torch.arange(rows) % (steps + 1), []
            for run in (fast, model):
                model.zero_grad()
                out, h = run(x, lengths)
                (out.square().sum() + h.sum()).backward()
                found.append([out, h, *(p.grad for p in model.parameters())])
            for got, want in zip(*found, strict=True):
                assert_near(got, want, ulps=256)


def operator_is_sound(cell: str) -> None:
    """torch's own checks of an operator: schema, autograd registration, fake kernel, and tracing with dynamic sizes."""
    everything = ("recompute", "reverse", "is_ragged", "has_resets", "has_restart")
    for options in ({}, dict.fromkeys(everything, True)):
        problem = Problem(cell, 3, 2, 4, 3, 2 if cell == "lstm_projected" else 3, seed=1, **options)
        tensors = [None if t is None else t.requires_grad_() for t in problem.tensors()]
        chosen = problem.options()
        rest = (chosen["lengths"], chosen["resets"], problem.reverse, problem.recompute, 1, True)
        torch.library.opcheck(native_ops._scan, (*tensors, list(GATES).index(cell), *rest))


def words() -> None:
    """Without the hook, a wrong word is a ValueError, and a wrong shape is ours."""
    for key in ("nonlinearity", "memory", "backend", "init"):
        with pytest.raises(ValueError, match=key):
            unrolled.RNN(4, 3, **{key: "magic"})
    for value in ([[1.0]], torch.zeros(5, 3, 4).numpy(), None):
        with pytest.raises(TypeError, match="input"):
            unrolled.GRU(4, 3)(value)
    with pytest.raises(unrolled.errors.ShapeError, match="4"):
        unrolled.GRU(4, 3)(torch.zeros(5, 3, 2))


def hooks_are_off() -> None:
    """Users pay nothing for the annotations: a transposed weight is torch's error, not the hook's."""
    x, h, W, U = torch.zeros(2, 4), torch.zeros(2, 3), torch.zeros(3, 4), torch.zeros(3, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        equations.rnn_step(x, h, W, U)


CHECKS: dict[str, Callable[[], None]] = {"words": words, "hooks are off": hooks_are_off}
for _cell in CELLS:
    CHECKS |= {
        f"compile {_cell} ragged": lambda cell=_cell: compiles(cell, "aot_eager", LENGTHS, RESETS),
        f"export {_cell} ragged": lambda cell=_cell: exports(cell, LENGTHS, RESETS),
        f"export {_cell} any batch": lambda cell=_cell: exports_any_batch(cell),
    }
    CHECKS |= {
        f"export {_cell} any time": lambda cell=_cell: exports_any_time(cell),
        f"compile {_cell} any time": lambda cell=_cell: compiles_any_time(cell),
    }
for _cell in GATES:
    CHECKS[f"operator {_cell}"] = lambda cell=_cell: operator_is_sound(cell)
CHECKS |= {
    "export gru before": lambda: exports_any_time("gru", reset_after=False, learn_initial_state=True),
    "compile lstm": lambda: compiles("lstm", "eager"),
    "compile gru before": lambda: compiles("gru", "eager", LENGTHS, reset_after=False, single_bias=True),
    "compile gru learned": lambda: compiles("gru", "eager", LENGTHS, RESETS, learn_initial_state=True),
    "compile gru recompute": lambda: compiles("gru", "eager", LENGTHS, memory="recompute"),
}


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    for name, check in CHECKS.items():
        try:
            start = time.perf_counter()
            check()
            results[name] = ""
            print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
        except (Exception, pytest.fail.Exception):  # a report, so that one failure does not hide the others
            results[name] = traceback.format_exc()[-1500:]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
