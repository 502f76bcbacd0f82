"""The truth for a problem of `oracles.native`, and the comparison with it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from oracles import tape
from oracles.compare import assert_no_worse
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
    """Every result and every gradient within twice the error of eager torch, and two epsilons of the largest value."""
    names = labels(problem)
    for name, found, slow, exact in zip(names, got, eager(problem), truth(problem), strict=True):
        try:
            assert_no_worse(found, slow, exact)
        except AssertionError as failure:
            raise AssertionError(f"{problem}: {name}: {failure}") from None
