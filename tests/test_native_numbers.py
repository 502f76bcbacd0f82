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

from oracles.native import GATES, SIZES, THREADS, labels, problems
from oracles.native_truth import assert_right
from unrolled import _native

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
