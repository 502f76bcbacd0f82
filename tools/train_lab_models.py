"""Train the small models that the lab brings, and write what it shows of them: `python tools/train_lab_models.py`.

An RNN, a GRU and an LSTM of the same size read the same text (five plays, letter by letter); three more answer which
letter was planted third in a row of ten. It takes about a minute on one core and writes src/unrolled/lab/demo.json,
which is committed: the lab opens without PyTorch. Another processor may round otherwise and so write other numbers;
what stands in the file is one run of this script.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unrolled.bundle import write_atomically
from unrolled.insight import attribute
from unrolled.insight.attribution import METHODS
from unrolled.training import Recipe, load, train
from unrolled.training.inspection.lab_data import lab_data, model_data
from unrolled.training.trained import Trained

CELLS = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM"}
TEXT = "To be, or not to be: that is the question"
PROMPT = "Ham.\nTo be, "
EXPLAINED = (12, 37)  # after "not" and "quest": which letter comes next?
LETTERS, NOISE, LENGTH, POSITION = "abcd", "wxyz", 10, 2
OUT = Path(__file__).parent.parent / "src" / "unrolled" / "lab" / "demo.json"
# What the lab does not draw of its own models.
UNUSED = ("training", "parameters", "notes", "verdict", "verdicts", "weights", "non_finite")
KEPT = ("task", "data", "cell", "hidden", "embedding", "chunk", "clip", "epochs", "seed")  # of the recipe


def planted(path: Path, rows: int, seed: int = 0) -> Path:
    """A CSV of rows of noise with one of LETTERS at POSITION, which is the label: all else says nothing about it.

    A fifth of the rows have none there, so that a model without its letter has something to say.
    """
    rng = np.random.default_rng(seed)
    lines = ["text,label"]
    for row in rng.integers(len(NOISE), size=(rows, LENGTH)):
        text, place = "".join(NOISE[i] for i in row), int(rng.integers(len(LETTERS) + 1))
        if place < len(LETTERS):
            text = text[:POSITION] + LETTERS[place] + text[POSITION + 1 :]
        lines.append(f"{text},{LETTERS[place] if place < len(LETTERS) else 'none'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def planted_recipe(cell: str, data: str, epochs: int = 20) -> Recipe:
    return Recipe(
        task="classify",
        data=data,
        cell=cell,  # type: ignore[arg-type]
        bidirectional=False,
        pooling="last",
        tokenizer="chars",
        hidden=16,
        embedding=8,
        epochs=epochs,
        patience=None,
        batch_size=32,
        learning_rate=1e-2,
        inspect_every=None,
    )


def text_recipe(cell: str, epochs: int = 6) -> Recipe:
    return Recipe(
        task="lm",
        data="plays",
        context="continuous",
        cell=cell,  # type: ignore[arg-type]
        hidden=24,
        embedding=16,
        lowercase=True,
        vocabulary_size=40,
        batch_size=32,
        chunk=32,
        clip=0.5,
        learning_rate=6e-3,
        schedule="cosine",
        epochs=epochs,
        patience=None,
        log_every=20,
        inspect_every=None,
    )


def planted_models(*, rows: int = 1000, tried: int = 200, shown: int = 2, **changes: Any) -> dict[str, Any]:
    """The task; for each cell how often each method finds the letter in new rows, and some rows to look at.

    Those that are shown are the first in which occlusion finds it with every cell; `found` says how often that is so.
    """
    data = planted(Path("planted.csv"), rows)
    fresh = [line.split(",")[0] for line in planted(Path("fresh.csv"), 2 * tried, seed=1).read_text().splitlines()[1:]]
    texts = [text for text in fresh if text[POSITION] in LETTERS][:tried]
    firsts = {}
    for cell in CELLS:
        print(train(planted_recipe(cell, data.name, **changes), out=f"planted-{cell}").report)
        firsts[cell] = ranked_first(load(f"planted-{cell}", "cpu"), texts)
    agreed = [i for i in range(len(texts)) if all(one["occlusion"][i] == POSITION for one in firsts.values())]
    items = [texts[i] for i in (agreed or range(len(texts)))[:shown]]
    models = [planted_model(cell, items, firsts[cell]) for cell in CELLS]
    return {"position": POSITION, "letters": LETTERS, "tried": len(texts), "models": models}


def planted_model(cell: str, items: list[str], firsts: dict[str, np.ndarray]) -> dict[str, Any]:
    model = model_data(f"planted-{cell}", CELLS[cell], items)
    kept = {key: model[key] for key in ("format", "kind", "name", "task", "cell", "warning")}
    kept["items"] = [{key: part for key, part in item.items() if key != "states"} for item in model["items"]]
    return kept | {"found": {method: float((steps == POSITION).mean()) for method, steps in firsts.items()}}


def ranked_first(trained: Trained, texts: list[str]) -> dict[str, np.ndarray]:
    """The step with the largest score in each text, by each method."""
    rows = [trained.task.reading.encode(trained.task.item(text, text)) for text in texts]
    batch = trained.task.reading.batch(rows)
    answers = trained.model(batch).argmax(-1)

    def target(scores: torch.Tensor) -> torch.Tensor:
        """The score of each text's own answer; attribution puts several variants of all texts into one batch."""
        return scores.gather(1, answers.repeat(len(scores) // len(answers))[:, None])[:, 0]

    found = {}
    for method in METHODS:
        made = attribute(trained.model, batch, target=target, method=method, rows_alike=True)
        found[method] = made.scores.abs().argmax(1).numpy()
    return found


def text_models(**changes: Any) -> dict[str, Any]:
    """The lab's data with three models of the same text."""
    for cell in CELLS:
        print(train(text_recipe(cell, **changes), out=cell).report)
    data = lab_data([(name, cell) for cell, name in CELLS.items()], [TEXT], prompt=PROMPT, at=EXPLAINED, length=16)
    for model in data["models"]:
        for key in UNUSED:
            del model[key]
        model["recipe"] = {key: model["recipe"][key] for key in KEPT}
        for layer in model["flow"]["layers"]:
            del layer["exact"]  # bytes will do for a look: a person's own run has float32
    for one in (*data["models"], *data["generation"]):
        one["demo"] = True
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        data = text_models()
        data["tasks"]["planted"] = planted_models()
    for key in ("page", "version", "language"):  # these are the page's own
        del data[key]
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    print(f"{out.name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
