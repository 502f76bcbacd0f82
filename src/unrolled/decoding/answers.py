"""What a model says, as the dict that the command line prints: written once for PyTorch's models and the runtime's.

Axes     C classes, N tokens. NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from unrolled.errors import RunError, expected

__all__ = ["answer_each", "likelihood", "log_softmax", "one_label", "tagged"]


AT_A_TIME = 256  # inputs that are taken from an iterator before answers are given


def answer_each(
    inputs: Iterable[Any], item: Callable[[Any, str], Any], answer: Callable[[list[Any]], Iterable[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Answers in the order of the inputs, holding few at a time; `item` makes an item of an input and its name.

    Raises:
        RunError: the inputs are one text.
    """
    if isinstance(inputs, str):
        raise RunError(expected("inputs", "a list of texts", "one text", "Write predict([text])."))
    waiting = []
    for number, given in enumerate(inputs, start=1):
        waiting.append(item(given, f"input {number}"))
        if len(waiting) == AT_A_TIME:
            yield from answer(waiting)
            waiting = []
    if waiting:
        yield from answer(waiting)


def log_softmax(scores: Any) -> np.ndarray:
    """log p over the last axis, float64."""
    shifted = np.asarray(scores, np.float64)
    shifted = shifted - shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def one_label(labels: Sequence[str], probabilities: np.ndarray, unknown: Sequence[str] = ()) -> dict[str, Any]:
    """label, its probability, the scores (probabilities) of all labels, and the tokens that are not known."""
    best = int(probabilities.argmax())
    scores = dict(zip(labels, probabilities.tolist(), strict=True))
    answer = {"label": labels[best], "probability": float(probabilities[best]), "scores": scores}
    return answer | _unknown(unknown)


def tagged(tokens: Sequence[str] | None, tags: Sequence[str], unknown: Sequence[str] = ()) -> dict[str, Any]:
    """tokens (none for features), a tag for each, and the tokens that are not known."""
    said = {} if tokens is None else {"tokens": list(tokens)}
    return {**said, "tags": list(tags), **_unknown(unknown)}


def likelihood(nats: np.ndarray, unknown: Sequence[str] = ()) -> dict[str, Any]:
    """log_probability (nats), how many tokens it is over, and the perplexity; `nats` (N,) is −log p of each token."""
    answer: dict[str, Any] = {"log_probability": -float(nats.sum()), "tokens": len(nats)}
    answer["perplexity"] = float(np.exp(nats.mean())) if len(nats) else None
    return answer | _unknown(unknown)


def _unknown(tokens: Sequence[str]) -> dict[str, Any]:
    return {"unknown": list(tokens)} if tokens else {}
