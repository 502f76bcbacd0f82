"""How a target is written: the choices of a search, and the one place that carries them out.

Axes     N rows of the step function, S sources. NumPy only: PyTorch's decoder and the runtime's are searched alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrolled.decoding.beam import beam_search
from unrolled.decoding.sequences import Hypothesis, greedy_search, sample_sequences

__all__ = ["Search", "search_targets", "translated"]


class Search(NamedTuple):
    """How a target is written."""

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    limit: int | None = None  # tokens; None: the task's
    attention: bool = False  # whether answers bring the weights

    @property
    def copies(self) -> int:
        """Rows that each source takes at the start."""
        return self.n_best if self.sample else 1

    @property
    def width(self) -> int:
        """Rows that each source takes at most."""
        return max(self.beam, self.copies)

    def with_options(self, options: dict[str, Any]) -> Search:
        """The same with other choices; a beam is at least as wide as the hypotheses that are asked for."""
        changed = self._replace(**options)
        return changed if "beam" in options else changed._replace(beam=max(changed.beam, changed.n_best))


def search_targets(
    step: Any, lengths: np.ndarray, search: Search, *, end: int, limit: int, never: Collection[int] = ()
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first.

    Args:
        step: the decoder, with `first`, the state before the start, and `rows`, how many that are: `search.copies` of
            each source, side by side.
        lengths: (N,) source positions of each row.
        end: stands before a target and behind it.
        limit: tokens of a target, where the search names no other.
        never: tokens that are not written.
    """
    sources = step.rows // search.copies
    options: dict[str, Any] = {"start": end, "end": end, "limit": search.limit or limit}
    options |= {"excluded": never, "keep_weights": search.attention}
    if search.sample:
        # Every source starts from the same generators, so what is drawn does not depend on its neighbours.
        rngs = [np.random.default_rng([search.seed, i % search.n_best]) for i in range(step.rows)]
        filters: dict[str, Any] = {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}
        drawn = sample_sequences(step, step.first, step.rows, rngs=rngs, **filters, **options)
        return [drawn[i * search.n_best : (i + 1) * search.n_best] for i in range(sources)]
    if search.beam == 1 and search.n_best == 1 and not search.coverage_penalty:
        return [[one] for one in greedy_search(step, step.first, sources, **options)]
    options |= {"alpha": search.length_penalty, "beta": search.coverage_penalty}
    options |= {"beam": search.beam, "n_best": search.n_best, "lengths": lengths}
    return beam_search(step, step.first, sources, **options)


def translated(
    found: Hypothesis,
    tokens: list[str],
    join: Callable[[Sequence[str]], str],
    search: Search,
    source: Sequence[str] | None,
    steps: int,
    unknown: Sequence[str] = (),
) -> dict[str, Any]:
    """One hypothesis as the dict that the command line prints.

    Args:
        tokens: the target's.
        source: the source's tokens, None for features, and how many `steps` it has.
    """
    answer: dict[str, Any] = {"target": join(tokens), "tokens": tokens, "score": found.score}
    answer |= {"log_probability": found.log_probability, "stopped": found.stopped}
    if unknown:
        answer["unknown"] = list(unknown)
    if search.attention and found.weights is not None:
        weights = found.weights[:, :steps].tolist()
        answer["attention"] = {"source": None if source is None else list(source), "weights": weights}
    return answer
