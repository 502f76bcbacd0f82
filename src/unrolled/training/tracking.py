"""A run's numbers to TensorBoard, Weights & Biases or MLflow, through Accelerate's trackers.

They get what metrics.jsonl gets, and only copies: a tracker that fails is left out with a note, and the run goes on.
A run that is resumed goes on in the same W&B and MLflow run; RUN/tracking/runs.json names them.

TensorBoard and what the others keep on this machine stand in RUN/tracking. Where to send things is told the usual way,
by WANDB_PROJECT, WANDB_MODE, MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and their like.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from unrolled import bundle
from unrolled.errors import require

__all__ = ["TRACKERS", "Tracking", "numbers_of"]

# the word of --track: the package that it needs
TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
PROJECT = "unrolled"


class Tracking:
    """The trackers of one run.

    Args:
        words: their names, parted by commas, as the recipe has checked them.
        note: told of a tracker that fails.

    Raises:
        MissingExtra: a package is not installed; raised at once, before anything is trained.
    """

    def __init__(self, words: str | None, note: Callable[[str], None]) -> None:
        self.names, self.note = list(dict.fromkeys(words.split(",") if words else ())), note
        self._running: dict[str, Any] = {}
        for package in ("accelerate", *(TRACKERS[name] for name in self.names)) if self.names else ():
            require(package, "track")

    def start(self, run: Path, recipe: Mapping[str, Any]) -> None:
        """Begin, or go on, in the folder of a run."""
        if not self.names:
            return
        importlib.import_module("accelerate").PartialState()  # which process this is: the trackers ask
        folder = run / "tracking"
        folder.mkdir(exist_ok=True)
        begun = _read(folder / "runs.json")
        for name in self.names:
            tracker = self._try(name, partial(_started, name, run, folder, begun.get(name)))
            if tracker is not None:
                self._running[name] = tracker
        ids = {name: _id(tracker) for name, tracker in self._running.items() if name != "tensorboard"}
        bundle.write_atomically(folder / "runs.json", json.dumps(begun | ids).encode())
        plain = {name: value for name, value in recipe.items() if isinstance(value, bool | int | float | str)}
        if not begun:
            self._each(lambda tracker: tracker.store_init_configuration(plain))
            bundle.write_atomically(folder / "runs.json", json.dumps({"begun": True} | ids).encode())

    def log(self, entry: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl."""
        if self._running and (values := dict(numbers_of(entry))):
            self._each(lambda tracker: tracker.log(values, step=entry.get("step")))

    def finish(self) -> None:
        """The run has ended, in whatever way."""
        self._each(lambda tracker: tracker.finish())
        self._running.clear()

    def _each(self, action: Callable[[Any], Any]) -> None:
        for name, tracker in list(self._running.items()):
            self._try(name, partial(action, tracker))

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            # Whatever a tracker's package or server raises: the run is worth more than its copy.
            self._running.pop(name, None)
            said = (str(error).splitlines() or [type(error).__name__])[0]
            self.note(f"{name} failed ({type(error).__name__}: {said}); the run goes on without it")
            return None


def _started(name: str, run: Path, folder: Path, before: str | None) -> Any:
    """A tracker at work. `before`: the run of its own that it goes on with."""
    classes = importlib.import_module("accelerate.tracking")
    if name == "tensorboard":
        tracker = classes.TensorBoardTracker("tensorboard", folder)
    elif name == "wandb":
        goes_on = {} if before is None else {"id": before, "resume": "allow"}
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        tracker = classes.WandBTracker(project, name=run.name, dir=str(folder), **goes_on)
    else:
        mlflow = importlib.import_module("mlflow")
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            mlflow.set_tracking_uri(f"sqlite:///{(folder / 'mlflow.db').resolve()}")
        tracker = classes.MLflowTracker(PROJECT, logging_dir=None, run_id=before, run_name=run.name)
    tracker.start()
    return tracker


def _id(tracker: Any) -> str:
    """The name by which a W&B or an MLflow run is found again."""
    own = tracker.tracker
    return str(own.id if tracker.name == "wandb" else own.info.run_id)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def numbers_of(entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line of metrics.jsonl under the names that trackers show: train/loss, valid/accuracy, test/….

    >>> dict(numbers_of({"event": "epoch", "epoch": 1, "step": 8, "loss": 0.5, "valid": {"nats": 0.6}}))
    {'epoch': 1, 'epoch/loss': 0.5, 'valid/nats': 0.6}
    """
    event = entry["event"]
    if "epoch" in entry:
        yield "epoch", entry["epoch"]
    if event in ("step", "epoch"):
        group = "train" if event == "step" else "epoch"
        for name, value in entry.items():
            if name not in ("epoch", "step", "event"):
                yield from _flat(f"{group}/{name}" if not isinstance(value, dict) else name, value)
    elif event == "insight":
        for layer in entry["layers"]:
            where = f"insight/{layer['name'] or 'layer'}.{layer['layer']}.{layer['direction']}"
            for name in ("half_life", "saturated"):
                yield from _flat(f"{where}/{name}", layer.get(name))
        yield from _flat("gradient", entry["gradients"])
    elif event == "end":
        yield "best_epoch", entry["best_epoch"]
        yield from _flat("test", entry["test"].get("metrics", {}))


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool | int | float):
        yield name, float(value) if isinstance(value, float) else int(value)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(f"{name}/{key}", one)
    elif isinstance(value, list) and name.partition("/")[0] == "insight":  # a gate's lower and upper end
        for key, one in zip(("low", "high"), value, strict=False):
            yield from _flat(f"{name}/{key}", one)
