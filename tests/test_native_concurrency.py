"""The native engine beside itself: many Python threads, forks, changing thread counts, and memory that stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import unrolled
from oracles.cases import CELLS, case, ours, randomise, split_state


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def training_step(layer: torch.nn.Module, x: torch.Tensor, lengths: object = None) -> list[torch.Tensor]:
    out, state = layer(x, lengths=lengths)
    loss = out.square().sum() + split_state(state)[0].sum()
    return [out.detach(), *torch.autograd.grad(loss, list(layer.parameters()))]


def layers() -> list[torch.nn.Module]:
    return [randomise(ours(cell, 5, 9, 2, bidirectional=True), 1, scale=0.3) for cell in CELLS]


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Python threads


@pytest.mark.usefixtures("two_threads")
def test_many_python_threads_at_once() -> None:
    """Each gets its own numbers, whoever has the pool: eight callers, four cells, other lengths in every call."""
    work = [
        (layer, torch.randn(8, 6, 5, generator=torch.Generator().manual_seed(k)), [8, 0, k % 8, 3, 8, 1])
        for k in range(16) for layer in layers()
    ]  # fmt: skip
    alone = [training_step(*item) for item in work]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for got, want in zip(pool.map(lambda item: training_step(*item), work), alone, strict=True):
                for a, b in zip(got, want, strict=True):  # a call beside another has one thread: sums in another order
                    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_callers_that_come_and_go_leave_nothing_behind() -> None:
    """A thread that dies gives its scratch back, and no worker is left for it."""
    layer, x = layers()[2], torch.randn(20, 8, 5)

    def start_and_end(count: int) -> None:
        for _ in range(count):
            caller = threading.Thread(target=training_step, args=(layer, x))
            caller.start()
            caller.join()

    torch.set_num_threads(2)
    start_and_end(10)
    before, tasks = resident(), len(os.listdir("/proc/self/task"))
    start_and_end(150)
    torch.set_num_threads(1)
    assert resident() - before < 16 << 20
    assert len(os.listdir("/proc/self/task")) <= tasks + 2


def test_memory_is_flat_over_ten_thousand_calls() -> None:
    layer = unrolled.GRU(3, 5)
    rng = np.random.default_rng(0)
    inputs = [torch.randn(int(rng.integers(1, 9)), int(rng.integers(1, 7)), 3) for _ in range(50)]

    def calls(count: int) -> None:
        for number in range(count):
            x = inputs[number % 50]
            if number % 10 == 0:
                layer(x)[0].sum().backward()
                layer.zero_grad()
            else:
                with torch.no_grad():
                    layer(x)

    calls(500)
    before = resident()
    calls(10_000)
    assert resident() - before < 8 << 20


# The number of threads


@pytest.mark.parametrize("cell", CELLS)
def test_thread_counts_change_between_calls(cell: str) -> None:
    """Also between a forward pass and its backward pass, with rows dealt out for the first count."""
    layer = randomise(ours(cell, 5, 9, 2, bidirectional=True, dtype=torch.float64), 1, scale=0.3)
    x, lengths = case(cell, batch=13, steps=6, width=5).x.transpose(0, 1), [6, 0, 3, 6, 1, 2, 6, 5, 4, 3, 6, 6, 1]
    want = training_step(layer, x, lengths)
    try:
        for before in (2, 1, 7, 3):
            for after in (1, 2, 5):
                torch.set_num_threads(before)
                out = layer(x, lengths=lengths)
                loss = out[0].square().sum() + split_state(out[1])[0].sum()
                torch.set_num_threads(after)
                got = torch.autograd.grad(loss, list(layer.parameters()))
                for a, b in zip([out[0].detach(), *got], want, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    finally:
        torch.set_num_threads(1)


# Forks, each in a process of its own


PREPARE = """
import os, sys, threading, time, warnings
import numpy as np
from unrolled import _native
rng = np.random.default_rng(0)
draw = lambda *shape: (rng.uniform(-1, 1, shape) * 0.2).astype(np.float32)
layer = _native.Layer("lstm", draw(4, 16, 32), draw(4, 32, 32), draw(4, 32))
x = draw(50, 12, 16)
"""
FORK = (
    PREPARE
    + """
want = layer.run(x, threads=2)[0]
stop = threading.Event()
def busy():
    while not stop.is_set():
        layer.run(x, threads=2)
others = [threading.Thread(target=busy) for _ in range(3)]
for each in others: each.start()
warnings.simplefilter("ignore")  # a fork beside threads is what this is about
for number in range(12):
    child = os.fork()
    if child == 0:
        for threads in (2, 1, 2, 2):
            got = layer.run(x, threads=threads)[0]
            if got.tobytes() != want.tobytes(): os._exit(3)
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if layer.run(x, threads=2)[0].tobytes() == want.tobytes() else 4)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if layer.run(x, threads=2)[0].tobytes() != want.tobytes(): status = 5
    if status: break
stop.set()
for each in others: each.join()
print("status", status)
"""
)
TORCH_FORK = """
import os, torch, unrolled
torch.set_num_threads(2)
layer, x = unrolled.GRU(8, 16, 2, bidirectional=True), torch.randn(20, 12, 8)
def step():
    layer.zero_grad()
    out = layer(x)[0]
    out.sum().backward()
    return out.detach(), layer.weight_hh_l0.grad.clone()
want = step()
status = 0
for _ in range(3):
    child = os.fork()
    if child == 0:
        got = step()
        os._exit(0 if all(torch.equal(a, b) for a, b in zip(got, want)) else 3)
    status = status or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
step()
print("status", status)
"""


@pytest.mark.parametrize("program", [FORK, TORCH_FORK], ids=["while calls run", "layers that train"])
def test_after_a_fork(program: str) -> None:
    """The child has none of its parent's workers; it starts its own, and so does its own child."""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "status 0"
