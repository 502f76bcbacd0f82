"""Files from strangers: pickles, bombs, lies about sizes, damaged bytes, each in bounded time and memory."""

from __future__ import annotations

import io
import json
import pickle  # noqa: TID251  (hostile files are made with it, none is read)
import resource
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
import pytest
import torch
from torch import nn

from oracles.frameworks import layer_of
from unrolled import convert
from unrolled.convert import ConvertError
from unrolled.errors import UnrolledError

SECOND = 1.0
MEGABYTES = 2**20


class Runs:
    """An object whose pickle runs a command."""

    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch /tmp/never-made-by-unrolled",)


class Swells:
    """An object whose pickle asks for a terabyte, by a name that torch's own loader allows."""

    def __reduce__(self) -> Any:
        return bytearray, (10**12,)


def refused(path: Path, match: str = "", **options: Any) -> str:
    """The one-line error, within a second of processor time and without more memory than the file could need."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(UnrolledError, match=match or None) as caught:
        convert.load(path, **options)
    assert time.process_time() - start < SECOND
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 200 * MEGABYTES, f"{grown / MEGABYTES:.0f} MB"
    return str(caught.value)


@pytest.fixture(scope="module", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is imported at the first call is not counted."""
    folder = tmp_path_factory.mktemp("warm")
    for name in ("a.pt", "a.safetensors", "a.keras", "a.weights.h5", "a.onnx", "a.json"):
        convert.save(layer_of("lstm"), folder / name)
        convert.load(folder / name)


# pickles


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.bin", "a.npz", "a.safetensors", "a.pkl", "a.keras", "a.onnx"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_bare_pickle_is_refused_by_any_name(name: str, protocol: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pickle.dumps({"a": Runs()}, protocol=protocol))
    said = refused(tmp_path / name)
    assert "pickle" in said
    assert "state_dict" in said
    assert not Path("/tmp/never-made-by-unrolled").exists()


@pytest.mark.parametrize(("what", "named"), [(Runs(), "system"), (Swells(), "bytearray")])
def test_a_torch_file_may_build_tensors_alone(what: Any, named: str, tmp_path: Path) -> None:
    torch.save({"weight_ih_l0": torch.ones(3), "x": what}, tmp_path / "a.pt")
    assert "state_dict" in refused(tmp_path / "a.pt", named)
    assert not Path("/tmp/never-made-by-unrolled").exists()


def test_a_whole_model_is_refused(tmp_path: Path) -> None:
    torch.save(nn.LSTM(5, 3), tmp_path / "a.pt")
    assert "model.state_dict()" in refused(tmp_path / "a.pt", "pickle")
    torch.save(nn.LSTM(5, 3).state_dict(), tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    refused(tmp_path / "b.pt", "older than 1.6|pickle")
    torch.save([torch.ones(3)], tmp_path / "c.pt")
    refused(tmp_path / "c.pt", "a state_dict, found list")
    torch.save({"weight_ih_l0": 3}, tmp_path / "d.pt")
    refused(tmp_path / "d.pt", "a tensor, found int")


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([Runs()], dtype=object))
    refused(tmp_path / "a.npz", "Python objects")


# lies about sizes


def test_a_view_without_end(tmp_path: Path) -> None:
    torch.save({"weight_ih_l0": torch.ones(1).expand(10**6, 10**6)}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", "at most")


def test_a_storage_that_is_smaller_than_it_says(tmp_path: Path) -> None:
    torch.save({"weight_ih_l0": torch.ones(12, 5)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as old, zipfile.ZipFile(tmp_path / "b.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[:8] if name.endswith("data/0") else old.read(name))
    refused(tmp_path / "b.pt")


def header(text: bytes, length: int | None = None, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape: list[int], offsets: list[int], kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


SAFETENSORS = {
    "a header beyond the file": header(b"{}", 10**9),
    "a header of 2^63 bytes": header(b"{}", 2**63),
    "no header": b"\x00" * 8,
    "three bytes": b"abc",
    "a tensor beyond the file": header(json.dumps({"a": tensor([9, 5], [0, 180])}).encode(), data=bytes(20)),
    "overlapping tensors": header(
        json.dumps({"a": tensor([4], [0, 16]), "b": tensor([4], [8, 24])}).encode(), data=bytes(24)
    ),
    "negative offsets": header(json.dumps({"a": tensor([4], [-16, 0])}).encode(), data=bytes(16)),
    "a shape that is not its size": header(json.dumps({"a": tensor([10**9, 10**9], [0, 16])}).encode(), data=bytes(16)),
    "a million tensors": header(json.dumps({f"weight_ih_l{n}": 0 for n in range(200_000)}).encode()),
    "a header that is a list": header(b"[1, 2]"),
    "deep JSON": header(b"[" * 100_000),
    "not JSON": header(b"{" + b"\xff" * 40),
}


@pytest.mark.parametrize("what", SAFETENSORS)
def test_hostile_safetensors(what: str, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(SAFETENSORS[what])
    refused(tmp_path / "a.safetensors")


def npy(shape: str, data: bytes = b"", kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [npy("(1000000000000,)"), npy("(3,)", b"ab"), npy("(3, 3" * 50), npy("(" * 3000), b"\x93NUMPY\x09\x00", b"",
     npy("(-1,)"), npy("(3,)", bytes(12), "|O"), npy("(True,)", bytes(4)), npy("(3,)", bytes(12), "<U3")],
)  # fmt: skip
def test_hostile_arrays(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("cell/ii/kernel.npy", content)
    refused(tmp_path / "a.npz")


def test_zip_bombs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number in range(4):
            with archive.open(f"{number}.npy", "w") as member:
                for _ in range(24):
                    member.write(bytes(MEGABYTES))
    whole = (tmp_path / "a.npz").read_bytes()
    liar = whole.replace(struct.pack("<I", 24 * MEGABYTES), struct.pack("<I", 2**32 - 2))
    (tmp_path / "b.npz").write_bytes(liar)
    refused(tmp_path / "b.npz")
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}.npy", b"")
    refused(tmp_path / "c.npz", "at most 20000 tensors")


def test_a_keras_kernel_that_is_no_matrix(tmp_path: Path) -> None:
    for name, shapes in (("kernel", ((), (4, 12), (2, 12))), ("recurrent", ((3, 12), (4,), (2, 12)))):
        with h5py.File(tmp_path / f"{name}.weights.h5", "w") as file:
            for number, shape in enumerate(shapes):
                file[f"layers/gru/cell/vars/{number}"] = np.zeros(shape, np.float32)
        refused(tmp_path / f"{name}.weights.h5")


def test_hdf5_that_points_elsewhere(tmp_path: Path) -> None:
    for name, make in (
        ("soft", lambda f: f.__setitem__("layers", h5py.SoftLink("/nowhere"))),
        ("external", lambda f: f.__setitem__("layers", h5py.ExternalLink("/etc/passwd", "/"))),
        ("elsewhere", lambda f: f.create_dataset("layers", (3,), "f4", external=[("/etc/passwd", 0, 12)])),
        ("huge", lambda f: f.create_dataset("layers", (10**6, 10**6), "f4")),
        ("text", lambda f: f.create_dataset("layers", data="x")),
    ):
        with h5py.File(tmp_path / f"{name}.weights.h5", "w") as file:
            make(file)
        refused(tmp_path / f"{name}.weights.h5")
    with h5py.File(tmp_path / "deep.weights.h5", "w") as file:
        file.create_group("/".join(["a"] * 60))
    refused(tmp_path / "deep.weights.h5", "groups inside each other")
    with h5py.File(tmp_path / "loop.weights.h5", "w") as file:
        file.create_group("a")["b"] = file["/"]
        file["a"]["c"] = file["/"]
    refused(tmp_path / "loop.weights.h5", "each group once")


KERAS = {
    "no config": {"model.weights.h5": b""},
    "a config that is a list": {"config.json": b"[]", "model.weights.h5": b""},
    "deep JSON": {"config.json": b'{"config":' * 90_000, "model.weights.h5": b""},
    "a class of one's own": {
        "config.json": json.dumps({"class_name": "system", "module": "os", "config": {}}).encode(),
        "model.weights.h5": b"",
    },
    "a lambda": {
        "config.json": json.dumps(
            {"class_name": "Sequential", "module": "keras",
             "config": {"layers": [{"class_name": "Lambda", "module": "keras.layers", "config": {"function": "x"}}]}}
        ).encode(),
    },
}  # fmt: skip


@pytest.mark.parametrize("what", KERAS)
def test_hostile_keras_files(what: str, tmp_path: Path) -> None:
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file.create_group("layers")
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        for name, content in KERAS[what].items():
            archive.writestr(name, content or weights.getvalue())
        if "model.weights.h5" not in KERAS[what]:
            archive.writestr("model.weights.h5", weights.getvalue())
    refused(tmp_path / "a.keras")


def test_keras_sizes_that_are_not_those_of_the_weights(tmp_path: Path) -> None:
    convert.save(layer_of("lstm"), tmp_path / "a.keras")
    with zipfile.ZipFile(tmp_path / "a.keras") as old, zipfile.ZipFile(tmp_path / "b.keras", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'"units": 3', b'"units": 1000000000'))
    refused(tmp_path / "b.keras", "units: expected 1000000000, found 3")


def test_hostile_onnx(tmp_path: Path) -> None:
    convert.save(layer_of("gru", "both ways"), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    for dims in ([10**6, 10**6], [-1, 5], [2**62, 2**62]):
        bad = onnx.ModelProto()
        bad.CopyFrom(model)
        del bad.graph.initializer[0].dims[:]
        bad.graph.initializer[0].dims.extend(dims)
        (tmp_path / "b.onnx").write_bytes(bad.SerializeToString())
        refused(tmp_path / "b.onnx")
    (tmp_path / "c.onnx").write_bytes(b"\x0a" * 100_000)
    refused(tmp_path / "c.onnx")


HUGE = '{"in_shape": [1], "layers": [{"type": "lstm", "weights": [[1e999], [1], [1]]}]}'


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"layers": [NaN]}', "{", "", '{"layers": {}}', "9" * 10_000, HUGE, HUGE.replace("1e999", "1e99")],
)
def test_hostile_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    refused(tmp_path / "a.json")


# damage is in test_fuzz.py


def test_an_error_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"abc")
    with pytest.raises(ConvertError, match=r"a\.safetensors: expected a header.*truncated"):
        convert.load(tmp_path / "a.safetensors")
