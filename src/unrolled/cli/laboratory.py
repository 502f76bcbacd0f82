"""`unrolled lab`: one page about trained models, as a file or on this machine's own address."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unrolled.cli.show import notes, say
from unrolled.errors import RecipeError, expected, require

__all__ = ["lab"]

TITLE = "unrolled lab"


def lab(
    runs: Sequence[Path],
    texts: Sequence[str],
    prompt: str | None,
    at: Sequence[int],
    out: Path | None,
    language: str | None,
    *,
    opened: bool,
    serve: bool,
    port: int,
) -> None:
    """Write the page, and open it; or serve it until Ctrl-C."""
    _check(runs, texts, out, language, serve)
    if serve:
        for module in ("starlette", "uvicorn"):
            require(module, "lab")
    loaded = [(_name(run), *_load(run)) for run in runs]
    data = _data(loaded, texts, prompt, at, language)
    from unrolled.lab import render

    if serve:
        from unrolled.cli.serving import Answers, serve_lab

        name, trained, _ = loaded[0]
        page = render(data | {"serve": {"path": "/inspect", "name": name}}, title=TITLE, language=language, served=True)
        serve_lab(page, Answers(name, trained), port, opened=opened)
        return
    from unrolled.bundle import write_atomically

    file = Path("lab.html") if out is None else out
    text = render(data, title=TITLE, language=language)
    write_atomically(file, text.encode())
    say(f"{len(text.encode()):,} bytes, one file, no network needed")
    print(file)
    if opened and not webbrowser.open(file.resolve().as_uri()):
        say(f"no browser could be started; open {file} in one")


def _check(runs: Sequence[Path], texts: Sequence[str], out: Path | None, language: str | None, serve: bool) -> None:
    if language not in (None, "en", "zh"):
        raise RecipeError(expected("--language", "en or zh", language, "Leave it out to go by the reader's browser."))
    if texts and not runs:
        way_out = "Name one: unrolled lab RUN --text TEXT. Without a run, the lab shows small models that come with it."
        raise RecipeError(expected("lab", "a run that reads the text", "--text alone", way_out))
    if serve and len(runs) != 1:
        way_out = "The page sends it the texts that are typed: unrolled lab RUN --serve"
        raise RecipeError(expected("lab --serve", "one run", len(runs) or "none", way_out))
    if serve and out is not None:
        raise RecipeError(expected("lab", "--serve or --out", "both", "Leave one of them out."))


def _name(run: Path) -> str:
    """What a run is called on the page: its folder."""
    resolved = run.resolve()
    return resolved.parent.name if resolved.name == "model.safetensors" else resolved.name


def _load(run: Path) -> tuple[Any, Any]:
    """The model, and where its metrics stand: an inspection of a folder also reads these."""
    require("torch", "train")
    from unrolled.training.trained import Trained

    trained = Trained.load(run, "cpu")
    return trained, run if run.is_dir() else trained


def _check_one_kind(loaded: Sequence[tuple[str, Any, Any]]) -> None:
    """Raise where one text cannot be read by all the runs."""
    from unrolled.cli.jobs import takes_features

    def kind(trained: Any) -> str:
        return "series" if trained.task.name == "forecast" else "features" if takes_features(trained) else "texts"

    first = loaded[0][0]
    for name, trained, _ in loaded[1:]:
        if kind(trained) != kind(loaded[0][1]):
            wanted = f"runs that read {kind(loaded[0][1])}, as {first}"
            way_out = "Name the runs of one kind, or leave --text out: each run then shows items of its own data."
            raise RecipeError(expected("--text", wanted, f"{name}, which reads {kind(trained)}", way_out))


def _data(
    loaded: Sequence[tuple[str, Any, Any]],
    texts: Sequence[str],
    prompt: str | None,
    at: Sequence[int],
    language: str | None,
) -> dict[str, Any]:
    """What the page shows: the runs, and behind them the demo."""
    from unrolled import __version__
    from unrolled.lab import with_demo

    if not loaded:
        return with_demo({"page": "lab", "version": __version__, "language": language})
    from unrolled.cli.inspecting import value_of
    from unrolled.training.inspection.lab_data import lab_data

    runs = [(name, source) for name, _, source in loaded]
    items = None
    if texts:
        _check_one_kind(loaded)
        longest = max(map(len, texts))
        say(
            f"looking into {', '.join(name for name, *_ in loaded)}"
            + ("; a long text takes a while" if longest > 200 else "")
        )
        items = [value_of(loaded[0][1], text, f"text {number}") for number, text in enumerate(texts, 1)]
    found = lab_data(runs, items, language=language, prompt=prompt, at=list(at) or None)
    for model in found["models"]:
        notes(f"{model['name']}: {line}" for line in model["notes"])
    return with_demo(found)
