"""Write docs/results.md from benchmarks/results/*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import RESULTS, spread

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
COMMANDS = {"slots": " FOLDER", "characters": " FILE", "scan": " FOLDER", "g2p": " [FILE]", "m4_hourly": " FOLDER"}
ORDER = (
    "speakers",
    "tags",
    "slots",
    "characters",
    "poems",
    "copying",
    "scan",
    "g2p",
    "digits",
    "weather",
    "m4_hourly",
    "parity",
)
HIDDEN = (
    "items",
    "sentences",
    "spans",
    "characters",
    "several_targets",
    "stopped_at_limit",
    "origins",
)  # counts, not scores

HEAD = """# Results

Median over the seeds, with the least and the largest in brackets. Settings were chosen by validation scores (for poems
also by the form of samples); while they were being tried, test figures were printed beside these, so small differences
mean nothing. `python benchmarks/report.py` writes this page from `benchmarks/results/`; each section names the command
that repeats it.
"""


def section(name: str, record: dict[str, Any]) -> str:
    """One benchmark as Markdown."""
    lines = [f"## {record['title']}", "", f"Aim: {record['aim']}.", ""]
    variants = list(record["runs"])
    lines += ["| | " + " | ".join(variants) + " |", "|---|" + "--:|" * len(variants)]
    first = record["runs"][variants[0]][0]
    said = {"crps", "nats_per_token"} & set(first["metrics"])  # where the loss stands under a name of its own
    hidden = (*HIDDEN, "nats") if said else HIDDEN
    for metric in [metric for metric in first["metrics"] if metric not in hidden]:
        values = [spread([run["metrics"][metric] for run in record["runs"][variant]]) for variant in variants]
        cells = [f"**{_number(mid)}** ({_number(low)} to {_number(high)})" for low, mid, high in values]
        lines.append(f"| {metric.replace('_', ' ')} | " + " | ".join(cells) + " |")
        tables = [record["runs"][variant][0]["baselines"] for variant in variants]
        for baseline in dict.fromkeys(name for table in tables for name in table if metric in table[name]):
            shown = [_number(table[baseline][metric]) if baseline in table else "–" for table in tables]
            lines.append(f"| … of the baseline, {baseline} | " + " | ".join(shown) + " |")
    if "seconds" in first:
        cells = [_minutes(record["runs"][variant]) for variant in variants]
        lines.append("| training, minutes on one thread | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    scored = f"{first['items']:,} {first['unit']} scored, {len(record['runs'][variants[0]])} seeds."
    lines += ["", f"{scored} {record['date']}, {record['machine']}, {versions}."]
    lines += ["", f"`python benchmarks/{name}.py{COMMANDS.get(name, '')}`"]
    lines += _note(name)
    return "\n".join(lines) + "\n"


def _minutes(runs: list[dict[str, Any]]) -> str:
    minutes = [run["seconds"] / 60 for run in runs if "seconds" in run]
    if not minutes:
        return "–"
    low, mid, high = spread(minutes)
    return f"{mid:.1f} ({low:.1f} to {high:.1f})"


def _note(name: str) -> list[str]:
    path = RESULTS / f"{name}.md"
    return ["", path.read_text(encoding="utf-8").strip()] if path.exists() else []


def _number(value: float) -> str:
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


if __name__ == "__main__":
    records = {name: RESULTS / f"{name}.json" for name in ORDER}
    parts = [section(name, json.loads(path.read_text())) for name, path in records.items() if path.exists()]
    PAGE.write_text("\n".join([HEAD, *parts]), encoding="utf-8")
    print(f"wrote {PAGE.name}: {len(parts)} sections")
