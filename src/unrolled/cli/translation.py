"""`unrolled translate`: sources in, targets out, one a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrolled.cli.jobs import AT_A_TIME, reading_as, rounded, takes_features
from unrolled.cli.show import notes, say
from unrolled.errors import RecipeError, UnrolledError, expected

if TYPE_CHECKING:
    from unrolled.data import Item
    from unrolled.training import Trained

Said = tuple[dict[str, Any], Any]  # what an answer repeats of its source, and the source


def translate(
    run: Path,
    texts: Sequence[str],
    file: Path | None,
    format: str | None,
    search: Mapping[str, Any],
    filters: Mapping[str, Any],
    more: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Print the best target of each source, or all that was asked for as JSON lines."""
    from unrolled.cli.opening import open_model

    if texts and file is not None:
        raise RecipeError(expected("translate", "TEXT or --file", "both", "Leave one of them out."))
    options = _options(search, filters, more)
    trained = open_model(run)
    for sources in _sources(trained, texts, file, format):
        try:
            found = trained.translate([source for _, source in sources], **options)
        except ValueError as error:
            if isinstance(error, UnrolledError):
                raise
            raise RecipeError(str(error)) from None  # an option that `decoding` refuses
        for (said, _), answers in zip(sources, found, strict=True):
            _print(said, answers, as_json=as_json, single=more["n_best"] == 1)


def _options(search: Mapping[str, Any], filters: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Only what was said, and an error where two do not go together."""
    given = {name: value for name, value in {**search, **filters}.items() if value is not None}
    for name in filters if not more["sample"] else [name for name in search if name != "limit"]:
        if name in given:
            flag = "--" + name.replace("_", "-")
            wanted = "to stand beside --sample" if name in filters else "to be left out with --sample"
            raise RecipeError(expected(flag, wanted, given[name], "A search takes the best, a sample draws."))
    if not more["sample"] and more["n_best"] > given.get("beam", more["n_best"]):
        found = f"--nbest {more['n_best']} of --beam {given['beam']}"
        raise RecipeError(expected("--nbest", "no more than --beam", found, "Widen the beam."))
    return given | dict(more)


def _sources(trained: Trained, texts: Sequence[str], file: Path | None, format: str | None) -> Iterator[list[Said]]:
    """The sources in the order they come, as many at a time as are there."""
    from unrolled.cli.inputs import from_arguments, from_stream, gathered

    features = takes_features(trained)
    if file is not None and str(file) != "-":
        from unrolled.training.sources import open_inputs

        dataset = open_inputs(file, reading_as(trained, format))
        notes(dataset.notes)
        rest = iter(dataset)
        while batch := list(islice(rest, AT_A_TIME)):
            yield [(_of_item(item), item) for item in batch]
        return
    if texts:
        batches: Iterable[Any] = [list(from_arguments(texts, features=features))]
    else:
        if sys.stdin.isatty():
            say("reading standard input, one source a line; end with Ctrl-D")
        batches = gathered(from_stream(sys.stdin.buffer, features=features), AT_A_TIME)
    for some in batches:
        yield [(one.said(), trained.task.item(one.value, one.where)) for one in some]


def _of_item(item: Item) -> dict[str, Any]:
    said: dict[str, Any] = {"where": item.where}
    if item.tokens is not None:
        return said | {"tokens": list(item.tokens)}
    return said | ({} if item.text is None else {"text": item.text})


def _print(said: dict[str, Any], answers: list[dict[str, Any]], *, as_json: bool, single: bool) -> None:
    if as_json:
        if "tokens" in said:
            said["source"] = said.pop("tokens")
        whole = said | (answers[0] if single else {"best": answers})
        print(json.dumps(rounded(whole), ensure_ascii=False, allow_nan=False), flush=True)
        return
    best = answers[0]
    print(best["target"], flush=True)
    if best.get("unknown"):
        say(f"note: {said['where']}: not in the vocabulary: {' '.join(best['unknown'])}")
    if best["stopped"] == "limit":
        say(f"note: {said['where']}: stopped at the limit of tokens, not by the end symbol")
