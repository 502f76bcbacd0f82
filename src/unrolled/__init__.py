"""unrolled: recurrent networks in which the equation is the code.

Importing this package imports no torch: every public name is fetched when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "RNN": "unrolled.layers",
    "LSTM": "unrolled.layers",
    "GRU": "unrolled.layers",
    "RNNCell": "unrolled.layers",
    "LSTMCell": "unrolled.layers",
    "GRUCell": "unrolled.layers",
    "lengths_from_mask": "unrolled.layers",
    "last_valid": "unrolled.layers",
    "hold_last": "unrolled.layers",
    "final_state": "unrolled.layers",
}
_ROOMS = (
    "bundle",
    "conventions",
    "convert",
    "data",
    "decoding",
    "equations",
    "errors",
    "init",
    "insight",
    "kernels",
    "layers",
    "models",
    "runtime",
    "training",
)

__all__ = ["__version__", *_HOME, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"unrolled.{name}")
    raise AttributeError(f"module 'unrolled' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
