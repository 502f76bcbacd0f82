"""Small made-up files on which a run takes a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS = ["good", "fine", "nice", "bad", "poor", "sad", "a", "the", "it", "is"]


def reviews(path: Path, rows: int = 60, seed: int = 0) -> Path:
    """CSV: a text is "up" where it holds more of the first three words than of the next three."""
    rng = np.random.default_rng(seed)
    lines = ["text,label"]
    for _ in range(rows):
        words = [WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 9))]
        balance = sum(w in WORDS[:3] for w in words) - sum(w in WORDS[3:6] for w in words)
        lines.append(f"{' '.join(words)},{'up' if balance > 0 else 'down'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def sentences(path: Path, rows: int = 40, seed: int = 0) -> Path:
    """CoNLL: "to" or "from", then one or two capitalised names, which are spans."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(rows):
        for _ in range(rng.integers(1, 3)):
            way = ("to", "from")[rng.integers(2)]
            lines.append(f"{way} O")
            lines.append(f"{'Abcde'[rng.integers(5)]}on B-{way}")
            lines += [f"{'Xyz'[rng.integers(3)]}ville I-{way}"] * int(rng.integers(2))
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def documents(path: Path, count: int = 60, seed: int = 0) -> Path:
    """Text: documents of one line, parted by blank lines; letters follow each other in a ring."""
    rng = np.random.default_rng(seed)
    ring = "abcdefgh"
    made = []
    for _ in range(count):
        start, length = rng.integers(len(ring)), rng.integers(3, 12)
        made.append("".join(ring[(start + i) % len(ring)] for i in range(length)))
    path.write_text("\n\n".join(made) + "\n", encoding="utf-8")
    return path
