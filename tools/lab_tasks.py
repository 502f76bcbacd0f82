"""What the lab shows of an encoder–decoder and of cells side by side, measured once and kept.

    python tools/lab_tasks.py

Reads the embedded model g2p and benchmarks/results/compare.json; writes src/unrolled/lab/tasks.json. The words are such
that the model errs in four of them: with the right token before each step it comes back, with its own it may not.
Their phonemes are those of CMUdict (its licence stands beside the model), without stress.
"""

from __future__ import annotations

import json
from pathlib import Path

from unrolled.training import load
from unrolled.training.compare.record import slim
from unrolled.training.inspection.forcing import forcing

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "src" / "unrolled" / "lab" / "tasks.json"
RECORD = ROOT / "benchmarks" / "results" / "compare.json"
WORDS = [
    ("colonel", "K ER N AH L"),
    ("debris", "D AH B R IY"),
    ("honest", "AA N AH S T"),
    ("busy", "B IH Z IY"),
    ("knight", "N AY T"),
    ("psychology", "S AY K AA L AH JH IY"),
]


def main() -> None:
    pairs = {"name": "g2p", "items": forcing(load("g2p", "cpu"), WORDS)}
    compare = slim(json.loads(RECORD.read_text(encoding="utf-8")))
    text = json.dumps({"pairs": pairs, "compare": compare}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    OUT.write_text(text + "\n", encoding="utf-8", newline="\n")
    print(f"{len(text.encode()):,} bytes in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
