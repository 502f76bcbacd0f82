"""The run folder, and nothing in it half-written.

recipe.toml         every option; the run can be repeated from it alone
model.safetensors   the bundle: the best weights so far, with all that is needed to use them
metrics.jsonl       a JSON object a line: logged steps, epochs, the end
checkpoints/        epoch-0003.safetensors: weights, optimizer and counters; the last two, and the best
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.errors import BundleError, RunError, expected
from unrolled.training.recipe import Recipe

__all__ = ["RunFolder"]


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.toml"
        self.model_file = self.path / "model.safetensors"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"

    def check_free(self) -> None:
        """Raise where something stands in the way, before any work is done."""
        if self.path.exists() or self.path.is_symlink():
            what = "a run" if self.recipe_file.is_file() else "something else"
            way_out = "Choose another with --out."
            if self.recipe_file.is_file():
                way_out = f"Choose another with --out, or go on with it: unrolled train --resume {self.path}"
            raise RunError(
                expected("out", "a folder that does not exist yet", f"{self.path}, which holds {what}", way_out)
            )

    def create(self, recipe: Recipe) -> None:
        """Make the folder. Called when all is ready and training begins."""
        self.check_free()
        try:
            self.checkpoints.mkdir(parents=True)
            bundle.write_atomically(self.recipe_file, recipe.dump().encode())
        except OSError as error:
            raise RunError(
                expected("out", "a folder that can be made", str(error), "Choose another with --out.")
            ) from None

    def check_run(self) -> None:
        """Raise where this is not a run folder."""
        if not self.recipe_file.is_file():
            found = "no recipe.toml in it" if self.path.is_dir() else "no such folder"
            way_out = "Name the folder that --out named when it was trained."
            raise RunError(expected(str(self.path), "a run folder", found, way_out))

    def log(self, **values: Any) -> None:
        """Add a line to metrics.jsonl."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, ensure_ascii=False) + "\n")

    # checkpoints

    def save_checkpoint(self, epoch: int, tensors: Mapping[str, np.ndarray], counters: Mapping[str, Any]) -> Path:
        """Write a checkpoint, then remove those that are neither among the last two nor the best."""
        path = self._checkpoint(epoch)
        bundle.save(path, tensors, {"checkpoint": dict(counters)})
        keep = {path, self._checkpoint(epoch - 1), self._checkpoint(int(counters["best_epoch"]))}
        for old in self.checkpoints.glob("epoch-*.safetensors"):
            if old not in keep:
                old.unlink()
        return path

    def last_checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The newest checkpoint that can be read; None where there is none."""
        damaged: BundleError | None = None
        for path in sorted(self.checkpoints.glob("epoch-*.safetensors"), reverse=True):
            try:
                tensors, header = bundle.load(path)
                return tensors, header["checkpoint"]
            except BundleError as error:
                damaged = error
        if damaged is not None:
            raise damaged
        return None

    def _checkpoint(self, epoch: int) -> Path:
        return self.checkpoints / f"epoch-{epoch:04d}.safetensors"

    def forget_after(self, epoch: int) -> None:
        """Drop the lines of metrics.jsonl that will be written again: those of a broken-off epoch, and the end."""
        if not self.metrics_file.is_file():
            return
        kept = []
        for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                if entry["event"] != "end" and entry["epoch"] <= epoch:
                    kept.append(line)
            except (ValueError, KeyError, TypeError):  # a line that was cut off when the machine stopped
                continue
        bundle.write_atomically(self.metrics_file, "".join(line + "\n" for line in kept).encode())
