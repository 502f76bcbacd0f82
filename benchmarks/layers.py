"""Layers against torch.nn on the CPU, row by row in one process: time, ratio, share of the matrix-multiply peak.

Every row runs ours and torch.nn's in turn, several times, and keeps medians; `--rounds` repeats the whole grid, and the
spread over the rounds is written beside the ratio. A GRU with the reset before the product, which torch.nn lacks, is
compared with the same cell in scripted eager torch.

    python benchmarks/layers.py                     the whole grid, about half an hour
    python benchmarks/layers.py --quick             one round, fewer repetitions
    python benchmarks/layers.py --table             docs/performance.md from the JSON of the last run
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import unrolled
from unrolled import _native

RESULT = Path(__file__).parent / "results" / "layers.json"
SHAPES = (
    (1, 1, 64, 64), (1, 100, 128, 128), (1, 100, 256, 256), (8, 100, 128, 128), (32, 100, 64, 128), (32, 100, 256, 256),
    (64, 35, 200, 200), (20, 35, 650, 650), (64, 100, 512, 512), (32, 1000, 32, 64),
)  # fmt: skip
CELLS = ("RNN", "LSTM", "GRU-after", "GRU-before")
GATES = {"RNN": 1, "LSTM": 4, "GRU-after": 3, "GRU-before": 3}


class Row(NamedTuple):
    cell: str
    shape: tuple[int, int, int, int]  # B, T, D, H
    mode: str  # "inference" or "training"
    ragged: bool
    threads: int


class ScriptedGRU(nn.Module):
    """The reset before the product, a step at a time, as one writes it in torch."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        other = nn.GRU(input_size, hidden_size)
        self.w, self.u = other.weight_ih_l0, other.weight_hh_l0
        self.b, self.c = other.bias_ih_l0, other.bias_hh_l0
        self.hidden_size = hidden_size

    def forward(self, x: Tensor) -> Tensor:
        H = self.hidden_size
        h = torch.zeros(x.shape[1], H)
        given = torch.nn.functional.linear(x, self.w, self.b)
        u, c = self.u[: 2 * H], self.c[: 2 * H]
        u_n, c_n = self.u[2 * H :], self.c[2 * H :]
        out: list[Tensor] = []
        for step in given.unbind(0):
            gates = torch.sigmoid(step[:, : 2 * H] + torch.nn.functional.linear(h, u, c))
            r, z = gates[:, :H], gates[:, H:]
            n = torch.tanh(step[:, 2 * H :] + torch.nn.functional.linear(r * h, u_n, c_n))
            h = (1 - z) * n + z * h
            out.append(h)
        return torch.stack(out)


def ours(cell: str, inputs: int, hidden: int) -> nn.Module:
    """Our layer for a row's cell."""
    if cell.startswith("GRU"):
        return unrolled.GRU(inputs, hidden, reset_after=cell == "GRU-after")
    return getattr(unrolled, cell)(inputs, hidden)


def theirs(cell: str, inputs: int, hidden: int) -> nn.Module:
    """torch.nn's, or the scripted cell."""
    if cell == "GRU-before":
        return torch.jit.script(ScriptedGRU(inputs, hidden))
    return getattr(nn, cell.split("-")[0])(inputs, hidden)


def runners(row: Row) -> tuple[Callable[[], None], Callable[[], None]]:
    """One call of ours and one of torch.nn's, on the same input."""
    batch, steps, inputs, hidden = row.shape
    x = torch.randn(steps, batch, inputs, requires_grad=row.mode == "training")
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(max(1, steps // 5), steps + 1, (batch,), generator=generator) if row.ragged else None
    gradient = torch.randn(steps, batch, hidden)
    mine, other = ours(row.cell, inputs, hidden), theirs(row.cell, inputs, hidden)

    def call_ours() -> Tensor:
        return mine(x, lengths=lengths)[0]

    def call_theirs() -> Tensor:
        if row.cell == "GRU-before":
            return other(x)
        if lengths is None:
            return other(x)[0]
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(other(packed)[0], total_length=steps)[0]

    def step(call: Callable[[], Tensor], module: nn.Module) -> Callable[[], None]:
        def run() -> None:
            if row.mode == "inference":
                with torch.no_grad():
                    call()
                return
            x.grad = None
            module.zero_grad(set_to_none=True)
            call().backward(gradient)

        return run

    return step(call_ours, mine), step(call_theirs, other)


def peak(threads: int) -> float:
    """GFLOP/s of torch's 1024 x 1024 product: the best of many."""
    torch.set_num_threads(threads)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best = min(_timed(lambda: a @ b) for _ in range(30))
    return 2 * 1024**3 / best / 1e9


def operations(row: Row, lengths_mean: float = 1.0) -> float:
    """Floating-point operations of the matrix products: three times as many in a training step."""
    batch, steps, inputs, hidden = row.shape
    forward = 2 * GATES[row.cell] * hidden * (inputs + hidden) * batch * steps * lengths_mean
    return forward * (3 if row.mode == "training" else 1)


def _timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure(row: Row, seconds: float) -> dict[str, Any]:
    """Both, in turn, for about that long: medians in milliseconds."""
    torch.set_num_threads(row.threads)
    mine, other = runners(row)
    for _ in range(2):
        mine(), other()
    both = _timed(mine) + _timed(other)
    repetitions = max(5, min(400, int(seconds / both)))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repetitions):
        for call, kept in zip((mine, other), times, strict=True):
            kept.append(_timed(call))
    ms, torch_ms = (statistics.median(kept) * 1e3 for kept in times)
    return {"ms": ms, "torch_ms": torch_ms, "ratio": torch_ms / ms, "best_ms": min(times[0]) * 1e3}


def grid(threads: list[int], cells: list[str], shapes: list[tuple[int, int, int, int]]) -> list[Row]:
    """All rows; packed sequences exist for torch.nn's cells only, and mean nothing for a single step."""
    rows = []
    for count, mode, ragged, cell, shape in itertools.product(
        threads, ("inference", "training"), (False, True), cells, shapes
    ):
        if ragged and (cell == "GRU-before" or shape[0] == 1):
            continue
        rows.append(Row(cell, shape, mode, ragged, count))
    return rows


def run(options: argparse.Namespace) -> dict[str, Any]:
    rows = grid(options.threads, options.cells, options.shapes or list(SHAPES))
    measured: dict[Row, list[dict[str, Any]]] = {row: [] for row in rows}
    peaks: dict[int, list[float]] = {count: [] for count in options.threads}
    for _ in range(options.rounds):
        for count in options.threads:
            peaks[count].append(peak(count))
        for row in rows:
            found = measure(row, options.seconds)
            top = peaks[row.threads][-1]
            found["share"] = operations(row) / found["ms"] / 1e6 / top if not row.ragged else None
            measured[row].append(found)
            share = "" if found["share"] is None else f"{found['share']:6.1%} of peak"
            print(
                f"{row.threads} thr {row.mode:9} {'ragged' if row.ragged else 'dense ':6} {row.cell:10} "
                f"{row.shape!s:20} "
                f"{found['ms']:9.3f} ms  torch {found['torch_ms']:9.3f} ms  x {found['ratio']:6.2f}  {share}",
                flush=True,
            )
    return {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_cpu()}",
        "target": _native.isa(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "unrolled": unrolled.__version__},
        "peak_gflops": {str(count): values for count, values in peaks.items()},
        "rows": [row._asdict() | {"rounds": measured[row]} for row in rows],
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def geometric(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else float("nan")


def summary(record: dict[str, Any]) -> list[tuple[str, list[float]]]:
    """The aims' figures, one value a round: geometric means and the worst row, on the most threads."""
    most = max(row["threads"] for row in record["rows"])
    rounds = range(len(record["rows"][0]["rounds"]))

    def ratios(i: int, **wanted: Any) -> list[float]:
        rows = [r | {"one_step": r["shape"][1] == 1} for r in record["rows"] if r["threads"] == most]
        return [r["rounds"][i]["ratio"] for r in rows if all(r[k] == v for k, v in wanted.items())]

    def found(i: int, key: str, cell: str, **wanted: Any) -> dict[tuple, float]:
        rows = [r for r in record["rows"] if r["threads"] == most and not r["ragged"] and r["cell"] == cell]
        rows = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
        return {(r["mode"], *r["shape"]): r["rounds"][i][key] for r in rows}

    def before_over_after(i: int) -> list[float]:
        before, after = found(i, "ms", "GRU-before"), found(i, "ms", "GRU-after")
        return [before[key] / after[key] for key in before if key in after]

    def large(i: int) -> list[float]:
        cells = {r["cell"] for r in record["rows"]}
        shares = (found(i, "share", cell, mode="training") for cell in cells)
        return [value for each in shares for (_, B, _, _, H), value in each.items() if B >= 32 and H >= 128]

    return [
        ("training, dense: geometric mean", [geometric(ratios(i, mode="training", ragged=False)) for i in rounds]),
        ("inference, dense: geometric mean", [geometric(ratios(i, mode="inference", ragged=False)) for i in rounds]),
        ("training, ragged: geometric mean", [geometric(ratios(i, mode="training", ragged=True)) for i in rounds]),
        ("inference, ragged: geometric mean", [geometric(ratios(i, mode="inference", ragged=True)) for i in rounds]),
        ("worst row", [min(ratios(i)) for i in rounds]),
        ("worst row of more than one step", [min(ratios(i, one_step=False)) for i in rounds]),
        ("B ≥ 32, H ≥ 128, training: least share of the peak", [min(large(i), default=float("nan")) for i in rounds]),
        ("the same: mean share of the peak", [statistics.fmean(large(i) or [float("nan")]) for i in rounds]),
        ("GRU-before's time over GRU-after's: geometric mean", [geometric(before_over_after(i)) for i in rounds]),
        ("the same: worst row", [max(before_over_after(i), default=float("nan")) for i in rounds]),
    ]


def _shape(text: str) -> tuple[int, int, int, int]:
    batch, steps, inputs, hidden = (int(n) for n in text.split(","))
    return batch, steps, inputs, hidden


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="a row and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    parser.add_argument("--shapes", type=_shape, nargs="+", help="B,T,D,H")
    parser.add_argument("--quick", action="store_true", help="one round, half a second a row; nothing is written")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    torch.manual_seed(0)
    record = run(options)
    for name, values in summary(record):
        print(f"{name}: {', '.join(f'{value:.2f}' for value in values)}")
    if not options.quick:
        RESULT.write_text(json.dumps(record, indent=1) + "\n")
