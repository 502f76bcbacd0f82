"""The pictures of a comparison: what each cell reaches and costs, and how the cost grows with the length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unrolled.pictures import new_figure, save

__all__ = ["draw"]

# Each cell has a colour, a mark and a line of its own, so that none of them is needed alone.
STYLES = {
    "rnn": ("#555555", "s", ":"),
    "lstm": ("#D55E00", "o", "-"),
    "gru": ("#0072B2", "^", "--"),
    "transformer": ("#8A4F7D", "D", "-."),
}
MIB = 2**20


def draw(record: dict[str, Any], path: str | Path) -> None:
    """Write a PNG of what `compare` returned.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    grown = all(cell["growth"] for cell in record["cells"])
    figure = new_figure(12, 7.5 if grown else 4)
    axes = figure.subplots(2 if grown else 1, 3, squeeze=False)
    cells = record["cells"]
    name = str(record["score"]["name"]).replace("_", " ")
    _dots(axes[0, 0], cells, f"{name} ({'more' if record['score']['more_is_better'] else 'less'} is better)", _score)
    _dots(axes[0, 1], cells, "training, seconds", lambda run: run["seconds"])
    _dots(axes[0, 2], cells, "largest resident memory while training, MiB", _memory)
    if grown:
        _lines(axes[1, 0], cells, "training", "seconds", "one training step, seconds", 1.0)
        _lines(axes[1, 1], cells, "training", "saved_bytes", "kept for the backward pass, MiB", MIB)
        _lines(axes[1, 2], cells, "token", "seconds", "one more step, milliseconds", 1e-3)
    figure.suptitle(f"{record['task']} on {Path(record['data']).name}: {record['scored']['items']:,} scored")
    save(figure, path)


def _score(run: dict[str, Any]) -> float:
    return run["score"]["value"]


def _memory(run: dict[str, Any]) -> float:
    return (run["resident_bytes"] or 0) / MIB


def _dots(axes: Any, cells: Sequence[dict[str, Any]], title: str, value: Callable[[dict[str, Any]], float]) -> None:
    """A dot a seed, side by side."""
    for place, cell in enumerate(cells):
        colour, mark, _ = STYLES[cell["cell"]]
        runs = cell["runs"]
        spots = [place + 0.12 * (number - (len(runs) - 1) / 2) for number in range(len(runs))]
        axes.plot(spots, [value(run) for run in runs], mark, color=colour, alpha=0.8)
    axes.set_title(title)
    names = [f"{cell['cell']}\n{cell['parameters']:,}" for cell in cells]
    axes.set_xticks(range(len(cells)), names)
    axes.set_xlim(-0.6, len(cells) - 0.4)


def _lines(axes: Any, cells: Sequence[dict[str, Any]], part: str, quantity: str, title: str, unit: float) -> None:
    """Cost against length, both logarithmic; the exponent of the longest lengths stands beside the name."""
    for cell in cells:
        points = cell["growth"].get(part, [])
        if not points:
            continue
        colour, mark, line = STYLES[cell["cell"]]
        values = [sorted(v)[len(v) // 2] if isinstance(v := point[quantity], list) else v for point in points]
        fitted = cell["growth"]["exponents"].get(f"{part}_{quantity}")
        label = cell["cell"] + ("" if fitted is None else f", T^{fitted['tail']:z.2f}")
        lengths = [point["length"] for point in points]
        axes.loglog(lengths, [v / unit for v in values], line, marker=mark, color=colour, label=label)
    axes.set_title(title)
    axes.set_xlabel("length T")
    if axes.lines:
        ticks = sorted({length for line in axes.lines for length in line.get_xdata()})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "both directions are read:\nthere is no next step", ha="center", transform=axes.transAxes)
