"""How each task is looked at: what goes into the model, what comes out by name, and which losses are asked.

Axes     one item at a time, so nothing is padding: B = 1, T steps of the item, C classes, tags or tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Item
from unrolled.errors import DataError, expected
from unrolled.training.tasks.lm import END
from unrolled.training.tasks.seq2seq import Search

__all__ = ["MOST_STEPS", "View", "view"]

MOST_STEPS = 512
NOT_KNOWN = -1


@dataclass(frozen=True, eq=False)
class View:
    """One item, ready for the model."""

    where: str
    text: str | None
    tokens: list[str] | None  # what the recurrent layer reads, one a step; None for features
    unknown: list[int]  # steps whose token the vocabulary does not have
    steps: int
    cut: int  # steps that were left out
    args: tuple[Any, ...]
    answers: str  # what the model answers with: "class" (once), "tag" or "token" (at every step), "value" (a forecast)
    names: Sequence[str]  # of the C answers
    output_tokens: list[str] | None  # of an encoder–decoder: what is written, one a step
    right: Tensor | None  # the right answers, () or (T,); None, or NOT_KNOWN at a step, where the item does not say
    own_losses: Callable[[Any], Tensor] | None = None  # of answers that are no names

    def scores(self, output: Any) -> Tensor:
        """(B, C) or (B, T, C) of the model's output."""
        return output[0] if isinstance(output, tuple) else output

    def losses(self, output: Any) -> Tensor:
        """(B,) or (B, T): -log p of the right answer, or of the likeliest where it is not known."""
        if self.own_losses is not None:
            return self.own_losses(output)
        log_p = self.scores(output).log_softmax(-1)
        likeliest = -log_p.amax(-1)
        if self.right is None:
            return likeliest
        right = self.right[None]
        known = right != NOT_KNOWN
        asked = -log_p.gather(-1, right.where(known, 0)[..., None]).squeeze(-1)
        return torch.where(known, asked, likeliest)

    def target(self, step: int | None, answer: int) -> Callable[[Any], Tensor]:
        """The score of one answer, at one step where there are several: what an attribution explains."""

        def score(output: Any) -> Tensor:
            scores = self.scores(output)
            return scores[:, answer] if step is None else scores[:, step, answer]

        return score


def view(task: Any, model: nn.Module, item: Item, most: int = MOST_STEPS) -> View:
    """The item as the task's model reads it; at most `most` steps, what is cut is counted.

    Raises:
        DataError: the item is empty.
    """
    made = VIEWS[task.name](task, model, item, most)
    if made.steps == 0:
        raise DataError(expected(item.where, "a step or more", "none", "Give a longer text."))
    return made


def _row(task: Any, item: Item, most: int) -> tuple[Any, dict[str, Any], int]:
    """The item as numbers, cut to the limit, and what a page says about it."""
    row = task.reading.encode(item)
    steps, cut = min(len(row), most), max(0, len(row) - most)
    tokens = None if task.reading.scaler is not None else task.reading.tokens(item)[:steps]
    vocabulary = task.reading.vocabulary
    unknown = [] if tokens is None else [i for i, token in enumerate(tokens) if token not in vocabulary]
    if cut:
        parts = {
            name: part[:steps] for name in ("inputs", "letters", "widths") if (part := getattr(row, name)) is not None
        }
        row = type(row)(**parts, unknown=row.unknown)
    about = {"where": item.where, "text": item.text, "tokens": tokens, "unknown": unknown, "steps": steps, "cut": cut}
    return row, about, steps


def _classify(task: Any, _: nn.Module, item: Item, most: int) -> View:
    row, about, _steps = _row(task, item, most)
    right = None
    if item.label is not None and item.label in task.labels:
        right = torch.tensor(task.labels.id(item.label))
    answers = {"answers": "class", "names": task.labels.tokens, "output_tokens": None, "right": right}
    return View(**about, **answers, args=(task.reading.batch([row]),))


def _tag(task: Any, _: nn.Module, item: Item, most: int) -> View:
    row, about, steps = _row(task, item, most)
    right = None
    if item.tags is not None and all(tag in task.tags for tag in item.tags):
        right = torch.from_numpy(task.tags.encode(item.tags[:steps]))
    answers = {"answers": "tag", "names": task.tags.tokens, "output_tokens": None, "right": right}
    return View(**about, **answers, args=(task.reading.batch([row]),))


def _lm(task: Any, _: nn.Module, item: Item, most: int) -> View:
    """What is read, and the next token at each step; a document begins behind the end symbol."""
    row, about, steps = _row(task, item, most)
    ids = row.inputs
    if task.independent:
        end = task.vocabulary.id(END)
        ids = np.concatenate([[end], ids])
        about |= {"tokens": [END, *about["tokens"]], "unknown": [step + 1 for step in about["unknown"]]}
        about["steps"] = steps + 1
    right = torch.from_numpy(np.concatenate([ids[1:], [NOT_KNOWN]]))
    answers = {"answers": "token", "names": task.vocabulary.tokens, "output_tokens": None, "right": right}
    return View(**about, **answers, args=(torch.from_numpy(ids)[None],))


def _seq2seq(task: Any, model: nn.Module, item: Item, most: int) -> View:
    """Teacher forcing with the item's target, or with what the model writes itself, greedily."""
    row, about, steps = _row(task, item, most)
    if not steps:
        return View(**about, args=(), answers="token", names=(), output_tokens=[], right=None)
    if item.target is not None:
        is_text = isinstance(item.target, str)
        written = Item(item.where, text=item.target) if is_text else Item(item.where, tokens=item.target)  # type: ignore[arg-type]
        tokens = task.target.tokens(written)[:most]
        ids = task.vocabulary.encode([*tokens, END])
    else:
        (found,) = task.search(model, [row], Search())[0]
        ids = np.asarray([*found.tokens, task.end], np.int64)
    previous = torch.from_numpy(np.concatenate([[task.end], ids[:-1]]))[None]
    shown = [task.vocabulary.tokens[token] for token in ids]
    answers = {"answers": "token", "names": task.vocabulary.tokens, "output_tokens": shown}
    return View(**about, **answers, right=torch.from_numpy(ids), args=(task.reading.batch([row]), previous))


def _forecast(task: Any, _: nn.Module, item: Item, most: int) -> View:
    """The newest window of a series as training cuts it; the losses are those of its values."""
    from unrolled.training.forecasting.windows import Cut, window_batch

    plan, series = task.plan, item.series
    assert series is not None
    frame = plan.frame(series, ahead=0)
    end = len(series)
    start = max(0, end - min(plan.context + plan.horizon, most))
    cut = Cut(0, start, max(start + 1, end - plan.horizon), end)
    recipe = task.recipe.model_copy(update={"forks": 1})
    window = window_batch([frame], [cut], recipe, plan, np.random.default_rng(0))

    def losses(output: Tensor) -> Tensor:
        """(1, T) of the steps, or (1,) where one state looks ahead to the whole horizon."""
        found = task._losses(output, window)
        return found if found.dim() == 2 else found.flatten(1).sum(1)

    steps = window.inputs.shape[1]
    about: dict[str, Any] = {"where": series.where, "text": None, "tokens": None, "unknown": [], "steps": steps}
    answers: dict[str, Any] = {"answers": "value", "names": (), "output_tokens": None, "right": None}
    return View(**about, **answers, cut=start, args=(window,), own_losses=losses)


VIEWS = {"classify": _classify, "tag": _tag, "lm": _lm, "seq2seq": _seq2seq, "forecast": _forecast}
