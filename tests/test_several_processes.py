"""Several processes train as one: the same losses, the same scores, one folder, one end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from killing import PATIENCE, Run, assert_same_run, child, log_of, recipes, work
from unrolled import bundle
from unrolled.errors import RunError
from unrolled.training import Recipe, resume, train
from unrolled.training.ranks import Ranks

STEPS = 50


def launch(fields, out, options=({}, {}), wait=True):
    """What torchrun does, with processes that a server forks: tell each who it is, and wait. The exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    count = len(options)
    processes = [child(as_rank, fields, out, dict(options[index]), index, count, port) for index in range(count)]
    if wait:
        for process in processes:
            process.join(PATIENCE)
    return [process.exitcode for process in processes]


def as_rank(fields, out, options, index, count, port):
    """In the child."""
    os.environ |= {"RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": str(count)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    work(fields, out, options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return recipes(tmp_path_factory.mktemp("data"))


def plain(fields, **changes):
    """Without what draws random numbers in the network, of which each process has its own."""
    fields = {name: value for name, value in fields.items() if name not in ("word_dropout", "sampling")}
    return fields | {"output_dropout": 0.0} | changes


@pytest.mark.parametrize("task", ["classify", "tag", "lm", "seq2seq", "forecast"])
def test_two_processes_give_the_losses_of_one(task, made, tmp_path):
    """The batches are odd in number and size, rows differ in length, and the last stream is one step shorter."""
    fields = plain(made[task], epochs=9, batch_size=5)
    assert Run(fields, tmp_path / "one").end() == 0
    assert launch(fields, tmp_path / "two") == [0, 0]
    one, two = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    assert [line["event"] for line in one] == [line["event"] for line in two]
    losses = [[line["loss"] for line in log if line["event"] == "step"] for log in (one, two)]
    assert len(losses[0]) >= STEPS
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-5)
    for first, second in zip(one, two, strict=True):
        if first["event"] == "epoch":
            assert first["valid"] == pytest.approx(second["valid"], abs=1e-4)
            assert first["valid"]["items"] == second["valid"]["items"]  # none dropped, none seen twice
    assert one[-1]["test"]["items"] == two[-1]["test"]["items"]
    weights = [bundle.load(tmp_path / run / "model.safetensors")[0] for run in ("one", "two")]
    for name in weights[0]:
        np.testing.assert_allclose(weights[1][name], weights[0][name], rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"loss_scale": "sum_over_time"}], ids=["one row", "sums"])
def test_a_process_without_a_row_and_sums_over_time(changes, made, tmp_path):
    fields = plain(made["lm"], epochs=1, **changes)
    assert Run(fields, tmp_path / "one").end() == 0
    assert launch(fields, tmp_path / "two") == [0, 0]
    losses = [[line["loss"] for line in log_of(tmp_path / run) if line["event"] == "step"] for run in ("one", "two")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-5)


def test_killed_processes_go_on_bit_for_bit_and_only_as_many(made, tmp_path):
    """In the middle of an epoch, each with states and random numbers of its own (dropout)."""
    fields = made["lm"]
    assert launch(fields, tmp_path / "whole") == [0, 0]
    at = {"at": (2, 5, [signal.SIGKILL])}
    codes = launch(fields, tmp_path / "killed", (at, {"say": tmp_path / "said"}))
    assert codes == [-signal.SIGKILL, 1]
    assert "another process has ended" in (tmp_path / "said").read_text()
    with pytest.raises(RunError, match=r"processes: expected 2, as when epoch-0001-step-\d+\.safetensors was written"):
        resume(tmp_path / "killed")
    assert launch(None, tmp_path / "killed") == [0, 0]
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_signal_to_one_ends_all_with_a_checkpoint(made, tmp_path):
    fields = {**made["lm"], "checkpoint_every": None}
    at = {"at": (2, 3, [signal.SIGTERM])}
    assert launch(fields, tmp_path / "run", (at, {})) == [143, 143]
    assert any("step" in path.name for path in (tmp_path / "run" / "checkpoints").iterdir())


def test_another_number_of_processes_than_asked_for_is_refused(made, tmp_path):
    with pytest.raises(
        RunError, match=r"processes: expected 2, found 1\. Start them with: torchrun --nproc-per-node 2"
    ):
        train(Recipe(**made["classify"], processes=2), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_shares_hold_every_row_once():
    for count in (1, 2, 3, 5):
        ranks = [Ranks(index, count) for index in range(count)]
        for rows in (list(range(7)), [], [4]):
            shares = [rank.share(rows) for rank in ranks]
            assert sorted(row for share in shares for row in share) == rows
            assert ranks[0].woven(shares) == rows


def test_torchrun_runs_the_command_unchanged(made, tmp_path):
    """The real launcher; the second process says nothing, and a failure in one ends both."""
    fields = plain(made["classify"], epochs=1, processes=2)
    (tmp_path / "recipe.toml").write_text(Recipe(**fields).dump(), encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "unrolled", "train", "--recipe", str(tmp_path / "recipe.toml")]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("items scored") == 1
    assert [line["event"] for line in log_of(tmp_path / "run")][-1] == "end"
