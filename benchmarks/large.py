"""Training on a file larger than memory: the resident memory of each stage, and how long training waits for data.

    python benchmarks/large.py FOLDER [--gigabytes 5] [--memory 256] [--kinds csv text jsonl parquet]

Writes FOLDER/large.KIND where it is not there, with made-up reviews: two sentences of made-up words and a number a row.
Every stage runs in a process of its own, one thread for the arithmetic:

numbers  the file is gone through twice, and its rows are kept as numbers
base     20 optimizer steps with the first thousand rows: what program, model and gradients take without the data
train    optimizer steps for --seconds, after the first of them
scores   the validation part, once

The memory of a stage is the largest resident set of its process (VmHWM); what the data took is that less the base.
Workers are processes beside it, and not counted.
The wait is the time in which a step had no batch yet, as metrics.jsonl has it; padding a batch and making tensors of it
is told beside it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
WORDS, SENTENCES, ROWS = 30_000, 200_000, 20_000
RECIPES: dict[str, dict[str, Any]] = {
    "csv": {"task": "classify", "cell": "gru", "hidden": 128, "vocabulary_size": 30_000},
    "jsonl": {"task": "classify", "cell": "gru", "hidden": 128, "vocabulary_size": 30_000},
    "parquet": {"task": "classify", "cell": "gru", "hidden": 128, "vocabulary_size": 30_000},
    "text": {"task": "lm", "cell": "lstm", "hidden": 256},
}


# the file


def blocks(size: float) -> Iterator[tuple[list[str], list[str]]]:
    """Texts and labels, 20,000 at a time, until the texts have `size` bytes."""
    rng = np.random.default_rng(0)
    syllables = rng.integers(15, size=(WORDS, 2))
    words = ["".join("bcdfgklmnprstvz"[i] + "aeiou"[i % 5] for i in row) + f"{n:x}" for n, row in enumerate(syllables)]
    share = 1 / np.arange(1, WORDS + 1)
    drawn = np.searchsorted(np.cumsum(share / share.sum()), rng.random((SENTENCES, 12)))
    lengths = rng.integers(4, 13, SENTENCES)
    sentences = [" ".join(words[min(i, WORDS - 1)] for i in row[:n]) for row, n in zip(drawn, lengths, strict=True)]
    written = 0
    while written < size:
        first, second = rng.integers(SENTENCES, size=(2, ROWS))
        texts = [f"{sentences[a]} . {sentences[b]} {a ^ b}" for a, b in zip(first, second, strict=True)]
        yield texts, ["up" if row % 2 else "down" for row in drawn[first, 0]]
        written += sum(map(len, texts))


def write(path: Path, kind: str, size: float) -> None:
    """A file of about `size` bytes."""
    new = path.with_suffix(f"{path.suffix}.part")
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.schema([("text", pyarrow.string()), ("label", pyarrow.string())])
        with pyarrow.parquet.ParquetWriter(new, schema, compression="none", use_dictionary=["label"]) as writer:
            for texts, labels in blocks(size):
                writer.write_table(pyarrow.table({"text": texts, "label": labels}, schema))
    else:
        with new.open("w", encoding="utf-8") as file:
            file.write("text,label\n" if kind == "csv" else "")
            for texts, labels in blocks(size):
                pairs = zip(texts, labels, strict=True)
                if kind == "csv":
                    file.writelines(f"{text},{label}\n" for text, label in pairs)
                elif kind == "jsonl":
                    file.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs)
                else:
                    file.writelines(f"{text}\n" for text in texts)
    new.replace(path)


# the stages, each in a process of its own


def stage(name: str, fields: dict[str, Any], seconds: float) -> dict[str, float]:
    """Run one."""
    import torch

    torch.set_num_threads(1)
    begun = time.perf_counter()
    found = {"numbers": numbers, "base": base, "train": steps, "scores": scores}[name](fields, seconds)
    return found | {"seconds": time.perf_counter() - begun, "memory": resident()}


def numbers(fields: dict[str, Any], seconds: float) -> dict[str, float]:
    """Make them, and measure them."""
    del seconds
    from unrolled.training import Recipe
    from unrolled.training.caching import prepare
    from unrolled.training.sources import open_parts

    recipe = Recipe(**fields)
    parts = open_parts(recipe)
    task = prepare(recipe, parts, note=lambda line: print(" ", line, flush=True))
    data = task.encode(parts.train)
    return {"rows": data.row_count, "numbers": data.store.bytes, "bytes": parts.train.source.size}


def base(fields: dict[str, Any], seconds: float) -> dict[str, float]:
    """Train on few rows that are in memory."""
    return steps(fields, seconds, few=True)


def steps(fields: dict[str, Any], seconds: float, *, few: bool = False) -> dict[str, float]:
    """Train for some seconds, and tell how much of them was spent on waiting for data."""
    from unrolled.data import Dataset
    from unrolled.training.tasks.reading import Reading

    padding = 0.0
    batch = Reading.batch

    def timed(self: Reading, *given: Any) -> Any:
        nonlocal padding
        at = time.perf_counter()
        try:
            return batch(self, *given)
        finally:
            padding += time.perf_counter() - at

    Reading.batch = timed  # type: ignore[method-assign]  # to time it, in this process alone
    loop, folder = opened(fields)
    if few:
        rows = Dataset(loop.train.part.shown().items[:1000])
        if loop.recipe.task == "lm":
            rows = Dataset([replace(rows[0], text=(rows[0].text or "")[:200_000])])
        loop.train = loop.valid = loop.task.encode_items(rows)
    place, begun, behind, waited, padded = None, 0.0, 0, 0.0, 0.0

    class Enough(Exception):
        """It has been so many seconds."""

    def step(**_: Any) -> None:
        nonlocal begun, behind, waited, padded, place
        place = loop._place
        if not begun:  # the first step also opens the data
            begun, behind, waited, padded = time.perf_counter(), place.batches, place.waited, padding
        elif time.perf_counter() - begun > seconds or (few and place.batches == 20):
            raise Enough

    loop.progress.step = step
    try:
        loop.run()
    except Enough:
        pass
    finally:
        folder.lock.give_back()
    spent = time.perf_counter() - begun
    assert place is not None
    waiting, padding = place.waited - waited, padding - padded
    found = {"batches": place.batches - behind, "of": loop.step_count, "spent": spent}
    return found | {"waiting": waiting / spent, "padding": padding / spent}


def scores(fields: dict[str, Any], seconds: float) -> dict[str, float]:
    """Score the validation part with fresh weights."""
    del seconds
    loop, folder = opened(fields)
    folder.lock.give_back()
    found = loop.task.measure(loop.model.eval(), loop.valid)
    return {"items": found["items"]}


def opened(fields: dict[str, Any]) -> tuple[Any, Any]:
    """The loop of a run that has not begun, and its folder."""
    from unrolled.training import Recipe
    from unrolled.training.caching import prepare
    from unrolled.training.folder import RunFolder
    from unrolled.training.loop import Silent
    from unrolled.training.ranks import Ranks
    from unrolled.training.run import _loop
    from unrolled.training.sources import open_parts

    recipe = Recipe(**fields)
    out = Path(f"{fields['data']}.run")
    shutil.rmtree(out, ignore_errors=True)
    parts = open_parts(recipe)
    folder = RunFolder(out)
    loop = _loop(prepare(recipe, parts), parts, folder, Silent(), Ranks())
    folder.create(recipe)
    return loop, folder


def resident() -> float:
    """The largest resident set of this process so far, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * float(line.split()[1])


def ask(name: str, fields: dict[str, Any], seconds: float) -> dict[str, float]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(stage, name, fields, seconds).result()  # a daemon of a Pool could have no workers of its own


def measure(path: Path, kind: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Every stage."""
    fields = RECIPES[kind] | {"data": str(path), "memory": options.memory, "threads": 1, "valid_share": 0.001}
    fields |= {"test_share": 0.001, "report": False, "inspect_every": None, "checkpoint_minutes": None}
    fields |= {"patience": None, "epochs": 1000, "workers": options.workers}
    found = {}
    for name in ("numbers", "base", "train", "scores"):
        found[name] = ask(name, fields, options.seconds)
        told = {key: round(value, 4) for key, value in found[name].items()}
        print(f"{kind}, {name}: {told}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--memory", type=int, default=256, help="the recipe's bound, in megabytes")
    parser.add_argument("--seconds", type=float, default=120.0, help="of training")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=["csv"], choices=list(RECIPES))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    record: dict[str, Any] = {"date": date.today().isoformat(), "machine": f"{platform.machine()}, one thread"}
    record |= {"versions": {"python": platform.python_version(), "torch": torch.__version__}}
    record |= {"memory": options.memory, "kinds": {}}
    for kind in options.kinds:
        path = options.folder / f"large.{'txt' if kind == 'text' else kind}"
        if not path.is_file():
            print(f"writing {path}", flush=True)
            write(path, kind, options.gigabytes * 1e9)
        record["kinds"][kind] = {"bytes": path.stat().st_size} | measure(path, kind, options)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "large.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
