"""`unrolled bench memory`: can a cell carry something over hundreds of steps? With which start, with which clipping?

A run draws new rows at every step, so nothing can be learnt by heart, and stops when the error on 500 rows of its own
falls below the threshold. What is reported was measured on 2,000 further rows that decided nothing.

Axes     B batch, T steps. Adding: the mean squared error of the sum. Copy: nats a step, over all T + 20 steps.
Source   the tasks and their baselines: `unrolled.data.memory`. Adam: Kingma and Ba (2015), arXiv:1412.6980.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unrolled import equations
from unrolled.data import memory as tasks
from unrolled.errors import RecipeError, RunError, expected
from unrolled.init import chrono
from unrolled.models.build import CELLS
from unrolled.models.readout import Readout
from unrolled.training.gradients import clip_gradients

__all__ = ["INITS", "PROBLEMS", "Problem", "Settings", "Trial", "run", "train", "trials"]

CHECKED, SCORED = 500, 2000  # rows that decide when to stop, and rows that are reported


class Problem(NamedTuple):
    """A task: how its rows are drawn, what a model without memory reaches, and when it counts as solved."""

    draw: Callable[[np.random.Generator, int, int], tasks.Rows]
    channels: int
    outputs: int
    every_step: bool
    metric: str
    baseline: Callable[[int], float]
    solved: Callable[[int], float]


PROBLEMS = {
    "adding": Problem(
        tasks.adding, 2, 1, False, "mean squared error", lambda _: tasks.adding_baseline(), lambda _: 0.01
    ),
    "copy": Problem(
        tasks.copy,
        *(tasks.ALPHABET + 2, tasks.ALPHABET + 1, True, "nats a step"),
        tasks.copy_baseline,
        lambda delay: tasks.copy_baseline(delay) / 10,
    ),
}

# How a layer may start, and the cells for which that means something.
INITS: dict[str, tuple[str, ...]] = {
    "torch": ("rnn", "lstm", "gru"),
    "keras": ("rnn", "lstm", "gru"),  # orthogonal state weights; for the LSTM also forget bias 1
    "forget": ("lstm",),  # torch's start with forget bias 1
    "chrono": ("lstm", "gru"),  # gate biases for lags up to T
    "irnn": ("rnn",),  # identity state weights, relu units
}


@dataclass(frozen=True)
class Settings:
    """What all trials of a bench share."""

    hidden: int = 64
    batch_size: int = 32
    learning_rate: float = 3e-3
    steps: int = 6000  # at most
    check_every: int = 100
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "batch_size", "steps", "check_every"):
            if getattr(self, name) < 1:
                raise RecipeError(expected(name, "1 or more", getattr(self, name)))
        if not 0 < self.learning_rate < float("inf"):
            raise RecipeError(expected("learning_rate", "a number above 0", self.learning_rate))


@dataclass(frozen=True)
class Trial:
    """One network to train."""

    task: str
    length: int  # adding: steps of a row; copy: the delay
    cell: str
    init: str
    clip: float | None  # largest norm of the gradient; None: as it is
    seed: int = 0

    def __str__(self) -> str:
        clip = "no clipping" if self.clip is None else f"clip {self.clip:g}"
        return f"{self.task} {self.length}: {self.cell}, init {self.init}, {clip}, seed {self.seed}"


@dataclass
class Outcome:
    """What a trial came to."""

    trial: Trial
    score: float = float("nan")  # on rows that decided nothing
    baseline: float = 0.0
    solved_at: int | None = None  # optimizer steps until the threshold
    steps: int = 0
    seconds: float = 0.0
    clipped: float = 0.0  # share of the steps whose gradient was cut
    failed: str = ""  # why it ended early
    curve: list[tuple[int, float]] = field(default_factory=list)  # (step, error)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, where NaN has no word but null."""
        values = asdict(self)
        return values | {"score": None if self.score != self.score else self.score}


def trials(
    task: str,
    lengths: Sequence[int],
    cells: Sequence[str],
    inits: Sequence[str],
    clips: Sequence[float | None],
    seeds: Sequence[int],
) -> list[Trial]:
    """Every combination that means something; the initialisations that a cell does not have are left out.

    Raises:
        RecipeError: a word is not known, a number is out of range, or nothing is left.
    """
    for name, given, known in (("task", [task], PROBLEMS), ("cells", cells, CELLS), ("init", inits, INITS)):
        for word in given:
            if word not in known:
                raise RecipeError(expected(name, f"one of {', '.join(known)}", repr(word)))
    for length in lengths:
        if length < 3:
            raise RecipeError(expected("length", "3 steps or more", length))
    for clip in clips:
        if clip is not None and not clip > 0:
            raise RecipeError(expected("clip", "a number above 0, or none", clip))
    every = [
        Trial(task, length, cell, init, clip, seed)
        for length in lengths
        for cell in cells
        for init in inits
        if cell in INITS[init]
        for clip in clips
        for seed in seeds
    ]
    if not every:
        found = f"cells {', '.join(cells) or 'none'} with init {', '.join(inits) or 'none'}"
        way_out = "; ".join(f"{init}: {', '.join(of)}" for init, of in INITS.items())
        raise RecipeError(expected("init", "one that some of the cells have", found, way_out + "."))
    return every


def run(every: Sequence[Trial], settings: Settings, watch: Callable[[Outcome], None] = lambda _: None) -> list[Outcome]:
    """Train all trials, one after the other; `watch` sees each outcome as it comes."""
    outcomes = []
    for trial in every:
        outcomes.append(train(trial, settings))
        watch(outcomes[-1])
    return outcomes


def train(trial: Trial, settings: Settings) -> Outcome:
    """Train one network until it is solved, or for `settings.steps` steps. Seeds and threads are its own."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(settings.threads or threads)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            return _train(trial, settings, model_of(trial, settings))
    finally:
        torch.set_num_threads(threads)


def model_of(trial: Trial, settings: Settings) -> Readout:
    """The network of a trial, with its first weights."""
    problem = PROBLEMS[trial.task]
    options: dict[str, Any] = {"batch_first": True}
    if trial.init == "chrono":
        options["init"] = chrono(trial.length)
    elif trial.init == "forget":
        options["forget_bias"] = 1.0
    else:
        options["init"] = trial.init
    if trial.init == "irnn":
        options["nonlinearity"] = "relu"
    layer = CELLS[trial.cell](problem.channels, settings.hidden, **options)
    return Readout(layer, problem.outputs, every_step=problem.every_step)


def _train(trial: Trial, settings: Settings, model: Readout) -> Outcome:
    problem = PROBLEMS[trial.task]
    training, checking, scoring = (np.random.default_rng(s) for s in np.random.SeedSequence(trial.seed).spawn(3))
    check = list(_batches(trial, checking, CHECKED, settings.batch_size))
    outcome = Outcome(trial, baseline=problem.baseline(trial.length))
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    started, clipped = time.perf_counter(), 0
    try:
        for step in range(1, settings.steps + 1):
            norm = _descend(model, optimizer, trial, next(_batches(trial, training, settings.batch_size)), step)
            clipped += trial.clip is not None and norm > trial.clip
            outcome.steps, outcome.clipped = step, clipped / step
            if step % settings.check_every and step < settings.steps:
                continue
            error = _error(model, check, trial)
            outcome.curve.append((step, error))
            if error < problem.solved(trial.length):
                outcome.solved_at = step
                break
    except RunError as error:  # a number is no longer finite: for this bench a result, not an end
        outcome.failed = str(error)
    else:
        outcome.score = _error(model, _batches(trial, scoring, SCORED, settings.batch_size), trial)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _batches(
    trial: Trial, rng: np.random.Generator, rows: int, at_a_time: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    size = at_a_time or rows
    for start in range(0, rows, size):
        drawn = PROBLEMS[trial.task].draw(rng, min(size, rows - start), trial.length)
        yield torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.targets)


def _losses(model: Readout, batch: tuple[Tensor, Tensor]) -> Tensor:
    """One number a row: its squared error, or its mean nats a step."""
    out, targets = model(batch[0]), batch[1]
    if not model.every_step:
        return (out[:, 0] - targets).square()
    return equations.cross_entropy(out, targets).mean(1)


def _descend(
    model: Readout, optimizer: torch.optim.Optimizer, trial: Trial, batch: tuple[Tensor, Tensor], step: int
) -> float:
    loss = _losses(model, batch).mean()
    if not bool(loss.isfinite()):
        raise RunError(f"the loss is {float(loss.detach())} at step {step}")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = clip_gradients(model, trial.clip, step=step)
    optimizer.step()
    return norm


@torch.no_grad()
def _error(model: nn.Module, batches: Any, trial: Trial) -> float:
    """The mean over rows."""
    losses = torch.cat([_losses(model, batch).double() for batch in batches])  # type: ignore[arg-type]
    error = float(losses.mean())
    if not np.isfinite(error):
        raise RunError(f"the error of {trial} is {error}")
    return error
