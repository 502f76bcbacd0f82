"""Bundles: what goes in comes out, and every kind of wrong file ends in one clear error, at once."""

from __future__ import annotations

import json
import os
import struct
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from unrolled import bundle
from unrolled.errors import BundleError, RunError
from unrolled.training.recipe import Recipe
from unrolled.training.trained import Trained

TENSORS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(0, np.float64), "n": np.array(3)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    bundle.save(path, TENSORS, {"recipe": {"task": "tag"}, "words": ["詩", "\n", '"']})
    return path


def test_what_goes_in_comes_out(file):
    tensors, header = bundle.load(file)
    assert header == {"format": 1, "recipe": {"task": "tag"}, "words": ["詩", "\n", '"']}
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        np.testing.assert_array_equal(tensors[name], tensor)


def test_transposed_arrays_are_written_as_they_read(tmp_path):
    bundle.save(tmp_path / "t", {"w": TENSORS["w"].T}, {})
    np.testing.assert_array_equal(bundle.load(tmp_path / "t")[0]["w"], TENSORS["w"].T)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file, monkeypatch):
    before = file.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        bundle.save(file, TENSORS, {})
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_truncated_file_wherever_it_is_cut(file):
    whole = file.read_bytes()
    for length in (0, 1, 7, 8, 9, 40, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(BundleError, match=r"model\.safetensors"):
            bundle.load(file)


def _with_header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 a zip file, as torch.save writes it",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2**40) + b"{" + b" " * 100,
        _with_header(b'{"w":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,4]}}') + b"\0" * 4,
        _with_header(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4000000000]}}') + b"\0" * 4,
        _with_header(b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}') + b"\0" * 4,
        _with_header(b"{not json"),
        _with_header(b"{" + b"[" * 5000),
    ],
    ids=["zip", "huge", "large", "shape", "offsets", "negative", "json", "deep"],
)
def test_files_that_are_not_bundles(content, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(BundleError):
        bundle.load(path)
    with pytest.raises(BundleError):
        Trained.load(path)


def test_a_safetensors_file_of_somebody_else(tmp_path):
    save_file(TENSORS, tmp_path / "theirs", metadata={"format": "pt"})
    with pytest.raises(BundleError, match="entry 'unrolled'"):
        bundle.load(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"format": 3}', "format 2 or older, found format 3.*--upgrade"),
        ('{"format": true}', "format number"),
        ('{"format": "1"}', "format number"),
        ("{}", "format number"),
        ("[1]", "format number"),
        ("{", "JSON header"),
        ("[" * 100_000, "JSON header"),
    ],
)
def test_headers_that_cannot_be_read(header, message, tmp_path):
    save_file(TENSORS, tmp_path / "m", metadata={"unrolled": header})
    with pytest.raises(BundleError, match=message):
        bundle.load(tmp_path / "m")


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(BundleError, match="a folder"):
        bundle.load(tmp_path)
    with pytest.raises(BundleError, match="no such file"):
        bundle.load(tmp_path / "absent")
    with pytest.raises(RunError, match=r"no model\.safetensors"):
        Trained.load(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        Trained.load(tmp_path / "absent")


READING = {"tokenizer": None, "letters": None, "scaler": {"mean": [0.0], "scale": [1.0]}, "vocabulary": None}
TASK = {"reading": READING, "labels": {"tokens": ["a", "b"], "unknown": None}, "majority": "a"}


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": {"hidden": 10**9}},
        {"recipe": {"hidden": 10**18}},
        {"recipe": {"layers": 10**9}},
        {"recipe": {"hidden": "many"}},
        {"recipe": {"task": "lm"}},
        {"recipe": {"unheard_of": 1}},
        {"task": {"labels": {"tokens": ["a", "a"], "unknown": None}}},
        {"task": {"labels": {"tokens": 3, "unknown": None}}},
        {"task": {"reading": {}}},
        {"task": {"reading": {**READING, "scaler": {"mean": [0.0] * 7, "scale": [1.0] * 7}}}},
        {"task": {"reading": [1]}},
        {},
    ],
    ids=lambda changes: json.dumps(changes)[:60],
)
def test_headers_that_do_not_fit_their_weights(changes, tmp_path):
    """Nothing is allocated by what a header claims: the weights in the file say how large the model is."""
    recipe = Recipe(task="classify", data="x", hidden=2).model_dump() | changes.get("recipe", {})
    bundle.save(tmp_path / "m", TENSORS, {"recipe": recipe, "task": TASK | changes.get("task", {})})
    with pytest.raises(BundleError, match="weights that fit their recipe"):
        Trained.load(tmp_path / "m")


def test_what_a_killed_writer_left_goes_at_the_next_start(tmp_path, monkeypatch):
    """Old ones of this very file; not those at work, of other files, or of other kinds."""
    begun = []
    monkeypatch.setattr(bundle, "_swept", set())
    monkeypatch.setattr(bundle.os, "replace", lambda name, _: begun.append(name) or (_ for _ in ()).throw(SystemExit))
    monkeypatch.setattr(bundle.Path, "unlink", lambda *_, **__: None)  # killed: nothing is tidied up
    for _ in range(3):
        with pytest.raises(SystemExit):
            bundle.write_atomically(tmp_path / "K.state", b"1")
    monkeypatch.undo()
    monkeypatch.setattr(bundle, "_swept", set())
    assert len(list(tmp_path.iterdir())) == 3
    kept = [".K.state.settings", ".K.state.part", ".K.state2.abcdefgh.part", ".Kxstate.abcdefgh.part", "K.state.part"]
    for name in kept:
        (tmp_path / name).write_bytes(b"somebody's")
    old = time.time() - 2 * bundle.LONGEST_WRITE
    for path in (*begun[:2], *(tmp_path / name for name in kept)):
        os.utime(path, (old, old))
    bundle.write_atomically(tmp_path / "K.state", b"2")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, "K.state", os.path.basename(begun[2])}  # the last may still be at work
    os.utime(begun[2], (old, old))
    bundle.write_atomically(tmp_path / "K.state", b"3")
    assert os.path.exists(begun[2])  # looked for once a process
    monkeypatch.setattr(bundle, "_swept", set())
    bundle.write_atomically(tmp_path / "K.state", b"4")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "K.state"}
