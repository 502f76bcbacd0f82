"""One way to make any of the models from keywords, with every combination that cannot work refused and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from unrolled.errors import RecipeError, expected
from unrolled.layers import GRU, LSTM, RNN
from unrolled.models.classifier import Classifier
from unrolled.models.inputs import CharacterInput, FeatureInput, TokenInput
from unrolled.models.language_model import LanguageModel
from unrolled.models.pooling import POOLINGS
from unrolled.models.tagger import Tagger
from unrolled.models.transformer import Transformer

__all__ = ["CELLS", "TASKS", "TRANSFORMER", "build", "layer_of"]

CELLS: dict[str, Callable[..., Any]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
TRANSFORMER = "transformer"  # stands where a cell may stand, to be compared with
TASKS = ("classify", "tag", "lm")
CHARACTER_SIZES = (25, 25)  # embedding, and hidden units a direction: Lample et al. (2016)


def build(
    task: str,
    *,
    cell: str = "lstm",
    hidden: int = 128,
    layers: int = 1,
    bidirectional: bool = False,
    embedding: int | None = None,
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    output_dropout: float = 0.0,
    word_dropout: float = 0.0,
    pooling: str = "last",
    crf: bool = False,
    tie_weights: bool = False,
    single_bias: bool = False,
    reset_after: bool = True,
    forget_bias: float | None = None,
    init: str | Callable[[Any], None] = "torch",
    learn_initial_state: bool = False,
    characters: bool | tuple[int, int] = False,
    feature_noise: float = 0.0,
    backend: str = "auto",
    heads: int = 4,
    feedforward: int | None = None,
    window: int = 512,
    vocabulary: int | None = None,
    unknown: int | None = None,
    channels: int | None = None,
    classes: int | None = None,
    character_vocabulary: int | None = None,
) -> nn.Module:
    """A `Classifier`, `Tagger` or `LanguageModel`.

    Args:
        task: "classify", "tag" or "lm".
        cell: "rnn", "lstm" or "gru"; or "transformer", for which `bidirectional` lets a step see both sides, and
            whose `heads`, `feedforward` and `window` are those of `models.transformer.Transformer`.
        embedding: features of a token's embedding; None: as many as hidden units.
        dropout: between the layers. `input_dropout` and `output_dropout` are before and after them, `word_dropout`
            is the share of tokens that are read as the unknown one while training.
        characters: a character encoder beside the embedding; its sizes as (embedding, hidden), or True for (25, 25).
        vocabulary: token ids come in; give either this or `channels`, for rows of measurements.
        classes: of the classifier, or the tags of the tagger.

    Raises:
        RecipeError: a value out of range, or two that do not go together.
    """
    given = dict(locals())
    _check(given)
    inputs = _inputs(given)
    recurrent = layer_of(given, inputs.width)
    if task == "lm":
        assert isinstance(inputs, TokenInput)
        assert vocabulary is not None
        return LanguageModel(inputs, recurrent, vocabulary, tie_weights=tie_weights, dropout=output_dropout)
    assert classes is not None
    if task == "tag":
        return Tagger(inputs, recurrent, classes, crf=crf, dropout=output_dropout)
    return Classifier(inputs, recurrent, classes, pooling=pooling, dropout=output_dropout)


def layer_of(given: Mapping[str, Any], width: int) -> nn.Module:
    """The recurrent layer, or the Transformer in its place, from keywords of `build`, on inputs of some width."""
    cell, sizes = given["cell"], (width, given["hidden"], given["layers"])
    if cell == TRANSFORMER:
        own = ("heads", "feedforward", "window", "dropout")
        return Transformer(*sizes, causal=not given["bidirectional"], **{name: given[name] for name in own})
    names: tuple[str, ...] = ("single_bias", "init", "backend", "learn_initial_state", "bidirectional", "dropout")
    names += {"gru": ("reset_after",), "lstm": ("forget_bias",)}.get(cell, ())
    return CELLS[cell](*sizes, batch_first=True, **{name: given[name] for name in names})


def _inputs(given: dict[str, Any]) -> TokenInput | FeatureInput:
    dropout = given["input_dropout"]
    if given["channels"] is not None:
        return FeatureInput(given["channels"], dropout=dropout, noise=given["feature_noise"])
    encoder = None
    if given["characters"]:
        size, hidden = CHARACTER_SIZES if given["characters"] is True else given["characters"]
        encoder = CharacterInput(given["character_vocabulary"], size, hidden, backend=given["backend"])
    return TokenInput(
        given["vocabulary"],
        given["embedding"] or given["hidden"],
        dropout=dropout,
        word_dropout=given["word_dropout"],
        unknown=given["unknown"],
        characters=encoder,
        unit=given["task"] == "lm" and not given["tie_weights"],
    )


def _check(given: dict[str, Any]) -> None:
    _check_values(given)
    _check_task(given)
    _check_inputs(given)
    if given["cell"] != "gru" and not given["reset_after"]:
        _refuse("reset_after", "True, unless cell is gru", "False", "Only the GRU has a reset gate.")
    if given["cell"] != "lstm" and given["forget_bias"] is not None:
        _refuse("forget_bias", "None, unless cell is lstm", given["forget_bias"], "Only the LSTM forgets by a gate.")
    if given["cell"] == TRANSFORMER and given["hidden"] % given["heads"]:
        _refuse("hidden", f"a multiple of heads = {given['heads']}", given["hidden"])
    if given["cell"] == TRANSFORMER and given["learn_initial_state"]:
        _refuse("learn_initial_state", "False for a transformer", "True", "It has no initial state.")
    if given["layers"] == 1 and given["dropout"] and given["cell"] != TRANSFORMER:
        way_out = "Use input_dropout and output_dropout, or layers=2."
        _refuse("dropout", "0 with layers=1, since it stands between layers", given["dropout"], way_out)


def _check_values(given: dict[str, Any]) -> None:
    for name, choices in (("task", TASKS), ("cell", (*CELLS, TRANSFORMER)), ("pooling", POOLINGS)):
        if given[name] not in choices:
            _refuse(name, "one of " + ", ".join(choices), repr(given[name]))
    for name in (
        *("hidden", "layers", "embedding", "vocabulary", "channels", "classes", "character_vocabulary"),
        *("heads", "feedforward"),
    ):
        if given[name] is not None and given[name] < 1:
            _refuse(name, "1 or more", given[name])
    for name in ("dropout", "input_dropout", "output_dropout", "word_dropout"):
        if not 0 <= given[name] < 1:
            _refuse(name, "0 or more and less than 1", given[name])
    if given["feature_noise"] < 0:
        _refuse("feature_noise", "0 or more", given["feature_noise"])


def _check_task(given: dict[str, Any]) -> None:
    task = given["task"]
    if task == "lm" and given["bidirectional"]:
        way_out = (
            "A language model predicts the next token, and the backward direction would have read it: "
            "the future is not there yet."
        )
        _refuse("bidirectional", "False for a language model", "True", way_out)
    if task == "lm" and given["vocabulary"] is None:
        _refuse("vocabulary", "its size, for a language model", "none")
    if task != "lm" and given["classes"] is None:
        _refuse("classes", "how many classes, or tags", "none")
    for name, owner in (("crf", "tag"), ("tie_weights", "lm")):
        if given[name] and task != owner:
            _refuse(name, f"False, unless the task is {owner}", "True")
    embedding = given["embedding"] or given["hidden"]
    if given["tie_weights"] and embedding != given["hidden"]:
        found = f"embedding={embedding} and hidden={given['hidden']}"
        _refuse("tie_weights", "embedding and hidden of one size", found, "Make them equal, or do not tie.")


def _check_inputs(given: dict[str, Any]) -> None:
    if (given["vocabulary"] is None) == (given["channels"] is None):
        found = "neither" if given["vocabulary"] is None else "both"
        _refuse("vocabulary", "either it, for tokens, or channels, for features", found)
    if given["word_dropout"] and given["unknown"] is None:
        _refuse("word_dropout", "0 where there is no unknown token", given["word_dropout"])
    if given["feature_noise"] and given["channels"] is None:
        _refuse("feature_noise", "0 for tokens", given["feature_noise"], "Noise is added to measurements.")
    if given["characters"]:
        if given["task"] == "lm" or given["channels"] is not None:
            _refuse("characters", "False, unless tokens are classified or tagged", given["characters"])
        if given["character_vocabulary"] is None:
            _refuse("character_vocabulary", "its size, since characters are read", "none")


def _refuse(name: str, wanted: str, found: object, way_out: str = "") -> None:
    raise RecipeError(expected(name, wanted, found, way_out))
