"""The search: files that reach code which none before reached are kept and changed further.

libFuzzer does it, through Atheris, which counts the branches of our Python code; of two changes one is libFuzzer's own,
of bytes, and one keeps the form of the file (`changes`). Each reader runs in a forked child, so that a crash or a hang
of a library written in C ends that child alone and is seen.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import atheris

HANG = 30  # seconds without an answer, on a machine that others use too; the limit of processor time is `watch.SECOND`


class _Sources:
    """Finds our modules as plain source files, which is what Atheris instruments, however the package is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "unrolled":
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:  # type: ignore[arg-type]  # a finder has no declared type
            spec = finder.find_spec(name, path, target)
            if spec is not None and (spec.origin or "").endswith(".py"):
                places = spec.submodule_search_locations
                return importlib.util.spec_from_file_location(name, spec.origin, submodule_search_locations=places)
            if spec is not None:
                return spec
        return None


@contextmanager
def instrumented() -> Iterator[None]:
    """What is imported of ours in this block, and in children forked from it, counts its branches."""
    if "unrolled" in sys.modules:
        raise RuntimeError("unrolled is imported already: nothing would be counted. Run tests/fuzz.py by itself.")
    sys.meta_path.insert(0, _Sources())  # type: ignore[arg-type]  # a finder has no declared type
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # a line for every module
    with atheris.instrument_imports(include=["unrolled", "conllu"], exclude=["unrolled._native"]):
        import_all()
        os.dup2(kept, 2)
        os.close(kept)
        yield


def import_all() -> None:
    """Load once what every child needs."""
    import torch

    for name in ("h5py", "onnx", "pyarrow.parquet", "unrolled.convert", "unrolled.runtime", "unrolled.training"):
        importlib.import_module(name)
    torch.set_num_threads(1)


def search(name: str, count: int, seed: int, kept: Path, corpus: Path | None = None) -> str:
    """Read `count` files with one reader, in a child of this process. Returns its line.

    Args:
        kept: the folder where files that found a fault are kept.
        corpus: a folder that keeps what reached new code, for the next search.

    Raises:
        AssertionError: there were faults, or the child crashed or hung.
    """
    with tempfile.TemporaryDirectory(dir=_fast()) as folder:
        log, answer = Path(folder) / "log", Path(folder) / "answer"
        child = os.fork()
        if not child:
            try:
                _child(name, count, seed, kept, corpus, Path(folder))
            except BaseException:
                import traceback

                answer.write_text(f"fault\n{traceback.format_exc()}")
            finally:
                os._exit(3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = answer.read_text() if answer.exists() else ""
        if status or not said.startswith("fine\n"):
            raise AssertionError(said.removeprefix("fault\n") or f"{name}: ended with code {status}\n{_end_of(log)}")
        return said.removeprefix("fine\n")


def _child(name: str, count: int, seed: int, kept: Path, corpus: Path | None, folder: Path) -> None:
    """Search, write the answer and leave; never returns."""
    from fuzzing import watch
    from fuzzing.readers import READERS

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _to_log(folder / "log")
    reader = READERS[name]
    seeds = reader.seeds(folder / "made")
    good = folder / "good"
    good.mkdir()
    for number, content in enumerate(seeds):
        (good / str(number)).write_bytes(content)
    path = folder / f"{name}{reader.suffix}"
    for content in seeds:  # a good file is read; and what a first reading imports is not counted
        path.write_bytes(content)
        reader.read(path)
    watch.bound_addresses()
    warnings.simplefilter("error")  # a file may be refused in words; it may not fill the terminal with a library's own
    watching = watch.Watch(reader.read, path, kept)
    start = time.perf_counter()

    def one(content: bytes) -> None:
        watching.one(content)
        if watching.files >= count:
            line = watching.line(name, time.perf_counter() - start)
            told = "\n".join(watching.faults.values())
            (folder / "answer").write_text(f"fault\n{line}\n{told}" if told else f"fine\n{line}")
            os._exit(0)

    def change(content: bytes, largest: int, number: int) -> bytes:
        chance = random.Random(number)
        if chance.random() < 0.3:  # what is kept is mostly bad: one step from a good file goes deeper
            content = chance.choice(seeds)
        if chance.random() < 0.5:
            try:
                return reader.change(content, chance)[:largest]
            except Exception:  # it has lost its form already
                pass
        return atheris.Mutate(content, largest)

    options = [f"-seed={seed}", f"-timeout={HANG}", "-rss_limit_mb=0", "-reduce_inputs=0", "-len_control=0"]
    options += [f"-max_len={max(4 * max(map(len, seeds)), 2000)}", f"-artifact_prefix={kept}/{name}-"]
    if corpus is not None:
        (corpus / name).mkdir(parents=True, exist_ok=True)
    folders = ([] if corpus is None else [str(corpus / name)]) + [str(good)]
    atheris.Setup([name, *options, *folders], one, custom_mutator=change)
    atheris.Fuzz()


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([line for line in lines if not line.startswith(("INFO", "#", "WARNING"))][-40:])


def _to_log(path: Path) -> None:
    log = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _fast() -> str | None:
    """A folder in memory, where there is one: each file is written once and read once."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
