"""Runs that are killed, interrupted, starved of disk or damaged: nothing is lost and nothing is silently wrong."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from killing import PATIENCE, Run, assert_same_run, killed, log_of, numbers_of, recipes
from unrolled import bundle
from unrolled.errors import RunError
from unrolled.training import Recipe, checkpoints, load, resume, train
from unrolled.training.folder import RunFolder
from unrolled.training.loop import Silent
from unrolled.training.signals import ENDING

TASKS = ("classify", "tag", "lm", "seq2seq", "forecast")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of every task that nothing happens to, and its recipe."""
    folder = tmp_path_factory.mktemp("undisturbed")
    made = recipes(folder)
    for task, fields in made.items():
        assert Run(fields, folder / task).end() == 0
    return folder, made


def newest(run):
    return [path.stem for path in RunFolder(run)._by_age()][-1]


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def __str__(self):
        return "\n".join(self.notes)


# kill -9


@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_is_killed_three_times_ends_as_if_nothing_had_happened(task, undisturbed, tmp_path):
    folder, made = undisturbed
    hit = killed(made[task], tmp_path / task, 3, len(log_of(folder / task)), random.Random(task))
    assert hit >= 1  # it may have been faster than one of the three
    assert_same_run(folder / task, tmp_path / task)


@pytest.mark.parametrize(
    ("task", "call"), [("classify", 9), ("tag", 23), ("lm", 42), ("seq2seq", 52), ("forecast", 61)]
)
def test_a_run_that_dies_between_two_writes_loses_nothing(task, call, undisturbed, tmp_path):
    """Right before the n-th call that changes the disk; tools/kill_runs.py goes through all of them."""
    folder, made = undisturbed
    assert Run(made[task], tmp_path / task, die_at=call).end() == -signal.SIGKILL
    there = (tmp_path / task).exists()
    assert Run(None if there else made[task], tmp_path / task).end() == 0
    assert_same_run(folder / task, tmp_path / task)


def test_how_often_checkpoints_are_written_changes_nothing(undisturbed, tmp_path):
    folder, made = undisturbed
    runs = []
    for changes in ({"checkpoint_every": 1}, {"checkpoint_every": None, "checkpoint_minutes": None}):
        runs.append(tmp_path / str(len(runs)))
        train(Recipe(**{**made["lm"], **changes}), out=runs[-1])
        one, other = numbers_of(folder / "lm"), numbers_of(runs[-1])
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    assert newest(runs[0]) == newest(runs[1]) == "epoch-0003"
    within = [[path for path in (run / "checkpoints").iterdir() if "step" in path.name] for run in runs]
    assert within[0]
    assert not within[1]


def test_minutes_ask_for_a_checkpoint_as_steps_do(undisturbed, tmp_path):
    _, made = undisturbed
    changes = {"checkpoint_every": None, "checkpoint_minutes": 1e-9, "epochs": 1}
    train(Recipe(**{**made["classify"], **changes}), out=tmp_path / "run")
    steps = log_of(tmp_path / "run")[-1]["step"]
    assert (tmp_path / "run" / "checkpoints" / f"epoch-0000-step-{steps:07d}.safetensors").is_file()


# signals


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_writes_a_checkpoint_and_has_a_code_of_its_own(number, undisturbed, tmp_path):
    folder, made = undisturbed
    said, out = tmp_path / "said.txt", tmp_path / "run"
    fields = {**made["lm"], "checkpoint_every": None}
    assert Run(fields, out, say=said, at=(2, 3, [number])).end() == 128 + number
    text = said.read_text()
    assert ("Ctrl-C" if number == signal.SIGINT else number.name) in text
    assert f"unrolled train --resume {out}" in text
    assert newest(out) == f"epoch-0001-step-{log_of(out)[-1]['step']:07d}"
    assert not (out / ".lock").exists()
    assert Run(None, out, checkpoint_every=2).end() == 0
    assert_same_run(folder / "lm", out)


def test_a_second_signal_ends_at_once(undisturbed, tmp_path):
    folder, made = undisturbed
    fields = {**made["classify"], "checkpoint_every": None}
    assert Run(fields, tmp_path / "run", at=(2, 3, [signal.SIGTERM, signal.SIGINT])).end() == 130
    assert newest(tmp_path / "run") == "epoch-0001"
    assert Run(None, tmp_path / "run", checkpoint_every=2).end() == 0
    assert_same_run(folder / "classify", tmp_path / "run")


def test_a_signal_during_validation_is_obeyed_at_once(undisturbed, tmp_path, monkeypatch):
    """The weights are those of the moment, not the average that is being scored."""
    from unrolled.training.tasks.classify import Classify

    folder, made = undisturbed
    measure, calls = Classify.measure, []

    def interrupted(self, model, data):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("it went on")
        return measure(self, model, data)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests are started
    try:
        monkeypatch.setattr(Classify, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(Recipe(**made["classify"]), out=tmp_path / "run")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    resume(tmp_path / "run")
    assert_same_run(folder / "classify", tmp_path / "run")


# one process at a time


def test_a_second_process_is_refused_until_the_first_is_dead(undisturbed, tmp_path):
    folder, made = undisturbed
    out = tmp_path / "run"
    first = Run(made["classify"], out, at=(1, 3, [signal.SIGSTOP]))
    try:
        end = time.monotonic() + PATIENCE
        while Path(f"/proc/{first.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end
            time.sleep(0.01)
        with pytest.raises(RunError, match=rf"no other process works on, found process {first.process.pid} on "):
            resume(out)
        with pytest.raises(RunError, match=r"holds a run.*--resume"):
            train(Recipe(**made["classify"]), out=out)
    finally:
        os.kill(first.process.pid, signal.SIGKILL)
    assert first.end() == -signal.SIGKILL
    assert (out / ".lock").exists()
    resume(out)
    assert_same_run(folder / "classify", out)


# disks


DAMAGES = {
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "one bit of a weight": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "one digit of a counter": lambda content: content.replace(rb"\"best_epoch\": ", rb"\"best_epoch\":9", 1),
    "something else": lambda content: b"{}" * (len(content) // 2),
}


@pytest.fixture(scope="module")
def stopped(undisturbed, tmp_path_factory):
    """A run that was killed in the third epoch."""
    _, made = undisturbed
    out = tmp_path_factory.mktemp("stopped") / "run"
    assert Run(made["classify"], out, at=(3, 5, [signal.SIGKILL])).end() == -signal.SIGKILL
    return out


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(name, undisturbed, stopped, tmp_path):
    folder, _ = undisturbed
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    path = out / "checkpoints" / f"{newest(out)}.safetensors"
    content = path.read_bytes()
    path.write_bytes(DAMAGES[name](content))
    assert path.read_bytes() != content
    watcher = Notes()
    resume(out, progress=watcher)
    assert f"left out: {path}" in str(watcher)
    assert "going on from epoch-0002" in str(watcher)
    assert_same_run(folder / "classify", out)


ODD = [
    *({name: None} for name in ("counters", "fingerprint", "machine", "carried", "metrics_bytes")),
    {"counters": {"epoch": "three"}},
    {"counters": {"no_such": 1}},
    {"machine": {}},
    {"place": {"batches": 1}},
    {"place": [1]},
    {"carried": []},
    {"carried": [[7]]},
    {"metrics_bytes": -1},
]


@pytest.mark.parametrize("change", ODD, ids=str)
def test_a_checkpoint_that_says_odd_things_under_a_right_digest_is_left_out(change, undisturbed, stopped, tmp_path):
    folder, _ = undisturbed
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    path = out / "checkpoints" / f"{newest(out)}.safetensors"
    arrays, header = bundle.load(path)
    values = {name: value for name, value in header["checkpoint"].items() if name != "sha256"}
    bundle.save(path, arrays, {"checkpoint": checkpoints.stamped(arrays, values | change)})
    watcher = Notes()
    resume(out, progress=watcher)
    assert f"left out: {path}" in str(watcher)
    assert_same_run(folder / "classify", out)


def test_where_no_checkpoint_is_whole_the_error_says_so_and_the_model_can_still_be_used(stopped, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    for path in (out / "checkpoints").iterdir():
        path.write_bytes(b"cut")
    with pytest.raises(RunError, match=r"no checkpoint can be used\. .*epoch-0002.*--recipe .*recipe\.toml"):
        resume(out)
    assert load(out).predict(["good fine nice"])[0]["label"] in ("up", "down")


class FullAt(Notes):
    """The log stands on a full disk from some step on."""

    def __init__(self, out, place):
        super().__init__()
        self.log, self.place = out / "metrics.jsonl", place

    def step(self, *, epoch, step, loss):
        del loss
        if (epoch, step) == self.place:
            self.log.rename(self.log.with_name("kept"))
            self.log.symlink_to("/dev/full")


def test_a_full_disk_stops_the_run_with_clear_words_and_loses_nothing(undisturbed, tmp_path):
    folder, made = undisturbed
    out = tmp_path / "run"
    with pytest.raises(RunError, match=rf"metrics\.jsonl: .*No space left on device.*--resume {out}"):
        train(Recipe(**made["classify"]), out=out, progress=FullAt(out, (2, 3)))
    (out / "kept").rename(out / "metrics.jsonl")
    resume(out)
    assert_same_run(folder / "classify", out)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(number, undisturbed, tmp_path, monkeypatch):
    folder, made = undisturbed
    out, calls = tmp_path / "run", []
    write = bundle.write_atomically

    def refused(path, content):
        calls.append(path)
        if len(calls) == 9:
            with path.with_name(f".{path.name}.half_done").open("wb") as file:  # what a process that dies leaves
                file.write(content[:99])
            raise OSError(number, os.strerror(number))
        write(path, content)

    monkeypatch.setattr(bundle, "write_atomically", refused)
    with pytest.raises(RunError, match=rf"{os.strerror(number)}.*What was saved before is whole.*--resume"):
        train(Recipe(**made["classify"]), out=out)
    monkeypatch.undo()
    resume(out)
    assert_same_run(folder / "classify", out)


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(stopped, tmp_path, monkeypatch):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    opened = os.open

    def read_only(path, flags, *more, **others):
        if flags & os.O_RDWR and str(path).startswith(str(out)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(RunError, match=r"Read-only file system\. Make the folder writable, or copy the run"):
        resume(out)


def test_another_machine_is_told_of(stopped, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    watcher = Notes()
    resume(out, progress=watcher, threads=2)
    assert "threads was 1 and is 2: the last digits may differ" in str(watcher)
