"""Small runs of every task, processes that train them and can be killed at any moment, and what two runs must share.

A server process imports everything once and forks one process a run, so that a run costs a fraction of a second.
`tools/kill_runs.py` kills many times; `test_long_runs.py` a few times.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np

from small_data import documents, reviews, sentences
from unrolled import bundle

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["killing_ready"])
HERE = str(Path(__file__).parent)
PATIENCE = 300  # seconds that anything may take on a busy machine

SHARED: dict[str, Any] = {"hidden": 8, "embedding": 6, "min_count": 1, "threads": 1, "log_every": 1, "epochs": 3}
SHARED |= {"output_dropout": 0.3, "patience": None, "checkpoint_every": 2, "average": 0.9, "report": False}


def recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """Every task, with all that a checkpoint must keep: dropout, averages, momentum, schedules, sampling, states."""
    pairs, steps = folder / "pairs.tsv", folder / "steps.csv"
    rng = np.random.default_rng(0)
    words = ["".join("abcd"[i] for i in rng.integers(4, size=rng.integers(1, 5))) for _ in range(50)]
    pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), encoding="utf-8")
    rows = [f"{name},{t},{np.sin(t / 3) + 5 + rng.normal() / 9:.4f}\n" for name in "ab" for t in range(60)]
    steps.write_text("id,t,y\n" + "".join(rows), encoding="utf-8")
    forecast: dict[str, Any] = {"task": "forecast", "data": str(steps), "id": "id", "time": "t", "target": "y"}
    forecast |= {"horizon": 3, "lookback": 12, "epoch_windows": 48, "batch_size": 8, "calibrate": "adaptive"}
    found = {
        "classify": {"task": "classify", "data": str(reviews(folder / "reviews.csv")), "batch_size": 6},
        "tag": {"task": "tag", "data": str(sentences(folder / "tags.conll")), "crf": True, "batch_size": 4},
        "lm": {"task": "lm", "data": str(documents(folder / "text.txt")), "format": "documents", "chunk": 7},
        "seq2seq": {"task": "seq2seq", "data": str(pairs), "tokenizer": "chars", "batch_size": 6},
        "forecast": forecast,
    }
    found["classify"] |= {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1, "warmup": 0.5}
    found["tag"] |= {"word_dropout": 0.1, "schedule": "cosine"}
    found["lm"] |= {"batch_size": 4, "learn_initial_state": True}
    found["seq2seq"] |= {"sampling": "linear", "beam": 2, "label_smoothing": 0.1}
    for name, fields in found.items():
        found[name] = {k: v for k, v in SHARED.items() if not (name == "forecast" and k in FOREIGN)} | fields
    return found


FOREIGN = ("embedding", "min_count")  # fields that a forecast does not have


def streamed_recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """Runs on data that are larger than the memory they may take: an epoch has several pieces."""
    rng = np.random.default_rng(1)
    pairs, text = folder / "long.jsonl", folder / "long.txt"
    words = ["".join("abcdefgh"[i] for i in rng.integers(8, size=rng.integers(2, 9))) for _ in range(1800)]
    pairs.write_text("".join(json.dumps({"source": w, "target": w[::-1]}) + "\n" for w in words), encoding="utf-8")
    text.write_text("".join(f"{n} bottles of {w}\n" for n, w in enumerate(words * 3)), encoding="utf-8")
    found: dict[str, dict[str, Any]] = {
        "classify": {"task": "classify", "data": str(reviews(folder / "long.csv", 4000)), "batch_size": 70},
        "tag": {"task": "tag", "data": str(sentences(folder / "long.conll", 2500)), "batch_size": 50, "cell": "rnn"},
        "documents": {"task": "lm", "data": str(documents(folder / "docs.txt", 9000)), "format": "documents"},
        "text": {"task": "lm", "data": str(text), "valid_share": 0.02, "test_share": 0.02},
        "seq2seq": {"task": "seq2seq", "data": str(pairs), "tokenizer": "chars", "batch_size": 40, "beam": 1},
    }
    for name in ("documents", "text"):
        found[name] |= {"chunk": 30, "batch_size": 30, "cell": "gru"}
    return {name: SHARED | {"memory": 1, "epochs": 2, "checkpoint_every": 7} | fields for name, fields in found.items()}


def child(target: Callable[..., None], *given: Any) -> Any:
    """A process, started, that the server forks."""
    # The server does not get our path to import by (Python 3.11), and leaves out in silence what it does not find.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *([before] if before else [])])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    process = CONTEXT.Process(target=target, args=given)
    process.start()
    return process


class Run:
    """A process that trains, or goes on with, the run in a folder."""

    def __init__(self, fields: dict[str, Any] | None, out: Path, **options: Any) -> None:
        self.out = out
        self.process = child(work, fields, out, options)

    def lines(self) -> int:
        """Of the log so far."""
        try:
            return (self.out / "metrics.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds or the process has ended."""
        end = time.monotonic() + PATIENCE
        while self.process.is_alive() and not condition():
            assert time.monotonic() < end, f"nothing happened in {self.out} for {PATIENCE} s"
            time.sleep(0.001)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send the signal, and wait for the end. Returns the exit code; -9 for a process that was killed."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)
        return self.end()

    def end(self) -> int:
        """The exit code."""
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, f"{self.out}: still at work after {PATIENCE} s"
        return self.process.exitcode


def work(fields: dict[str, Any] | None, out: Path, options: dict[str, Any]) -> None:
    """In the child: train by these fields of a recipe, or go on where there are none.

    Options: `die_at`, the number of the call to the disk at which the process kills itself; `say`, a file that gets
    what the person would see; `at`, an epoch, a step of it and the signals that the process then sends itself.
    """
    import torch

    from unrolled.errors import UnrolledError
    from unrolled.training import Recipe, resume, train
    from unrolled.training.signals import ENDING

    torch.set_num_threads(1)
    for number in ENDING:  # whoever starts the tests may have some of them ignored
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if (calls := options.pop("die_at", None)) is not None:
        _die_at(calls)
    progress = Say(options.pop("say", Path(os.devnull)), options.pop("at", None))
    try:
        if fields is None:
            resume(out, progress=progress, **options)
        else:
            train(Recipe(**fields), out=out, progress=progress)
    except UnrolledError as error:
        progress.note(f"error: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


class Say:
    """Writes what a run tells the person to a file, and sends its process signals in the middle of an epoch."""

    def __init__(self, file: Path, at: tuple[int, int, list[int]] | None) -> None:
        self.file, self.at = file, at

    def step(self, *, epoch: int, step: int, loss: float) -> None:
        del loss
        if self.at is not None and (epoch, step) == self.at[:2]:
            for number in self.at[2]:
                os.kill(os.getpid(), number)

    def start(self, **_: Any) -> None: ...
    def epoch(self, **_: Any) -> None: ...
    def stop(self) -> None: ...

    def note(self, text: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def _die_at(calls: int) -> None:
    """Kill this process right before its n-th call that changes the disk."""
    left = calls

    def counted(function: Any) -> Any:
        def call(*given: Any, **keywords: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **keywords)

        return call

    for name in ("fsync", "replace", "rename", "unlink", "truncate", "mkdir", "chmod"):
        setattr(os, name, counted(getattr(os, name)))


def numbers_of(run: Path) -> dict[str, np.ndarray]:
    """Everything that a run ends with, but its recipe and its clock."""
    found = {}
    checkpoints = sorted(run.glob("checkpoints/epoch-*"), key=lambda path: path.name.replace(".", "~"))
    for path in (run / "model.safetensors", checkpoints[-1]):
        arrays, header = bundle.load(path)
        for name in ("checkpoint_every", "checkpoint_minutes"):  # which some tests change on the way
            header.get("recipe", {}).pop(name, None)
        for values in (header, header.get("checkpoint", {})):
            for clock in ("sha256", "metrics_bytes"):  # the log's length depends on the digits of its seconds
                values.pop(clock, None)
        found |= {f"{path.name} {name}": array for name, array in arrays.items()}
        found[f"{path.name} header"] = np.array(json.dumps(header, sort_keys=True))
    return found


def log_of(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without its clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "waited")} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit: the model, the last checkpoint with optimizer, average, counters and generators, and the log."""
    first, second = numbers_of(one), numbers_of(other)
    assert list(first) == list(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=f"{one.name} and {other.name}: {name}")
        assert first[name].dtype == second[name].dtype
    assert log_of(one) == log_of(other)
    assert (one / "recipe.toml").read_text() == (other / "recipe.toml").read_text()
    names = [sorted(str(path.relative_to(run)) for path in run.rglob("*")) for run in (one, other)]
    assert names[0] == names[1]


def kill_somewhere(run: Run, lines: int, chance: random.Random) -> int:
    """Kill a run at a random moment: after a random line of what is still to be logged, and a little later.

    Args:
        lines: how many the whole log will have.
    """
    there = run.lines()
    wanted = chance.randint(0, max(lines - there - 1, 0))
    run.wait_for(lambda: run.out.exists() and run.lines() >= there + wanted)
    time.sleep(chance.random() * 0.02)
    return run.kill()


def killed(fields: dict[str, Any], out: Path, kills: int, lines: int, chance: random.Random) -> int:
    """Train a run that is killed so many times, and then not. Returns how often it was alive to be killed."""
    code, hit = kill_somewhere(Run(fields, out), lines, chance), 0
    for number in range(1, kills + 1):
        assert code in (0, -signal.SIGKILL), f"{out}: exit code {code}"
        hit += code != 0
        again = Run(None if (out / "recipe.toml").exists() else fields, out)
        code = again.end() if number == kills else kill_somewhere(again, lines, chance)
    assert code == 0, f"{out}: exit code {code}"
    return hit
