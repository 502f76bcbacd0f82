"""The loop: epochs of steps, clipping, validation, checkpoints, early stopping. One for all tasks.

Variant  Each epoch seeds its own random numbers from the recipe's seed and its number, so a run that goes on from a
         checkpoint draws what it would have drawn, on any device. The learning rate is a function of time, so there
         is no scheduler to restore.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.errors import BundleError, RunError, expected
from unrolled.insight.non_finite import find_non_finite
from unrolled.insight.summaries import Watcher
from unrolled.training.folder import RunFolder
from unrolled.training.gradients import check_finite_loss, clip_gradients
from unrolled.training.optimisation import Average, learning_rate, optimizer_for
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks import Encoded, StepLoss, Task
from unrolled.training.trained import Trained

__all__ = ["Counters", "Loop", "Progress", "Silent"]


class Progress(Protocol):
    """Who watches a run. The command line draws a bar; the default does nothing."""

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None:
        """Training begins: `epochs` in all, of which `done` are behind; `steps` an epoch."""

    def step(self, *, epoch: int, step: int, loss: float) -> None:
        """A step is done. `loss` is the mean of the epoch so far, in nats a position."""

    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None:
        """An epoch is done and validated: `score` names the validation score, `value` is it."""

    def note(self, text: str) -> None:
        """A line that the person should see."""

    def stop(self) -> None:
        """Training is over, in whatever way; called once for each `start`."""


class Silent:
    """Watches, and says nothing."""

    def start(self, *, epochs: int, done: int, steps: int, parameters: int) -> None: ...
    def step(self, *, epoch: int, step: int, loss: float) -> None: ...
    def epoch(self, *, epoch: int, loss: float, score: str, value: float, best: bool) -> None: ...
    def note(self, text: str) -> None: ...
    def stop(self) -> None: ...


@dataclass
class Counters:
    """Where a run stands. Saved with every checkpoint."""

    epoch: int = 0  # epochs done
    step: int = 0  # optimizer steps done
    best_epoch: int = 0
    best_rank: list[float] = field(default_factory=list)
    best_valid: Numbers = field(default_factory=dict)
    average_updates: int = 0


@dataclass
class Loop:
    """A model on its way through the training data."""

    task: Task
    model: nn.Module
    train: Encoded
    valid: Encoded
    folder: RunFolder
    progress: Progress = field(default_factory=Silent)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.recipe: Recipe = self.task.recipe
        self.optimizer = optimizer_for(self.recipe, self.model)
        self.average = Average(self.model, self.recipe.average)
        self.watcher = Watcher(self.model, self.recipe.inspect_every)
        self.step_count = self.task.step_count(self.train)
        self.saved_epoch = 0  # of the newest checkpoint
        measured = json.dumps(self.task.to_dict(), sort_keys=True).encode()
        self.fingerprint = hashlib.sha256(measured).hexdigest()  # of what the training data were measured to be

    def run(self) -> None:
        """Train until the last epoch, or until patience ends. The folder must exist."""
        parameters = sum(p.numel() for p in self.model.parameters())
        epochs = self.recipe.epochs
        self.progress.start(epochs=epochs, done=self.counters.epoch, steps=self.step_count, parameters=parameters)
        try:
            if self.counters.epoch == 0:
                self._checkpoint()
            while self.counters.epoch < epochs and not self._out_of_patience():
                self._run_epoch()
        except KeyboardInterrupt:
            self.progress.note(f"stopped; {self._kept()} Go on with: unrolled train --resume {self.folder.path}")
            raise
        finally:
            self.progress.stop()
        if self.counters.epoch < epochs:
            waited = f"no better validation score for {self.recipe.patience} epochs"
            self.progress.note(f"stopped after epoch {self.counters.epoch}: {waited}")

    def _run_epoch(self) -> None:
        started = time.perf_counter()
        epoch = self.counters.epoch + 1
        loss = self.train_epoch(epoch)
        self.model.eval()
        with self.average.applied():
            valid = self.task.measure(self.model, self.valid)
        if not math.isfinite(valid["nats"]):
            raise RunError(f"the loss on the validation part is {valid['nats']} after epoch {epoch}. {self._kept()}")
        self.counters.epoch = epoch
        score, value, _ = self.task.score(valid)
        rank = list(self.task.rank(valid))
        valid = {name: number for name, number in valid.items() if math.isfinite(number)}  # JSON knows no infinity
        best = not self.counters.best_rank or rank > self.counters.best_rank
        if best:
            self.counters.best_epoch, self.counters.best_rank, self.counters.best_valid = epoch, rank, valid
            with self.average.applied():
                Trained(self.recipe, self.task, self.model).save(self.folder.model_file, epoch=epoch, valid=valid)
        self._checkpoint()
        seconds = round(time.perf_counter() - started, 3)
        self.folder.log(
            event="epoch", epoch=epoch, step=self.counters.step, loss=loss, valid=valid, best=best, seconds=seconds
        )
        self.progress.epoch(epoch=epoch, loss=loss, score=score, value=value, best=best)

    def train_epoch(self, epoch: int) -> float:
        """One time through the training data (epochs count from 1). Returns the mean loss a position."""
        torch.manual_seed((self.recipe.seed * 1_000_003 + epoch) % 2**63)
        rng = np.random.default_rng([self.recipe.seed, epoch])
        self.model.train()
        self.task.epoch = epoch
        total = positions = 0.0
        self.watcher.arm(self.counters.step + 1)
        for number, piece in enumerate(self.task.steps(self.model, self.train, rng)):
            rate = learning_rate(self.recipe, epoch - 1 + number / self.step_count)
            norm = self._descend(piece, rate)
            total += float(piece.mean) * piece.positions
            positions += piece.positions
            self.counters.step += 1
            self.progress.step(epoch=epoch, step=number + 1, loss=total / max(positions, 1))
            if self.counters.step % self.recipe.log_every == 0:
                self.folder.log(
                    event="step",
                    epoch=epoch,
                    step=self.counters.step,
                    loss=float(piece.mean),
                    gradient_norm=norm,
                    clipped=self.recipe.clip is not None and norm > self.recipe.clip,
                    learning_rate=rate,
                )
            if looked := self.watcher.take(self.model):
                self.folder.log(event="insight", epoch=epoch, step=self.counters.step, **looked)
            self.watcher.arm(self.counters.step + 1)
        self.watcher.disarm()
        return total / max(positions, 1)

    def _descend(self, piece: StepLoss, rate: float) -> float:
        """One optimizer step. Returns the norm of the gradient before clipping."""
        step = self.counters.step + 1
        if not bool(torch.isfinite(piece.loss)):
            self._explain_loss(piece, step)
        self.optimizer.zero_grad(set_to_none=True)
        piece.loss.backward()
        try:
            norm = clip_gradients(self.model, self.recipe.clip, step=step)
        except RunError as error:
            row = _row_of_bad_gradient(self.model, piece)
            raise RunError(f"{error} Row: {row}. {self._kept()}") from None
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.average.update()
        return norm

    def _explain_loss(self, piece: StepLoss, step: int) -> NoReturn:
        found = find_non_finite(self.model, *piece.call[0], **piece.call[1])
        with torch.no_grad():
            losses = piece.by_row()
        try:
            check_finite_loss(losses, step, model=self.model, rows=piece.rows, found=found)
        except RunError as error:
            raise RunError(f"{error} {self._kept()}") from None
        largest = piece.rows[int(losses.argmax())]  # each row is finite, and only their sum is not
        raise RunError(
            f"the loss is {float(piece.loss.detach())} at step {step}, the largest in row {largest}. {self._kept()}"
        )

    def _kept(self) -> str:
        """What the folder holds, for the message of a run that ends early."""
        best, last = self.counters.best_epoch, self.saved_epoch
        model = f"; {self.folder.model_file} is that of epoch {best}, the best so far" if best else ""
        return f"The checkpoint after epoch {last} is kept in {self.folder.checkpoints}{model}."

    def _out_of_patience(self) -> bool:
        waited = self.counters.epoch - self.counters.best_epoch
        return self.recipe.patience is not None and self.counters.epoch > 0 and waited >= self.recipe.patience

    # checkpoints

    def _checkpoint(self) -> None:
        self.counters.average_updates = self.average.updates
        tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.values.items()}
        for index, parts in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(v) for key, v in parts.items() if v is not None}
        arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
        self.folder.save_checkpoint(
            self.counters.epoch, arrays, vars(self.counters) | {"fingerprint": self.fingerprint}
        )
        self.saved_epoch = self.counters.epoch

    def restore(self) -> None:
        """Go back to the last checkpoint: weights, their average, the optimizer and the counters."""
        saved = self.folder.last_checkpoint()
        if saved is None:
            return
        arrays, counters = saved
        if counters.pop("fingerprint", self.fingerprint) != self.fingerprint:
            found = "data with other tokens, labels or values"
            way_out = "Put the old file back, or start another run."
            raise RunError(expected(self.recipe.data, "the data that the run began with", found, way_out))
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimizer": {}}
        for name, array in arrays.items():
            part, _, key = name.partition(".")
            parts.setdefault(part, {})[key] = torch.from_numpy(array)
        try:
            self.counters = Counters(**counters)
            self.saved_epoch = self.counters.epoch
            self.model.load_state_dict(parts["model"])
            for name, value in self.average.values.items():
                value.copy_(parts["average"][name])
            self.average.updates = self.counters.average_updates
            state: dict[int, dict[str, Any]] = {}
            for name, value in parts["optimizer"].items():
                index, _, key = name.partition(".")
                state.setdefault(int(index), {})[key] = value
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            found = f"one that does not ({str(error).splitlines()[0]})"
            raise BundleError(
                expected(str(self.folder.checkpoints), "a checkpoint that fits the recipe", found)
            ) from None


def _row_of_bad_gradient(model: nn.Module, piece: StepLoss) -> str:
    """The first row whose own gradient is not finite, found row by row: only a failed run can afford it."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    losses = piece.by_row()
    for i, name in enumerate(piece.rows):
        gradients = torch.autograd.grad(losses[i], parameters, retain_graph=True, allow_unused=True)
        if not all(bool(g.isfinite().all()) for g in gradients if g is not None):
            return name
    return f"each alone is finite, of {', '.join(piece.rows[:5])}" + (" …" if len(piece.rows) > 5 else "")
