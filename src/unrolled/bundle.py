"""A bundle: one safetensors file with the weights, and beside them all that is needed to use them.

Layout   the file's metadata has one entry, `unrolled`: a JSON object with `format`, and whatever the writer put
         there (recipe, vocabularies, labels, layout). No code is ever read from it.
Format   1: tensors as they are used. 2: the tensors that the header's `int8` names are int8, and `NAME.scale` holds one
         float32 a row: row r of the matrix is scale[r] times its integers. `load` gives them back as float32.
Variant  The file is written under another name and moved into place, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from unrolled.errors import BundleError, UnrolledError, expected

__all__ = ["FORMAT", "MISFITS", "load", "misfit", "quantised", "read_header", "save", "write_atomically"]

FORMAT = 2
KEY = "unrolled"
UNFINISHED = ".part"  # the end of a file's name while it is written
LONGEST_WRITE = 600.0  # seconds without a byte, after which its writer is taken for dead
_swept: set[Path] = set()
SCALE = ".scale"
LARGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors format itself: vocabularies and ids may be long
MOST_TENSORS = 20_000  # a stack of a thousand bidirectional layers has 8,000
SAVE_SAFELY = (
    "Save the weights alone, from where the model can be loaded: "
    "torch.save(model.state_dict(), 'model.pt'), or "
    "safetensors.torch.save_file(model.state_dict(), 'model.safetensors')."
)


# What a header may raise that is a JSON object and yet none of ours.
MISFITS = (
    *(UnrolledError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError),
    RuntimeError,  # RecursionError among them
)


def misfit(where: str, error: BaseException) -> BundleError:
    """The error about a file whose weights, recipe and task cannot be put together."""
    found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return BundleError(expected(where, "weights that fit their recipe", found, "The file is damaged."))


def save(
    path: str | Path, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], *, int8: Collection[str] = ()
) -> None:
    """Write a bundle. An interrupted write leaves what was there before.

    Args:
        int8: the matrices (rows, columns) to keep as int8 with one scale a row, a quarter of the size.
    """
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    stamp: dict[str, Any] = {"format": 1}
    if int8:
        stamp = {"format": FORMAT, "int8": sorted(int8)}
        for name in int8:
            arrays[name], arrays[name + SCALE] = quantised(arrays[name])
    text = json.dumps({**stamp, **header}, ensure_ascii=False, allow_nan=False)
    write_atomically(path, to_bytes(arrays, metadata={KEY: text}))


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the header of a bundle; int8 matrices come back as float32.

    Raises:
        BundleError: the file is not there, is truncated, is not ours, or is of a newer format.
    """
    header = read_header(path)
    try:
        with safe_open(str(path), framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, TypeError, ValueError, MemoryError) as error:
        raise _damaged(path, error) from None
    names = header.get("int8", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BundleError(expected(f"{path}: int8", "a list of names", repr(names)[:40]))
    for name in names:
        tensors[name] = _expanded(path, tensors, name)
    return tensors, header


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) float → int8 of the same shape, and the scale of each row, (rows,) float32.

    The largest number of a row becomes ±127; an error is at most half a scale.
    """
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(matrix / scale[:, None]).clip(-127, 127).astype(np.int8), scale


def _expanded(path: str | Path, tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The float32 matrix of an int8 one; its scale is taken out of the tensors."""
    scale, matrix = tensors.pop(name + SCALE, None), tensors.get(name)
    if matrix is None or scale is None:
        missing = name if matrix is None else name + SCALE
        raise BundleError(expected(f"{path}: {missing}", "a tensor, as int8 in the header says", "none"))
    if matrix.dtype != np.int8 or matrix.ndim != 2:
        raise BundleError(expected(f"{path}: {name}", "int8 (rows, columns)", f"{matrix.dtype} {matrix.shape}"))
    if scale.dtype != np.float32 or scale.shape != matrix.shape[:1]:
        wanted = f"float32 ({matrix.shape[0]},) (rows)"
        raise BundleError(expected(f"{path}: {name}{SCALE}", wanted, f"{scale.dtype} {scale.shape}"))
    if not (np.abs(scale) < np.finfo(np.float32).max / 128).all():  # NaN too
        raise BundleError(expected(f"{path}: {name}{SCALE}", "scales whose rows are numbers of float32", "larger ones"))
    return matrix * scale[:, None]


def read_header(path: str | Path) -> dict[str, Any]:
    """The header alone: no weights are read."""
    _check_start(Path(path))
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from None
    if KEY not in metadata:
        found = f"a safetensors file without it (metadata: {', '.join(sorted(metadata)[:5]) or 'none'})"
        way_out = "Weights of other frameworks are not read here."
        raise BundleError(expected(str(path), f"a bundle, whose metadata has the entry {KEY!r}", found, way_out))
    try:
        header = json.loads(metadata[KEY])
    except (ValueError, RecursionError) as error:
        raise BundleError(expected(str(path), "a JSON header", str(error))) from None
    number = header.get("format") if isinstance(header, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise BundleError(expected(str(path), "a header with a format number", repr(number)))
    if number > FORMAT:
        way_out = "Update unrolled: pip install --upgrade unrolled."
        raise BundleError(expected(str(path), f"format {FORMAT} or older", f"format {number}", way_out))
    return header


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file under another name in the same folder, bring it to the disk, then move it into place."""
    import tempfile  # late: it takes longer to load than a small bundle

    target = Path(path)
    _sweep(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~file_mask())  # mkstemp makes files that only their owner can read
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    keep_names(target.parent)


def _sweep(target: Path) -> None:
    """Once a process and target: remove what writers left that were killed. One at work touches its file all along."""
    if target in _swept:
        return
    _swept.add(target)
    ours = re.compile(rf"\.{re.escape(target.name)}\.\w{{8}}{re.escape(UNFINISHED)}")
    with os.scandir(target.parent) as entries:
        names = [entry.path for entry in entries if ours.fullmatch(entry.name)]
    for name in names:
        try:
            if time.time() - os.stat(name).st_mtime > LONGEST_WRITE:
                os.unlink(name)
        except OSError:  # another process was quicker, or it is not ours to remove: the write goes on
            continue


def file_mask() -> int:
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def keep_names(folder: Path) -> None:
    """Bring the names in a folder to the disk: without this a power cut may undo the move of a file into place."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows, which does it by itself
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_pickle(start: bytes) -> bool:
    """Do these nine bytes begin a bare pickle? It can run any program, and nothing is read from one."""
    # The length of a safetensors header can begin with the same two bytes: its JSON follows at the ninth.
    json_follows = start[3:8] == bytes(5) and start[8:9] == b"{"
    return start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and not json_follows


def _check_start(path: Path) -> None:
    """Refuse what cannot be a safetensors file by its first bytes, before anything is allocated."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise BundleError(expected(str(path), "a bundle file", found))
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(9)
    if is_pickle(start) or start[:4] == b"PK\x03\x04":
        found = "a pickle" if is_pickle(start) else "a zip file, as torch.save writes it"
        way_out = f"{SAVE_SAFELY} unrolled.convert.load reads those; a bundle is what unrolled train writes."
        raise BundleError(expected(str(path), "a bundle, which holds no code", found, way_out))
    length = struct.unpack("<Q", start[:8])[0] if len(start) == 9 else 0
    if length < 2 or length > LARGEST_HEADER or start[8:9] != b"{":
        found = f"{size} bytes that begin with {start[:8].hex(' ') or 'nothing'}"
        raise BundleError(expected(str(path), "a safetensors file", found, "The file is damaged, or is not a bundle."))
    if 8 + length > size:
        found = f"{size} bytes, of which the header alone would take {8 + length}"
        raise BundleError(expected(str(path), "a whole file", found, "It is truncated: copy it again."))
    _check_tensors(path, length)


def _check_tensors(path: Path, length: int) -> None:
    """Count what the header names without parsing it: a million tensors would take seconds and hundreds of megabytes.

    A tensor takes nine quotation marks or more that no backslash precedes; those of our own text, which is JSON in a
    string, all have one before them.
    """
    marks, left = 0, length
    with path.open("rb") as file:
        file.seek(8)
        while left and (part := file.read(min(left, 2**20))):
            marks += part.count(b'"') - part.count(b'\\"')
            left -= len(part)
    if marks > 9 * MOST_TENSORS:
        way_out = "The file is damaged, or is not a bundle."
        raise BundleError(expected(str(path), f"at most {MOST_TENSORS} tensors", f"about {marks // 10}", way_out))


def _damaged(path: str | Path, error: Exception) -> BundleError:
    way_out = "The file is truncated or damaged: copy it again, or use a checkpoint of its run folder."
    return BundleError(
        expected(str(path), "a whole safetensors file", str(error).strip() or type(error).__name__, way_out)
    )
