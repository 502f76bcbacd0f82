"""How a good file becomes a bad one and keeps its form, so that more than the first check of a reader is reached."""

from __future__ import annotations

import copy
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    0, -1, 1, 2, 7, 2**31, 2**62, 2**63, 2**64, 10**30, -(10**12), 0.5, 1e308, float("inf"), float("nan"), True, None,
    "", "x", "x" * 5000, "../../etc/passwd", "\x00", "\x1b[2J", "\ud800", [], {}, [0], [[]], [1] * 5000,
    [10**9, 10**9], {"a": 1},
)  # fmt: skip
WORDS = (
    "", " ", "0", "-1", "1e999", "-1e-320", "nan", "inf", "9" * 5000, "1_0", "0x10", "٣", "é", "\u202e", "\x1b[31m",
    "\x00", '"', '""', "a,b", "a\tb", "a\nb", "a;b", "\ufeff", "\u2028", "x" * 3000, "2024-02-30", "9999-12-31",
    "0000-00-00", "2024-01-01T25:00", "1e5", "true", "null", "none", "[", "{", "[[[[", "=", "#", "@data", ":", "?",
)  # fmt: skip
Change = Callable[[bytes, Random], bytes]


def some_bytes(content: bytes, chance: Random) -> bytes:
    """Some bytes others, or gone, or more, or the end gone."""
    if not content:
        return chance.randbytes(4)
    way = chance.randrange(4)
    if way == 0:
        return content[: chance.randrange(len(content))]
    first, second = sorted((chance.randrange(len(content)), chance.randrange(len(content))))
    if way == 1:
        return content[:first] + content[second:]
    if way == 2:
        return content[:first] + chance.randbytes(chance.randrange(1, 40)) + content[first:]
    damaged = bytearray(content)
    end = len(content) if chance.random() < 0.5 else min(len(content), 600)  # headers stand at the start
    for _ in range(chance.randrange(1, 6)):
        damaged[chance.randrange(end)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(damaged)


# text


def lines(delimiters: str) -> Change:
    """Of a file of lines: a cell becomes another, a line comes twice, moves, or goes."""

    def change(content: bytes, chance: Random) -> bytes:
        rows = content.decode("utf-8", "surrogateescape").split("\n")
        at = chance.randrange(len(rows))
        way = chance.randrange(6)
        if way == 0:
            rows.insert(chance.randrange(len(rows) + 1), rows[at])
        elif way == 1 and len(rows) > 1:
            del rows[at]
        elif way == 2:
            rows[at] = chance.choice(("", " ", "\r", rows[at] + "\r", rows[at] * 2))
        else:
            mark = next((mark for mark in delimiters if mark in rows[at]), delimiters[0])
            cells = rows[at].split(mark)
            cells[chance.randrange(len(cells))] = chance.choice(WORDS)
            rows[at] = mark.join(cells)
        return "\n".join(rows).encode("utf-8", "surrogateescape")

    return change


def json_lines(content: bytes, chance: Random) -> bytes:
    """One line of a file of JSON lines another."""
    rows = content.split(b"\n")
    full = [number for number, row in enumerate(rows) if row.strip()]
    at = chance.choice(full)
    rows[at] = json_tree(rows[at], chance)
    return b"\n".join(rows)


def json_tree(content: bytes, chance: Random) -> bytes:
    """A value, or two, another."""
    return _text(swapped(json.loads(content), chance), chance.random() < 0.5).encode("utf-8", "replace")


def _text(tree: Any, escaped: bool = False) -> str:
    return json.dumps(tree, ensure_ascii=escaped)


def swapped(tree: Any, chance: Random) -> Any:
    """The tree with one value, or two, hostile ones, or with a key more, or one gone, or nested in itself."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.randrange(1, 3)):
        places = list(_places(tree))
        if not places:
            return tree
        parent, key = chance.choice(places)
        way = chance.randrange(8)
        if way == 0:
            del parent[key]
        elif way == 1 and isinstance(parent, dict):
            parent["more"] = parent[key]
        elif way == 2:
            parent[key] = [parent[key]] * chance.choice((1, 2, 300))
        elif way == 3:
            other, name = chance.choice(places)
            parent[key] = copy.deepcopy(other.get(name) if isinstance(other, dict) else None)
        else:
            parent[key] = copy.deepcopy(chance.choice(HOSTILE))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value as the container that holds it and its key; of long lists, the first few."""
    keys = list(tree) if isinstance(tree, dict) else range(min(len(tree), 4)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


# containers


def zipped(content: bytes, chance: Random) -> bytes:
    """One member changed, left out, twice, or under another name; every sum is right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(members))
    way = chance.randrange(8)
    if way == 0:
        del members[name]
    elif way == 1:
        members[chance.choice(["data.pkl", "config.json", "x/../../y", "é", name + "x"])] = members.pop(name)
    elif name.endswith(".json"):
        members[name] = json_tree(members[name], chance)
    else:
        members[name] = some_bytes(members[name], chance)
    buffer = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if chance.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for one, text in members.items():
            archive.writestr(one, text)
    return buffer.getvalue()


def safetensors(content: bytes, chance: Random) -> bytes:
    """A value of the header another, and the text inside the header too; its length is right."""
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    words = header.get("__metadata__", {})
    inner = [key for key in words if words[key][:1] == "{"]
    if inner and chance.random() < 0.7:
        words[inner[0]] = _text(swapped(json.loads(words[inner[0]]), chance), chance.random() < 0.5)
    else:
        header = swapped(header, chance)
    if chance.random() < 0.1:
        data = some_bytes(data, chance)
    text = _text(header).encode("utf-8", "replace")
    return struct.pack("<Q", len(text)) + text + data


def onnx(content: bytes, chance: Random) -> bytes:
    """A field of some part of the model another."""
    from onnx import load_model_from_string

    model = load_model_from_string(content)
    graph = model.graph
    parts = [*graph.node, *graph.initializer, *graph.input, *graph.output]
    parts += [attribute for node in graph.node for attribute in node.attribute]
    part = chance.choice(parts)
    field, value = chance.choice(part.ListFields())
    if field.name in ("type", "t", "g"):
        part.ClearField(field.name)
    elif isinstance(value, str):
        setattr(part, field.name, chance.choice(("", "x", "LSTM", "Loop", "input", "Transpose", "reverse", "é" * 50)))
    elif isinstance(value, bytes):
        setattr(part, field.name, some_bytes(value, chance))
    elif isinstance(value, int | float):
        setattr(part, field.name, type(value)(chance.choice((0, 1, -1, 2, 7, 2**31 - 1))))
    elif chance.random() < 0.3:
        part.ClearField(field.name)
    elif field.name in ("dims", "ints"):
        value[chance.randrange(len(value))] = chance.choice((0, -1, 1, 3, 10**6, 2**62))
    elif isinstance(value[0], str):
        value[chance.randrange(len(value))] = chance.choice(("", "x", value[0]))
    elif isinstance(value[0], bytes):
        value[chance.randrange(len(value))] = chance.choice((b"", b"x", b"\xff"))
    elif hasattr(value, "add"):
        value.add()
    else:
        value.append(value[0])
    return bytes(model.SerializeToString())


def parquet(content: bytes, chance: Random) -> bytes:
    """The table with a column of another type or of odd values, written anew with right sums and sizes."""
    import pyarrow as arrow
    from pyarrow import parquet as files

    table = files.read_table(io.BytesIO(content))
    name = chance.choice(table.column_names)
    values = [_odd(chance) for _ in range(2)]
    rows = [chance.choice(values) for _ in range(table.num_rows)]
    column = chance.choice(_columns(arrow, chance))(rows, table.num_rows)
    place = table.column_names.index(name)
    table = table.set_column(place, name if chance.random() < 0.8 else "other", column)
    buffer = io.BytesIO()
    packing = chance.choice(("none", "snappy", "gzip", "zstd"))
    files.write_table(table, buffer, compression=packing, use_dictionary=chance.random() < 0.5)
    return buffer.getvalue()


def _odd(chance: Random) -> Any:
    return chance.choice(("x", "", None, "\x00", "\u202e", "9" * 5000))


def _columns(arrow: Any, chance: Random) -> list[Callable[[list[Any], int], Any]]:
    """Ways to make a column of a number of rows."""
    big = chance.choice((0, -1, 2**31, 2**62, -(2**63)))
    kinds = ("s", "ms", "us", "ns")
    return [
        lambda rows, _: arrow.array(rows, arrow.string()),
        lambda rows, _: arrow.array(rows).dictionary_encode(),
        lambda rows, _: arrow.array([[row] * 3 for row in rows], arrow.list_(arrow.string())),
        lambda _, count: arrow.array([big] * count, arrow.int64()),
        lambda _, count: arrow.array([big] * count, arrow.int64()).cast(arrow.timestamp(chance.choice(kinds))),
        lambda _, count: arrow.array([big] * count, arrow.int64()).cast(arrow.duration(chance.choice(kinds))),
        lambda _, count: arrow.array([abs(big) % 2**31] * count, arrow.int32()).cast(arrow.date32()),
        lambda _, count: arrow.array([float("nan")] * count),
        lambda _, count: arrow.array([b"\xff\x00"] * count, arrow.binary()),
        lambda _, count: arrow.array([{"a": 1}] * count),
        lambda _, count: arrow.array([[[1.0, None], [2.0]]] * count),
        lambda _, count: arrow.array([[[1.0], [big * 1.0]]] * count),
        lambda _, count: arrow.nulls(count),
        lambda _, count: arrow.array([True] * count),
        lambda _, count: arrow.array([[("k", 1)]] * count, arrow.map_(arrow.string(), arrow.int64())),
        lambda _, count: arrow.array([1] * count).cast(arrow.decimal128(30, 5)),
    ]
