"""What a stream of lines is to the runtime: a row of one batched stream for each id, and results as JSON.

Axes     T time, R the streams of one call, D channels, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.cli.jobs import rounded
from unrolled.cli.lines import Given, is_unicode
from unrolled.cli.plain import PADDING, Plain, waves
from unrolled.data.reading import Row, SideBySide
from unrolled.errors import BundleError, expected
from unrolled.runtime import Model

__all__ = ["Session"]

FIRST_ROWS = 16  # streams that there is room for at the start; it doubles


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
        # Such lines need not be looked at one by one.
        self.reads_plain = model.task == "classify" and model.features and lookahead is None

    # lines

    def plain_answers(self, given: Plain) -> list[str]:
        """The same of lines that are one row of measurements each, for a classifier."""
        rows = [self.rows.get(key) for key in given.keys]
        known = np.array([self._row(key) for key in given.keys] if None in rows else rows, np.int64)
        probabilities = np.empty((len(rows), len(self.model.labels)))  # type: ignore[attr-defined]  # of a classifier
        for wave in waves(known):
            probabilities[wave.lines] = self._probabilities(given.values[wave.lines], wave.rows, wave.counts)
        return self._written(given.keys, probabilities)

    def _probabilities(self, steps: np.ndarray, index: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(N, C) after each of the steps (N, D), which stand stream by stream, `counts` of each of `index`."""
        rows = np.repeat(np.arange(len(index)), counts)
        ends = np.arange(1, len(steps) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        inputs = np.zeros((len(index), int(counts.max()), steps.shape[-1]), np.float32)
        inputs[rows, ends - 1] = steps
        side = SideBySide(inputs, counts, None, None)
        return self.stream.probabilities(side, index, rows, ends)  # type: ignore[attr-defined]  # of a classifier

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
                results[place] = _written({"where": one.where, "error": one.error})
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
        if self.reads_plain and (said := self._labels(given, wave, index, places)) is not None:
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
        return _written(said | rounded(answer) | more)

    def _labels(
        self, given: Sequence[Given], wave: dict[int, list[int]], index: np.ndarray, places: list[int]
    ) -> list[str] | None:
        """The results of lines that are one step each, without an object for each of them; None: they are not."""
        steps = [given[place].value for place in places]
        if any(type(step) is not list for step in steps):
            return None
        counts = np.fromiter(map(len, wave.values()), np.int64, len(wave))
        probabilities = self._probabilities(np.array(steps, np.float32), index, counts)
        return self._written([given[place].id for place in places], probabilities)

    def _written(self, keys: list[Any], probabilities: np.ndarray) -> list[str]:
        """The JSON of many labels: what `_json` writes, without a dict for each."""
        names = [json.dumps(name, ensure_ascii=False) for name in self.model.labels.tokens]  # type: ignore[attr-defined]  # of a classifier
        best = probabilities.argmax(-1)
        labels = [f'"label": {name}, "probability": ' for name in names]
        numbers = _numbers(probabilities[np.arange(len(best)), best])
        texts = [labels[label] + number for label, number in zip(best.tolist(), numbers, strict=True)]
        if self.scores:
            each = iter(_numbers(probabilities.ravel()))
            for place in range(len(texts)):
                pairs = ", ".join(f"{name}: {next(each)}" for name in names)
                texts[place] += f', "scores": {{{pairs}}}'
        if not self.by_id:
            return [f"{{{text}}}" for text in texts]
        said = self._written_ids
        said.update((key, f'{{"id": {json.dumps(key, ensure_ascii=False)}, ') for key in keys if key not in said)
        return [f"{said[key]}{text}}}" for key, text in zip(keys, texts, strict=True)]

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


def _written(value: Any) -> str:
    """JSON as people read it; where a text has half a character, with escapes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if is_unicode(text) else json.dumps(value, allow_nan=False)


def _numbers(values: np.ndarray) -> list[str]:
    """Each as `rounded` and JSON write it: in one call, since there may be thousands."""
    texts = ("%.6g " * len(values) % tuple(values.tolist())).split()
    if not np.isfinite(values).all():
        texts = [text if text.lstrip("-") not in ("nan", "inf") else "null" for text in texts]
    return [text if "." in text or "e" in text or text == "null" else f"{text}.0" for text in texts]
