"""The encoder–decoder that a recipe asks for."""

from __future__ import annotations

from typing import Any

from unrolled.errors import RecipeError, expected
from unrolled.models import EncoderDecoder, build_encoder_decoder, build_pair_transformer
from unrolled.training.recipe import Recipe
from unrolled.training.tasks.aligned import check_noise, set_up
from unrolled.training.tasks.reading import Reading

__all__ = ["pair_model"]

_OF_THE_MODEL = (
    *("cell", "hidden", "layers", "bidirectional", "embedding", "single_bias", "reset_after", "forget_bias", "init"),
    *("dropout", "input_dropout", "output_dropout", "word_dropout", "learn_initial_state", "backend"),
    *("decoder_cell", "decoder_hidden", "decoder_layers", "input_feeding", "bridge", "feature_noise"),
)


def pair_model(recipe: Recipe, reading: Reading, target_vocabulary: int) -> EncoderDecoder:
    """The model of a recipe, with its first weights."""
    sizes = reading.sizes()
    sizes.pop("character_vocabulary", None)
    vector = recipe.source == "vector"
    attention = ("none" if vector else "general") if recipe.attention == "auto" else recipe.attention
    options = {name: getattr(recipe, name) for name in _OF_THE_MODEL}
    check_noise(recipe, reading)
    if recipe.cell == "transformer":
        model: EncoderDecoder = build_pair_transformer(
            **_of_a_transformer(recipe), **sizes, target_vocabulary=target_vocabulary
        )
    else:
        model = build_encoder_decoder(
            **options, **sizes, vector=vector, attention=attention, target_vocabulary=target_vocabulary
        )
    set_up(model, recipe, reading)
    return model


def _of_a_transformer(recipe: Recipe) -> dict[str, Any]:
    """Keywords of the Transformer for pairs; options that only recurrent layers have are refused."""
    for name, usual in (("decoder_cell", None), ("decoder_hidden", None), ("input_feeding", False)):
        if getattr(recipe, name) != usual:
            raise RecipeError(expected(name, f"{usual} with cell transformer", getattr(recipe, name), "Leave it out."))
    if recipe.attention != "auto" or recipe.source == "vector":
        name = "source" if recipe.source == "vector" else "attention"
        way_out = "A Transformer has an attention of its own, over a sequence."
        raise RecipeError(expected(name, "auto with cell transformer", getattr(recipe, name), way_out))
    names = (
        *("hidden", "layers", "decoder_layers", "heads", "feedforward", "embedding", "feature_noise"),
        *("dropout", "input_dropout", "output_dropout", "word_dropout"),
    )
    return {name: getattr(recipe, name) for name in names}
