"""report.html: the report and its inspection as one offline page; and the same in a notebook.

A report never costs a run: whatever goes wrong while it is made becomes one line that says what and why.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unrolled import __version__
from unrolled.bundle import write_atomically
from unrolled.data import Dataset
from unrolled.errors import RunError, expected
from unrolled.lab.render import render
from unrolled.training.reporting.make import make

__all__ = ["NAME", "notebook", "page_of", "rewrite", "write"]

NAME = "report.html"
HEIGHT = 640  # pixels of the frame in a notebook


def write(run: str | Path, scored: Dataset | None, note: Callable[[str], None]) -> Path | None:
    """Write the report when training ends; None, and a note that says why, where it could not be written."""
    try:
        found, inside = make(run, scored=scored)
        return _write(Path(run), found, inside)
    except Exception as error:  # the model is trained and saved: nothing that a page needs may take that away
        why = str(error).splitlines()[0] if str(error) else "no reason given"
        note(f"no {NAME}: {type(error).__name__}: {why} Try: unrolled inspect {run} --open")
        return None


def rewrite(run: str | Path, *, inside: dict[str, Any] | None = None) -> Path:
    """Write the report again. What needs data that are gone is kept from the report that stands there.

    Args:
        inside: an inspection of the run, which the report then shows; None: a brief one is made.

    Raises:
        RunError: this is not a run folder.
    """
    folder = Path(run)
    if not folder.is_dir():
        way_out = "A bundle has no curves; look into it with: unrolled inspect FILE."
        raise RunError(expected(str(run), "a run folder", "a file" if folder.exists() else "nothing", way_out))
    found, inside = make(folder, inside=inside)
    if found["errors"] is None and (old := _standing(folder / NAME)) is not None:
        kept = old["report"]
        found |= {name: kept[name] for name in ("errors", "samples")}
        found["notes"] = [*found["notes"], "errors and samples are those of the report before"]
        inside = inside or next(iter(old["models"]), None)
    return _write(folder, found, inside)


def page_of(found: dict[str, Any] | None, inside: dict[str, Any] | None, *, title: str) -> str:
    """The page: a report with its inspection, or an inspection alone."""
    models = [] if inside is None else [dict(inside) | {"name": title, "demo": False}]
    data = {"page": "report", "version": __version__, "language": None, "models": models}
    return render(data | {"report": found, "generation": [], "compare": None, "tasks": {}}, title=title, language="en")


def notebook(page: str) -> str:
    """A page as the cell of a notebook: a frame that runs no request and shares nothing with the notebook."""
    frame = f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads"'
    return f'{frame} style="width:100%;height:{HEIGHT}px;border:1px solid #ccc" title="unrolled"></iframe>'


def _write(folder: Path, found: dict[str, Any], inside: dict[str, Any] | None) -> Path:
    path = folder / NAME
    write_atomically(path, page_of(found, inside, title=str(found["run"])).encode())
    return path


def _standing(path: Path) -> dict[str, Any] | None:
    """The data of a report that was written before; None where there is none that can be read."""
    try:
        text = path.read_text(encoding="utf-8")
        match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
        data = json.loads(match.group(1)) if match else None
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("models"), list):
        return None
    return data if {"errors", "samples"} <= set(data.get("report") or {}) else None
