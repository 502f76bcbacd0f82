"""The readers, and small good files of each: the search begins there."""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing import changes

GOLDENS = Path(__file__).parent.parent / "goldens"


@dataclass(frozen=True)
class Reader:
    """One way from a file to a value."""

    suffix: str
    seeds: Callable[[Path], list[bytes]]  # makes good files; may use that folder, which is not there yet
    read: Callable[[Path], Any]
    change: changes.Change


# --- data


def data(task: str, suffix: str, change: changes.Change, *files: str | bytes, **options: Any) -> Reader:
    """A format of `unrolled.data.read`."""

    def read(path: Path) -> None:
        from unrolled.data import read as read_data

        check_items(read_data(path, task=task, **options))

    return Reader(suffix, lambda _: [f.encode() if isinstance(f, str) else f for f in files], read, change)


def pieces(task: str, suffix: str, change: changes.Change, *files: str) -> Reader:
    """The same a few bytes at a time: the items of a whole reading, or an error where that has one."""

    def read(path: Path) -> None:
        from unrolled.data import read as read_data
        from unrolled.data.readers.pieces import read_pieces
        from unrolled.errors import DataError

        try:
            whole = [item.content() for item in read_data(path, task=task)]
        except DataError:
            whole = []
        parts: list[Any] = []
        for part in read_pieces(path, task=task, size=16):
            check_items(part)
            parts += part
        assert [item.content() for item in parts] == whole, f"{len(parts)} items in pieces, {len(whole)} as a whole"

    return Reader(suffix, lambda _: [file.encode() for file in files], read, change)


def check_items(items: Any) -> None:
    """What is read is what training takes: text that can be written, finite numbers, a tag a token."""
    for item in items:
        words = [item.text, item.label, item.group, *(item.tokens or ()), *(item.tags or ())]
        words += [item.target] if isinstance(item.target, str) else list(item.target or ())
        for word in words:
            word is None or word.encode("utf-8")
        if item.features is not None:
            assert item.features.ndim == 2, item.features.shape
            assert item.features.dtype == np.float32, item.features.dtype
            assert np.isfinite(item.features).all()
        assert item.tags is None or len(item.tags) == item.length
        item.content()


def columns(**names: Any) -> Any:
    from unrolled.data import Columns

    return Columns(**names)


def table(**values: list[Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(values), buffer, compression="none")
    return buffer.getvalue()


TEXTS = 'text,label\n"a ""b"" c",x\nde,y\n'
TAGGED = "tokens\ttags\na b\tX Y\nc\tX\n"
LONG = "id,t,u,v,label,tags\nq,1,0.5,-2,x,A\nq,2,1e3,3,x,B\nr,1,0,0,y,A\n"
RECORDS = (
    '{"text": "a b", "label": "x"}\n{"text": "c", "label": 2}\n',
    '{"tokens": ["a", "b"], "label": "x", "group": 1}\n',
    '{"features": [[1, 2.5], [3, 4]], "label": "x"}\n{"features": [[0, 0]], "label": true}\n',
)
TAG_RECORDS = ('{"tokens": ["a", "b"], "tags": "X Y"}\n', '{"features": [[1], [2]], "tags": ["X", "Y"]}\n')
CONLL = "-DOCSTART- X\n\na X\nb Y\n\nc\tX\n"
CONLLU = (
    "# newdoc id = d\n# text = a b\n1\ta\ta\tNOUN\t_\tN=1\t0\troot\t_\t_\n"
    "2-3\tbc\t_\t_\t_\t_\t_\t_\t_\t_\n2\tb\t_\tVERB\t_\t_\t1\tdep\t1:dep\tX=y\n8.1\te\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
)
DOCUMENTS = "one two\nthree\n\nfour 五\r\n"
SERIES_LINES = "@problemName a\n@univariate false\n@dimensions 2\n@classLabel true x y\n@data\n1,2,3:4,5,6:x\n1:2:y\n"
PAIRS = "a b\tc\nd\te f\n"
PAIR_RECORDS = (
    '{"source": "a", "target": "b c"}\n{"source": "d", "target": ["c"]}\n',
    '{"source": ["a", "b"], "target": "c"}\n',
    '{"source": [[1, 2], [3, 4]], "target": "b"}\n',
)
SERIES = (
    "time,target,id,k\n2024-01-01,1.5,a,0\n2024-01-02,,a,1\n2024-01-03,2,a,1\n2024-01-04,,a,1\n",
    "time,target,id,k\n1,2,a,0\n3,NA,a,0\n5,3,a,0\n1,2,b,0\n3,1,b,0\n",
    "time,target,id,k\n2024-01-31 10:00,2,a,1\n2024-01-31 11:00,4,a,1\n",
)


def series(suffix: str, change: changes.Change, gaps: str, *files: str | bytes) -> Reader:
    """`unrolled.data.read_series`."""

    def read(path: Path) -> None:
        from unrolled.data.readers.series import SeriesColumns, read_series

        for item in read_series(path, SeriesColumns(id="id", known=("k",)), gaps=gaps):  # type: ignore[arg-type]
            assert item.series is not None
            assert item.series.target.dtype == np.float64
            item.content()

    return Reader(suffix, lambda _: [f.encode() if isinstance(f, str) else f for f in files], read, change)


def _parquet_seeds(_: Path) -> list[bytes]:
    return [
        table(text=["a b", "c"], label=["x", "y"]),
        table(tokens=[["a", "b"], ["c"]], label=[1, 2]),
        table(features=[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], label=["x", "y"]),
    ]


# --- recipes and runs


RECIPES = (
    'task = "classify"\ndata = "a.csv"\nhidden = 8\ncell = "gru"\nbidirectional = false\npooling = "last"\n',
    'task = "lm"\ndata = "a.txt"\nlearning_rate = 1e-3\nclip = "none"\nchunk = 7\ntokenizer = "chars"\n',
    'task = "forecast"\ndata = "a.csv"\nhorizon = 3\nquantiles = [0.1, 0.5, 0.9]\ntime = "t"\nseason = "7"\n',
    'task = "seq2seq"\ndata = "a.tsv"\nattention = "additive"\ndecoder_layers = 2\n',
    'task = "tag"\ndata = "a.conll"\ncrf = true\nunk = [1, 2]\n',
)


def _recipe_seeds(folder: Path) -> list[bytes]:
    """Those of the above that are good, so that a field that is gone is noticed by `assert`."""
    from unrolled.errors import RecipeError

    good, folder = [], folder.with_suffix(".toml")
    for text in RECIPES:
        folder.write_text(text, encoding="utf-8")
        try:
            read_recipe(folder)
        except RecipeError:
            continue
        good.append(text.encode())
    assert len(good) >= 3, "the recipes of the fuzzer are out of date"
    return good


def read_recipe(path: Path) -> None:
    """A recipe that is good can be written, and read again as the same."""
    from unrolled.training import Recipe

    recipe = Recipe.load(path)
    path.with_suffix(".again").write_text(recipe.dump(), encoding="utf-8")
    assert Recipe.load(path.with_suffix(".again")).model_dump() == recipe.model_dump()


def _checkpoint_seeds(folder: Path) -> list[bytes]:
    from unrolled import bundle
    from unrolled.training import checkpoints

    folder.mkdir()
    arrays = {"model.weight": np.ones((2, 3), np.float32), "optimizer.0.step": np.ones((), np.float32)}
    values = {"counters": {"epoch": 1, "best": 0.5}, "place": None, "fingerprint": "ab", "carried": [[0, None]]}
    values |= {"machine": {"processes": 1}, "metrics_bytes": 12}
    bundle.save(folder / "c.safetensors", arrays, {"checkpoint": checkpoints.stamped(arrays, values)})
    return [(folder / "c.safetensors").read_bytes()]


def read_checkpoint(path: Path) -> None:
    from unrolled.training import checkpoints

    checkpoints.read(path)


EVENTS = (
    '{"event": "step", "step": 1, "epoch": 1, "loss": 2.5, "gradient_norm": 0.5, "clipped": true, "seconds": 0.1}\n'
    '{"event": "epoch", "epoch": 1, "step": 9, "train": {"loss": 1.5}, "valid": {"accuracy": 0.5}, "best": true, '
    '"seconds": 2.5}\n{"event": "end", "reason": "epochs", "test": {"metrics": {"accuracy": 0.5}}}\n'
)


# --- models


def _goldens(*names: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [(GOLDENS / f"{name}.safetensors").read_bytes() for name in names]


def read_bundle(path: Path) -> None:
    from unrolled import runtime

    runtime.load(path)


def read_trained(path: Path) -> None:
    from unrolled.training.trained import Trained

    Trained.load(path, "cpu")


BUNDLES = ("classify", "classify-int8", "classify-features", "lm", "seq2seq", "forecast")


TREES: tuple[str, ...] = ("flax-linen", "flax-nnx", "equinox", "haiku", "tf1")


def weights(suffix: str, change: changes.Change, *frameworks: str, **options: Any) -> Reader:
    """What `unrolled.convert.load` reads."""

    def seeds(folder: Path) -> list[bytes]:
        from torch import nn

        from unrolled import convert

        folder.mkdir()
        layers = [nn.LSTM(2, 1, batch_first=True)]
        if frameworks[0] not in (*TREES, "rtneural"):  # a layer alone of those has one direction
            layers.append(nn.GRU(2, 1, batch_first=True, bidirectional=True))
        made = []
        for number, (framework, layer) in enumerate(itertools.product(frameworks, layers)):
            path = folder / f"{number}{suffix}"
            convert.save(layer, path, framework, **({"forget_bias": 1.0} if framework == "tf1" else {}))
            made.append(path.read_bytes())
        return made

    def read(path: Path) -> None:
        from unrolled import convert
        from unrolled.convert import exchange

        if zlib.crc32(path.read_bytes()) % 8 == 0:
            convert.load(path, **options)
        else:  # without the comparison of numbers that ends a load, and takes most of its time
            read_network = exchange.READERS[exchange.source_of(path, None)]
            exchange.module_of(read_network(path, exchange.Options.of(dict(options))))

    return Reader(suffix, seeds, read, change)


TOML = changes.lines("=")


def cells(marks: str) -> changes.Change:
    return changes.lines(marks)


READERS: dict[str, Reader] = {
    "csv": data("classify", ".csv", cells(","), TEXTS),
    "tsv": data("tag", ".tsv", cells("\t"), TAGGED),
    "long": data(
        "classify", ".csv", cells(","), LONG, columns=columns(id="id", time="t", label="label", features=("u", "v"))
    ),
    "jsonl": data("classify", ".jsonl", changes.json_lines, *RECORDS),
    "jsonl-tags": data("tag", ".jsonl", changes.json_lines, *TAG_RECORDS),
    "parquet": Reader(".parquet", _parquet_seeds, data("classify", "", changes.some_bytes).read, changes.parquet),
    "pieces-jsonl": pieces("classify", ".jsonl", changes.json_lines, *RECORDS),
    "pieces-conll": pieces("tag", ".conll", cells("\t "), CONLL),
    "conll": data("tag", ".conll", cells("\t "), CONLL),
    "conllu": data("tag", ".conllu", cells("\t"), CONLLU, columns=columns(tags="upos")),
    "text": data("lm", ".txt", cells(" "), DOCUMENTS, format="documents"),
    "ts": data("classify", ".ts", cells(":, "), SERIES_LINES),
    "pairs": data("seq2seq", ".tsv", cells("\t"), PAIRS, "source\ttarget\n" + PAIRS),
    "pairs-jsonl": data("seq2seq", ".jsonl", changes.json_lines, *PAIR_RECORDS),
    "series": series(".csv", cells(","), "mask", *SERIES),
    "series-jsonl": series(
        ".jsonl", changes.json_lines, "fill", '{"time": 1, "target": 2.5, "id": "a", "k": 1}\n' * 1
        + '{"time": 2, "target": null, "id": "a", "k": 1}\n{"time": 3, "target": 1, "id": "a", "k": 1}\n',
    ),
    "recipe": Reader(".toml", _recipe_seeds, read_recipe, TOML),
    "checkpoint": Reader(".safetensors", _checkpoint_seeds, read_checkpoint, changes.safetensors),
    "bundle": Reader(".safetensors", _goldens(*BUNDLES), read_bundle, changes.safetensors),
    "trained": Reader(".safetensors", _goldens(*BUNDLES), read_trained, changes.safetensors),
    "pt": weights(".pt", changes.zipped, "torch"),
    "safetensors": weights(".safetensors", changes.safetensors, "torch"),
    "own": weights(".safetensors", changes.safetensors, "unrolled"),
    "tree": weights(".npz", changes.zipped, *TREES, forget_bias=1.0),
    "keras": weights(".keras", changes.zipped, "keras"),
    "h5": weights(".weights.h5", changes.some_bytes, "keras"),
    "onnx": weights(".onnx", changes.onnx, "onnx"),
    "rtneural": weights(".json", changes.json_tree, "rtneural"),
}  # fmt: skip
