"""The pictures of a report as PNG files, by matplotlib (extra "plot"), for a paper or a slide.

loss.png, scores.png, gradient.png, learning_rate.png; gates.png and flow.png where training took looks; errors.png; and
of a forecast samples.png. Colours, lines and letters go together, as on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.insight.packing import unpack
from unrolled.pictures import new_figure, save

__all__ = ["draw"]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#007A5A", "#8A4F7D", "#555555"
GATES = {
    "f": (ORANGE, "-"), "i": (BLUE, "--"), "o": (GREEN, ":"), "g": (PURPLE, "-."),
    "z": (ORANGE, "-"), "r": (GREY, ":"), "n": (PURPLE, "-."), "h": (GREY, "-"),
}  # fmt: skip


def draw(found: dict[str, Any], folder: str | Path) -> list[Path]:
    """Write the pictures of a report into a folder, which is made.

    Args:
        found: what `make` returned first.

    Returns:
        The files, in the order in which they were drawn.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, paint in PICTURES.items():
        figure = new_figure(8, 4.5)
        if paint(figure, found):
            path = target / f"{name}.png"
            save(figure, path)
            written.append(path)
    return written


def _curve(axes: Any, curve: dict[str, Any] | None, colour: str, line: str, label: str, mark: str = "") -> bool:
    if curve is None:
        return False
    y = [float(value) for value in curve["y"]]
    axes.plot(curve["x"], y, line, color=colour, label=label, marker=mark, markersize=3, linewidth=1)
    return True


def _loss(figure: Any, found: dict[str, Any]) -> bool:
    axes = figure.subplots()
    drawn = [
        _curve(axes, found["curves"]["loss"], "#9ecae1", "-", "training, each logged step"),
        _curve(axes, found["epochs"]["steps"]["loss"], BLUE, "--", "training, mean of the epoch", "o"),
        _curve(axes, found["epochs"]["steps"]["nats"], ORANGE, "-", "validation", "s"),
    ]
    _dress(axes, "optimizer step", "loss")
    return any(drawn)


def _scores(figure: Any, found: dict[str, Any]) -> bool:
    score = found["score"]
    curve = None if score is None else found["epochs"]["valid"].get(score["name"])
    if curve is None:
        return False
    axes = figure.subplots()
    title = str(score["name"]).replace("_", " ")
    _curve(axes, curve, ORANGE, "-", f"validation: {title}", "s")
    best = found["training"]["best_epoch"]
    if best is not None:
        axes.axvline(best, color=GREY, linestyle=":", label=f"best epoch, {best}")
    _dress(axes, "epoch", title)
    return True


def _gradient(figure: Any, found: dict[str, Any]) -> bool:
    axes = figure.subplots()
    drawn = _curve(axes, found["curves"]["gradient_norm"], ORANGE, "-", "before clipping")
    _curve(axes, found["curves"]["clipped_norm"], BLUE, "--", "after clipping")
    if found["clip"] is not None:
        axes.axhline(found["clip"], color=GREY, linestyle=":", label=f"clip, {found['clip']:g}")
    axes.set_yscale("log")
    _dress(axes, "optimizer step", "norm of the gradient")
    return drawn


def _rate(figure: Any, found: dict[str, Any]) -> bool:
    axes = figure.subplots()
    drawn = _curve(axes, found["curves"]["learning_rate"], BLUE, "-", "learning rate")
    _dress(axes, "optimizer step", "learning rate")
    return drawn


def _gates(figure: Any, found: dict[str, Any]) -> bool:
    """Shares at the two ends of each gate while it trained, a panel a layer and direction (at most four)."""
    layers = [] if found["looks"] is None else found["looks"]["layers"][:4]
    if not layers:
        return False
    figure.set_size_inches(8, 2.4 * len(layers) + 1)
    for axes, layer in zip(figure.subplots(len(layers), 1, squeeze=False)[:, 0], layers, strict=True):
        for gate, ends in layer["saturated"].items():
            colour, line = GATES.get(gate, (GREY, "-"))
            for side, mark in (("low", "v"), ("high", "^")):
                values = [np.nan if v is None else float(v) for v in ends[side]]
                axes.plot(
                    found["looks"]["steps"],
                    values,
                    line,
                    color=colour,
                    marker=mark,
                    markersize=4,
                    label=f"{gate} {side}",
                )
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(_title(layer), fontsize="small")
        _dress(axes, "optimizer step", "share at the end", columns=2)
    return True


def _flow(figure: Any, found: dict[str, Any]) -> bool:
    """How a gradient shrinks on its way back, look after look."""
    layers = [] if found["looks"] is None else found["looks"]["layers"][:4]
    if not layers:
        return False
    figure.set_size_inches(8, 2.4 * len(layers) + 1)
    for axes, layer in zip(figure.subplots(len(layers), 1, squeeze=False)[:, 0], layers, strict=True):
        table = unpack(layer["gradient"])
        drawn = axes.imshow(
            np.ma.masked_invalid(table), aspect="auto", cmap="cividis", origin="lower", interpolation="nearest"
        )
        figure.colorbar(drawn, ax=axes, label="log10")
        axes.set_title(_title(layer), fontsize="small")
        steps = found["looks"]["steps"]
        shown = range(0, len(steps), max(1, len(steps) // 8))
        axes.set_xticks(list(shown), [f"{steps[i]:,}" for i in shown])
        axes.set_ylabel("steps back")
    axes.set_xlabel("optimizer step")
    return True


def _errors(figure: Any, found: dict[str, Any]) -> bool:
    errors = found["errors"]
    return errors is not None and ERRORS[errors["kind"]](figure, errors)


def _confusion(figure: Any, errors: dict[str, Any]) -> bool:
    names = [name if name is not None else "…" for name in errors["names"]]
    counts = np.array(errors["counts"])
    size = max(4.5, 0.42 * len(names) + 2)
    figure.set_size_inches(size + 1, size)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    figure.colorbar(axes.imshow(shares, cmap="cividis", vmin=0, vmax=1), ax=axes, label="share of the row")
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("said")
    axes.set_ylabel("right")
    for i, j in np.argwhere(counts > 0) if len(names) <= 16 else ():
        axes.text(
            j,
            i,
            f"{counts[i, j]:,}",
            ha="center",
            va="center",
            fontsize=7,
            color="#000" if shares[i, j] > 0.55 else "#fff",
        )
    return True


def _tokens(figure: Any, errors: dict[str, Any]) -> bool:
    parts = errors["positions"]
    axes = figure.subplots()
    axes.bar(range(len(parts)), [float(part["mean"]) for part in parts], color=BLUE)
    axes.set_xticks(range(len(parts)), [f"{part['from']}–{part['to']}" for part in parts], rotation=45)
    axes.set_xlabel("steps from the start")
    axes.set_ylabel("nats a token")
    return bool(parts)


def _edits(figure: Any, errors: dict[str, Any]) -> bool:
    parts = errors["lengths"]
    axes = figure.subplots()
    axes.bar(range(len(parts)), [part["token_error_rate"] for part in parts], color=BLUE)
    axes.set_xticks(range(len(parts)), [f"{part['from']}–{part['to']}" for part in parts])
    axes.set_xlabel("length of the source")
    axes.set_ylabel("token error rate")
    return bool(parts)


def _steps(figure: Any, errors: dict[str, Any]) -> bool:
    parts = errors["steps"]
    axes = figure.subplots()
    axes.plot([part["ahead"] for part in parts], [float(part["mae"]) for part in parts], color=BLUE, marker="o")
    axes.set_xlabel("steps ahead")
    axes.set_ylabel("mean absolute error")
    return bool(parts)


def _samples(figure: Any, found: dict[str, Any]) -> bool:
    """Forecasts beside what came, a panel a series."""
    samples = [sample for sample in found["samples"] if sample["kind"] == "forecast"]
    if not samples:
        return False
    figure.set_size_inches(8, 2.4 * len(samples) + 0.5)
    for axes, sample in zip(figure.subplots(len(samples), 1, squeeze=False)[:, 0], samples, strict=True):
        ahead = range(sample["origin"], sample["origin"] + len(sample["forecast"]))
        actual = [np.nan if v is None else float(v) for v in sample["actual"]]
        axes.plot(range(len(actual)), actual, color=GREY, label="what came", linewidth=1)
        axes.plot(ahead, [float(v) for v in sample["forecast"]], "--", color=BLUE, label="forecast")
        if sample["low"] is not None:
            low, high = ([float(v) for v in sample[name]] for name in ("low", "high"))
            axes.fill_between(ahead, low, high, color=BLUE, alpha=0.2, label="{:g} to {:g}".format(*sample["levels"]))
        axes.set_title(sample["id"], fontsize="small")
        shown = [0, sample["origin"], len(sample["times"]) - 1]
        axes.set_xticks(shown, [sample["times"][i] for i in shown])
        axes.legend(fontsize="small")
    return True


def _dress(axes: Any, x: str, y: str, columns: int = 1) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="x-small", ncols=columns)


def _title(layer: dict[str, Any]) -> str:
    return f"{layer['name']}, layer {layer['layer']}, {'backward' if layer['direction'] else 'forward'}"


Paint = Callable[[Any, dict[str, Any]], bool]
PICTURES: dict[str, Paint] = {
    "loss": _loss, "scores": _scores, "gradient": _gradient, "learning_rate": _rate, "gates": _gates, "flow": _flow,
    "errors": _errors, "samples": _samples,
}  # fmt: skip
ERRORS: dict[str, Paint] = {
    "labels": _confusion, "tags": _confusion, "tokens": _tokens, "edits": _edits, "steps": _steps,
}  # fmt: skip
