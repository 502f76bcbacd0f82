"""The runtime: trained models over NumPy and the native engine, without PyTorch.

    load            a bundle, or a run folder → a model
    model.predict   texts, tokens or rows of features in; labels, tags or likelihoods out
    model.stream    chunks of any size; the state can be saved and moved

What is read and how it is answered is what `unrolled.training` does with the same bundle, to 1e-5 in the scores.
"""

from __future__ import annotations

from unrolled.runtime.load import load
from unrolled.runtime.model import Model

__all__ = ["Model", "load"]
