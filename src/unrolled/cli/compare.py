"""`unrolled compare`: what is asked, what is printed, where it is written."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from unrolled.cli.bench import words
from unrolled.cli.jobs import free_folder
from unrolled.cli.options import recipe_from
from unrolled.cli.show import console, number, say, table
from unrolled.errors import RecipeError, expected

SHORTEST = 128
MIB = 2**20
# (part, quantity): what the table is called, and the unit that its numbers are in.
QUANTITIES = {
    ("training", "seconds"): ("a training step, seconds", 1.0),
    ("training", "saved_bytes"): ("kept for the backward pass, MiB", MIB),
    ("training", "resident_bytes"): ("resident memory of a training step, MiB", MIB),
    ("token", "seconds"): ("one more step behind T others, milliseconds", 1e-3),
    ("token", "state_bytes"): ("state behind T steps, KiB", 1024.0),
}


def compare(
    file: Path | None,
    task: str | None,
    data: str | None,
    cells: str,
    seeds: int,
    out: Path | None,
    longest: int,
    budget: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Run the comparison; print the tables, write compare.json and, with matplotlib, compare.png."""
    from unrolled.training.compare import Plan
    from unrolled.training.compare import compare as run

    chosen = words(cells)
    recipe = recipe_from(file, task, data, dict(options) | _usable(chosen))
    given = {**budget, "learning_rates": rates_of(budget["learning_rates"])}
    plan = Plan(recipe, cells=chosen, seeds=range(seeds), lengths=lengths_to(longest), **given)
    folder = out or free_folder(Path("runs") / f"compare-{Path(recipe.data).stem}")
    record = run(plan, out=folder, note=lambda text: say(f"note: {text}"))
    show(record)
    say(f"\nwritten: {folder / 'compare.json'}" + draw(record, folder / "compare.png"))


def _usable(cells: Sequence[str]) -> dict[str, Any]:
    """The recipe is checked with a cell: one of those that will be trained."""
    return {"cell": cells[0]} if cells else {}


def rates_of(text: str) -> tuple[float, ...]:
    """`0.001,0.003` → (0.001, 0.003).

    Raises:
        RecipeError: a word that is no number.
    """
    try:
        return tuple(float(word) for word in words(text))
    except ValueError:
        raise RecipeError(expected("--learning-rates", "numbers, parted by commas", repr(text))) from None


def lengths_to(longest: int) -> tuple[int, ...]:
    """128, 256, … up to the longest; none for 0.

    Raises:
        RecipeError: a number between, which leaves nothing to fit.
    """
    if longest and longest < 2 * SHORTEST:
        raise RecipeError(expected("--longest", f"0 to leave it out, or {2 * SHORTEST} and more", longest))
    found, length = [], SHORTEST
    while length <= longest:
        found.append(length)
        length *= 2
    return tuple(found)


def draw(record: dict[str, Any], path: Path) -> str:
    """Write the pictures where matplotlib is there. Returns what to say about it."""
    if importlib.util.find_spec("matplotlib") is None:
        return "; for pictures: pip install 'unrolled[plot]'"
    from unrolled.training.compare.plot import draw as draw_record

    draw_record(record, path)
    return f" and {path.name}"


def show(record: dict[str, Any]) -> None:
    """The tables and the findings."""
    out = console()
    scored = record["scored"]
    out.print(f"{scored['data']}, {scored['unit']} scored: {scored['items']:,}", style="bold", markup=False)
    out.print(scores(record))
    out.print("+MiB: what training added to the process: gradients, the optimizer, what the backward pass needs")
    for name, numbers in record["baselines"].items():
        if record["score"]["name"] in numbers:
            shown = number(numbers[record["score"]["name"]])
            out.print(f"baseline, {name}: {record['score']['name'].replace('_', ' ')} {shown}", markup=False)
    for line in record["findings"]:
        out.print(line, markup=False)
    if all(cell["growth"] for cell in record["cells"]):
        out.print("\nGrowth with the length T, and k of cost = a T^k through the longest three:", markup=False)
        for part, quantity in QUANTITIES:
            if any(cell["growth"].get(part) for cell in record["cells"]):
                out.print(f"\n{QUANTITIES[part, quantity][0]}", style="bold", markup=False)
                out.print(growth_table(record, part, quantity))


def scores(record: dict[str, Any]) -> Table:
    """One row a cell: its size, its score with the spread over the seeds, time and memory."""
    name = record["score"]["name"].replace("_", " ")
    rows = table("", "", "hidden", "parameters", name, "range", "seconds", "+MiB")
    for column in rows.columns[1:]:
        column.justify = "right"
    for cell in record["cells"]:
        score, runs = cell["score"], cell["runs"]
        seconds = statistics.median(run["seconds"] for run in runs)
        memory = max((run["resident_bytes"] or 0) - (run["resident_bytes_at_start"] or 0) for run in runs) / MIB
        spread = f"{number(score['least'])}–{number(score['largest'])}"
        sizes = [str(cell["hidden"]), f"{cell['parameters']:,}"]
        row = [*sizes, number(score["median"]), spread, f"{seconds:.1f}", f"{memory:,.0f}" if memory > 0 else ""]
        rows.add_row(cell["cell"], *row)
    return rows


def growth_table(record: dict[str, Any], part: str, quantity: str) -> Table:
    """One row a length, one column a cell, and the fitted exponents below."""
    _, unit = QUANTITIES[part, quantity]
    cells = record["cells"]
    rows = table("", "T", *(cell["cell"] for cell in cells))
    for column in rows.columns[1:]:
        column.justify = "right"
    lengths = sorted({point["length"] for cell in cells for point in cell["growth"]["training"]})
    for length in lengths:
        shown = []
        for cell in cells:
            point = next((one for one in cell["growth"].get(part, []) if one["length"] == length), None)
            shown.append("left out" if point is None else f"{middle(point[quantity]) / unit:,.3f}")
        rows.add_row(f"{length:,}", *shown)
    fitted = [cell["growth"]["exponents"].get(f"{part}_{quantity}") for cell in cells]
    rows.add_row("k", *("" if one is None else f"{one['tail']:z.2f}" for one in fitted))
    if any(one and one["least"] != one["largest"] for one in fitted):
        rows.add_row(
            "its range", *("" if one is None else f"{one['least']:.2f}–{one['largest']:.2f}" for one in fitted)
        )
    return rows


def middle(value: Any) -> float:
    """The median of repetitions, or the one number."""
    return float(statistics.median(value)) if isinstance(value, list) else float(value or 0)
