"""What a stream of lines is to the runtime: a row of one batched stream for each id, and results as JSON.

Axes     T time, R the streams of one call, D channels, C classes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.cli.jobs import rounded
from unrolled.cli.lines import Given
from unrolled.data.reading import Row, SideBySide
from unrolled.errors import BundleError, expected
from unrolled.runtime import Model

__all__ = ["Session"]

FIRST_ROWS = 16  # streams that there is room for at the start; it doubles
PADDING = 2  # more would waste memory, less would make more calls


class Session:
    """One stream an id, or one in all.

    Args:
        by_id: whether the lines have ids; the results then repeat them.
        scores: whether a classifier's results bring the probabilities of all labels.
    """

    def __init__(self, model: Model, by_id: bool, lookahead: int | None, scores: bool) -> None:
        self.model, self.by_id, self.scores = model, by_id, scores
        self.stream = model.stream(FIRST_ROWS if by_id else 1, lookahead=lookahead)
        self.rows: dict[Any, int] = {} if by_id else {None: 0}
        self._written_ids: dict[Any, str] = {}
        # One line's steps need not be looked at one by one where each is a row of features for a classifier.
        self._plain = model.task == "classify" and model.features and lookahead is None

    # lines

    def answers(self, given: Sequence[Given]) -> list[str]:
        """A result a line, in the order of the lines."""
        results = [""] * len(given)
        for wave in self._waves(given, results):
            self._advance(given, wave, results)
        return results

    def _waves(self, given: Sequence[Given], results: list[str]) -> list[dict[int, list[int]]]:
        """Which lines go together: row → its lines, in order; what is padded is at most `PADDING` times the lines."""
        waiting: dict[int, list[int]] = {}
        for place, one in enumerate(given):
            if one.error:
                results[place] = json.dumps({"where": one.where, "error": one.error}, ensure_ascii=False)
            else:
                waiting.setdefault(self._row(one.id), []).append(place)
        waves: list[dict[int, list[int]]] = []
        while waiting:
            count = sum(map(len, waiting.values()))
            size = max(1, PADDING * count // len(waiting)) if self._joins else 1
            wave = {}
            for row, places in list(waiting.items()):
                end = next((i for i, p in enumerate(places[1:size], 1) if given[p].reset), min(size, len(places)))
                wave[row], waiting[row] = places[:end], places[end:]
                if not waiting[row]:
                    del waiting[row]
            waves.append(wave)
        return waves

    @property
    def _joins(self) -> bool:
        """Whether lines of one stream can be read in one call: not where their results come later."""
        return getattr(self.stream.feed, "block", None) is None

    def _row(self, key: Any) -> int:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = len(self.rows)
            if row == self.stream.batch_size:
                self.stream.resize(2 * row)
        return row

    def _advance(self, given: Sequence[Given], wave: dict[int, list[int]], results: list[str]) -> None:
        again = [row for row, places in wave.items() if given[places[0]].reset]
        if again:
            self.stream.reset(again)
        places = [place for row_places in wave.values() for place in row_places]
        index = np.fromiter(wave, np.int64, len(wave))
        if self._plain and (said := self._labels(given, wave, index, places)) is not None:
            for place, text in zip(places, said, strict=True):
                results[place] = text
            return
        chunks = [[self._encoded(given[place].value) for place in row_places] for row_places in wave.values()]
        for place, answer in zip(places, self.stream.read(chunks, index), strict=True):
            results[place] = self._json(given[place].id, answer)

    @staticmethod
    def _encoded(value: Any) -> tuple[Row, list[str]]:
        return (Row(np.array([value], np.float32)), []) if isinstance(value, list) else value

    def _json(self, key: Any, answer: dict[str, Any], **more: Any) -> str:
        if not self.scores:
            answer.pop("scores", None)
        said = {"id": key} if self.by_id else {}
        return json.dumps(said | rounded(answer) | more, ensure_ascii=False, allow_nan=False)

    def _labels(
        self, given: Sequence[Given], wave: dict[int, list[int]], index: np.ndarray, places: list[int]
    ) -> list[str] | None:
        """The results of lines that are one step each, without an object for each of them; None: they are not."""
        steps = [given[place].value for place in places]
        if any(type(step) is not list for step in steps):
            return None
        counts = np.fromiter(map(len, wave.values()), np.int64, len(wave))
        rows = np.repeat(np.arange(len(wave)), counts)
        ends = np.arange(1, len(steps) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        inputs = np.zeros((len(wave), int(counts.max()), len(steps[0])), np.float32)
        inputs[rows, ends - 1] = steps
        side = SideBySide(inputs, counts, None, None)
        probabilities = self.stream.probabilities(side, index, rows, ends)  # type: ignore[attr-defined]
        return self._written([given[place].id for place in places], probabilities)

    def _written(self, keys: list[Any], probabilities: np.ndarray) -> list[str]:
        """The JSON of many labels: what `_json` writes, without a dict for each."""
        names = [json.dumps(name, ensure_ascii=False) for name in self.model.labels.tokens]  # type: ignore[attr-defined]
        best = probabilities.argmax(-1)
        likeliest = probabilities[np.arange(len(best)), best].tolist()
        texts = [
            f'"label": {names[label]}, "probability": {_number(p)}'
            for label, p in zip(best.tolist(), likeliest, strict=True)
        ]
        if self.scores:
            for place, row in enumerate(probabilities.tolist()):
                pairs = ", ".join(f"{name}: {_number(p)}" for name, p in zip(names, row, strict=True))
                texts[place] += f', "scores": {{{pairs}}}'
        if not self.by_id:
            return [f"{{{text}}}" for text in texts]
        return [f"{{{self._said(key)}, {text}}}" for key, text in zip(keys, texts, strict=True)]

    def _said(self, key: Any) -> str:
        """An id as JSON, made once."""
        said = self._written_ids.get(key)
        if said is None:
            said = self._written_ids[key] = f'"id": {json.dumps(key, ensure_ascii=False)}'
        return said

    def finish(self) -> list[str]:
        """What was held back, where a task holds anything back: the tags that were open, the steps of a lookahead."""
        if self._joins and self.model.task != "tag":
            return []
        answers = self.stream.finish()
        lines = []
        for key, row in self.rows.items():
            answer = answers[row]
            if answer.get("tags") or "label" in answer:
                lines.append(self._json(key, answer, end=True))
        return lines

    # the file

    def save(self, path: Path) -> None:
        """Write all states; the file is replaced whole."""
        self.stream.save(path, ids=list(self.rows) if self.by_id else None)

    def restore(self, path: Path) -> None:
        """Go on where `save` stopped.

        Raises:
            BundleError: the file is damaged, or is of another model, or of lines with ids where these have none.
        """
        ids = bundle.read_header(path).get("ids")
        if (ids is not None) != self.by_id:
            found = "one of lines " + ("with ids" if ids is not None else "without ids")
            way_out = "Give --id as when it was written, or name another file."
            raise BundleError(expected(str(path), "a state of the same kind of lines", found, way_out))
        self.stream.restore(path)
        if self.by_id:
            given: list[Any] = ids if isinstance(ids, list) else [None]
            fits = all(type(key) in (str, int) for key in given) and len(set(given)) == len(given)
            if not fits or len(given) > self.stream.batch_size:
                raise BundleError(expected(f"{path}: ids", "different ids, no more than streams", repr(ids)[:40]))
            self.rows = {key: row for row, key in enumerate(given)}


def _number(value: float) -> str:
    """As `rounded` and JSON write it."""
    return repr(float(f"{value:.6g}")) if math.isfinite(value) else "null"
