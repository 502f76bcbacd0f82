"""What a checkpoint holds, and the way there and back.

Tensors  model.NAME, average.NAME, optimizer.NUMBER.KEY, carried.NUMBER (what a task carries from step to step),
         random.DEVICE (torch's generators).
Header   the counters, the place in the epoch, the generator that orders the data, what the data were, and the SHA-256
         of all of it, so that a single wrong bit is found.
Variant  The learning rate is a function of time, so there is no schedule to save.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unrolled import bundle
from unrolled.errors import BundleError, expected

__all__ = ["Arrays", "digest", "flat", "keep_random", "read", "restore_random", "stamped", "whole"]

FORMAT = 1  # of what stands inside; the file around it is a bundle with a format of its own
Arrays = dict[str, np.ndarray]


def digest(arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> str:
    """SHA-256 of names, types, shapes and numbers, and of the values beside them."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}\n".encode())
        found.update(array.tobytes())
    found.update(json.dumps(values, sort_keys=True).encode())
    return found.hexdigest()


def stamped(arrays: Arrays, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the format and the digest of everything."""
    # Through JSON and back: keys become texts and tuples lists, as they will be when the file is read.
    plain = json.loads(json.dumps({**values, "checkpoint_format": FORMAT}))
    return {**plain, "sha256": digest(arrays, plain)}


def read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The tensors and values of a checkpoint.

    Raises:
        BundleError: the file is truncated or damaged, or of another format.
    """
    arrays, header = bundle.load(path)
    values = header.get("checkpoint")
    if not isinstance(values, dict) or values.get("checkpoint_format") != FORMAT:
        found = values.get("checkpoint_format") if isinstance(values, dict) else None
        way_out = "It can be read by the version of unrolled that wrote it."
        raise BundleError(expected(str(path), f"a checkpoint of format {FORMAT}", f"format {found}", way_out))
    written = values.pop("sha256", None)
    if written != digest(arrays, values):
        raise BundleError(expected(str(path), f"contents with SHA-256 {written}", "others", "The file is damaged."))
    _check_kinds(path, values)
    return arrays, values


# What every checkpoint says, and of which kind it is: a digest that fits does not mean that we wrote the file.
_KINDS: dict[str, tuple[type, ...]] = {
    "counters": (dict,),
    "fingerprint": (str,),
    "machine": (dict,),
    "place": (dict, type(None)),
    "carried": (list,),
    "metrics_bytes": (int,),
}


def _check_kinds(path: Path, values: Mapping[str, Any]) -> None:
    for name, kinds in _KINDS.items():
        if type(values.get(name, ...)) not in kinds:
            wanted = f"{name} as {' or '.join(kind.__name__ for kind in kinds)}"
            raise BundleError(expected(str(path), wanted, repr(values.get(name, "nothing"))[:40]))
    if values["metrics_bytes"] < 0 or type(values["machine"].get("processes")) is not int:
        raise BundleError(expected(str(path), "a length of the log and a number of processes", "others"))


# states that a task carries: tensors in tuples


def flat(state: Any) -> tuple[list[Tensor], Any]:
    """The tensors of a state in a row, and its shape as JSON: a number for a tensor, a list for a tuple, null for None.

    >>> flat((torch.zeros(1), None))
    ([tensor([0.])], [0, None])
    """
    tensors: list[Tensor] = []

    def shape_of(part: Any) -> Any:
        if part is None:
            return None
        if isinstance(part, Tensor):
            tensors.append(part)
            return len(tensors) - 1
        if type(part) in (tuple, list):
            return [shape_of(one) for one in part]
        raise TypeError(expected("state", "tensors, None, or tuples of these", type(part).__name__))

    return tensors, shape_of(state)


def whole(tensors: Mapping[int, Tensor], shape: Any) -> Any:
    """The inverse of `flat`."""
    if isinstance(shape, list):
        return tuple(whole(tensors, one) for one in shape)
    return None if shape is None else tensors[shape]


# torch's random numbers


def _generators(device: torch.device) -> Iterator[tuple[str, Any, Any]]:
    """Name, how to get the state, how to set it."""
    yield "cpu", torch.get_rng_state, torch.set_rng_state
    if device.type == "cuda":
        yield (
            "cuda",
            lambda: torch.cuda.get_rng_state(device),
            lambda state: torch.cuda.set_rng_state(state, device),
        )
    if device.type == "mps":
        yield "mps", torch.mps.get_rng_state, torch.mps.set_rng_state


def keep_random(device: torch.device) -> dict[str, Tensor]:
    """The state of each generator that the run draws from."""
    return {name: get() for name, get, _ in _generators(device)}


def restore_random(device: torch.device, states: Mapping[str, Tensor]) -> None:
    """Go on drawing from there; a generator that was not kept, since the run was elsewhere, stays as it is."""
    for name, _, put in _generators(device):
        if name in states:
            put(states[name])
