"""`unrolled inspect`: look into a run, print what was seen, or write it as JSON."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unrolled.cli.show import console, notes, say
from unrolled.errors import RecipeError, RunError, expected, require


def inspect(
    run: Path,
    texts: Sequence[str],
    data: str | None,
    format: str | None,
    at: Sequence[int],
    out: Path | None,
    *,
    as_json: bool,
    anomaly: bool,
    opened: bool,
    png: Path | None,
) -> None:
    if texts and data is not None:
        raise RecipeError(expected("inspect", "--text or --data", "both", "Leave one of them out."))
    if png is not None:
        require("matplotlib", "plot")  # said before anything is computed
    from unrolled.bundle import write_atomically
    from unrolled.training.inspection import inspect as look
    from unrolled.training.inspection import summary_lines
    from unrolled.training.trained import Trained

    items: Any = None
    if texts:
        trained = Trained.load(run, "cpu")
        items = [
            trained.task.item(value_of(trained, text, f"text {i}"), f"text {i}") for i, text in enumerate(texts, 1)
        ]
    elif data is not None:
        items = _items(Trained.load(run, "cpu"), data, format)
    try:
        found = look(run, items, at=list(at) or None, anomaly=anomaly)
    except RunError as error:  # a Transformer has no gates, and a report all the same
        if not opened and png is None:
            raise
        say(str(error))
        return _report(run, None, png, opened)
    if opened or png is not None:
        _report(run, found, png, opened)
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if out is not None:
        write_atomically(out, text.encode())
        say(f"written to {out}, {len(text.encode()):,} bytes")
    if as_json:
        print(text)
        return
    notes(found["notes"])
    for line in summary_lines(found):
        console().print(line, markup=False, soft_wrap=True)


def value_of(trained: Any, text: str, where: str) -> Any:
    """A text of the command line as the model's task reads it: for features it is a JSON list.

    Raises:
        RecipeError: the model reads series, which no text holds.
    """
    from unrolled.cli.inputs import parse
    from unrolled.cli.jobs import takes_features

    if trained.task.name == "forecast":
        way_out = "Give a file with the columns that it was trained on: unrolled inspect RUN --data FILE"
        raise RecipeError(expected("--text", "a model that reads texts", "a forecaster, which reads series", way_out))
    return parse(text, where, takes_features(trained))


def _report(run: Path, found: dict[str, Any] | None, png: Path | None, opened: bool) -> None:
    """Write the run's report again and open it; its pictures too."""
    from unrolled.training import reporting

    if opened:
        page = reporting.rewrite(run, inside=found)
        say(f"written to {page}, {page.stat().st_size:,} bytes")
        if not webbrowser.open(page.resolve().as_uri()):
            say(f"no browser could be started; open {page} in one")
    if png is not None:
        from unrolled.training.reporting.plots import draw

        for path in draw(reporting.make(run, inside=found)[0], png):
            say(f"written to {path}")


def _items(trained: Any, data: str, format: str | None) -> Any:
    """A labelled file or an embedded set, or a file without labels."""
    from unrolled.errors import DataError
    from unrolled.training.sources import open_data, open_inputs

    recipe = trained.recipe if format is None else trained.recipe.replace(format=format)
    try:
        return list(open_data(data, recipe).shown())
    except DataError:
        if not Path(data).is_file():
            raise
        return list(open_inputs(data, recipe).shown())  # its own error says what is wrong with it
