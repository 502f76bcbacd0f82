"""Problems for the native engine, and a program that runs them on one target.

Axes     as in `unrolled.kernels`. The ten tensors of a scan stand in the order of NAMES.

UNROLLED_ISA is read once in a process, so each target needs a process of its own: `python -m oracles.native FILE` runs
every problem and writes its results and gradients as FILE (npz). The test computes the truth once, for all targets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unrolled import _native
from unrolled.kernels import choose, native

SIZES = (1, 7, 8, 9, 15, 16, 17, 31, 33, 64)  # on both sides of every number of lanes
NAMES = ("x", "h", "c", "W", "U", "b", "b_h", "V", "restart_h", "restart_c")
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "lstm_projected": 4, "gru_after": 3, "gru_before": 3}
CORNERS: tuple[dict[str, Any], ...] = (
    {"steps": 0}, {"batch": 0}, {"steps": 1, "batch": 1, "width": 1}, {"steps": 70, "dtype": torch.float32},
)  # fmt: skip
THREADS = (1, 2, 5)  # the last: more than the cores of a small machine


@dataclass(frozen=True)
class Problem:
    """One scan: sizes, options and a seed, from which every number in it follows."""

    cell: str
    steps: int
    batch: int
    width: int
    hidden: int
    state: int
    dtype: torch.dtype = torch.float64
    biases: int = 2
    is_ragged: bool = False
    has_resets: bool = False
    has_restart: bool = False
    reverse: bool = False
    recompute: bool = False
    seed: int = 0

    def __str__(self) -> str:
        flags = ("is_ragged", "has_resets", "has_restart", "reverse", "recompute")
        marks = "".join("-" + name.removeprefix("is_").removeprefix("has_") for name in flags if getattr(self, name))
        sizes = f"T{self.steps}-B{self.batch}-I{self.width}-H{self.hidden}-P{self.state}"
        return f"{self.cell}-{str(self.dtype)[6:]}-{sizes}-{self.biases}b{marks}-{self.seed}"

    @property
    def name(self) -> str:
        return {"r": "rnn_scan", "l": "lstm_scan", "g": "gru_scan"}[self.cell[0]]

    def tensors(self) -> list[Tensor | None]:
        """The ten tensors: far from zero, and small enough for their sums to stay in the bend of tanh."""
        generator = torch.Generator().manual_seed(1000 + self.seed)
        gates, hidden, state, width = GATES[self.cell], self.hidden, self.state, self.width

        def draw(scale: float, *shape: int) -> Tensor:
            drawn = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
            return (drawn * scale).to(self.dtype)

        is_lstm, restarts = self.cell.startswith("lstm"), self.has_restart
        return [
            draw(1.5, self.steps, self.batch, width), draw(0.9, self.batch, state),
            draw(0.9, self.batch, hidden) if is_lstm else None,
            draw(1.5 * width**-0.5, gates, width, hidden), draw(1.5 * state**-0.5, gates, state, hidden),
            draw(0.8, gates, hidden) if self.biases > 0 else None,
            draw(0.8, gates, hidden) if self.biases > 1 else None,
            draw(1.5 * hidden**-0.5, hidden, state) if self.cell == "lstm_projected" else None,
            draw(0.9, state) if restarts else None, draw(0.9, hidden) if restarts and is_lstm else None,
        ]  # fmt: skip

    def options(self) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(2000 + self.seed)
        lengths = torch.randint(0, self.steps + 1, (self.batch,), generator=generator)
        resets = torch.rand(self.batch, self.steps, generator=generator) < 0.3
        if self.batch > 1:
            lengths[0], lengths[-1] = 0, self.steps
        return {
            "lengths": lengths if self.is_ragged else None,
            "resets": resets if self.has_resets else None,
            "reverse": self.reverse,
        }

    def seeds(self, results: Sequence[Tensor]) -> list[Tensor]:
        """The gradient of each result."""
        generator = torch.Generator().manual_seed(3000 + self.seed)
        return [(torch.rand(r.shape, generator=generator, dtype=torch.float64) * 2 - 1).to(self.dtype) for r in results]


def arguments(problem: Problem, tensors: Sequence[Tensor | None]) -> tuple[tuple, dict[str, Any]]:
    """The ten tensors as one of the three scans takes them: the RNN's weights have no axis of gates."""
    x, h, c, W, U, b, b_h, V, restart_h, restart_c = tensors
    options: dict[str, Any] = problem.options() | {"restart_h": restart_h}
    if problem.name == "lstm_scan":
        return (x, h, c, W, U, b, b_h, V), options | {"restart_c": restart_c}
    if problem.name == "gru_scan":
        return (x, h, W, U, b, b_h), options | {"reset_after": problem.cell == "gru_after"}
    weights = (None if w is None else w[0] for w in (W, U, b, b_h))
    return (x, h, *weights), options | {"nonlinearity": problem.cell[4:]}


def by_native(problem: Problem) -> Callable[..., tuple[Tensor, ...]]:
    """The engine's scan that keeps what the problem says."""
    memory = "recompute" if problem.recompute else "store"
    return choose(problem.name, torch.zeros(1, 1, 1, dtype=problem.dtype), backend="native", memory=memory).run


def run(problem: Problem, engine: ModuleType, tensors: Sequence[Tensor | None] | None = None) -> list[Tensor]:
    """The results of an engine, then the gradient of every tensor there is."""
    given = problem.tensors() if tensors is None else tensors
    leaves = [None if t is None else t.detach().requires_grad_() for t in given]
    positional, options = arguments(problem, leaves)
    scan = by_native(problem) if engine is native else getattr(engine, problem.name)
    results = scan(*positional, **options)
    wanted = [t for t in leaves if t is not None]
    # Without a step, the output is empty and hangs on nothing.
    reached = [(r, seed) for r, seed in zip(results, problem.seeds(results), strict=True) if r.requires_grad]
    outs, seeds = zip(*reached, strict=True)
    gradients = torch.autograd.grad(outs, wanted, seeds, materialize_grads=True, allow_unused=True)
    return [*(r.detach() for r in results), *gradients]


def labels(problem: Problem) -> list[str]:
    """What each tensor is that `run` returns."""
    results = ["out", "h_n", "c_n"] if problem.name == "lstm_scan" else ["out", "h_n"]
    return results + [f"gradient of {name}" for name, t in zip(NAMES, problem.tensors(), strict=True) if t is not None]


def problems() -> list[Problem]:
    """Every cell in both precisions, at sizes that differ per axis, with every option on and off."""
    made = []
    batches = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 33]
    for number, cell in enumerate(GATES):
        for k, hidden in enumerate(SIZES):
            for j, dtype in enumerate((torch.float32, torch.float64)):
                index = (2 * k + j + 7 * number) % 20
                batch = batches[index]
                state = SIZES[(k + 4) % 10] if cell == "lstm_projected" else hidden
                made.append(Problem(
                    cell, (9, 4, 3, 2)[min(3, batch // 5)], batch, SIZES[(k + 3 + number) % 10], hidden, state, dtype,
                    biases=index % 3, is_ragged=bool((k + j) & 1), has_resets=bool((k >> 1) + j & 1),
                    has_restart=bool(k + j + number & 2), reverse=bool(index // 2 + number & 1),
                    recompute=bool(k // 2 + j & 1), seed=len(made),
                ))  # fmt: skip
        plain = Problem(cell, 5, 3, 4, 3, 2 if cell == "lstm_projected" else 3, seed=500 + number)
        made += [replace(plain, **sizes, is_ragged=True, has_resets=True, has_restart=True) for sizes in CORNERS]
    return made


def main(path: str) -> None:
    found = {"isa": np.array(_native.isa())}
    for problem in problems():
        for threads in THREADS:
            torch.set_num_threads(threads)
            for number, tensor in enumerate(run(problem, native)):
                found[f"{problem} {threads} {number}"] = tensor.numpy()
    np.savez(path, **found)


if __name__ == "__main__":
    main(sys.argv[1])
