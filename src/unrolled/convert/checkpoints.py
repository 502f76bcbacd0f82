"""What torch.save wrote, read by torch's weights-only loader, after a look at what its pickle would build.

Why      the weights-only loader runs no foreign code, but a pickle made for it can still ask for endless memory, with a
         bytearray of a terabyte for one. So the program is listed first, without running it, and may name nothing but
         tensors, their storages and an ordered dict.
"""

from __future__ import annotations

import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unrolled.convert.files import (
    LARGEST_HEADER,
    SAVE_SAFELY,
    Tensors,
    check_count,
    check_members,
    damaged,
    from_torch,
    open_file,
    refuse_pickle,
)
from unrolled.convert.spec import ConvertError
from unrolled.errors import expected, require

__all__ = ["read_torch"]

SHARED = 8  # how often the bytes of a file may be used: tied weights use them twice

_ALLOWED = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"}
_STORAGES = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1,
             "Bool": 1}  # fmt: skip
_ALLOWED |= {f"torch {name}Storage" for name in _STORAGES}


def read_torch(path: Path) -> Tensors:
    """A state_dict that torch.save wrote, by torch's weights-only loader, after a look at what it would build.

    Raises:
        ConvertError: it is not one: a whole model, a script, an old file, or a pickle with code.
    """
    size = open_file(path)
    refuse_pickle(path)
    _check_torch(path, size)
    torch = require("torch", "torch")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, RuntimeError and UnpicklingError among them
        raise damaged(path, error) from None
    loaded = _unwrapped(path, loaded, torch.Tensor)
    if not isinstance(loaded, Mapping):
        raise ConvertError(expected(str(path), "a state_dict", type(loaded).__name__, SAVE_SAFELY))
    check_count(path, len(loaded))
    arrays = {str(name): from_torch(f"{path}: {name}", value, size) for name, value in loaded.items()}
    whole = sum(array.nbytes for array in arrays.values())
    if whole > SHARED * size:
        raise ConvertError(expected(str(path), f"tensors of at most {SHARED} times the file's {size} bytes", whole))
    return arrays


def _unwrapped(path: Path, loaded: Any, tensor: type) -> Any:
    """The state_dict of a checkpoint: {"state_dict": …}, or the one entry that holds named tensors and nothing else."""
    if not isinstance(loaded, Mapping) or any(isinstance(value, tensor) for value in loaded.values()):
        return loaded
    if isinstance(loaded.get("state_dict"), Mapping):
        return loaded["state_dict"]
    inside = [
        name for name, value in loaded.items()
        if isinstance(value, Mapping) and value and all(isinstance(one, tensor) for one in value.values())
    ]  # fmt: skip
    if len(inside) == 1:
        return loaded[inside[0]]
    if inside:
        way_out = f"Save the one that is meant: torch.save(checkpoint[{inside[0]!r}], 'weights.pt')"
        raise ConvertError(
            expected(str(path), "one state_dict", f"{len(inside)}: {', '.join(map(repr, inside))}", way_out)
        )
    if any(isinstance(value, Mapping) for value in loaded.values()):
        way_out = "Save the state_dict alone: torch.save(model.state_dict(), 'weights.pt')"
        raise ConvertError(
            expected(str(path), "a state_dict", f"the keys {', '.join(map(repr, loaded))}"[:200], way_out)
        )
    return loaded


def _check_torch(path: Path, size: int) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            members = [name for name in names if name.endswith("data.pkl") and name.count("/") <= 1]
            if any(name.endswith("constants.pkl") for name in names):
                way_out = f"It is a TorchScript program. {SAVE_SAFELY}"
                raise ConvertError(expected(str(path), "a state_dict", "code", way_out))
            if len(members) != 1:
                raise ConvertError(expected(str(path), "one data.pkl, as torch.save writes", len(members)))
            check_members(path, archive, size, stored=True)
            if archive.getinfo(members[0]).file_size > LARGEST_HEADER:
                raise ConvertError(expected(str(path), f"data.pkl of at most {LARGEST_HEADER} bytes", "more"))
            with warnings.catch_warnings(action="ignore"):  # of escapes in texts that are no Python
                found = sorted(set(_builds(archive.read(members[0]))) - _ALLOWED)
    except zipfile.BadZipFile as error:
        way_out = f"Files of torch older than 1.6, and pickles, are not read. {SAVE_SAFELY}"
        raise ConvertError(expected(str(path), "a zip file, as torch.save writes", str(error), way_out)) from None
    except (OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error, struct.error) as error:
        if isinstance(error, ConvertError):
            raise
        raise damaged(path, error) from None
    if found:
        raise ConvertError(
            expected(str(path), "tensors alone", f"a pickle that would run {_named(found)}", SAVE_SAFELY)
        )


def _named(found: list[str]) -> str:
    """Up to three of the names; a plain built-in says least, and comes last."""
    ordered = sorted(found, key=lambda name: name.startswith(("__builtin__ ", "builtins ")))
    shown = ", ".join(name.replace(" ", ".") for name in ordered[:3])
    return shown + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _builds(program: bytes) -> Iterator[str]:
    """What a pickle would import, as "module name", without running it."""
    strings: list[str] = []
    for code, argument, _ in pickletools.genops(program):
        if code.name in ("GLOBAL", "INST"):
            yield str(argument)
        elif code.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "OBJ"):
            yield f"{code.name} {' '.join(strings[-2:])}"
        elif isinstance(argument, str):
            strings.append(argument)
