"""Streaming and export: the time of one step beside ONNX Runtime's, streams by id beside a loop, int8 beside float32.

    python benchmarks/streaming.py [--part latency|ids|int8] [--write]

`latency` interleaves the candidates in one process, one thread, and gives medians over blocks with the least and the
largest. `ids` runs what `unrolled stream --id` runs, on a thousand ids, beside one stream an id called line by line.
`int8` trains two demos. Each part is kept in results/streaming.json; --write puts the tables into docs/runtime.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from harness import RESULTS, spread
from unrolled import runtime
from unrolled.convert.task_check import open_session

Call = Callable[[], Any]
PAGE = Path(__file__).parent.parent / "docs" / "runtime.md"
BLOCKS, BLOCK = 201, 4e-4  # medians over so many blocks, each of so many seconds: shorter than a turn of the scheduler
IDS, LINES = 1000, 20_000
# (cell, hidden units, inputs)
LAYERS = (("lstm", 64, 64), ("gru", 64, 64), ("lstm", 16, 16), ("lstm", 16, 1))


def classifier(cell: str, hidden: int, channels: int, folder: Path, pooling: str = "mean") -> Path:
    """A one-way classifier with random weights, saved."""
    import torch

    from unrolled.data import Dataset, Item
    from unrolled.training import Recipe, Trained
    from unrolled.training.tasks import find

    rng = np.random.default_rng(0)
    items = [
        Item(str(i), features=rng.normal(size=(5, channels)).astype(np.float32), label="ab"[i % 2]) for i in range(8)
    ]
    fields = {"cell": cell, "hidden": hidden, "bidirectional": False, "pooling": pooling}
    recipe = Recipe(task="classify", data="random", output_dropout=0.0, **fields)
    torch.manual_seed(0)
    task = find("classify").prepare(recipe, Dataset(items, "random"))
    path = folder / f"{cell}{hidden}-{channels}.safetensors"
    Trained(recipe, task, task.build().eval()).save(path)
    return path


def medians(calls: dict[str, Call]) -> dict[str, list[float]]:
    """Microseconds a call: least, median and largest block, the candidates taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    # Blocks of like duration: other work on the machine would lengthen the longer ones only.
    counts = {name: max(1, int(BLOCK / min(timed(call) for _ in range(200)))) for name, call in calls.items()}
    for _ in range(BLOCKS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - start) / counts[name] * 1e6)
    return {name: list(spread(values)) for name, values in times.items()}


def layer_session(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """ONNX Runtime on the layer alone: one node, x and state in, output and state out."""
    import onnx

    from unrolled import bundle
    from unrolled.convert.onnx import OPSET, Graph, add_levels
    from unrolled.convert.states import levels_of

    tensors, header = bundle.load(path)
    prefix, hidden = "recurrent.", header["recipe"]["hidden"]
    own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    names = ["h", "c"] if header["recipe"]["cell"] == "lstm" else ["h"]
    graph, helper, kind = Graph(), onnx.helper, onnx.TensorProto.FLOAT
    out, finals = add_levels(graph, levels_of(own, nonlinearity="tanh"), "x", state=names)
    width = own["weight_ih_l0"].shape[1]
    inputs = [("x", ["time", "batch", width]), *((name, [1, "batch", hidden]) for name in names)]
    outputs = [(out, ["time", "batch", hidden]), *((name, [1, "batch", hidden]) for name in finals)]
    infos = [[helper.make_tensor_value_info(name, kind, axes) for name, axes in part] for part in (inputs, outputs)]
    made = helper.make_graph(graph.nodes, "layer", *infos, graph.initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    feed = {"x": np.random.default_rng(0).normal(size=(1, 1, width)).astype(np.float32)}
    return open_session(model.SerializeToString()), feed | {n: np.zeros((1, 1, hidden), np.float32) for n in names}


def latency() -> dict[str, Any]:
    """One streamed step, B 1: the layer alone, and the whole classifier."""
    from unrolled import convert

    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for cell, hidden, channels in LAYERS:
            path = classifier(cell, hidden, channels, folder)
            model = runtime.load(path)
            layer, steps, stream = model.recurrent.steps(), model.steps(), model.stream()
            many = np.random.default_rng(0).normal(size=(1000, 1, channels)).astype(np.float32)
            x = np.random.default_rng(0).normal(size=(1, channels)).astype(np.float32)
            session, feed = layer_session(path)
            convert.export(path, folder / "whole.onnx")
            whole = open_session((folder / "whole.onnx").read_bytes())
            given = whole_feed(whole, x)
            calls: dict[str, Call] = {
                "layer": lambda layer=layer, x=x: layer(x),
                "1000 steps in one call": lambda model=model, many=many: model.recurrent.layers[0].run(many),
                "layer, ONNX Runtime": lambda session=session, feed=feed: session.run(None, feed),
                "model, scores": lambda steps=steps, x=x: steps(x[0]),
                "model, ONNX Runtime": lambda whole=whole, given=given: whole.run(None, given),
                "model, stream.push": lambda stream=stream, x=x: stream.push(x),
            }
            result[f"{cell.upper()}-{hidden}, {channels} inputs"] = medians(calls)
    return result


def whole_feed(session: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    feed: dict[str, np.ndarray] = {"features": x[None], "lengths": np.ones(1, np.int64)}
    for info in session.get_inputs():
        if info.name not in feed:
            shape = [size if isinstance(size, int) else 1 for size in info.shape]
            feed[info.name] = np.zeros(shape, np.int64 if "int64" in info.type else np.float32)
    return feed


def ids() -> dict[str, Any]:
    """Lines a second: all of them through `--id`, and one stream an id, called line by line."""
    from unrolled.cli.streaming import Wanted, stream

    result = {}
    with tempfile.TemporaryDirectory() as name:
        for cell, hidden in (("lstm", 64), ("gru", 32)):
            path = classifier(cell, hidden, 3, Path(name))
            lines = sensor_lines()
            found: dict[str, list[float]] = {"--id": [], "single streams": []}
            for _ in range(5):
                found["--id"].append(timed(lambda p=path, t=lines: piped(p, t, stream, Wanted(id="id"))))
                found["single streams"].append(timed(lambda p=path, t=lines: one_by_one(p, t)))
            rates = {key: list(spread([LINES / seconds for seconds in times])) for key, times in found.items()}
            result[f"{cell.upper()}-{hidden}, 3 channels"] = rates
    return result


def sensor_lines() -> bytes:
    """`LINES` rows of `IDS` sensors, mixed."""
    rng = np.random.default_rng(0)
    rows = []
    for key, values in zip(rng.integers(0, IDS, LINES), rng.normal(size=(LINES, 3)).round(4), strict=True):
        rows.append(json.dumps({"id": f"s{key}", "features": values.tolist()}))
    return ("\n".join(rows) + "\n").encode()


def piped(path: Path, lines: bytes, stream: Any, wanted: Any) -> None:
    """The command, its input through a pipe, as another program would write it."""
    import threading

    read, write = os.pipe()
    with os.fdopen(write, "wb") as sink, open(read, "rb") as source, open(os.devnull, "w") as out:
        thread = threading.Thread(target=lambda: (sink.write(lines), sink.close()))
        thread.start()
        before = sys.stdin, sys.stdout
        sys.stdin, sys.stdout = io.TextIOWrapper(source), out
        try:
            stream(path, wanted)
        finally:
            sys.stdin, sys.stdout = before
            thread.join()


def one_by_one(path: Path, lines: bytes) -> None:
    """What a loop writes: one stream an id, one push a line, one result a line, flushed."""
    model, streams = runtime.load(path), {}
    with open(os.devnull, "w") as out:
        for line in lines.splitlines():
            row = json.loads(line)
            stream = streams.get(row["id"])
            if stream is None:
                stream = streams[row["id"]] = model.stream()
            answer = stream.push(row["features"])
            said = {"id": row["id"], "label": answer["label"], "probability": round(answer["probability"], 6)}
            out.write(json.dumps(said) + "\n")
            out.flush()


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def int8() -> dict[str, Any]:
    """Size, score and speed of two demos' test parts, float32 and int8."""
    from unrolled import convert
    from unrolled.training import train
    from unrolled.training.examples import recipe
    from unrolled.training.sources import open_parts
    from unrolled.training.trained import Trained

    result = {}
    with tempfile.TemporaryDirectory() as name:
        for demo, metric, epochs in (("speakers", "accuracy", 30), ("tags", "token_accuracy", 4)):
            folder = Path(name) / demo
            train(recipe(demo, threads=1, epochs=epochs), out=folder)
            small = Path(name) / f"{demo}.safetensors"
            convert.export(folder, small, to="bundle", int8=True)
            items = list(open_parts(Trained.load(folder).recipe).test)
            rows: dict[str, Any] = {}
            for kind, path in (("float32", folder / "model.safetensors"), ("int8", small)):
                model = runtime.load(path)
                seconds = spread([timed(lambda m=model, i=items: m.predict(i)) for _ in range(5)])
                score = Trained.load(path).evaluate(demo).metrics[metric]
                rows[kind] = {"bytes": path.stat().st_size, metric: score, "items a second": len(items) / seconds[1]}
            result[demo] = rows
    return result


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"latency": latency, "ids": ids, "int8": int8}


def about_machine() -> dict[str, str]:
    """What the figures depend on."""
    import onnxruntime

    from unrolled import _native

    cores = f"{platform.machine()} with {_native.isa()}, {os.cpu_count()} cores, one thread"
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, ONNX Runtime {onnxruntime.__version__}"
    return {"date": date.today().isoformat(), "machine": f"{cores}, {versions}"}


def tables(record: dict[str, Any]) -> str:
    """The Markdown of docs/runtime.md."""
    title = "| one step, B 1, µs: median (range) | ours | ONNX Runtime | ratio of the medians (of the least) |"
    lines = [title, "|---|--:|--:|--:|"]
    for what, times in record["latency"]["figures"].items():
        for part, ours, theirs in (("layer", "layer", "layer, ONNX Runtime"),
                                   ("classifier", "model, scores", "model, ONNX Runtime"),
                                   ("classifier, `push`", "model, stream.push", "model, ONNX Runtime")):  # fmt: skip
            # Other work on the machine lengthens long calls more, so the least are shown as well.
            least, middle = (times[theirs][place] / times[ours][place] for place in (0, 1))
            shown = f"{_range(times[ours])} | {_range(times[theirs])} | {middle:.1f} × ({least:.1f} ×)"
            lines.append(f"| {what}: {part} | {shown} |")
    bare = [
        f"{what} {times['1000 steps in one call'][0] / 1000:.2f}"
        for what, times in record["latency"]["figures"].items()
    ]
    lines += ["", f"A layer's step without the Python call (1000 of them in one call), least, µs: {'; '.join(bare)}."]
    lines += [
        "",
        f"| {IDS} ids, lines a second: median (range) | `--id` | single streams | ratio |",
        "|---|--:|--:|--:|",
    ]
    for what, rates in record["ids"]["figures"].items():
        ratio = rates["--id"][1] / rates["single streams"][1]
        lines.append(f"| {what} | {_range(rates['--id'], 0)} | {_range(rates['single streams'], 0)} | {ratio:.1f} × |")
    lines += ["", "| test part | weights | bytes | score | items a second |", "|---|---|--:|--:|--:|"]
    for demo, kinds in record["int8"]["figures"].items():
        for kind, row in kinds.items():
            size, score, speed = row.values()
            lines.append(f"| {demo} | {kind} | {size:,} | {score:.4f} | {speed:,.0f} |")
    when = {f"{part['date']}, {part['machine']}" for part in record.values()}
    return "\n".join([*lines, "", "; ".join(sorted(when)) + "."])


def _range(values: list[float], digits: int = 2) -> str:
    low, middle, high = values
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def write(record: dict[str, Any]) -> None:
    """Put the tables between the marks of the page."""
    begin, end = "<!-- figures: begin -->", "<!-- figures: end -->"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    PAGE.write_text(f"{head}{begin}\n{tables(record)}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--write", action="store_true", help="also write the tables into docs/runtime.md")
    options = parser.parse_args()
    path = RESULTS / "streaming.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    for part in options.part or list(PARTS):
        record[part] = {**about_machine(), "figures": PARTS[part]()}
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(part, json.dumps(record[part]["figures"], indent=1))
    if options.write:
        write(record)


if __name__ == "__main__":
    main()
