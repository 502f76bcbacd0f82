"""Going on with a text, one token at a time, from any function that scores the next token.

Axes     V vocabulary; scores (V,). NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from unrolled.decoding.sampling import sample
from unrolled.errors import RunError, expected

__all__ = ["END", "first_tokens", "write"]

END = "<end>"  # stands before a document and behind it, where documents are independent
LINE_ENDS = ("\n", "<eos>")  # what a continuous model starts from where there is no prompt


def first_tokens(prompt: Sequence[str], vocabulary: Collection[str], *, independent: bool) -> list[str]:
    """What a language model reads before it writes.

    Raises:
        RunError: there is no prompt, and nothing to start from in its place.
    """
    if independent:
        return [END, *prompt]
    if prompt:
        return list(prompt)
    known = [token for token in LINE_ENDS if token in vocabulary]
    if not known:
        raise RunError(expected("prompt", "a text to go on from", "none, and no line end in the vocabulary"))
    return known[:1]


def write(
    advance: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    written: list[str],
    length: int,
    *,
    tokens: Sequence[str],
    join: Callable[[Sequence[str]], str],
    never: int | None = None,
    end: str | None = None,
    skip: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: str | None = None,
) -> str:
    """The text that was written, and what follows.

    Args:
        advance: reads ids (N,) after those it has read, and gives the scores (V,) of the next token.
        start: the ids that are read first.
        written: the tokens that the text begins with.
        length: tokens to add; fewer where `end` or `stop` comes.
        tokens: the vocabulary. `join` makes a text of some of them.
        never: the id of a token that is not to be drawn, such as the unknown one.
        end: the token that ends the text; it is not written.
        skip: characters of the prompt, in which `stop` is not looked for.
    """
    rng = np.random.default_rng(seed)
    ids = start
    for _ in range(length):
        scores = np.array(advance(ids), np.float64)
        if never is not None:
            scores[never] = -np.inf
        token = sample(scores, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)
        if tokens[token] == end:
            break
        written.append(tokens[token])
        if stop and stop in join(written)[skip:]:
            text = join(written)
            return text[: text.index(stop, skip)]
        ids = np.array([token])
    return join(written)
