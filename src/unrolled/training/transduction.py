"""Scores and baselines of written sequences: exact match, edits, BLEU and chrF.

Source   edits: Levenshtein (1966), the least insertions, deletions and substitutions. BLEU (Papineni et al. 2002) and
         chrF (Popović 2015) by sacrebleu.
Variant  A source with several references counts as right if it equals one of them; its edits are those to the nearest,
         of equally near ones the first, whose length is what the rate is divided by: the error rate of a corpus is the
         sum of edits over the sum of lengths, not a mean of rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from unrolled.errors import DataError, expected, require

__all__ = ["NearestSource", "Tally", "Transduction", "edit_distance", "truth_share"]

Tokens = Sequence[str]


def edit_distance(a: Tokens, b: Tokens) -> int:
    """The least number of insertions, deletions and substitutions that make `a` into `b`.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if a == b:
        return 0
    above = list(range(len(b) + 1))
    for i, one in enumerate(a, start=1):
        row = [i]
        for j, other in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (one != other)))
        above = row
    return above[-1]


class Transduction:
    """Exact match and token error rate, added up source by source.

    >>> scores = Transduction()
    >>> scores.update("ab", ["abc", "b"])
    >>> scores.compute()["token_error_rate"]
    0.3333333333333333
    """

    def __init__(self) -> None:
        self.items = self._right = self._edits = self._length = 0

    def update(self, written: Tokens, references: Sequence[Tokens]) -> None:
        """One source: what was written, and the targets that would be right."""
        if not references:
            raise DataError(expected("references", "at least one target", "none"))
        guess = tuple(written)
        edits, length = min(
            ((edit_distance(guess, tuple(one)), len(one)) for one in references), key=lambda found: found[0]
        )
        self.items += 1
        self._right += edits == 0
        self._edits += edits
        self._length += length

    def compute(self) -> dict[str, float | int]:
        """`exact_match`, `token_error_rate` (which may be above 1), and how many sources were scored."""
        if not self.items:
            raise DataError(expected("items", "at least one", "none"))
        rate = self._edits / max(self._length, 1)
        return {"exact_match": self._right / self.items, "token_error_rate": rate, "items": self.items}


@dataclass
class Tally:
    """What has been written so far, and what was right."""

    metric: Transduction = field(default_factory=Transduction)
    stopped: int = 0  # at the limit
    several: int = 0  # sources with several targets
    texts: list[str] = field(default_factory=list)  # for BLEU and chrF alone
    right: list[list[str]] = field(default_factory=list)


def bleu_and_chrf(written: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Corpus BLEU and chrF of texts, from 0 to 100, each text with one or more references."""
    metrics = require("sacrebleu.metrics", "translate")
    most = max(len(some) for some in references)
    streams = [[some[i] if i < len(some) else None for some in references] for i in range(most)]
    return {
        "bleu": float(metrics.BLEU().corpus_score(list(written), streams).score),
        "chrf": float(metrics.CHRF().corpus_score(list(written), streams).score),
    }


class NearestSource:
    """A baseline: the target of the training source that is most alike; of equal ones the first.

    Alike, for tokens: shared neighbours and tokens, 2 |a ∩ b| / (|a| + |b|) of the sets of 1-grams and 2-grams
    (Dice 1945), the ends of the sequence among them. For features: the least Euclidean distance, where they have one
    length.
    """

    def __init__(self, sources: Sequence[Any], targets: Sequence[Tokens]) -> None:
        self.targets = [tuple(target) for target in targets]
        self.vectors = None
        if len(sources) and isinstance(sources[0], np.ndarray):
            self.vectors = np.stack([np.ravel(source) for source in sources]).astype(np.float64)
            return
        places: defaultdict[Any, list[int]] = defaultdict(list)
        sizes = np.zeros(len(sources))
        for i, source in enumerate(sources):
            grams = _grams(source)
            sizes[i] = len(grams)
            for gram in grams:
                places[gram].append(i)
        self.sizes = sizes
        self.places = {gram: np.array(rows) for gram, rows in places.items()}

    def predict(self, sources: Iterable[Any]) -> list[tuple[str, ...]]:
        """The target of each source's nearest neighbour."""
        return [self.targets[self._nearest(source)] for source in sources]

    def _nearest(self, source: Any) -> int:
        if self.vectors is not None:
            return int(((self.vectors - np.ravel(source)) ** 2).sum(-1).argmin())
        grams = _grams(source)
        found = [self.places[gram] for gram in grams if gram in self.places]
        if not found:
            return 0
        shared = np.bincount(np.concatenate(found), minlength=len(self.targets))
        return int((shared / (self.sizes + len(grams))).argmax())


def _grams(source: Tokens) -> set[Any]:
    ended = ["", *source, ""]
    return {*source, *pairwise(ended)}


def truth_share(schedule: str, rate: float | None, floor: float, epochs_done: float, epochs: int) -> float:
    """The share of true tokens that the decoder reads under scheduled sampling.

    Source   Bengio et al. (2015), arXiv:1506.03099, section 2.4, with i counted in epochs:
                 linear max(floor, 1 - c i), exponential k^i, inverse sigmoid k / (k + exp(i / k)).

    >>> [round(truth_share("linear", None, 0.0, done, 4), 2) for done in (0, 1, 4)]
    [1.0, 0.75, 0.0]
    """
    if schedule == "none":
        return 1.0
    if schedule == "linear":
        share = 1 - (1 / epochs if rate is None else rate) * epochs_done
    elif schedule == "exponential":
        share = (0.9 if rate is None else rate) ** epochs_done
    elif schedule == "inverse_sigmoid":
        k = 5.0 if rate is None else rate
        share = k / (k + float(np.exp(min(epochs_done / k, 700.0))))
    else:
        raise ValueError(expected("sampling", "none, linear, exponential or inverse_sigmoid", repr(schedule)))
    return min(max(share, floor), 1.0)
