"""Four kinds of network on five plays: benchmarks/results/compare.json, docs/compare.md and docs/compare.png."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from harness import RESULTS

PATH = RESULTS / "compare.json"
DOCS = RESULTS.parent.parent / "docs"
TEXT = RESULTS / "compare.md"  # what the page says in words; {scores}, {growth} and {measured} are filled in
MIB = 2**20
RECIPE = {
    "task": "lm",
    "data": "plays",
    "layers": 2,
    "embedding": 64,
    "batch_size": 32,
    "chunk": 64,
    "epochs": 6,
    "learning_rate": 3e-3,
    "warmup": 0.2,
    "patience": None,
    "threads": 1,
}
PARAMETERS, SEEDS = 100_000, (0, 1, 2)
RATES = (3e-3, 1e-2, 3e-2)  # each cell takes the one that validates best
QUANTITIES = (
    ("training", "seconds", "One training step, seconds", 1.0, ".3f"),
    ("training", "saved_bytes", "Kept for the backward pass, MiB", MIB, ".1f"),
    ("training", "resident_bytes", "Resident memory of a training step, MiB", MIB, ".1f"),
    ("token", "seconds", "One more step behind T others, milliseconds", 1e-3, ".2f"),
    ("token", "state_bytes", "State behind T steps, KiB", 1024, ".1f"),
)


def run() -> dict[str, Any]:
    from unrolled.training import Recipe
    from unrolled.training.compare import Plan, compare

    with tempfile.TemporaryDirectory() as scratch:
        plan = Plan(Recipe(**RECIPE), seeds=SEEDS, parameters=PARAMETERS, learning_rates=RATES)
        record = compare(plan, out=Path(scratch) / "compare", note=lambda text: print(text, flush=True))
    PATH.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return json.loads(PATH.read_text(encoding="utf-8"))


def scores(record: dict[str, Any]) -> str:
    """One row a cell: size, score with its spread, seconds, memory."""
    name = record["score"]["name"]
    lines = [f"| | hidden | parameters | {name}, median (range) | training, seconds | memory, MiB |"]
    lines += ["|---|--:|--:|--:|--:|--:|"]
    for cell in record["cells"]:
        score, runs = cell["score"], cell["runs"]
        seconds = [run["seconds"] for run in runs]
        memory = max(run["resident_bytes"] for run in runs) / MIB
        shown = f"**{score['median']:.3f}** ({score['least']:.3f} to {score['largest']:.3f})"
        took = f"{statistics.median(seconds):.0f} ({min(seconds):.0f} to {max(seconds):.0f})"
        lines.append(
            f"| {cell['cell']} | {cell['hidden']} | {cell['parameters']:,} | {shown} | {took} | {memory:.0f} |"
        )
    baselines = [f"{name}, {numbers[record['score']['name']]:.2f}" for name, numbers in record["baselines"].items()]
    return "\n".join([*lines, "", f"Baselines: {'; '.join(baselines)}.", "", *(f"- {x}." for x in record["findings"])])


def growth(record: dict[str, Any]) -> str:
    """A table a quantity: a row a length, a column a cell, the exponents below."""
    cells = record["cells"]
    lines = []
    for part, quantity, title, unit, form in QUANTITIES:
        lines += [f"**{title}**", "", "| T | " + " | ".join(cell["cell"] for cell in cells) + " |"]
        lines += ["|---|" + "--:|" * len(cells)]
        points = [{point["length"]: point[quantity] for point in cell["growth"][part]} for cell in cells]
        for length in sorted(set().union(*points)):
            values = [_middle(of.get(length)) for of in points]
            shown = ["left out" if value is None else format(value / unit, form) for value in values]
            lines.append(f"| {length:,} | " + " | ".join(shown) + " |")
        fits = [cell["growth"]["exponents"].get(f"{part}_{quantity}") for cell in cells]
        lines += ["| exponent | " + " | ".join(map(_exponent, fits)) + " |", ""]
    return "\n".join(lines)


def _middle(value: Any) -> float | None:
    return statistics.median(value) if isinstance(value, list) else value


def _exponent(fitted: dict[str, float] | None) -> str:
    if fitted is None:
        return "–"
    spread = "" if fitted["least"] == fitted["largest"] else f" ({fitted['least']:z.2f} to {fitted['largest']:z.2f})"
    return f"**{fitted['tail']:z.2f}**{spread}"


if __name__ == "__main__":
    from unrolled.training.compare.plot import draw

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the page, from the results that are there")
    only_page = parser.parse_args().page
    found = json.loads(PATH.read_text(encoding="utf-8")) if only_page else run()
    versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
    engines = ", ".join(f"{cell['cell']} on {cell['runs'][0]['engine']}" for cell in found["cells"])
    measured = f"Engines: {engines}. {found['date']}, {found['machine']}, one thread, {versions}."
    text = TEXT.read_text(encoding="utf-8")
    page = text.format(scores=scores(found), growth=growth(found), measured=measured)
    (DOCS / "compare.md").write_text(page, encoding="utf-8")
    draw(found, DOCS / "compare.png")
    print("wrote compare.md and compare.png")
