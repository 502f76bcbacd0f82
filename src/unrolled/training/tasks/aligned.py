"""What classify and tag share: rows of a data set that stand alone, one batch after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from unrolled.data import Dataset
from unrolled.errors import RecipeError, expected
from unrolled.models import FeatureInput, build
from unrolled.training.recipe import Recipe
from unrolled.training.tasks.encoded import Encoded, sizes
from unrolled.training.tasks.reading import Reading

__all__ = ["EVALUATION_BATCH", "check_noise", "device_of", "encode_rows", "lengths_of", "model_from", "set_up"]

EVALUATION_BATCH = 64  # rows at a time where no gradient is taken; results do not depend on it

_OF_THE_MODEL = (
    *("cell", "hidden", "layers", "bidirectional", "embedding", "single_bias", "reset_after", "init"),
    *("dropout", "input_dropout", "output_dropout", "word_dropout", "learn_initial_state", "backend"),
)


def model_from(recipe: Recipe, reading: Reading, **more: Any) -> nn.Module:
    """The model of a recipe, with its first weights."""
    options = {name: getattr(recipe, name) for name in _OF_THE_MODEL}
    if recipe.cell == "lstm":
        options["forget_bias"] = recipe.forget_bias
    if recipe.cell == "transformer":
        options |= {"heads": recipe.heads, "feedforward": recipe.feedforward, "window": recipe.window or recipe.chunk}
    check_noise(recipe, reading)
    if reading.scaler is not None:
        options["feature_noise"] = recipe.feature_noise
    model = build(recipe.task, **options, **reading.sizes(), characters=reading.letters is not None, **more)
    set_up(model, recipe, reading)
    return model


def check_noise(recipe: Recipe, reading: Reading) -> None:
    """Raise for a noise that what the model reads cannot have."""
    if reading.scaler is not None and recipe.word_dropout:
        way_out = "Use --input-dropout or --feature-noise."
        raise RecipeError(expected("word_dropout", "0 for features", recipe.word_dropout, way_out))
    if reading.scaler is None and recipe.feature_noise:
        raise RecipeError(expected("feature_noise", "0 for texts and tokens", recipe.feature_noise, "Leave it out."))


def set_up(model: nn.Module, recipe: Recipe, reading: Reading) -> None:
    """Give a model with first weights the scale of its features, and the range that the recipe names."""
    if reading.scaler is not None and not torch.empty(0).is_meta:  # meta: the weights are read from a file
        assert isinstance(model.inputs, FeatureInput)
        model.inputs.standardise(torch.from_numpy(reading.scaler.mean), torch.from_numpy(reading.scaler.scale))
    if recipe.init_range is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -recipe.init_range, recipe.init_range)


def encode_rows(reading: Reading, dataset: Dataset, targets: Sequence[np.ndarray]) -> Encoded:
    rows = [reading.encode(item) for item in dataset]
    where = [item.where for item in dataset]
    return Encoded(rows, targets, where, sum(len(row.unknown) for row in rows), sum(len(row) for row in rows))


def lengths_of(data: Encoded) -> Sequence[int] | np.ndarray:
    return sizes(data.rows)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
