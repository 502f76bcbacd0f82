"""Data larger than memory as numbers on the disk, made once and found again by what they were made from.

Layout   DATA.numbers/KEY/ beside the file, or in the recipe's `cache`:
         task.json            what the task measured of the training part, and what was found in the files
         train.blocks, .json  the rows of a part; valid and test likewise
Key      SHA-256 of the files' contents and of all options that the numbers depend on, so what stands there is never out
         of date. The folder is made under another name and moved into place; it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unrolled.data.examples import Splits
from unrolled.data.splitting import PARTS
from unrolled.data.streaming import Part, Source, Store, Survey
from unrolled.errors import DataError, RunError, expected
from unrolled.training.locking import Lock
from unrolled.training.ranks import Ranks
from unrolled.training.recipe import Recipe
from unrolled.training.recipe_fields import extra_of
from unrolled.training.tasks import Task, find
from unrolled.training.tasks.packing import task_digest, write_rows

__all__ = ["prepare"]

FORMAT = 1  # of the folder; another one is made anew
READ_AHEAD = 2  # pieces, at most: what is read ahead takes memory
ABOUT = "task.json"
LONG = 1_000_000  # tokens
MINUTE = 60
PATIENCE = 5.0  # seconds between two lines about the progress
MAKING = ".making-"  # the beginning of the name of a folder that is not ready
NOT_READING = ("cache", "workers", "data", "valid", "test")  # the files are known by their contents

Note = Callable[[str], None]


def prepare(recipe: Recipe, parts: Splits, ranks: Ranks | None = None, note: Note = lambda _: None) -> Task:
    """The task, measured on the training part. Parts that are larger than memory are then on the disk as numbers.

    Args:
        ranks: the first of several processes makes the numbers while the others wait.
        note: called with lines for a person who waits.

    Raises:
        DataError: the data cannot be used, or the numbers cannot be written.
    """
    if not isinstance(parts.train, Part):
        return find(recipe.task).prepare(recipe, parts.train)
    ranks = Ranks() if ranks is None else ranks
    large = {name: part for name, part in zip(PARTS, parts[:3], strict=True) if isinstance(part, Part)}
    cache = _Cache(recipe, large, note)
    if ranks.first and not (cache.folder / ABOUT).is_file():
        cache.make(parts.train)
    ranks.exchange("numbers")
    return cache.open()


@dataclass(eq=False)
class _Cache:
    recipe: Recipe
    parts: Mapping[str, Part]
    note: Note

    def __post_init__(self) -> None:
        data = Path(self.recipe.data)
        self.above = Path(self.recipe.cache or data.with_name(f"{data.name}.numbers"))
        self.sources = list({id(part.source): part.source for part in self.parts.values()}.values())
        self.key = _key(self.recipe, self.parts)
        self.folder = self.above / self.key[:16]

    def make(self, train: Part) -> None:
        """Measure and write, into a folder that is moved into place at the end."""
        new: Path | None = None
        lock = Lock()
        try:
            self.above.mkdir(parents=True, exist_ok=True)
            self._sweep()
            new = Path(tempfile.mkdtemp(dir=self.above, prefix=MAKING))
            lock.take(new)
            self._write(new, train)
            if not (self.folder / ABOUT).is_file():
                shutil.rmtree(self.folder, ignore_errors=True)  # somebody has deleted a part of it
            new.replace(self.folder)
            lock.moved(self.folder)
        except OSError as error:
            if (self.folder / ABOUT).is_file():  # another run made the same
                return
            way_out = "Make room there, or name another folder with --cache."
            raise DataError(expected("cache", f"a folder to write to ({self.above})", str(error), way_out)) from None
        finally:
            lock.give_back()
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)

    def _sweep(self) -> None:
        """Delete what processes that were killed had begun."""
        for left in self.above.glob(f"{MAKING}*"):
            lock = Lock()
            with suppress(RunError, OSError):  # it is still at work, or has just ended
                is_young = time.time() - left.stat().st_mtime < MINUTE  # and may not have its lock yet
                if not is_young:
                    lock.take(left)
                if lock.held:
                    shutil.rmtree(left, ignore_errors=True)
            lock.give_back()

    def _write(self, folder: Path, train: Part) -> None:
        usual, train.source.watch = train.source.watch, self._watch(train.source, "measured")
        try:
            task = find(self.recipe.task).prepare(self.recipe, train)
        finally:
            train.source.watch = usual
        self._check_filled()
        for source in self.sources:
            parts = {name: part for name, part in self.parts.items() if part.source is source}
            write_rows(folder, task, source, parts, self.key, self._watch(source, "kept as numbers"))
        about = {"format": FORMAT, "task": task.to_dict(), "surveys": [vars(s.counted()) for s in self.sources]}
        (folder / ABOUT).write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")

    def _check_filled(self) -> None:
        """Raise where a part has no item, before more work is done."""
        for name, part in self.parts.items():
            if not len(part) and name != "test":
                raise DataError(expected(part.name, "at least one item", "none", "Bring more data."))

    def _watch(self, source: Source, doing: str) -> Callable[[float], None]:
        """Says how much of the file is behind, in tenths, and no more often than a person wants to know."""
        said, at = 0, time.monotonic()

        def watch(behind: float) -> None:
            nonlocal said, at
            if int(behind * 10) > said and time.monotonic() - at >= PATIENCE:
                said, at = int(behind * 10), time.monotonic()
                self.note(f"{source.path.name}: {10 * said} % of {source.size / 1e6:,.0f} MB {doing}")

        return watch

    def open(self) -> Task:
        """What `make` made, in this process or in another, today or long ago.

        Raises:
            DataError: it is damaged, or a part is empty.
        """
        try:
            about = json.loads((self.folder / ABOUT).read_bytes())
            task = find(self.recipe.task).from_dict(self.recipe, about["task"])
            surveys = [Survey(**survey) for survey in about["surveys"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            way_out = f"Delete the folder {self.folder}; it is made again from the data."
            found = str(error).splitlines()[0]
            raise DataError(expected(str(self.folder / ABOUT), "what was measured", found, way_out)) from None
        for source, survey in zip(self.sources, surveys, strict=True):
            source.survey = survey
        stores = {name: Store(self.folder / name) for name in self.parts}
        made_by = task_digest(task)
        for name, part in self.parts.items():
            part.stores[made_by] = stores[name]
            part.threads = min(self.recipe.workers, READ_AHEAD)
            if name == "valid" and part.is_one_text and stores[name].steps > LONG:
                way_out = "--valid-share makes it shorter"
                self.note(f"{part.name}: {stores[name].steps:,} tokens, read one after the other each epoch; {way_out}")
        size = sum(store.bytes for store in stores.values())
        self.note(f"{self.recipe.data}: read as numbers from {self.folder}, {size / 1e6:,.0f} MB")
        return task


def _key(recipe: Recipe, parts: Mapping[str, Part]) -> str:
    """Of everything that the numbers depend on."""
    options = {name: value for name, value in recipe.model_dump(mode="json").items() if name not in NOT_READING}
    reading = {n: v for n, v in options.items() if extra_of(recipe, n)["panel"] == "Data" or n == "characters"}
    files = {name: [part.source.path.name, part.source.digest, part.number] for name, part in parts.items()}
    said = json.dumps({"format": FORMAT, "recipe": reading, "files": files}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
