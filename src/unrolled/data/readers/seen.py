"""A set of names that only grows, in eight bytes a name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class Seen:
    """Names by a hash of 64 bits: among ten million, two share one by chance in 3 of a million sets.

    Sorted runs, each at least twice as long as the next, so that a name is looked up in few of them and moved seldom.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def add(self, names: Sequence[str]) -> str | None:
        """Add names that differ from each other. The first that was there already, or None; then nothing is added."""
        digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        hashes = np.frombuffer(digests, np.uint64)
        known = np.zeros(len(hashes), bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            known |= run[at] == hashes
        if known.any():
            return names[int(known.argmax())]
        if len(hashes):
            self._runs.append(np.sort(hashes))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        return None
