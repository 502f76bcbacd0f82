"""From a file to a model, with every way in which it can be wrong ending in one clear error."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from unrolled import bundle
from unrolled.errors import BundleError, MissingExtra, RunError, expected
from unrolled.runtime.model import Model, Parts
from unrolled.runtime.weights import Weights

__all__ = ["load", "model_file", "model_of"]

_HOME = {
    "classify": "classifier.Classifier",
    "tag": "tagger.Tagger",
    "lm": "language_model.LanguageModel",
    "seq2seq": "encoder_decoder.EncoderDecoder",
    "forecast": "forecaster.Forecaster",
}


def load(path: str | Path) -> Model:
    """The model of a bundle, or of a run folder.

    Raises:
        BundleError: the file is damaged, is not ours, is of a newer format, or its weights do not fit its header.
        RunError: there is no such file, or the folder holds no model.
    """
    file = model_file(path)
    tensors, header = bundle.load(file)
    return model_of(str(file), tensors, header)


def model_of(where: str, tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Model:
    """The model of tensors and a header; `where` names the file in messages."""
    try:
        recipe, task = header["recipe"], header["task"]
        weights = Weights(where, tensors)
        parts = Parts(where, dict(recipe), dict(task), weights, mark_of(tensors, task))
        name = recipe["task"]
        if name not in _HOME:
            way_out = "Use it with PyTorch: unrolled.training.load."
            raise BundleError(expected(f"{where}: task", f"one of {', '.join(_HOME)}", repr(name)[:40], way_out))
        module, kind = _HOME[name].split(".")
        model: Model = getattr(importlib.import_module(f"unrolled.runtime.{module}"), kind)(parts)
        weights.finish()
    except (BundleError, MissingExtra):
        raise
    except bundle.MISFITS as error:
        raise bundle.misfit(where, error) from None
    return model


def model_file(path: str | Path) -> Path:
    """The bundle of a run folder, or the file itself."""
    file = Path(path)
    if not file.exists():
        from unrolled.data import examples

        if str(path) in examples.MODELS:
            return examples.model_file(str(path))
    if file.is_dir():
        if not (file / "model.safetensors").is_file():
            way_out = f"If it was stopped before the first epoch ended: unrolled train --resume {file}"
            raise RunError(expected(str(file), "a run folder", "no model.safetensors in it", way_out))
        return file / "model.safetensors"
    if not file.exists():
        raise RunError(expected("run", "a run folder or a bundle", f"{file}, which does not exist"))
    return file


def mark_of(tensors: dict[str, np.ndarray], task: Any) -> str:
    """What tells one model from another: a state fits the model that it was made with and no other."""
    import hashlib

    digest = hashlib.blake2b(json.dumps(task, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()
