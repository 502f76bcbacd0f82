"""Write docs/performance.md from results/layers.json and results/engine.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import RESULTS, spread
from layers import summary

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

HEAD = """# Performance on a CPU

Every figure compares with torch.nn, or with ONNX Runtime, in the same process and run: medians of calls that take
turns, over {rounds} rounds; the least and the largest round stand in brackets. {machine}, target {target}, {versions},
{date}. The matrix-multiply peak is torch's 1024³ product in the same run: {peaks}.

`python benchmarks/layers.py`, `python benchmarks/engine.py` and `python benchmarks/performance.py` repeat this page. It
runs on the CPU only; nothing here was measured on a GPU, where layers go to torch's own kernels.
"""

NOTES = RESULTS / "performance.md"


def shown(values: list[float], digits: int = 2) -> str:
    """The median, and the least and the largest where they differ in print."""
    low, mid, high = (f"{value:.{digits}f}" for value in spread(values))
    return mid if low == high else f"{mid} ({low}–{high})"


def aims(record: dict[str, Any]) -> list[str]:
    """The figures over the whole grid."""
    lines = ["## Over the whole grid, against torch.nn, two threads", "", "| | ratio |", "|---|--:|"]
    return [*lines, *(f"| {name} | **{shown(values)}** |" for name, values in summary(record)), ""]


def grid(record: dict[str, Any], mode: str, ragged: bool) -> list[str]:
    """One table: a row a cell and shape, both thread counts beside each other."""
    counts = sorted({row["threads"] for row in record["rows"]})
    rows = [row for row in record["rows"] if row["mode"] == mode and row["ragged"] == ragged]
    what = "lengths uniform in T/5 to T, against packed sequences" if ragged else "dense"
    head = "".join(f" ms, {n} thr | torch, ms | ratio |" + ("" if ragged else " peak |") for n in counts)
    lines = [f"### {mode.capitalize()}, {what}", "", f"| cell | B, T, D, H |{head}"]
    lines += ["|---|---|" + "--:|" * (len(counts) * (3 if ragged else 4))]
    for cell, shape in dict.fromkeys((row["cell"], tuple(row["shape"])) for row in rows):
        line = f"| {cell} | {', '.join(map(str, shape))} |"
        for count in counts:
            (row,) = (r for r in rows if r["cell"] == cell and tuple(r["shape"]) == shape and r["threads"] == count)
            rounds = row["rounds"]
            ms, torch_ms = (spread([r[key] for r in rounds])[1] for key in ("ms", "torch_ms"))
            line += f" {ms:.3g} | {torch_ms:.3g} | {shown([r['ratio'] for r in rounds])} |"
            line += "" if ragged else f" {spread([r['share'] for r in rounds])[1]:.0%} |"
        lines.append(line)
    return [*lines, ""]


def peers(record: dict[str, Any], part: str, title: str, unit: float, digits: int) -> list[str]:
    """A table of candidates; the ratio is the last candidate but ours over ours."""
    rounds = record[part]
    names = list(next(iter(rounds[0].values())))
    lines = [f"### {title}", "", "| | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for row in rounds[0]:
        cells = [shown([found[row][name] / unit for found in rounds], digits) for name in names]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def memory(record: dict[str, Any]) -> list[str]:
    rows = record["peak memory, MiB"]
    names = list(next(iter(rows.values())))
    lines = ["### Memory that a training step adds, MiB", "", "| | " + " | ".join(names) + " |"]
    lines += ["|---|" + "--:|" * len(names)]
    lines += [f"| {row} | " + " | ".join(f"{rows[row][name]:.0f}" for name in names) + " |" for row in rows]
    return [*lines, ""]


if __name__ == "__main__":
    layers = json.loads((RESULTS / "layers.json").read_text(encoding="utf-8"))
    engine = json.loads((RESULTS / "engine.json").read_text(encoding="utf-8"))
    peaks = (f"{shown(values, 0)} GFLOP/s with {count} thread(s)" for count, values in layers["peak_gflops"].items())
    versions = (f"{name} {version}" for name, version in (layers["versions"] | engine["versions"]).items())
    head = HEAD.format(
        rounds=len(layers["rows"][0]["rounds"]),
        peaks=", ".join(peaks),
        versions=", ".join(versions),
        machine=layers["machine"],
        target=layers["target"],
        date=layers["date"],
    )
    page = [head, *aims(layers), NOTES.read_text(encoding="utf-8")]
    page.append("## Every row of the grid\n")
    for mode in ("training", "inference"):
        for ragged in (False, True):
            page += grid(layers, mode, ragged)
    page.append("## Beside ONNX Runtime, without gradients\n")
    page += peers(engine, "steps", "One step of one row, microseconds, one thread", 1, 2)
    for count in (1, 2):
        page += peers(engine, f"sequences, {count} threads", f"Whole sequences, milliseconds, {count} threads", 1000, 2)
    page.append("## What a training step keeps\n")
    page += memory(engine)
    page += peers(
        engine, "recompute", "A training step that keeps gates, and one that computes them again, ms", 1000, 1
    )
    PAGE.write_text("\n".join(page), encoding="utf-8")
    print(PAGE)
