"""Files that lie: each ends in one clear error, within a second, and takes no memory that its bytes do not fill."""

from __future__ import annotations

import copy
import json
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_bytes

from runtime_models import make
from unrolled import bundle, runtime
from unrolled.errors import UnrolledError

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classify": ("text", {"pooling": "attention", "cell": "gru"}),
    "tag": ("spans", {"crf": True}),
    "lm": ("documents", {"tie_weights": True, "embedding": 5}),
    "seq2seq": ("pairs", {"attention": "additive"}),
}
MEMORY = 300_000_000  # bytes that a load may add to the peak of the process, its libraries among them


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]]:
    """A good bundle of each task: tensors and header."""
    made = {}
    for name, (kind, fields) in KINDS.items():
        folder = tmp_path_factory.mktemp(name)
        make(folder, kind, **fields)
        runtime.load(folder)
        made[name] = bundle.load(folder / "model.safetensors")
    return made


def fails_at_once(path: Path) -> str:
    """Load the file: an error of ours, in time. Returns what it says, or nothing where the file is good after all."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    message = ""
    try:
        runtime.load(path)
    except UnrolledError as error:
        message = str(error)
        assert str(path.name) in message or "unrolled[" in message
        assert len(message) < 2000
    assert time.process_time() - start < 1, message
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY, message
    return message


def save(path: Path, tensors: dict[str, np.ndarray], header: Any) -> Path:
    path.write_bytes(to_bytes(dict(tensors), metadata={"unrolled": json.dumps(header)}))
    return path


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a JSON tree stands."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def put(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The tree with another value there."""
    if not path:
        return value
    changed = copy.copy(tree)
    changed[path[0]] = put(tree[path[0]], path[1:], value)
    return changed


LIES = (
    None,
    True,
    -1,
    0,
    10**9,
    10**18,
    10**300,
    1e308,
    "",
    "gru",
    "../../etc/passwd",
    [],
    {},
    [[]],
    [0] * 9,
    {"a": 1},
)


@pytest.mark.parametrize("name", KINDS)
def test_every_field_of_the_header_may_lie(name: str, bundles: Any, tmp_path: Path) -> None:
    tensors, header = bundles[name]
    rng, refused = np.random.default_rng(0), 0
    trees = list(places({"recipe": header["recipe"], "task": header["task"]}))[1:]
    for place in trees:
        for lie in rng.permutation(len(LIES))[:4]:
            wrong = put(header, place, LIES[lie])
            refused += bool(fails_at_once(save(tmp_path / "m.safetensors", tensors, wrong)))
    assert refused > len(trees) / 2  # of four lies a field; fields of training alone may hold anything


SHAPES: dict[str, Callable[[np.ndarray], Any]] = {
    "missing": lambda _: None,
    "turned": lambda value: value.T.reshape(value.shape[::-1]) if value.ndim > 1 else value[:-1],
    "one row more": lambda value: np.concatenate([value, value[:1]]),
    "empty": lambda value: value[:0],
    "flat": lambda value: value.reshape(-1, 1, 1),
    "float64": lambda value: value.astype(np.float64),
    "int8": lambda value: value.astype(np.int8),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_tensor_may_be_wrong(name: str, bundles: Any, tmp_path: Path) -> None:
    tensors, header = bundles[name]
    for key, value in tensors.items():
        for what, change in SHAPES.items():
            changed = change(value)
            if changed is not None and changed.shape == value.shape and changed.dtype == value.dtype:
                continue
            wrong = {other: part for other, part in tensors.items() if other != key}
            wrong |= {} if changed is None else {key: np.ascontiguousarray(changed)}
            message = fails_at_once(save(tmp_path / "m.safetensors", wrong, header))
            assert message, f"{key}, {what}: loaded"
            if what == "missing" and "initial" not in key and "bias" not in key:
                assert "found none" in message or key in message, message


def test_a_million_layers(bundles: Any, tmp_path: Path) -> None:
    tensors, header = bundles["classify"]
    for layers in (2, 10**6, 10**12):
        message = fails_at_once(save(tmp_path / "m.safetensors", tensors, put(header, ("recipe", "layers"), layers)))
        assert "layers" in message or "_l1" in message


def raw(tensors: dict[str, Any], data: bytes = b"", metadata: Any = None) -> bytes:
    text = json.dumps({"__metadata__": {"unrolled": json.dumps(metadata or {"format": 1})}, **tensors}).encode()
    return struct.pack("<Q", len(text)) + text + data


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "content",
    [
        raw({"a": F32, "b": F32}, b"\0" * 4),
        raw({"a": {**F32, "shape": [2**40, 2**40]}}, b"\0" * 4),
        raw({"a": {**F32, "shape": [2**63]}}, b"\0" * 4),
        raw({"a": {**F32, "shape": [0, 2**62]}}, b"\0" * 4),
        raw({"a": {**F32, "data_offsets": [0, 2**60]}}, b"\0" * 4),
        raw({"a": {**F32, "data_offsets": [4, 0]}}, b"\0" * 4),
        raw({"a": {**F32, "dtype": "F4096"}}, b"\0" * 4),
        raw({"a": F32}, b"\0" * 400),
        raw({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}),
        struct.pack("<Q", 2**62) + b"{" + b"a" * 100,
        struct.pack("<Q", 90_000_000) + b"{" + b" " * 1000,
        b"\x80\x04\x95 a pickle",
        b"PK\x03\x04 a zip, as torch.save writes it",
        b"",
    ],
    ids=["overlap", "huge", "negative", "zero", "beyond", "backwards", "type", "left over", "many", "length", "long",
         "pickle", "zip", "empty"],
)  # fmt: skip
def test_headers_of_the_container(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    assert fails_at_once(tmp_path / "m.safetensors")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_changed_at_random(data: st.DataObject, bundles: Any, tmp_path: Path) -> None:
    """Any byte of the file, any cut: an error of ours, or a model."""
    tensors, header = bundles["tag"]
    path = save(tmp_path / "m.safetensors", tensors, header)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.one_of(st.integers(0, 400), st.integers(0, len(content) - 1)))
        content[where] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])
    fails_at_once(path)


def test_a_million_tensors_are_counted_before_they_are_read(bundles: Any, tmp_path: Path) -> None:
    """However their keys are spelled; and a long text of ours beside a few tensors is no such header."""
    for name, kind in (("w{}", "dtype"), ("w{}\\\\", "dtype"), ("{}", "dt\\u0079pe")):
        entry = f'"{name}":{{"{kind}":"F32","shape":[0],"data_offsets":[0,0]}}'
        entry = entry.replace(name, name.replace("{}", "NUMBER"))
        text = "{" + ",".join(entry.replace("NUMBER", str(n)) for n in range(1_000_000)) + "}"
        (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text.encode())
        assert "expected at most 20000 tensors, found about" in fails_at_once(tmp_path / "m.safetensors")
    tensors, header = bundles["classify"]
    path = save(tmp_path / "long.safetensors", tensors, header | {"words": [f'say "{n}"\\' for n in range(300_000)]})
    runtime.load(path)


def test_a_pickle_says_how_to_save_instead(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"\x80\x04\x95\x11" + bytes(20))
    message = fails_at_once(tmp_path / "m.safetensors")
    assert "a bundle, which holds no code, found a pickle" in message
    assert "torch.save(model.state_dict(), 'model.pt')" in message
    (tmp_path / "m.safetensors").write_bytes(b"PK\x03\x04" + bytes(20))
    message = fails_at_once(tmp_path / "m.safetensors")
    assert "found a zip file, as torch.save writes it" in message
    assert "safetensors.torch.save_file(model.state_dict()" in message
