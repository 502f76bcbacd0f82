"""The native engine on every target that this machine can run, against the equations one precision up.

The budget of every number: twice the error of the same equations in eager torch, and two epsilons of the largest value.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from oracles.compare import assert_bitwise, assert_near
from oracles.native import GATES, SIZES, THREADS, Problem, labels, problems, run
from oracles.native_truth import assert_right
from unrolled import _native
from unrolled.kernels import native, reference

HERE = Path(__file__).parent
TARGETS = _native.available()
PROBLEMS = problems()


@pytest.fixture(scope="module", params=TARGETS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What a process made with this target."""
    path = tmp_path_factory.mktemp("native") / f"{request.param}.npz"
    environment = os.environ | {
        "UNROLLED_ISA": request.param, "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "oracles.native", str(path)], capture_output=True, text=True, env=environment,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(path) as arrays:
        loaded = dict(arrays)
    assert str(loaded["isa"]) == request.param
    return loaded


def test_the_generic_target_is_always_there() -> None:
    assert TARGETS[-1] == "generic"
    assert _native.isa() == (os.environ.get("UNROLLED_ISA") or TARGETS[0])


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("threads", THREADS)
def test_every_number_is_within_the_budget(found: dict[str, np.ndarray], threads: int, cell: str) -> None:
    for problem in PROBLEMS:
        if problem.cell == cell:
            got = [torch.from_numpy(found[f"{problem} {threads} {n}"]) for n in range(len(labels(problem)))]
            assert_right(problem, got)


@pytest.mark.parametrize("cell", GATES)
def test_threads_change_nothing_but_the_order_of_sums(found: dict[str, np.ndarray], cell: str) -> None:
    """Threads deal rows and units out; only sums over the batch change their order: 8 epsilons of the largest value."""
    for problem in PROBLEMS:
        if problem.cell != cell:
            continue
        for number, name in enumerate(labels(problem)):
            one, *others = (found[f"{problem} {threads} {number}"] for threads in THREADS)
            scale = max(1.0, float(np.abs(one).max(initial=0.0)))
            for other in others:
                np.testing.assert_allclose(other, one, rtol=0, atol=8 * np.finfo(one.dtype).eps * scale, err_msg=name)


def test_the_problems_cover_what_they_must() -> None:
    for cell in GATES:
        mine = [p for p in PROBLEMS if p.cell == cell]
        assert {p.hidden for p in mine} >= set(SIZES)
        assert {p.width for p in mine} >= set(SIZES)
        assert {p.batch for p in mine} == {*range(20), 33}
        assert {p.biases for p in mine} == {0, 1, 2}
        for dtype in (torch.float32, torch.float64):
            for flag in ("is_ragged", "has_resets", "has_restart", "reverse", "recompute"):
                assert {getattr(p, flag) for p in mine if p.dtype == dtype} == {True, False}, (cell, dtype, flag)
    assert {0, 1, 70} <= {p.steps for p in PROBLEMS}


# Numbers at the edge


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("cell", GATES)
def test_a_nan_stays_in_its_row_and_is_not_lost(cell: str, dtype: torch.dtype) -> None:
    """A bound inside sigmoid or tanh must not turn a NaN into a number; rows that share a tile are untouched."""
    this = Problem(cell, 5, 9, 7, 17, 8 if cell == "lstm_projected" else 17, dtype, seed=600)
    clean, tensors = run(this, native), this.tensors()
    assert tensors[0] is not None
    tensors[0][2, 4, 3] = float("nan")
    found = run(this, native, tensors)
    out, h, gradient_of_x = found[0], found[1], found[labels(this).index("gradient of x")]
    assert out[2:, 4].isnan().all()
    assert h[4].isnan().all()
    others = [0, 1, 2, 3, 5, 6, 7, 8]
    assert_bitwise(out[:, others], clean[0][:, others])
    assert_bitwise(out[:2], clean[0][:2])
    assert_bitwise(h[others], clean[1][others])
    assert_bitwise(gradient_of_x[:, others], clean[labels(this).index("gradient of x")][:, others])
    if cell != "rnn_relu":  # whose slope is 0 or 1 whatever comes in
        assert gradient_of_x[:, 4].isnan().any()


@pytest.mark.parametrize("size", [20.0, 90.0, 800.0, 1e6, 1e30, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm", "lstm_projected", "gru_after", "gru_before"])
def test_gates_far_in_saturation(cell: str, dtype: torch.dtype, size: float) -> None:
    """Biases beyond the range of exp, of both signs: gates are 0 and 1, and nothing overflows into a NaN."""
    this = Problem(cell, 4, 3, 7, 9, 5 if cell == "lstm_projected" else 9, dtype, 2, seed=610)
    tensors = this.tensors()
    assert tensors[5] is not None
    tensors[5] = torch.where(tensors[5] < 0, -size, size).to(dtype)
    for name, got, want in zip(labels(this), run(this, native, tensors), run(this, reference, tensors), strict=True):
        assert torch.isfinite(got).all(), name
        assert_near(got, want, ulps=32)
