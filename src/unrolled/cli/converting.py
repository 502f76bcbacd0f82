"""`unrolled convert`: from file to file, and what was checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unrolled.cli.show import console, notes, say
from unrolled.errors import require


def convert(
    source: Path,
    target: Path,
    read: str | None,
    write: str | None,
    options: dict[str, Any],
    *,
    verify: bool,
    as_json: bool,
) -> None:
    """Convert, print the report, and say where the file is."""
    require("torch", "torch")
    from unrolled.convert import convert as run

    given = {name: value for name, value in options.items() if value not in (None, "", False, [], ())}
    given |= {name: options[name] for name in ("reset_after",) if options.get(name) is not None}
    report = run(source, target, read=read, write=write, verify=verify, **given)
    if as_json:
        print(json.dumps(report.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    out = console()
    out.print(f"{report.source} → {report.target}, {report.parameters:,} parameters", style="bold", markup=False)
    for line in report.layers:
        out.print(f"  {line}", markup=False)
    notes(report.notes)
    difference = report.difference
    out.print(f"largest difference from the convention of {report.target}, in float64:", markup=False)
    out.print(f"  on these weights {difference.weights:.1e}, on random weights {difference.random:.1e}", markup=False)
    for name, value in report.verified.items():
        out.print(f"largest difference from {name} itself: {value:.1e}", markup=False)
    say(f"written to {target}")
