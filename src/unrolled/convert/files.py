"""Files that come from elsewhere, opened so that none can run code, hang, or ask for more memory than it is long.

Forms    .pt and .pth (zip of torch.save, weights only), .safetensors, .npz, .h5 and .keras (HDF5), .json.
Limits   a file names its own sizes; each is compared with the bytes that are there before anything is allocated.
         A pickle that would build anything but tensors is refused before it is read.
"""

from __future__ import annotations

import io
import json
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from unrolled.bundle import MOST_TENSORS, SAVE_SAFELY, is_pickle, write_atomically
from unrolled.convert.spec import ConvertError
from unrolled.errors import expected, require

__all__ = ["read_json", "read_npz", "read_safetensors", "read_tensors", "write_npz", "write_safetensors"]

LARGEST_HEADER = 16 * 2**20  # bytes; no text of ours is in it
LARGEST_TEXT = 512 * 2**20  # bytes of JSON
DEEPEST = 30  # groups of HDF5 inside each other
LOOSEST = 1000  # deflate cannot do much better than this
SMALL = 64 * 2**20  # bytes that may always be unpacked

ZIP_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    UnicodeDecodeError,  # of a name
    zlib.error,
    struct.error,
)

Tensors = dict[str, np.ndarray]


def read_tensors(path: Path) -> Tensors:
    """The named tensors of a .pt, .pth, .safetensors or .npz file.

    Raises:
        ConvertError: another kind of file, a damaged one, or one that would run code.
    """
    from unrolled.convert.checkpoints import read_torch

    readers: dict[str, Callable[[Path], Tensors]] = dict.fromkeys((".pt", ".pth", ".bin"), read_torch)
    readers |= {".safetensors": read_safetensors, ".npz": read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        refuse_pickle(path)
        raise ConvertError(expected(str(path), "one of " + ", ".join(readers), repr(path.suffix)))
    return reader(path)


def open_file(path: Path) -> int:
    """The size of a file that is there and not empty."""
    if not path.is_file():
        raise ConvertError(expected(str(path), "a file", "a folder" if path.is_dir() else "no such file"))
    size = path.stat().st_size
    if size == 0:
        raise ConvertError(expected(str(path), "weights", "an empty file"))
    return size


def refuse_pickle(path: Path) -> None:
    """Nothing is read from a bare pickle: it can run any program.

    Raises:
        ConvertError: the file is one.
    """
    open_file(path)
    with path.open("rb") as file:
        start = file.read(9)
    if is_pickle(start):
        raise ConvertError(expected(str(path), "weights that hold no code", "a pickle", SAVE_SAFELY))


# safetensors


def read_safetensors(path: Path) -> Tensors:
    """The tensors of a safetensors file; bfloat16 comes as float32, which holds it exactly."""
    _check_safetensors(path)
    try:
        with safe_open(str(path), framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except TypeError:
        return _read_bfloat16(path)
    except (SafetensorError, OSError, ValueError, MemoryError, OverflowError) as error:
        raise damaged(path, error) from None
    if any(array.dtype.kind == "V" for array in tensors.values()):  # NumPy has no bfloat16 of its own
        return _read_bfloat16(path)
    return tensors


def _read_bfloat16(path: Path) -> Tensors:
    require("torch", "torch")
    try:
        with safe_open(str(path), framework="pt") as file:
            size = path.stat().st_size
            return {name: from_torch(name, file.get_tensor(name), size) for name in file.keys()}  # noqa: SIM118  (no dict)
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, ConvertError):
            raise
        raise damaged(path, error) from None


def read_metadata(path: Path) -> dict[str, str]:
    """The free text beside the tensors of a safetensors file."""
    header = _check_safetensors(path)
    metadata = header.get("__metadata__", {})
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}


def _check_safetensors(path: Path) -> dict[str, Any]:
    size = open_file(path)
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if length < 2 or length > LARGEST_HEADER or 8 + length > size:
            found = f"{size} bytes with a header of {length}"
            way_out = "It is truncated, or is not a safetensors file."
            raise ConvertError(expected(str(path), f"a header of 2 to {LARGEST_HEADER} bytes", found, way_out))
        text = file.read(length)
    header = _parse_json(path, text)
    if not isinstance(header, dict):
        raise ConvertError(expected(str(path), "a header that is a JSON object", type(header).__name__))
    check_count(path, len(header))
    return header


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Written under another name and moved into place."""
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    write_atomically(path, to_bytes(arrays, metadata=dict(metadata)))


def from_torch(name: str, value: Any, size: int) -> np.ndarray:
    """A tensor as an array, no larger than the file; bfloat16 as float32."""
    torch = require("torch", "torch")
    if not isinstance(value, torch.Tensor):
        raise ConvertError(expected(name, "a tensor", type(value).__name__, "Leave it out of the file."))
    if value.numel() * value.element_size() > size:  # a view that repeats a few bytes without end
        raise ConvertError(expected(name, f"at most the {size} bytes of the file", tuple(value.shape)))
    if value.dtype == torch.bfloat16:
        value = value.float()  # NumPy has no bfloat16; float32 holds each exactly
    return value.detach().numpy()


# npz


def read_npz(path: Path) -> Tensors:
    """The arrays of np.savez; an array of Python objects, which is a pickle, is refused."""
    size = open_file(path)
    refuse_pickle(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_members(path, archive, size)
            return {
                name.removesuffix(".npy"): _read_npy(f"{path}: {name}", archive.open(name), archive.getinfo(name))
                for name in archive.namelist()
            }
    except ZIP_ERRORS as error:
        if isinstance(error, ConvertError):
            raise
        raise damaged(path, error) from None


def _read_npy(name: str, file: Any, info: zipfile.ZipInfo) -> np.ndarray:
    """One member, its header compared with its length before the array is made."""
    try:
        with file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            with warnings.catch_warnings(action="ignore"):  # that it is of Python 2
                shape, fortran, dtype = read[version](file, max_header_size=10_000)
            if dtype.hasobject:
                raise ConvertError(expected(name, "numbers", "Python objects (a pickle)", "Save arrays of floats."))
            count = 1
            for length in shape:
                count *= int(length)
            if count * dtype.itemsize > info.file_size:
                raise ConvertError(expected(name, f"at most the {info.file_size} bytes that are there", f"{shape}"))
            data = file.read(count * dtype.itemsize)
        return np.frombuffer(data, dtype, count).reshape(shape, order="F" if fortran else "C")
    # NumPy reads the header as a literal of Python, with what its tokenizer may raise.
    except (
        ValueError,
        KeyError,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
        RecursionError,
        MemoryError,
        OverflowError,
    ) as error:
        if isinstance(error, ConvertError):
            raise
        raise ConvertError(expected(name, "an array of NumPy", str(error) or type(error).__name__)) from None


def write_npz(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """As np.savez, uncompressed, but moved into place when whole, and with any name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, tensor in tensors.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, np.ascontiguousarray(tensor), allow_pickle=False)
            archive.writestr(f"{name}.npy", inner.getvalue())
    write_atomically(path, buffer.getvalue())


def check_members(path: Path, archive: zipfile.ZipFile, size: int, *, stored: bool = False) -> None:
    """What would come out of a zip is no bomb."""
    infos = archive.infolist()
    check_count(path, len(infos))
    whole = sum(info.file_size for info in infos)
    limit = size if stored else max(SMALL, LOOSEST * size)
    packed = sum(info.compress_size for info in infos)
    if whole > limit or packed > size or any(info.flag_bits & 1 for info in infos):
        found = f"members of {whole} bytes, some encrypted or larger than the file"
        raise ConvertError(expected(str(path), f"members of at most {limit} bytes together", found))
    if len({info.filename for info in infos}) != len(infos):
        raise ConvertError(expected(str(path), "each member once", "two of one name"))


# JSON


def read_json(path: Path) -> Any:
    """A JSON document.

    Raises:
        ConvertError: it is too long, too deep, or not JSON.
    """
    size = open_file(path)
    if size > LARGEST_TEXT:
        raise ConvertError(expected(str(path), f"at most {LARGEST_TEXT} bytes of JSON", size))
    return _parse_json(path, path.read_bytes())


def _parse_json(path: Path | str, text: bytes) -> Any:
    def refuse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConvertError(expected(str(path), "JSON", str(error) or type(error).__name__)) from None


# HDF5


def read_h5(file: Path | BinaryIO, where: str, size: int) -> Tensors:
    """Every dataset of an HDF5 file by its path, such as layers/lstm/cell/vars/0.

    Raises:
        ConvertError: it is damaged, points outside itself, or names more bytes than it has.
    """
    h5py = require("h5py", "interop")
    tensors: Tensors = {}
    try:
        with h5py.File(file, "r") as root:
            _walk_h5(h5py, root, "", where, size, tensors, set())
    except ConvertError:
        raise
    except Exception as error:  # h5py raises OSError, KeyError, RuntimeError, TypeError, ValueError, by the damage
        raise damaged(where, error) from None
    return tensors


def _walk_h5(h5py: Any, group: Any, prefix: str, where: str, size: int, tensors: Tensors, seen: set[Any]) -> None:
    if prefix.count("/") > DEEPEST:
        raise ConvertError(expected(where, f"at most {DEEPEST} groups inside each other", "more"))
    if group.id in seen:  # two links to one group, and the walk would double at every level
        raise ConvertError(expected(f"{where}: {prefix}", "each group once", "a second link to it"))
    seen.add(group.id)
    check_count(where, len(seen))
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ConvertError(expected(f"{where}: {prefix}{name}", "a tensor in this file", "a link to elsewhere"))
        item = group[name]
        if isinstance(item, h5py.Group):
            _walk_h5(h5py, item, f"{prefix}{name}/", where, size, tensors, seen)
            continue
        left = size - sum(array.nbytes for array in tensors.values())  # datasets may not share their bytes
        tensors[f"{prefix}{name}"] = _read_dataset(item, f"{where}: {prefix}{name}", left)
        check_count(where, len(tensors))


def _read_dataset(item: Any, name: str, size: int) -> np.ndarray:
    if getattr(item, "external", None) or getattr(item, "is_virtual", False):
        raise ConvertError(expected(name, "a tensor in this file", "one that is stored in another"))
    count = int(np.prod(item.shape, dtype=object)) if item.shape is not None else 0
    if item.dtype.kind not in "fiub":
        halved = item.dtype.kind == "V" and item.dtype.itemsize == 2  # how Keras keeps what NumPy has no type for
        way_out = "Two bytes of no kind are bfloat16: save the model with dtype='float32'." if halved else ""
        raise ConvertError(expected(name, "numbers", item.dtype, way_out))
    if count * item.dtype.itemsize > size:
        raise ConvertError(expected(name, f"at most the {size} bytes that are left of the file", item.shape))
    return np.asarray(item[()])


# common


def check_count(path: Path | str, count: int) -> None:
    """No file needs more tensors than this."""
    if count > MOST_TENSORS:
        raise ConvertError(expected(str(path), f"at most {MOST_TENSORS} tensors", count))


def damaged(path: Path | str, error: Exception) -> ConvertError:
    """The error for a file that another library could not read."""
    said = str(error).strip().splitlines()
    way_out = "It is truncated or damaged: copy it again."
    return ConvertError(
        expected(str(path), "a whole file", (said[0] if said else type(error).__name__).rstrip("."), way_out)
    )


def zip_members(path: Path, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """Some members of a zip file, each with its largest size.

    Raises:
        ConvertError: one is missing or larger, or the file is no zip.
    """
    size = open_file(path)
    refuse_pickle(path)
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            check_members(path, archive, size)
            for name, limit in wanted.items():
                if archive.getinfo(name).file_size > limit:
                    raise ConvertError(expected(f"{path}: {name}", f"at most {limit} bytes", "more"))
                found[name] = archive.read(name)
    except KeyError as error:
        raise ConvertError(expected(str(path), "its members " + ", ".join(wanted), str(error.args[0]))) from None
    except ZIP_ERRORS as error:
        raise damaged(path, error) from None
    return found


def parse_json(text: bytes, where: str) -> Any:
    """A JSON document from memory."""
    return _parse_json(where, text)
