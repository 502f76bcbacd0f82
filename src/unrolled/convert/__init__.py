"""Weights from and to every framework, with a table of layouts and a check that no wrong conversion passes.

    load(path)                a module that is called like the layer or the stack that it came from
    save(module, path)        a file that the other framework reads
    convert(source, target)   from file to file; returns a `Report`
    markdown()                what converts to what
    export(run, path)         a trained model as one checked ONNX file, or as a smaller bundle

Every one of them runs the other framework's convention, and our layers on the converted weights, on the same random
input, and raises where they differ. See docs/conversion.md for the files of each framework.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ConvertError": "unrolled.convert.spec",
    "Network": "unrolled.convert.spec",
    "FRAMEWORKS": "unrolled.convert.exchange",
    "Report": "unrolled.convert.exchange",
    "convert": "unrolled.convert.exchange",
    "export": "unrolled.convert.exporting",
    "load": "unrolled.convert.exchange",
    "save": "unrolled.convert.exchange",
    "Stack": "unrolled.convert.stack",
    "translations": "unrolled.convert.torch_onnx",
    "markdown": "unrolled.convert.table",
}

__all__ = [
    "FRAMEWORKS",
    "ConvertError",
    "Network",
    "Report",
    "Stack",
    "convert",
    "export",
    "load",
    "markdown",
    "save",
    "translations",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unrolled.convert' has no attribute {name!r}")
