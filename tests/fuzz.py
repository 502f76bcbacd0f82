"""Damaged and hostile files, by the thousand, for every reader: what each must end in, and how soon.

    python tests/fuzz.py 10000 [reader …]

runs so many of each reader's files, each reader in a process of its own, and prints what came of them. The tests run
some hundreds of each. A file is changed byte by byte, and inside its form: members of a zip are changed and packed
again with the right sum, so that what reads them is reached; values of a JSON tree become others; fields of an ONNX
model too.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unrolled.errors import UnrolledError

READERS = ("pt", "safetensors", "tree", "keras", "h5", "onnx", "own", "json", "bundle")
OPTIONS: dict[str, dict[str, Any]] = {"tree": {"source": "flax-linen"}}
SECOND = 1.0
MEMORY = 300 * 2**20  # bytes that all files of a reader together may add to the peak of the process

HOSTILE: tuple[Any, ...] = (
    0, -1, 1, 2, 7, 2**31, 2**62, 2**63, 2**64, 10**30, -(10**12), 0.5, 1e308, float("inf"), float("nan"), True, None,
    "", "x", "x" * 5000, "../../etc/passwd", "\x00", "\ud800", [], {}, [0], [[]], [1] * 5000, [10**9, 10**9], {"a": 1},
)  # fmt: skip


# --- files


def good(folder: Path) -> dict[str, Path]:
    """A whole file of each reader."""
    from oracles.frameworks import layer_of
    from runtime_models import make
    from unrolled import convert

    layer = layer_of("gru", "both ways")
    made = {
        "pt": ("a.pt", None), "safetensors": ("a.safetensors", None), "tree": ("a.npz", "flax-linen"),
        "keras": ("a.keras", None), "h5": ("a.weights.h5", None), "onnx": ("a.onnx", None),
        "own": ("own.safetensors", "unrolled"),
    }  # fmt: skip
    for name, target in made.values():
        convert.save(layer, folder / name, target)
    convert.save(layer_of("lstm"), folder / "a.json")
    make(folder, "spans", crf=True)
    found = {form: folder / name for form, (name, _) in made.items()}
    return found | {"json": folder / "a.json", "bundle": folder / "model.safetensors"}


def reader(form: str, path: Path) -> Callable[[], Any]:
    """What reads a file of that form."""
    from unrolled import convert, runtime

    if form == "bundle":
        return lambda: runtime.load(path)
    return lambda: convert.load(path, **OPTIONS.get(form, {}))


# --- changes


def changed(form: str, content: bytes, rng: np.random.Generator) -> bytes:
    """One other file."""
    inside = {"safetensors": _safetensors, "own": _safetensors, "bundle": _safetensors, "json": _json, "onnx": _onnx}
    inside |= dict.fromkeys(("pt", "tree", "keras"), _zip)
    if form in inside and rng.random() < 0.6:
        return inside[form](content, rng)
    return _bytes(content, rng)


def _bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes others, or gone, or more, or the end gone."""
    if not content:
        return rng.bytes(4)
    way = rng.integers(4)
    if way == 0:
        return content[: int(rng.integers(0, len(content)))]
    first, second = sorted(rng.integers(0, len(content), size=2))
    if way == 1:
        return content[:first] + content[second:]
    if way == 2:
        return content[:first] + rng.bytes(int(rng.integers(1, 40))) + content[first:]
    damaged = bytearray(content)
    end = len(content) if rng.random() < 0.5 else min(len(content), 600)  # headers stand at the start
    for place in rng.integers(0, end, size=int(rng.integers(1, 6))):
        damaged[place] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
    return bytes(damaged)


def _zip(content: bytes, rng: np.random.Generator) -> bytes:
    """One member changed, left out, twice, or under another name; every sum is right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[int(rng.integers(len(members)))]
    way = rng.integers(8)
    if way == 0:
        del members[name]
    elif way == 1:
        members[str(rng.choice(["data.pkl", "config.json", "x/../../y", "é", name + "x"]))] = members.pop(name)
    elif name.endswith(".json"):
        members[name] = _json(members[name], rng)
    else:
        members[name] = _bytes(members[name], rng)
    buffer = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for one, text in members.items():
            archive.writestr(one, text)
    return buffer.getvalue()


def _safetensors(content: bytes, rng: np.random.Generator) -> bytes:
    """A value of the header another, and the text inside the header too; its length is right."""
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    words = header.get("__metadata__", {})
    inner = [key for key in words if words[key][:1] == "{"]
    if inner and rng.random() < 0.6:
        words[inner[0]] = _text(_swapped(json.loads(words[inner[0]]), rng))
    else:
        header = _swapped(header, rng)
    if rng.random() < 0.1:
        data = _bytes(data, rng)
    text = _text(header).encode("utf-8", "replace")
    return struct.pack("<Q", len(text)) + text + data


def _json(content: bytes, rng: np.random.Generator) -> bytes:
    return _text(_swapped(json.loads(content), rng)).encode("utf-8", "replace")


def _text(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _swapped(tree: Any, rng: np.random.Generator) -> Any:
    """The tree with one value, or two, hostile ones, or with a key more, or one gone."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            return tree
        parent, key = places[int(rng.integers(len(places)))]
        way = rng.integers(8)
        if way == 0:
            del parent[key]
        elif way == 1 and isinstance(parent, dict):
            parent["more"] = parent[key]
        elif way == 2:
            parent[key] = [parent[key]] * int(rng.choice([1, 2, 300]))
        else:
            parent[key] = copy.deepcopy(HOSTILE[int(rng.integers(len(HOSTILE)))])
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value as the container that holds it and its key; of long lists, the first few."""
    keys = list(tree) if isinstance(tree, dict) else range(min(len(tree), 4)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _onnx(content: bytes, rng: np.random.Generator) -> bytes:
    """A field of some part of the model another."""
    import onnx

    model = onnx.load_model_from_string(content)
    graph = model.graph
    parts = [
        *graph.node,
        *graph.initializer,
        *graph.input,
        *graph.output,
        *(a for n in graph.node for a in n.attribute),
    ]
    part = parts[int(rng.integers(len(parts)))]
    fields = part.ListFields()
    field, value = fields[int(rng.integers(len(fields)))]
    try:
        if field.name in ("type", "t", "g"):
            part.ClearField(field.name)
        elif isinstance(value, str | bytes):
            word = str(rng.choice(["", "x", "LSTM", "Loop", "input", "Transpose", "reverse", "é" * 50]))
            setattr(part, field.name, word if isinstance(value, str) else _bytes(value, rng))
        elif isinstance(value, int | float):
            setattr(part, field.name, type(value)(rng.choice([0, 1, -1, 2, 7, 2**31 - 1])))
        elif rng.random() < 0.3:
            part.ClearField(field.name)
        elif field.name in ("dims", "ints"):
            value[int(rng.integers(len(value)))] = int(rng.choice([0, -1, 1, 3, 10**6, 2**62]))
        elif len(value) and isinstance(value[0], str | bytes):
            word = str(rng.choice(["", "x", value[0] if isinstance(value[0], str) else "y"]))
            value[int(rng.integers(len(value)))] = word if isinstance(value[0], str) else word.encode()
        else:
            value.add() if hasattr(value, "add") else value.append(value[0])
    except (TypeError, ValueError):  # the field does not take it
        return _bytes(content, rng)
    return bytes(model.SerializeToString())


# --- runs


def survives(form: str, path: Path, count: int, seed: int = 31) -> dict[str, float]:
    """Read `count` changed files.

    Raises:
        AssertionError: one took longer than a second of processor time, or more memory; or its error is not ours.
    """
    content, rng, load = path.read_bytes(), np.random.default_rng(seed), reader(form, path)
    load()
    before, refused, slowest = _peak(), 0, 0.0
    try:
        for number in range(count):
            bad = changed(form, content, rng)
            path.write_bytes(bad)
            start, said = time.process_time(), "read"
            try:
                load()
            except UnrolledError as error:
                refused += 1
                said = str(error)
            except BaseException as error:
                kept = Path(tempfile.gettempdir()) / f"{path.name}.{seed}.{number}{path.suffix}"
                kept.write_bytes(bad)
                raise AssertionError(f"{form}, file {number} of seed {seed}, kept as {kept}: {error!r}") from error
            assert 0 < len(said) < 3000, (form, number, len(said))
            took = time.process_time() - start
            slowest = max(slowest, took)
            assert took < SECOND, f"{form}, file {number}: took {took:.2f} s"
            assert _peak() - before < MEMORY, f"{form}, file {number}: memory grew by {_peak() - before} bytes"
    finally:
        path.write_bytes(content)
    return {"files": count, "refused": refused, "slowest": slowest, "memory": (_peak() - before) / 2**20}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(form: str, count: int, seed: int = 31) -> str:
    """The same in a process of its own, where a crash of a library written in C is seen; its line."""
    here = Path(__file__)
    command = [sys.executable, str(here), str(count), form, "--seed", str(seed), "--inside"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{form}: code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("readers", nargs="*", default=READERS)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for form in given.readers:
        if not given.inside:
            print(alone(form, given.count, given.seed), flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = survives(form, good(Path(folder))[form], given.count, given.seed)
        print(f"{form}: {found['files']} files, {found['refused']} refused, slowest {found['slowest'] * 1000:.0f} ms, "
              f"{found['memory']:.0f} MB more at the peak")  # fmt: skip


if __name__ == "__main__":
    main()
