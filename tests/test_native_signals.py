"""A long call of the native engine ends within a second of Ctrl-C, and the process lives on.

The second is one of the process's own processor time, so that a machine that is busy elsewhere changes nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

WAIT = 0.5  # seconds from the start of the call to the signal

LAYER = """
import time, torch, unrolled
torch.set_num_threads(THREADS)
layer = unrolled.GRU(8, 1024, memory="recompute")
x = torch.randn(1, 32, 8)

def prepare():
    return layer(x.expand(600, 32, 8))[0].sum() if BACKWARD else None

def call(loss):  # the smallest of these takes several seconds on one fast core
    if not BACKWARD:
        with torch.no_grad():
            return layer(x.expand(2500, 32, 8))
    return torch.autograd.grad(loss, list(layer.parameters()))

def after():
    out = layer(x)[0]
    out.sum().backward()
    return bool(torch.isfinite(out).all())
"""
ENGINE = """
import time
import numpy as np
from unrolled import _native
rng = np.random.default_rng(0)
draw = lambda *shape: (rng.uniform(-1, 1, shape) * 0.03).astype(np.float32)
layer = _native.Layer("lstm", draw(4, 8, 1024), draw(4, 1024, 1024))
x = draw(1, 32, 8)
prepare = lambda: None
call = lambda _: layer.run(np.broadcast_to(x, (2000, 32, 8)), threads=THREADS)
after = lambda: bool(np.isfinite(layer.run(x, threads=THREADS)[0]).all())
"""
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests in the background has it ignored
given = prepare()
start = time.process_time()
print("ready", flush=True)
try:
    call(given)
    print("finished", flush=True)
except KeyboardInterrupt:
    print("interrupted", time.process_time() - start, flush=True)
print("alive", after())
"""


@pytest.mark.parametrize(
    ("program", "threads", "backward"),
    [(LAYER, 2, False), (LAYER, 1, True), (ENGINE, 2, False)],
    ids=["forward", "backward", "numpy"],
)
def test_ctrl_c_ends_a_long_call(program: str, threads: int, backward: bool) -> None:
    text = program.replace("THREADS", str(threads)).replace("BACKWARD", str(backward)) + MAIN
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(WAIT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert first == "ready\n", err[-2000:]
    answer, alive = out.splitlines()
    assert answer.startswith("interrupted "), out + err[-2000:]
    assert float(answer.split()[1]) < (WAIT + 1) * threads
    assert alive == "alive True", err[-2000:]
    assert process.returncode == 0, err[-2000:]
