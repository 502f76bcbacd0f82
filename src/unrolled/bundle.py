"""A bundle: one safetensors file with the weights, and beside them all that is needed to use them.

Layout   the file's metadata has one entry, `unrolled`: a JSON object with `format`, and whatever the writer put
         there (recipe, vocabularies, labels, layout). No code is ever read from it.
Variant  The file is written under another name and moved into place, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from unrolled.errors import BundleError, expected

__all__ = ["FORMAT", "load", "read_header", "save", "write_atomically"]

FORMAT = 1
KEY = "unrolled"
LARGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors format itself


def save(path: str | Path, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write a bundle. An interrupted write leaves what was there before."""
    text = json.dumps({"format": FORMAT, **header}, ensure_ascii=False, allow_nan=False)
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    write_atomically(path, to_bytes(arrays, metadata={KEY: text}))


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the header of a bundle.

    Raises:
        BundleError: the file is not there, is truncated, is not ours, or is of a newer format.
    """
    header = read_header(path)
    try:
        with safe_open(str(path), framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, TypeError, ValueError, MemoryError) as error:
        raise _damaged(path, error) from None


def read_header(path: str | Path) -> dict[str, Any]:
    """The header alone: no weights are read."""
    _check_length(Path(path))
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
    """Write a file under another name in the same folder, then move it into place."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes files that only their owner can read
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check_length(path: Path) -> None:
    """Refuse what cannot be a safetensors file by its first eight bytes, before anything is allocated."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise BundleError(expected(str(path), "a bundle file", found))
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(9)
    length = struct.unpack("<Q", start[:8])[0] if len(start) == 9 else 0
    if length < 2 or length > LARGEST_HEADER or start[8:9] != b"{":
        found = f"{size} bytes that begin with {start[:8].hex(' ') or 'nothing'}"
        raise BundleError(expected(str(path), "a safetensors file", found, "The file is damaged, or is not a bundle."))
    if 8 + length > size:
        found = f"{size} bytes, of which the header alone would take {8 + length}"
        raise BundleError(expected(str(path), "a whole file", found, "It is truncated: copy it again."))


def _damaged(path: str | Path, error: Exception) -> BundleError:
    way_out = "The file is truncated or damaged: copy it again, or use a checkpoint of its run folder."
    return BundleError(
        expected(str(path), "a whole safetensors file", str(error).strip() or type(error).__name__, way_out)
    )
