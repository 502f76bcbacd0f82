"""The native engine beside ONNX Runtime, its memory beside torch.nn's, and what recomputation costs.

    python benchmarks/engine.py [--rounds 3]       about five minutes; writes results/engine.json

Steps and sequences run without gradients; every row runs its candidates in turn, with a rest between them, and keeps
medians; the rounds give the spread. Memory is the peak of the resident set in a fresh process, less what it was before
the training step.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import unrolled
from unrolled import _native, convert

RESULT = Path(__file__).parent / "results" / "engine.json"
CELLS = ("RNN", "LSTM", "GRU")
SEQUENCES = ((1, 100, 128, 128), (8, 100, 128, 128), (32, 100, 128, 128), (64, 35, 200, 200), (64, 100, 512, 512))
MEMORY = ((32, 100, 128, 128), (20, 35, 650, 650), (64, 100, 512, 512))


def in_turn(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Medians in microseconds. Between two candidates all rest: their threads spin for milliseconds after work."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds * len(calls) or len(times[next(iter(times))]) < 5:
        for name, call in calls.items():
            time.sleep(0.02)
            call()  # wakes its threads
            block = time.perf_counter()
            while time.perf_counter() - block < 0.01 or len(times[name]) < 2:
                start = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def session(layer: nn.Module, folder: str, threads: int) -> Any:
    """ONNX Runtime on the layer, through our own export."""
    import onnxruntime

    path = Path(folder) / "layer.onnx"
    convert.save(layer, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(peer: Any, x: np.ndarray, hidden: int) -> dict[str, np.ndarray]:
    """The model's inputs: x by its shape, lengths in full, states of zeros."""
    steps, batch, _ = x.shape
    given: dict[str, np.ndarray] = {}
    for each in peer.get_inputs():
        if each.type == "tensor(float)" and each.name in ("x", "input", "X"):
            given[each.name] = x
        elif each.type == "tensor(float)":
            given[each.name] = np.zeros((1, batch, hidden), np.float32)
        else:
            given[each.name] = np.full(batch, steps, np.int64 if "64" in each.type else np.int32)
    return given


def numpy_layer(layer: Any) -> Any:
    """The same weights without torch."""
    name = {"RNN": "rnn_tanh", "LSTM": "lstm", "GRU": "gru_after"}[type(layer).__name__]
    W, U, b, b_h, _ = (None if w is None else w.detach().numpy() for w in layer.gates(0))
    return _native.Layer(name, W, U, b, b_h)


def steps(seconds: float) -> dict[str, dict[str, float]]:
    """One step, batch 1: our NumPy step, ONNX Runtime's run call, torch.nn."""
    found = {}
    torch.set_num_threads(1)
    for cell in CELLS:
        for hidden in (16, 64, 256):
            layer, peer = getattr(unrolled, cell)(hidden, hidden), getattr(nn, cell)(hidden, hidden)
            own = numpy_layer(layer)
            x, h, c = (np.zeros((1, hidden), np.float32) for _ in range(3))
            memory = c if cell == "LSTM" else None
            given = torch.zeros(1, 1, hidden)
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                runtime = session(layer, folder, 1)
                inputs = feeds(runtime, x[None], hidden)
                calls: dict[str, Callable[[], Any]] = {
                    "step": lambda own=own, x=x, h=h, memory=memory: own.step(x, h, memory),
                    "ONNX Runtime": lambda runtime=runtime, inputs=inputs: runtime.run(None, inputs),
                    "torch.nn": lambda peer=peer, given=given: peer(given),
                }
                found[f"{cell}-{hidden}"] = in_turn(calls, seconds)
    return found


def sequences(seconds: float, threads: int) -> dict[str, dict[str, float]]:
    """Whole sequences: our layer of fixed weights (NumPy), our torch layer, ONNX Runtime, torch.nn."""
    found = {}
    torch.set_num_threads(threads)
    for cell in CELLS:
        for batch, length, inputs, hidden in SEQUENCES:
            layer, peer = getattr(unrolled, cell)(inputs, hidden), getattr(nn, cell)(inputs, hidden)
            own, x = numpy_layer(layer), torch.randn(length, batch, inputs)
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                runtime = session(layer, folder, threads)
                given = feeds(runtime, x.numpy(), hidden)
                calls: dict[str, Callable[[], Any]] = {
                    "fixed weights": lambda own=own, x=x: own.run(x.numpy(), threads=threads),
                    "layer": lambda layer=layer, x=x: layer(x),
                    "ONNX Runtime": lambda runtime=runtime, given=given: runtime.run(None, given),
                    "torch.nn": lambda peer=peer, x=x: peer(x),
                }
                found[f"{cell} {batch},{length},{inputs},{hidden}"] = in_turn(calls, seconds)
    return found


def _peak(job: tuple[str, str, tuple[int, int, int, int], str]) -> float:
    """MiB that one training step adds to the peak of a process that has run a small one."""
    cell, house, (batch, length, inputs, hidden), memory = job
    torch.set_num_threads(2)

    def train(length: int, batch: int) -> None:
        options = {"memory": memory} if house == "ours" else {}
        layer = getattr(unrolled if house == "ours" else nn, cell)(inputs, hidden, **options)
        x = torch.randn(length, batch, inputs, requires_grad=True)
        layer(x)[0].sum().backward()

    train(2, 2)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident now
    before = _high_water()
    train(length, batch)
    return _high_water() - before


def _high_water() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def peaks() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for cell in CELLS:
            for shape in MEMORY:
                kinds = (("unrolled", "ours", "store"), ("recompute", "ours", "recompute"), ("torch.nn", "theirs", ""))
                row = f"{cell} {','.join(map(str, shape))}"
                found[row] = {name: pool.map(_peak, [(cell, h, shape, m)], chunksize=1)[0] for name, h, m in kinds}
    return found


def recompute(seconds: float) -> dict[str, dict[str, float]]:
    """A training step that keeps gates, and one that computes them again."""
    found = {}
    torch.set_num_threads(2)
    for cell in CELLS:
        for batch, length, inputs, hidden in ((32, 100, 128, 128), (64, 100, 512, 512), (1, 10_000, 64, 64)):
            x = torch.randn(length, batch, inputs, requires_grad=True)
            kinds = {m: getattr(unrolled, cell)(inputs, hidden, memory=m) for m in ("store", "recompute")}
            calls = {m: (lambda layer=layer, x=x: layer(x)[0].sum().backward()) for m, layer in kinds.items()}
            found[f"{cell} {batch},{length},{inputs},{hidden}"] = in_turn(calls, seconds)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="a candidate, row and round")
    parser.add_argument("--part", choices=("steps", "recompute", "sequences", "memory"), help="measure only this anew")
    options = parser.parse_args()
    record: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8")) if options.part else {}
    record |= {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, target {_native.isa()}",
        "versions": {"torch": torch.__version__, "onnxruntime": importlib.metadata.version("onnxruntime")},
    }
    parts: dict[str, Callable[[float], Any]] = {"steps": steps, "recompute": recompute}
    parts |= {f"sequences, {n} threads": (lambda s, n=n: sequences(s, n)) for n in (1, 2)}
    for name, part in parts.items():
        if name.startswith(options.part or ""):
            record[name] = [part(options.seconds) for _ in range(options.rounds)]
            print(name, json.dumps(record[name][-1], indent=1), flush=True)
    if options.part in (None, "memory"):
        record["peak memory, MiB"] = peaks()
        print(json.dumps(record["peak memory, MiB"], indent=1))
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
