"""The truth for a problem of `oracles.native`, and the comparison with it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from oracles import tape
from oracles.compare import error
from oracles.native import Problem, labels, run
from unrolled.kernels import reference


@cache
def truth(problem: Problem) -> list[np.ndarray]:
    return computed(problem)


def computed(problem: Problem) -> list[np.ndarray]:
    """Results and gradients in long double, as `run` orders them."""
    tensors = [None if t is None else t.numpy() for t in problem.tensors()]
    steps, batch, hidden, state = problem.steps, problem.batch, problem.hidden, problem.state
    shapes = [(steps, batch, state), (batch, state), *([(batch, hidden)] if problem.name == "lstm_scan" else [])]
    seeds = [s.numpy() for s in problem.seeds([torch.empty(shape) for shape in shapes])]
    options = problem.options()
    lengths, resets = (None if options[k] is None else options[k].numpy() for k in ("lengths", "resets"))
    results, gradients = tape.scan(
        problem.cell, tensors, seeds, lengths=lengths, resets=resets, reverse=problem.reverse
    )
    return [*results, *(g for g in gradients if g is not None)]


@cache
def eager(problem: Problem) -> list[Tensor]:
    return run(problem, reference)


def assert_right(problem: Problem, got: list[Tensor]) -> None:
    """Every result and every gradient within twice the error of eager torch, and two epsilons of the largest value.

    Eager's own error is the largest, for its size, of all results and gradients of the problem: which of a dozen short
    sums it happens to round well is luck.
    """
    slow, exact = eager(problem), truth(problem)
    scales = [max(float(np.abs(t).max(initial=0.0)), 1.0) for t in exact]
    eps = torch.finfo(problem.dtype).eps
    own = max(error(e, t) / scale for e, t, scale in zip(slow, exact, scales, strict=True))
    for name, found, t, scale in zip(labels(problem), got, exact, scales, strict=True):
        assert found.dtype == problem.dtype
        off, budget = error(found, t), (2 * own + 2 * eps) * scale
        assert off <= budget, f"{problem}: {name}: error {off:.2e} > budget {budget:.2e}"
