"""The run folder, and nothing in it half-written.

recipe.toml         every option; the run can be repeated from it alone
model.safetensors   the bundle: the best weights so far, with all that is needed to use them
metrics.jsonl       a JSON object a line: logged steps, epochs, the end
checkpoints/        epoch-0003.safetensors after epoch 3, epoch-0003-step-0000120.safetensors in the middle of the
                    next; the last two, and the best
.lock               while a process works on it

A file is written under another name, brought to the disk and moved into place. metrics.jsonl only grows; each
checkpoint knows how long it was, and going on from one cuts it there: the log and the weights always agree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.errors import RunError, expected
from unrolled.training.locking import Lock
from unrolled.training.recipe import Recipe

__all__ = ["RunFolder"]

CHECKPOINT = re.compile(r"epoch-(\d+)(?:-step-(\d+))?\.safetensors")

# What `bundle.write_atomically` had begun when the process was killed.
UNFINISHED = re.compile(r"\.(recipe\.toml|(model|epoch-[\d\w-]+)\.safetensors)\.\w+(\.part)?")


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.toml"
        self.model_file = self.path / "model.safetensors"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.lock = Lock()

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
        """Make the folder and hold its lock. Called when all is ready and training begins.

        It is made under another name and moved into place, so there is never one without its recipe.
        """
        self.check_free()
        new: Path | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(dir=self.path.parent, prefix=f".{self.path.name}."))
            new.chmod(0o777 & ~bundle.file_mask())
            (new / self.checkpoints.name).mkdir()
            self.lock.take(new)
            bundle.write_atomically(new / self.recipe_file.name, recipe.dump().encode())
            new.rename(self.path)
            self.lock.moved(self.path)
            bundle.keep_names(self.path.parent)
        except OSError as error:
            if new is not None:
                self.lock.give_back()
                shutil.rmtree(new, ignore_errors=True)
            self.check_free()  # another process may have been faster
            raise RunError(
                expected("out", "a folder that can be made", str(error), "Choose another with --out.")
            ) from None

    def open_again(self) -> None:
        """Hold the lock of a run that is there, and clear away what a process that was killed had not finished.

        Raises:
            RunError: it is not a run folder, another process works on it, or it cannot be written to.
        """
        self.check_run()
        with _writing(self.path, "Make the folder writable, or copy the run elsewhere."):
            self.lock.take(self.path)
            self.checkpoints.mkdir(exist_ok=True)
            for folder in (self.path, self.checkpoints):
                for left in folder.iterdir():
                    if UNFINISHED.fullmatch(left.name):
                        left.unlink()

    def check_run(self) -> None:
        """Raise where this is not a run folder."""
        if not self.recipe_file.is_file():
            found = "no recipe.toml in it" if self.path.is_dir() else "no such folder"
            way_out = "Name the folder that --out named when it was trained."
            raise RunError(expected(str(self.path), "a run folder", found, way_out))

    def keep_recipe(self, recipe: Recipe) -> None:
        """Write the recipe as it is from here on."""
        with self.writing(self.recipe_file):
            bundle.write_atomically(self.recipe_file, recipe.dump().encode())

    def log(self, **values: Any) -> None:
        """Add a line to metrics.jsonl."""
        with self.writing(self.metrics_file), self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, ensure_ascii=False) + "\n")

    def writing(self, path: Path) -> Any:
        """A block that writes a file: what the system refuses becomes a sentence with the way out."""
        way_out = f"What was saved before is whole. When there is room: unrolled train --resume {self.path}"
        return _writing(path, way_out)

    # checkpoints

    def save_checkpoint(
        self, epoch: int, step: int | None, tensors: Mapping[str, np.ndarray], values: Mapping[str, Any], best: int
    ) -> Path:
        """Write a checkpoint, then remove those that are neither among the last two nor the best.

        Args:
            epoch: how many are done.
            step: optimizer steps so far, in the middle of an epoch; None: at its end.
            best: the number of the best epoch so far.
        """
        name = f"epoch-{epoch:04d}" + ("" if step is None else f"-step-{step:07d}")
        path = self.checkpoints / f"{name}.safetensors"
        with self.writing(path):
            bundle.save(path, tensors, {"checkpoint": values})
        self.tidy(path, best)
        return path

    def tidy(self, newest: Path, best: int) -> None:
        """Keep this checkpoint, the one before it and the best; a newer one was damaged and has been left out."""
        every = self._by_age()
        before = every[: every.index(newest)]
        keep = {newest, *before[-1:], self.checkpoints / f"epoch-{best:04d}.safetensors"}
        for path in every:
            if path not in keep:
                with suppress(OSError):  # one more than needed does no harm
                    path.unlink()

    def newest_checkpoint(
        self, read: Callable[[Path], Any], damaged: tuple[type[Exception], ...], note: Callable[[str], None]
    ) -> Any:
        """What `read` makes of the newest checkpoint that it can read; None where there is none.

        Args:
            damaged: what `read` raises of a file that cannot be used.
            note: told of each that was left out.

        Raises:
            RunError: there are some, and none can be used.
        """
        failures: list[str] = []
        for path in reversed(self._by_age()):
            try:
                made = read(path)
            except damaged as error:
                failures.append(str(error))
                continue
            for failure in failures:
                note(f"left out: {failure}")
            if failures:
                note(f"going on from {path.name}, the newest checkpoint that is whole")
            return made
        if failures:
            way_out = "Train again from the recipe: unrolled train --recipe"
            raise RunError(
                f"{self.checkpoints}: no checkpoint can be used. {' '.join(failures)} {way_out} {self.recipe_file}"
            )
        return None

    def _by_age(self) -> list[Path]:
        """All checkpoints, the oldest first."""
        named = ((CHECKPOINT.fullmatch(path.name), path) for path in self.checkpoints.iterdir())
        found = sorted((int(match[1]), int(match[2] or 0), path) for match, path in named if match)
        return [path for *_, path in found]

    def keep_metrics(self) -> int:
        """Bring metrics.jsonl to the disk. Returns its length in bytes."""
        if not self.metrics_file.exists():
            return 0
        with self.writing(self.metrics_file), self.metrics_file.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def cut_metrics(self, length: int) -> None:
        """Drop what was logged after a checkpoint: it will be logged again."""
        if self.metrics_file.is_file() and self.metrics_file.stat().st_size > length:
            with self.writing(self.metrics_file):
                os.truncate(self.metrics_file, length)


@contextmanager
def _writing(path: Path, way_out: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        found = f"{error.strerror or error}"
        raise RunError(expected(str(path), "a place that can be written to", found, way_out)) from error
