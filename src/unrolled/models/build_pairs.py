"""One way to make an encoder–decoder from keywords, with every combination that cannot work refused and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unrolled.errors import RecipeError, ShapeError, expected
from unrolled.models.attention import ATTENTIONS
from unrolled.models.bridge import BRIDGES
from unrolled.models.build import CELLS
from unrolled.models.encoder_decoder import EncoderDecoder, VectorEncoder
from unrolled.models.inputs import SOURCE, FeatureInput, TokenInput, source_inputs
from unrolled.models.parts import width_of

__all__ = ["build_encoder_decoder"]


def build_encoder_decoder(
    *,
    target_vocabulary: int,
    vocabulary: int | None = None,
    unknown: int | None = None,
    channels: int | None = None,
    vector: bool = False,
    cell: str = "lstm",
    hidden: int = 128,
    layers: int = 1,
    bidirectional: bool = True,
    embedding: int = 64,
    decoder_cell: str | None = None,
    decoder_hidden: int | None = None,
    decoder_layers: int | None = None,
    attention: str = "general",
    input_feeding: bool = False,
    bridge: str = "projection",
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    output_dropout: float = 0.0,
    word_dropout: float = 0.0,
    feature_noise: float = 0.0,
    single_bias: bool = False,
    reset_after: bool = True,
    forget_bias: float | None = None,
    init: str | Callable[[Any], None] = "torch",
    learn_initial_state: bool = False,
    backend: str = "auto",
) -> EncoderDecoder:
    """An `EncoderDecoder`.

    Args:
        target_vocabulary: V, the start and end symbol included.
        vocabulary: of the source; give either this or `channels`, for rows of measurements.
        vector: the source is one vector of `channels` numbers.
        embedding: features of a token's embedding, on both sides.
        decoder_cell: "rnn", "lstm" or "gru"; None: as the encoder's.
        decoder_hidden: None: as the encoder's `hidden`.
        decoder_layers: None: as the encoder's `layers`.
        input_dropout: before both recurrent layers; `output_dropout` before the output layer.
        learn_initial_state: of the encoder; the decoder starts from the bridge.

    Raises:
        RecipeError: a value out of range, or two that do not go together.
    """
    given = dict(locals())
    _check(given)
    inputs = source_inputs(**{name: given[name] for name in SOURCE})
    encoder: Any
    if vector:
        assert isinstance(inputs, FeatureInput)
        encoder, memory = VectorEncoder(inputs, hidden), 0
    else:
        options = {"bidirectional": bidirectional, "learn_initial_state": learn_initial_state}
        encoder = _layer(given, cell, inputs.width, hidden, layers, options)
        memory = width_of(encoder)
    target_inputs = TokenInput(target_vocabulary, embedding, dropout=input_dropout)
    width = decoder_hidden or hidden
    more = memory if attention == "additive" else width if input_feeding else 0
    decoder = _layer(given, decoder_cell or cell, embedding + more, width, decoder_layers or layers, {})
    kinds: dict[str, Any] = {"attention": attention, "input_feeding": input_feeding, "bridge": bridge}
    try:
        return EncoderDecoder(
            inputs, encoder, target_inputs, decoder, target_vocabulary, dropout=output_dropout, **kinds
        )
    except (ValueError, ShapeError) as error:
        raise RecipeError(str(error)) from None


def _layer(given: dict[str, Any], cell: str, width: int, hidden: int, layers: int, more: dict[str, Any]) -> Any:
    options: dict[str, Any] = {name: given[name] for name in ("single_bias", "init", "backend")} | more
    if cell == "gru":
        options["reset_after"] = given["reset_after"]
    if cell == "lstm":
        options["forget_bias"] = given["forget_bias"]
    dropout = given["dropout"] if layers > 1 else 0.0
    return CELLS[cell](width, hidden, layers, batch_first=True, dropout=dropout, **options)


def _check(given: dict[str, Any]) -> None:
    decoder_cell = given["decoder_cell"] or given["cell"]
    for name, value, choices in (
        ("cell", given["cell"], tuple(CELLS)),
        ("decoder_cell", decoder_cell, tuple(CELLS)),
        ("attention", given["attention"], ("none", *ATTENTIONS)),
        ("bridge", given["bridge"], BRIDGES),
    ):
        if value not in choices:
            raise RecipeError(expected(name, "one of " + ", ".join(choices), repr(value)))
    if given["vector"] and given["channels"] is None:
        raise RecipeError(expected("channels", "how many numbers the vector has", "none"))
    if given["dropout"] and max(given["layers"], given["decoder_layers"] or given["layers"]) == 1:
        way_out = "Use input_dropout and output_dropout, or layers=2."
        raise RecipeError(
            expected("dropout", "0 with one layer, since it stands between layers", given["dropout"], way_out)
        )
