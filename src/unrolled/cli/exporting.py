"""`unrolled export`: the file's name, its size, and what was checked."""

from __future__ import annotations

import sys
from pathlib import Path

from unrolled.cli.show import say
from unrolled.convert.exporting import FORMATS, export
from unrolled.errors import RecipeError, expected


def run(source: Path, to: str, out: Path | None, *, int8: bool) -> None:
    """Run the command."""
    if to not in FORMATS:
        raise RecipeError(expected("--to", "one of " + ", ".join(FORMATS), repr(to)))
    if int8 and to != "bundle":
        raise RecipeError(expected("--int8", "--to bundle", f"--to {to}", "ONNX Runtime brings its own quantisation."))
    made = export(source, out or _named(source, to, int8), to=to, int8=int8)
    for note in made.notes:
        say(f"note: {note}")
    say(f"{made.size:,} bytes, {made.size / made.before:.0%} of the bundle")
    sys.stdout.writelines(f"{path}\n" for path in made.paths)


def _named(source: Path, to: str, int8: bool) -> Path:
    """Beside the model, under a name that says what it is."""
    folder, stem = (source, "model") if source.is_dir() else (source.parent, source.stem)
    return folder / (f"{stem}.onnx" if to == "onnx" else f"{stem}{'-int8' if int8 else '-copy'}.safetensors")
