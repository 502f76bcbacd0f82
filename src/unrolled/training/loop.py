"""The loop: epochs of steps, validation, checkpoints, early stopping. One for all tasks; a step is `descent`'s.

Variant  Each epoch seeds its own random numbers from the recipe's seed and its number; a checkpoint in the middle of
         one keeps their state. A run that goes on draws what it would have drawn. The learning rate is a function of
         time, so there is no scheduler to restore. An epoch is logged before its checkpoint, which knows the log's
         length.
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.errors import BundleError, RunError, expected
from unrolled.insight.summaries import Watcher
from unrolled.training import checkpoints
from unrolled.training.descent import Descent, Taken
from unrolled.training.folder import RunFolder
from unrolled.training.optimisation import learning_rate, optimizer_state, restore_optimizer
from unrolled.training.precision import Precision
from unrolled.training.progress import Progress, Silent
from unrolled.training.ranks import Ranks
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.signals import Leave, Signals
from unrolled.training.tasks import Encoded, Place, Task
from unrolled.training.tracking import Tracking
from unrolled.training.trained import Trained

__all__ = ["Counters", "Loop", "Progress", "Silent"]


@dataclass
class Counters:
    """Where a run stands. Saved with every checkpoint."""

    epoch: int = 0  # epochs done
    step: int = 0  # optimizer steps done
    best_epoch: int = 0
    best_rank: list[float] = field(default_factory=list)
    best_valid: Numbers = field(default_factory=dict)
    average_updates: int = 0
    pieces: int = 0  # of the epoch that is being trained: its steps so far, the sum of their losses, and over how many
    nats: float = 0.0
    positions: float = 0.0
    skipped: int = 0  # steps that float16 left out

    def checked(self) -> Counters:
        """The same, if each number is of its kind.

        Raises:
            TypeError: one is not.
        """
        for name, usual in vars(Counters()).items():
            value = getattr(self, name)
            if type(value) not in ((int, float) if type(usual) is float else (type(usual),)):
                raise TypeError(expected(name, type(usual).__name__, repr(value)[:40]))
        return self


@dataclass
class Loop:
    """A model on its way through the training data."""

    task: Task
    model: nn.Module
    train: Encoded
    valid: Encoded
    folder: RunFolder
    progress: Progress = field(default_factory=Silent)
    tracking: Tracking = field(default_factory=lambda: Tracking(None, lambda _: None))
    ranks: Ranks = field(default_factory=Ranks)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.recipe: Recipe = self.task.recipe
        self.task.ranks = self.ranks
        self.device = next(self.model.parameters()).device
        self.precision = Precision(self.recipe.precision, self.device)
        self.precision.apply(self.model)
        self.descent = Descent(self.recipe, self.model, self.ranks, self.precision)
        self.optimizer, self.average = self.descent.optimizer, self.descent.average
        self.watcher = Watcher(self.model, self.recipe.inspect_every)
        self.step_count = -(-self.task.step_count(self.train) // self.recipe.accumulate)
        self.signals = Signals()
        self.saved = ""  # the name of the newest checkpoint
        self._saved_step, self._saved_at = -1, time.monotonic()
        self._place: Place | None = None  # in the epoch to train, where it is not its beginning
        self._random: dict[str, Tensor] = {}  # torch's generators there
        self.machine = {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": self.device.type}
        self.machine["processes"] = self.ranks.count
        self.engine = self.precision.engine(self.model)
        self.machine |= {"engine": self.engine["engine"]} if self.engine else {}
        self.fingerprint = fingerprint(self.task, self.train, self.valid)

    def run(self) -> None:
        """Train until the last epoch, or until patience ends. The folder must exist.

        Ctrl-C, SIGTERM and SIGHUP write a checkpoint first.

        Raises:
            RunError: a loss or a gradient is not finite, or the folder cannot be written to.
            KeyboardInterrupt: Ctrl-C.
            SystemExit: another of these signals, with 128 and its number.
        """
        parameters = sum(p.numel() for p in self.model.parameters())
        epochs = self.recipe.epochs
        self.progress.start(epochs=epochs, done=self.counters.epoch, steps=self.step_count, parameters=parameters)
        if self.precision.note:
            self.progress.note(self.precision.note)
        try:
            with self.signals:
                self._run_epochs()
        except KeyboardInterrupt:
            self.progress.note(f"stopped; {self._kept()} {self._go_on()}")
            raise
        finally:
            self.progress.stop()
        if self.counters.epoch < epochs:
            waited = f"no better validation score for {self.recipe.patience} epochs"
            self.progress.note(f"stopped after epoch {self.counters.epoch}: {waited}")

    def _run_epochs(self) -> None:
        try:
            if self.counters.step == 0:
                if not self.saved:
                    self.log(event="start", precision=self.precision.name, **self.engine)
                self._checkpoint()
            while self.counters.epoch < self.recipe.epochs and not self._out_of_patience():
                self._run_epoch()
                self._check_signals()
        except Leave as leave:
            if self._saved_step != self.counters.step:
                self._checkpoint(self._place)
            self.progress.note(f"stopped by {leave.name}; {self._kept()} {self._go_on()}")
            raise leave.ending from None

    def _run_epoch(self) -> None:
        started = time.perf_counter()
        epoch = self.counters.epoch + 1
        loss = self.train_epoch(epoch)
        waited = 0.0 if self._place is None else round(self._place.waited, 3)
        self.model.eval()
        # Several processes score together: one that leaves in the middle would leave the others waiting.
        at_once = self.signals.at_once() if self.ranks.count == 1 else nullcontext()
        with self.average.applied(), at_once:
            valid = self.task.measure(self.model, self.valid)
        if not math.isfinite(valid["nats"]):
            raise RunError(f"the loss on the validation part is {valid['nats']} after epoch {epoch}. {self._kept()}")
        self.counters.epoch = epoch
        self.counters.pieces, self.counters.nats, self.counters.positions = 0, 0.0, 0.0
        self._place = None
        score, value, _ = self.task.score(valid)
        rank = list(self.task.rank(valid))
        valid = {name: number for name, number in valid.items() if math.isfinite(number)}  # JSON knows no infinity
        best = not self.counters.best_rank or rank > self.counters.best_rank
        if best:
            self.counters.best_epoch, self.counters.best_rank, self.counters.best_valid = epoch, rank, valid
            self._save_best(epoch, valid)
        seconds = round(time.perf_counter() - started, 3)
        found = {"loss": loss, "valid": valid, "best": best, "seconds": seconds, "waited": waited}
        self.log(event="epoch", epoch=epoch, step=self.counters.step, **found)
        self._checkpoint()
        self.progress.epoch(epoch=epoch, loss=loss, score=score, value=value, best=best)

    def train_epoch(self, epoch: int) -> float:
        """One time through the training data (epochs count from 1). Returns the mean loss a position."""
        torch.manual_seed((self.recipe.seed * 1_000_003 + epoch + 7_368_787 * self.ranks.index) % 2**63)
        rng = np.random.default_rng([self.recipe.seed, epoch])
        self.model.train()
        self.task.epoch = epoch
        counters, place = self.counters, self._place or Place()
        pieces = self.task.steps(self.model, self.train, rng, place)
        checkpoints.restore_random(self.device, self._random)
        self._place, self._random = place, {}
        self.watcher.arm(counters.step + 1)
        for piece in pieces:
            self._explained(self.descent.add, piece)
            if not self.descent.is_full:
                continue
            if self._step(epoch, place, rng):
                self._check_signals()
                self.watcher.arm(counters.step + 1)
        if self.descent.pieces and self._step(epoch, place, rng):  # the last step of an epoch may have fewer batches
            self._check_signals()
        self.watcher.disarm()
        return counters.nats / max(counters.positions, 1)

    def _step(self, epoch: int, place: Place, rng: np.random.Generator) -> bool:
        """One optimizer step, and what stands in the log and the checkpoints of it; False where nothing was learnt."""
        counters = self.counters
        rate = learning_rate(self.recipe, epoch - 1 + counters.pieces / self.step_count)
        taken = self._explained(self.descent.step, rate)
        if taken is None:  # no process has anything to learn from in these batches
            return False
        counters.nats += taken.nats
        counters.positions += taken.positions
        counters.pieces += 1
        counters.step += 1
        counters.skipped += taken.skipped
        place.drawn = dict(rng.bit_generator.state)
        self.progress.step(epoch=epoch, step=counters.pieces, loss=counters.nats / max(counters.positions, 1))
        self._log_step(epoch, taken, rate)
        if self._is_due():
            self._checkpoint(place)
        return True

    def _explained(self, action: Callable[[Any, int], Any], given: Any) -> Any:
        """Do it for the step that is next; an error also says what the folder keeps."""
        try:
            return action(given, self.counters.step + 1)
        except RunError as error:
            raise RunError(f"{error} {self._kept()}") from None

    def log(self, **values: Any) -> None:
        """A line of metrics.jsonl, and for the trackers."""
        if self.ranks.first:
            self.folder.log(**values)
            self.tracking.log(values)

    def _save_best(self, epoch: int, valid: Numbers) -> None:
        if self.ranks.first:
            with self.average.applied(), self.folder.writing(self.folder.model_file):
                Trained(self.recipe, self.task, self.model).save(self.folder.model_file, epoch=epoch, valid=valid)

    def _check_signals(self) -> None:
        """Leave, if a signal has come; several processes leave together, whichever of them it came to."""
        if self.ranks.count == 1:
            self.signals.check()
        elif any(self.ranks.total([self.signals.asked is not None])):
            raise Leave(self.signals.asked or signal.SIGTERM)

    def _log_step(self, epoch: int, taken: Taken, rate: float) -> None:
        """What metrics.jsonl keeps of a step, where a line is due, and what the watcher saw."""
        step, clip = self.counters.step, self.recipe.clip
        if step % self.recipe.log_every == 0:
            numbers: dict[str, Any] = {"loss": taken.loss, "gradient_norm": taken.norm, "learning_rate": rate}
            numbers["clipped"] = clip is not None and taken.norm > clip
            if self.precision.scaler.is_enabled():
                numbers["gradient_norm"] = None if taken.skipped else taken.norm
                numbers |= {"gradient_scale": self.precision.scaler.get_scale(), "skipped": self.counters.skipped}
            self.log(event="step", epoch=epoch, step=step, **numbers)
        if looked := self.watcher.take(self.model):
            self.log(event="insight", epoch=epoch, step=step, **looked)

    def _kept(self) -> str:
        """What the folder holds, for the message of a run that ends early."""
        best = self.counters.best_epoch
        model = f"; {self.folder.model_file} is that of epoch {best}, the best so far" if best else ""
        epoch, _, step = self.saved.removeprefix("epoch-").partition("-step-")
        where = f"step {int(step)}, in epoch {int(epoch) + 1}," if step else f"epoch {int(epoch or 0)}"
        return f"The checkpoint after {where} is kept in {self.folder.checkpoints}{model}."

    def _go_on(self) -> str:
        return f"Go on with: unrolled train --resume {self.folder.path}"

    def _out_of_patience(self) -> bool:
        waited = self.counters.epoch - self.counters.best_epoch
        return self.recipe.patience is not None and self.counters.epoch > 0 and waited >= self.recipe.patience

    # checkpoints

    def _checkpoint(self, place: Place | None = None) -> None:
        """Save everything. `place`: where in the epoch; None: between two."""
        self.counters.average_updates = self.average.updates
        carried, shape = checkpoints.flat(None if place is None else place.carried)
        tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.values.items()}
        tensors |= {f"optimizer.{name}": value for name, value in optimizer_state(self.optimizer).items()}
        own = {f"carried.{number}": value for number, value in enumerate(carried)}
        own |= {f"random.{name}": value for name, value in checkpoints.keep_random(self.device).items()}
        arrays = as_arrays(tensors)
        for index, theirs in enumerate(self.ranks.exchange_arrays(as_arrays(own))):
            arrays |= {f"process.{index}.{name}": array for name, array in theirs.items()}
        values = {
            "counters": vars(self.counters),
            "fingerprint": self.fingerprint,
            "machine": self.machine,
            "scaler": self.descent.scaler_state(),
            "place": None if place is None else {"batches": place.batches, "drawn": place.drawn},
            "carried": self.ranks.exchange(shape),
            "metrics_bytes": self.folder.keep_metrics() if self.ranks.first else 0,
        }
        counters, step = self.counters, None if place is None else self.counters.step
        if self.ranks.first:
            values = checkpoints.stamped(arrays, values)
            self.saved = self.folder.save_checkpoint(counters.epoch, step, arrays, values, counters.best_epoch).stem
        self._saved_step, self._saved_at = counters.step, time.monotonic()

    def _is_due(self) -> bool:
        """Whether a checkpoint in the middle of an epoch is due."""
        every, minutes = self.recipe.checkpoint_every, self.recipe.checkpoint_minutes
        if every is not None and self.counters.step % every == 0:
            return True
        late = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        return (
            late if self.ranks.count == 1 or minutes is None else bool(self.ranks.total([late * self.ranks.first])[0])
        )

    def restore(self) -> None:
        """Go back to the newest checkpoint that is whole; where there is none, stay at the beginning.

        Raises:
            RunError: none of those that are there can be used, or the data are not those that the run began with.
        """
        length = self.folder.newest_checkpoint(self._restore, (BundleError,), self.progress.note)
        if not self.ranks.first:
            return
        self.folder.cut_metrics(length or 0)
        ended = self.counters.epoch >= self.recipe.epochs or self._out_of_patience()
        if self.saved and ended:  # nothing will be saved that would tidy up
            self.folder.tidy(self.folder.checkpoints / f"{self.saved}.safetensors", self.counters.best_epoch)

    def _restore(self, path: Path) -> int:
        """Take over a checkpoint. Returns how long metrics.jsonl was."""
        arrays, values = checkpoints.read(path)
        if values["fingerprint"] != self.fingerprint:
            found = "data with other tokens, labels or values"
            way_out = "Put the old file back, or start another run."
            raise RunError(expected(self.recipe.data, "the data that the run began with", found, way_out))
        if values["place"] is not None and values["machine"]["processes"] != self.ranks.count:
            began = values["machine"]["processes"]
            way_out = f"In the middle of an epoch each has states of its own: --processes {began}."
            raise RunError(
                expected("processes", f"{began}, as when {path.name} was written", self.ranks.count, way_out)
            )
        parts: dict[str, dict[str, Tensor]] = {}
        for name, array in arrays.items():
            part, _, key = name.removeprefix(f"process.{self.ranks.index}.").partition(".")
            parts.setdefault(part, {})[key] = torch.from_numpy(array)
        try:
            self._take(parts, values)
        except (RuntimeError, KeyError, IndexError, TypeError, ValueError) as error:
            found = f"one that does not ({(str(error) or type(error).__name__).splitlines()[0]})"
            raise BundleError(expected(str(path), "a checkpoint that fits the recipe", found)) from None
        for name, now in self.machine.items():
            if values["machine"].get(name) not in (None, now):
                before = values["machine"][name]
                self.progress.note(f"{name} was {before} and is {now}: the last digits may differ from here on")
        self.saved = path.stem
        self._saved_step = self.counters.step
        return int(values["metrics_bytes"])

    def _take(self, parts: dict[str, dict[str, Tensor]], values: dict[str, Any]) -> None:
        self.counters = Counters(**values["counters"]).checked()
        self.model.load_state_dict(parts["model"])
        for name, value in self.average.values.items():
            value.copy_(parts["average"][name])
        self.average.updates = self.counters.average_updates
        restore_optimizer(self.optimizer, parts.get("optimizer", {}))
        self.descent.restore_scaler(values.get("scaler"))
        place, self._place, self._random = values["place"], None, {}
        if place is not None:
            carried = {int(number): tensor.to(self.device) for number, tensor in parts.get("carried", {}).items()}
            shape = values["carried"][self.ranks.index]
            self._place = Place(place["batches"], checkpoints.whole(carried, shape), place["drawn"])
            self._random = parts["random"]


def as_arrays(tensors: Mapping[str, Tensor]) -> checkpoints.Arrays:
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}


def fingerprint(task: Task, *parts: Encoded) -> str:
    """SHA-256 of what the data were measured to be, and of every row in its order: a run goes on with these alone."""
    found = hashlib.sha256(json.dumps(task.to_dict(), sort_keys=True).encode())
    for part in parts:
        part.stamp(found.update)
    return found.hexdigest()
