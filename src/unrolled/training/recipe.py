"""The recipe: every option of a run, in one frozen object that is written beside the model.

One field is one key of recipe.toml, one option of the command line and one keyword in Python. Defaults may depend on
the task (`defaults`). Needs pydantic, not torch, so that the command line can print its help at once.

Axes     sizes count units, `chunk` counts time steps, `batch_size` counts sequences (for `lm`: parallel streams).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from unrolled.errors import RecipeError, expected, require

__all__ = ["TASKS", "Recipe", "defaults"]

Task = Literal["classify", "tag", "lm", "seq2seq", "forecast"]
TASKS: tuple[str, ...] = get_args(Task)
_RECURRENT = "rnn lstm gru"

_BY_TASK: dict[str, dict[str, Any]] = {
    "forecast": {
        "cell": "gru",
        "hidden": 64,
        "output_dropout": 0.1,
        "batch_size": 64,
        "schedule": "cosine",
        "clip": 1.0,
        "epochs": 20,
        "patience": None,
    },
    "classify": {"bidirectional": True},
    "tag": {"bidirectional": True, "characters": True, "batch_size": 32, "epochs": 15},
    "lm": {
        "tokenizer": "chars",
        "hidden": 512,
        "embedding": 128,
        "output_dropout": 0.0,
        "epochs": 10,
        "batch_size": 64,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "clip": 1.0,
        "patience": None,
    },
    "seq2seq": {
        "bidirectional": True,
        "min_count": 1,
        "embedding": 64,
        "output_dropout": 0.1,
        "epochs": 20,
        "batch_size": 64,
        "schedule": "cosine",
        "clip": 1.0,
        "patience": None,
    },
}


def defaults(task: str) -> dict[str, Any]:
    """The value that each field has for a task when nothing is said; `task` and `data` have none.

    >>> defaults("lm")["tokenizer"], defaults("classify")["tokenizer"]
    ('chars', 'words')
    """
    plain = {name: field.default for name, field in Recipe.model_fields.items() if not field.is_required()}
    return plain | _BY_TASK.get(task, {})


def _field(
    panel: str,
    description: str,
    default: Any = ...,
    *,
    tasks: str = "",
    cells: str = "",
    shown: str = "",
    **limits: Any,
) -> Any:
    """A field: the panel of the help it stands in, and the tasks and cells it has a meaning for (all, when empty)."""
    extra = {"panel": panel, "tasks": tasks.split(), "cells": cells.split()} | ({"default": shown} if shown else {})
    return Field(default, description=description, json_schema_extra=cast(Any, extra), **limits)


class Recipe(BaseModel):
    """All that is needed to repeat a run.

    Raises:
        RecipeError: a value is not valid; the message names the field, what was wanted, what was found, the way out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # data
    task: Task = _field(
        "Data", "classify (a label a sequence), tag (a tag a step), lm (the next token), seq2seq (pairs) or forecast."
    )
    data: str = _field("Data", "The training file, or the name of an embedded set.")
    valid: str | None = _field("Data", "The validation file. None: a part of the data, by hash.", None)
    test: str | None = _field("Data", "The test file. None: a part of the data, by hash.", None)
    valid_share: float = _field(
        "Data", "The share of the data held out for validation, where no file is named.", 0.1, gt=0, lt=1
    )
    test_share: float = _field(
        "Data", "The share of the data held out for the test, where no file is named.", 0.1, ge=0, lt=1
    )
    format: Literal["auto", "csv", "tsv", "jsonl", "parquet", "conll", "conllu", "text", "documents", "ts"] = _field(
        "Data",
        "The format of the files; auto goes by the suffix. documents: text, blank lines between documents.",
        "auto",
    )
    text: str = _field("Data", "The column with the text.", "text", tasks="classify lm")
    label: str = _field("Data", "The column with the label.", "label", tasks="classify")
    tokens: str = _field("Data", "The column with the tokens.", "tokens", tasks="classify tag")
    tags: str = _field("Data", "The column with the tags.", "tags", tasks="tag")
    features: tuple[str, ...] = _field(
        "Data",
        "The columns with the channels (one row a time step), or the one column of nested lists [time][channel].",
        (),
        tasks="classify tag seq2seq",
    )
    source: Literal["sequence", "vector"] = _field(
        "Data", "vector: the source of a pair is one vector or image, not a sequence.", "sequence", tasks="seq2seq"
    )
    source_column: str = _field("Data", "The column with the sources of pairs.", "source", tasks="seq2seq")
    target_column: str = _field("Data", "The column with the targets of pairs.", "target", tasks="seq2seq")
    id: str | None = _field(
        "Data", "The column that says which rows form one sequence.", None, tasks="classify tag forecast"
    )
    time: str | None = _field(
        "Data", "The column that orders the rows of a sequence.", None, tasks="classify tag forecast"
    )
    group: str | None = _field("Data", "The column whose equal values never stand in two parts of a split.", None)
    tokenizer: Literal["chars", "words", "spaces", "subword"] = _field(
        "Data",
        "What a token of a text is. spaces: the text is tokenised already, a line end is <eos>.",
        "words",
        tasks="classify lm seq2seq",
        shown="words; lm: chars",
    )
    target_tokenizer: Literal["chars", "words", "spaces", "subword"] | None = _field(
        "Data", "The same for the targets of pairs. None: as tokenizer.", None, tasks="seq2seq"
    )
    longest: int | None = _field(
        "Data",
        "Most tokens of a target: a longer one in a file is an error. None: no limit, and what is written stops at "
        "twice the longest of the training part.",
        None,
        ge=1,
        tasks="seq2seq",
    )
    vocabulary_size: int | None = _field(
        "Data", "At most so many tokens, the most frequent ones; for subword, the pieces to learn.", None, ge=2
    )
    min_count: int = _field("Data", "Tokens seen less often in training count as unknown.", 2, ge=1)
    lowercase: bool = _field("Data", "Lower all letters.", False, tasks="classify lm seq2seq")
    context: Literal["auto", "continuous", "independent"] = _field(
        "Data",
        "continuous: one stream, the state goes on from text to text. independent: every document starts from the "
        "initial state and ends in an end symbol. auto: independent where the data hold several documents.",
        "auto",
        tasks="lm",
    )

    # model
    cell: Literal["rnn", "lstm", "gru", "transformer"] = _field(
        "Model", "The recurrent cell, or the Transformer to compare with.", "lstm"
    )
    hidden: int = _field("Model", "Units of each layer and direction.", 128, ge=1, shown="128; lm: 512")
    layers: int = _field("Model", "Layers, one on the other.", 1, ge=1)
    bidirectional: bool = _field("Model", "Also read from the end; not for lm.", False, shown="on; lm: off")
    heads: int = _field("Model", "Parts that attend by themselves; divides hidden.", 4, ge=1, cells="transformer")
    feedforward: int | None = _field(
        "Model", "Width of the network between two attentions. None: 4 x hidden.", None, ge=1, cells="transformer"
    )
    window: int | None = _field(
        "Model", "Steps that it sees at most. None: as chunk.", None, ge=2, tasks="lm", cells="transformer"
    )
    embedding: int = _field("Model", "Numbers that stand for a token.", 100, ge=1, shown="100; lm: 128")
    decoder_cell: Literal["rnn", "lstm", "gru"] | None = _field(
        "Model", "The decoder's cell. None: as cell.", None, tasks="seq2seq"
    )
    decoder_hidden: int | None = _field("Model", "The decoder's units. None: as hidden.", None, ge=1, tasks="seq2seq")
    decoder_layers: int | None = _field("Model", "The decoder's layers. None: as layers.", None, ge=1, tasks="seq2seq")
    attention: Literal["auto", "none", "additive", "dot", "general"] = _field(
        "Model",
        "How the decoder looks at the source: additive (Bahdanau et al.), dot or general (Luong et al.). auto: "
        "general, and none where the source is a vector.",
        "auto",
        tasks="seq2seq",
    )
    input_feeding: bool = _field(
        "Model", "What dot and general attention found goes into the decoder's next step.", False, tasks="seq2seq"
    )
    bridge: Literal["projection", "copy", "zeros"] = _field(
        "Model",
        "From the encoder's last state to the decoder's first: a learned projection, a copy where the sizes agree, or "
        "nothing.",
        "projection",
        tasks="seq2seq",
    )
    characters: bool = _field("Model", "Also read each token letter by letter.", False, tasks="tag", shown="on")
    pooling: Literal["last", "mean", "max", "attention"] = _field(
        "Model", "From the states of all steps to one vector; padding never counts.", "mean", tasks="classify"
    )
    crf: bool = _field("Model", "Score whole tag sequences with a linear-chain CRF.", False, tasks="tag")
    tie_weights: bool = _field(
        "Model", "The output layer uses the embedding's weights; needs embedding = hidden.", False, tasks="lm"
    )
    dropout: float = _field("Model", "Dropout between layers; needs two or more.", 0.0, ge=0, lt=1)
    input_dropout: float = _field("Model", "Dropout of the embedded tokens, or of the features.", 0.0, ge=0, lt=1)
    output_dropout: float = _field("Model", "Dropout before the output layer.", 0.3, ge=0, lt=1, shown="0.3; lm: 0")
    word_dropout: float = _field("Model", "Share of tokens replaced by the unknown while training.", 0.0, ge=0, lt=1)
    single_bias: bool = _field(
        "Model", "One bias a gate, as textbooks write it; off: two, as torch.", False, cells=_RECURRENT
    )
    reset_after: bool = _field(
        "Model", "Reset gate after the product (torch, cuDNN); off: before, as Cho et al. (2014).", True, cells="gru"
    )
    forget_bias: float | None = _field(
        "Model", "The forget gate's bias at the start. None: as init.", None, cells="lstm"
    )
    init: Literal["torch", "keras", "irnn"] = _field(
        "Model", "How the recurrent weights start.", "torch", cells=_RECURRENT
    )
    init_range: float | None = _field(
        "Model", "All weights start uniform between minus and plus this; wins over init.", None, gt=0
    )
    learn_initial_state: bool = _field("Model", "Train the state that a sequence starts from.", False, cells=_RECURRENT)

    # training
    epochs: int = _field("Training", "Times through the training data.", 30, ge=1, shown="30; tag: 15; lm: 10")
    batch_size: int = _field("Training", "Sequences a step; for lm, parallel streams.", 32, ge=1, shown="32; lm: 64")
    chunk: int = _field("Training", "Time steps a gradient goes back (truncated BPTT).", 128, ge=1, tasks="lm")
    optimizer: Literal["adam", "adamw", "sgd"] = _field("Training", "The optimizer.", "adamw")
    learning_rate: float = _field("Training", "The learning rate at the start.", 2e-3, gt=0)
    schedule: Literal["constant", "cosine"] = _field(
        "Training", "cosine falls to 0 over the epochs.", "constant", shown="constant; lm: cosine"
    )
    warmup: float = _field(
        "Training", "Epochs in which the learning rate rises from 0; 0.2 is a fifth of the first one.", 0.0, ge=0
    )
    decay: float = _field(
        "Training", "The learning rate is multiplied by this after each epoch past decay_after.", 1.0, gt=0, le=1
    )
    decay_after: int = _field("Training", "Epochs at the full learning rate.", 0, ge=0)
    momentum: float = _field("Training", "Momentum of sgd.", 0.0, ge=0, lt=1)
    weight_decay: float = _field("Training", "Weights shrink by this, times the learning rate, a step.", 0.0, ge=0)
    clip: float | None = _field(
        "Training", "Largest norm of the gradient; longer ones are scaled down.", 5.0, gt=0, shown="5; lm: 1"
    )
    loss_scale: Literal["mean", "sum_over_time"] = _field(
        "Training",
        "mean over tokens, or the mean over streams of the sum over a chunk's steps: papers that give a learning rate "
        "and a clip for the sum need the sum (Zaremba et al., 2014).",
        "mean",
        tasks="lm",
    )
    label_smoothing: float = _field(
        "Training", "Share of the target spread over all labels.", 0.0, ge=0, lt=1, tasks="classify seq2seq"
    )
    sampling: Literal["none", "linear", "exponential", "inverse_sigmoid"] = _field(
        "Training",
        "Scheduled sampling: the decoder reads its own tokens more and more often, by this schedule. none: always the "
        "true ones (teacher forcing).",
        "none",
        tasks="seq2seq",
    )
    sampling_rate: float | None = _field(
        "Training",
        "The schedule's constant, by epochs: linear, the share lost an epoch (None: all by the end); exponential, the "
        "share kept an epoch (0.9); inverse_sigmoid, the k of k / (k + exp(epoch / k)) (5).",
        None,
        gt=0,
        tasks="seq2seq",
    )
    sampling_floor: float = _field(
        "Training", "The least share of true tokens under scheduled sampling.", 0.0, ge=0, le=1, tasks="seq2seq"
    )
    beam: int = _field(
        "Training", "Hypotheses side by side when a finished model writes; 1: greedy.", 4, ge=1, tasks="seq2seq"
    )
    length_penalty: float = _field(
        "Training", "How far the beam's scores are normalised by length: 0 not, 1 fully.", 0.6, ge=0, tasks="seq2seq"
    )
    coverage_penalty: float = _field(
        "Training", "What the beam takes off for sources that were not looked at.", 0.0, ge=0, tasks="seq2seq"
    )
    bleu: bool = _field("Training", "Also report BLEU and chrF, by sacrebleu.", False, tasks="seq2seq")
    feature_noise: float = _field(
        "Training", "Deviation of noise added to standardised features.", 0.0, ge=0, tasks="classify tag seq2seq"
    )
    average: float | None = _field(
        "Training", "Keep a moving average of the weights with this decay a step, and score it.", None, gt=0, lt=1
    )
    patience: int | None = _field(
        "Training", "Stop after so many epochs without a better validation score.", 10, ge=1, shown="10; lm: none"
    )

    # forecasting
    target: str = _field("Forecasting", "The column to forecast.", "target", tasks="forecast")
    known: tuple[str, ...] = _field(
        "Forecasting", "Columns that are known in advance, for the horizon too.", (), tasks="forecast"
    )
    past: tuple[str, ...] = _field(
        "Forecasting", "Columns that are known only up to the moment of the forecast.", (), tasks="forecast"
    )
    horizon: int = _field("Forecasting", "Steps to forecast.", 24, ge=1, tasks="forecast")
    lookback: int | None = _field(
        "Forecasting",
        "Steps that are read before a forecast. None: two horizons or two seasons, whichever is more.",
        None,
        ge=1,
        tasks="forecast",
    )
    frequency: str = _field(
        "Forecasting", "The step of time, such as 15min, h, d, w, mo, q; auto: the usual one.", "auto", tasks="forecast"
    )
    season: int | None = _field(
        "Forecasting", "Steps of a season. None: by the step (h: 24, d: 7, mo: 12).", None, ge=1, tasks="forecast"
    )
    gaps: Literal["error", "mask", "fill"] = _field(
        "Forecasting",
        "Where rows are missing: an error that names them, missing values, or the value before again.",
        "error",
        tasks="forecast",
    )
    short: Literal["error", "mask", "drop"] = _field(
        "Forecasting",
        "Series shorter than context and horizon: an error, read what is there, or leave them out.",
        "error",
        tasks="forecast",
    )
    constant: Literal["error", "keep", "drop"] = _field(
        "Forecasting",
        "Series that never change: an error, learn from them, or leave them out.",
        "error",
        tasks="forecast",
    )
    valid_steps: int | None = _field(
        "Forecasting",
        "Steps held out of each series for validation. None: as valid_share.",
        None,
        ge=1,
        tasks="forecast",
    )
    test_steps: int | None = _field(
        "Forecasting", "Steps held out of each series for the test. None: as test_share.", None, ge=0, tasks="forecast"
    )
    stride: int | None = _field(
        "Forecasting", "Steps between two forecasts of an evaluation. None: one horizon.", None, ge=1, tasks="forecast"
    )
    head: Literal["autoregressive", "direct"] = _field(
        "Forecasting",
        "autoregressive: each value is drawn and read again, as far as you like. direct: the whole horizon at once.",
        "autoregressive",
        tasks="forecast",
    )
    output: Literal["student-t", "quantile", "point", "negative-binomial"] = _field(
        "Forecasting", "What is said of each value; negative-binomial is for counts.", "student-t", tasks="forecast"
    )
    quantiles: tuple[float, ...] = _field(
        "Forecasting",
        "Shares of the values below each line of a forecast, rising.",
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        tasks="forecast",
    )
    calibrate: Literal["none", "validation", "adaptive"] = _field(
        "Forecasting",
        "Move the quantiles to the shares that they name: by the errors of the validation part, and adaptive: by those of "
        "forecasts whose horizon has passed too.",
        "adaptive",
        tasks="forecast",
    )
    scaler: Literal["series", "window"] = _field(
        "Forecasting",
        "Mean and scale of a series: those of its training part, or those of the context of each window.",
        "series",
        tasks="forecast",
    )
    transform: Literal["none", "log"] = _field(
        "Forecasting",
        "log: learn the logarithm of values above 0, so that errors count in percent and forecasts stay above 0.",
        "none",
        tasks="forecast",
    )
    lags: tuple[int, ...] = _field(
        "Forecasting", "Steps back whose values go into each step. None given: the last three, one season.", (),
        tasks="forecast",
    )  # fmt: skip
    calendar: bool = _field("Forecasting", "Read hour, weekday and day of the year.", True, tasks="forecast")
    series_embedding: int = _field(
        "Forecasting", "Numbers that stand for each series; 0: none, and new series can be forecast.", 0, ge=0,
        tasks="forecast",
    )  # fmt: skip
    skip: bool = _field("Forecasting", "A straight line past the recurrent layer.", True, tasks="forecast")
    forks: int = _field(
        "Forecasting", "Origins of each window at which the direct head learns.", 8, ge=1, tasks="forecast"
    )
    epoch_windows: int | None = _field(
        "Forecasting",
        "Windows of an epoch. None: as many as horizons fit, and 25 batches at least.",
        None,
        ge=1,
        tasks="forecast",
    )
    paths: int = _field("Forecasting", "Paths drawn by an autoregressive forecast.", 200, ge=1, tasks="forecast")
    compare_with: Literal["auto", "none", "ets"] = _field(
        "Forecasting",
        "ets: fit exponential smoothing (statsmodels) beside it. auto: where there are at most 20 series.",
        "auto",
        tasks="forecast",
    )

    # the run
    seed: int = _field("Run", "The same seed, machine and threads give the same weights.", 0, ge=0, lt=2**63)
    device: str = _field("Run", "auto, cpu, cuda, cuda:0 or mps.", "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    threads: int | None = _field("Run", "Threads for the arithmetic. None: as torch chooses.", None, ge=1)
    backend: Literal["auto", "reference", "native", "torch"] = _field(
        "Run", "The engine of the recurrent layers.", "auto", cells=_RECURRENT
    )
    log_every: int = _field("Run", "Optimizer steps between two lines of metrics.jsonl.", 20, ge=1)
    inspect_every: int | None = _field(
        "Run",
        "Optimizer steps between two looks at gates and gradients, which metrics.jsonl keeps. None: no looks.",
        100,
        ge=1,
        cells=_RECURRENT,
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise RecipeError("\n".join(_sentence(detail) for detail in error.errors())) from None

    @model_validator(mode="wrap")
    @classmethod
    def _resolve(cls, values: Any, handler: ModelWrapValidatorHandler[Recipe]) -> Recipe:
        """Fill in what the task implies; `model_fields_set` stays what was said."""
        if not isinstance(values, Mapping):
            return handler(values)
        said = {name: _word_none(name, value) for name, value in values.items()}
        recipe = handler(_BY_TASK.get(str(said.get("task")), {}) | said)
        object.__setattr__(recipe, "__pydantic_fields_set__", set(said))
        _check_together(recipe)
        return recipe

    def has(self, name: str) -> bool:
        """Whether a field has a meaning for this task and cell."""
        extra = _extra(name)
        return self.task in (extra["tasks"] or [self.task]) and self.cell in (extra["cells"] or [self.cell])

    def replace(self, **changes: Any) -> Recipe:
        """Another recipe, checked again, with some fields changed."""
        return Recipe(**(self.model_dump(exclude_unset=True) | changes))

    @classmethod
    def load(cls, path: str | Path) -> Recipe:
        """Read a recipe.toml.

        Raises:
            RecipeError: the file is not there, is not TOML, or a value is not valid.
        """
        return cls(**read_toml(path))

    def dump(self) -> str:
        """The recipe as TOML, with every field that has a meaning here, so that defaults may change later."""
        lines = {}
        for name, value in self.model_dump().items():
            if self.has(name) and not (value is None and defaults(self.task).get(name) is None):
                lines[name] = "none" if value is None else list(value) if isinstance(value, tuple) else value
        return require("tomli_w", "cli").dumps(lines)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The values in a recipe file, not checked yet."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(expected("recipe", "a readable UTF-8 file", f"{path}: {error}")) from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(expected(str(path), "TOML, such as hidden = 64", str(error))) from None


def _extra(name: str) -> dict[str, Any]:
    return cast(dict[str, Any], Recipe.model_fields[name].json_schema_extra)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _word_none(name: str, value: Any) -> Any:
    """TOML has no null: the word none stands for it where a field may be None and is not a name."""
    field = Recipe.model_fields.get(name)
    optional = field is not None and type(None) in get_args(field.annotation)
    return None if optional and value == "none" else value


def _check_together(recipe: Recipe) -> None:
    """What no field can check alone."""
    for name in sorted(recipe.model_fields_set):
        value, usual = getattr(recipe, name), defaults(recipe.task).get(name)
        if not recipe.has(name) and value not in (usual, Recipe.model_fields[name].default):
            extra = _extra(name)
            only = (
                f"task {' or '.join(extra['tasks'])}"
                if recipe.task not in (extra["tasks"] or [recipe.task])
                else (f"cell {' or '.join(extra['cells'])}")
            )
            found = f"{value!r} for task {recipe.task}, cell {recipe.cell}"
            raise RecipeError(expected(name, f"to be set with {only} only", found, f"Leave out {_flag(name)}."))
    if recipe.task == "lm" and recipe.bidirectional:
        raise RecipeError(
            expected(
                "bidirectional",
                "false for task lm",
                "true",
                "A language model predicts the next token: the future, which a backward direction would read, is not "
                "there yet. Leave out --bidirectional.",
            )
        )
    if recipe.cell == "transformer" and recipe.task == "forecast":
        raise RecipeError(expected("cell", "rnn, lstm or gru for task forecast", "transformer", "Leave out --cell."))
    if recipe.cell == "transformer" and recipe.hidden % recipe.heads:
        found = f"hidden = {recipe.hidden}, heads = {recipe.heads}"
        raise RecipeError(expected("hidden", "a multiple of heads", found, "Choose --heads or --hidden to fit."))
    if recipe.task == "seq2seq":
        _check_pairs(recipe)
    if recipe.task == "forecast":
        _check_forecast(recipe)
    if recipe.dropout > 0 and recipe.layers == 1 and recipe.cell != "transformer":
        way_out = "It acts between layers: use --output-dropout or --input-dropout, or --layers 2."
        raise RecipeError(expected("dropout", "0 with layers = 1", recipe.dropout, way_out))
    if recipe.tie_weights and recipe.embedding != recipe.hidden:
        found = f"embedding = {recipe.embedding}, hidden = {recipe.hidden}"
        way_out = f"Use --embedding {recipe.hidden}, or leave out --tie-weights."
        raise RecipeError(expected("tie_weights", "embedding = hidden, as both use one matrix", found, way_out))
    if recipe.momentum and recipe.optimizer != "sgd":
        found = f"{recipe.momentum} with {recipe.optimizer}"
        raise RecipeError(expected("momentum", "0 unless optimizer is sgd", found, "Use --optimizer sgd."))
    if recipe.init == "irnn" and recipe.cell != "rnn":
        way_out = "Use --cell rnn, or --init torch."
        raise RecipeError(expected("init", "irnn with cell rnn only", f"irnn with {recipe.cell}", way_out))
    if not math.isclose(min(recipe.valid_share + recipe.test_share, 0.95), recipe.valid_share + recipe.test_share):
        found = f"{recipe.valid_share} + {recipe.test_share}"
        raise RecipeError(expected("valid_share + test_share", "at most 0.95, so that some data train", found))


def _check_pairs(recipe: Recipe) -> None:
    """What does not go together in an encoder–decoder."""
    if recipe.source == "vector" and recipe.attention not in ("auto", "none"):
        found = f"attention = {recipe.attention}"
        raise RecipeError(expected("attention", "none where the source is a vector", found, "Leave out --attention."))
    if recipe.input_feeding and (recipe.attention not in ("auto", "dot", "general") or recipe.source == "vector"):
        way_out = "Use --attention general; additive attention feeds its context already."
        found = f"attention = {recipe.attention}"
        raise RecipeError(expected("input_feeding", "attention dot or general beside it", found, way_out))
    if recipe.coverage_penalty and (recipe.attention == "none" or recipe.source == "vector"):
        found = f"{recipe.coverage_penalty} without attention"
        raise RecipeError(expected("coverage_penalty", "0 without attention", found, "Leave out --coverage-penalty."))
    limits = {"exponential": (0.0, 1.0), "inverse_sigmoid": (1.0, math.inf)}
    if recipe.sampling == "none" and (recipe.sampling_rate is not None or recipe.sampling_floor):
        raise RecipeError(expected("sampling", "a schedule, for its constants", "none", "Add --sampling linear."))
    low, high = limits.get(recipe.sampling, (0.0, math.inf))
    if recipe.sampling_rate is not None and not low <= recipe.sampling_rate <= high:
        wanted = f"{low:g} or more" + (f" and at most {high:g}" if high < math.inf else "")
        raise RecipeError(expected("sampling_rate", f"{wanted} for {recipe.sampling}", recipe.sampling_rate))


def _check_forecast(recipe: Recipe) -> None:
    """What belongs together in a forecast."""
    if recipe.bidirectional:
        way_out = "The future is what a forecaster predicts: a backward direction would have read it."
        raise RecipeError(expected("bidirectional", "false for task forecast", "true", way_out))
    levels = recipe.quantiles
    if list(levels) != sorted(set(levels)) or not levels or not 0 < levels[0] <= levels[-1] < 1:
        way_out = "For example --quantiles 0.1 --quantiles 0.5 --quantiles 0.9."
        raise RecipeError(expected("quantiles", "rising numbers between 0 and 1", list(levels), way_out))
    if 0.5 not in levels:
        raise RecipeError(expected("quantiles", "0.5 among them: it is the forecast", list(levels), "Add 0.5."))
    if recipe.transform == "log" and recipe.output == "negative-binomial":
        way_out = "Counts are counted as they are: leave out --transform, or use --output student-t."
        raise RecipeError(expected("transform", "none for output negative-binomial", "log", way_out))
    if any(lag < 1 for lag in recipe.lags):
        raise RecipeError(expected("lags", "whole numbers from 1 on", list(recipe.lags), "1 is the last value."))
    roles = [recipe.time or "time", recipe.target, *([recipe.id] if recipe.id else []), *recipe.known, *recipe.past]
    twice = sorted({name for name in roles if roles.count(name) > 1})
    if twice:
        raise RecipeError(expected("columns", "one role each", f"{twice[0]!r} named twice", "Name it once."))


def _sentence(detail: Any) -> str:
    """One of pydantic's findings in the house's form."""
    name = ".".join(str(part) for part in detail["loc"]) or "recipe"
    kind, context, found = detail["type"], detail.get("ctx", {}), detail["input"]
    if isinstance(context.get("error"), RecipeError):
        return str(context["error"])  # of `_check_together`: a sentence already
    if kind == "extra_forbidden":
        import difflib

        near = difflib.get_close_matches(name, Recipe.model_fields, n=1)
        way_out = f"Did you mean {near[0]}?" if near else "unrolled train --help lists the fields."
        return expected(name, "a field of the recipe", "a name that is none", way_out)
    if kind == "missing":
        return expected(name, "a value", "none", f"Give {name}=… in Python or {name} = … in the recipe file.")
    wanted = {
        "literal_error": f"one of {context.get('expected')}",
        "greater_than": f"more than {context.get('gt')}",
        "greater_than_equal": f"{context.get('ge')} or more",
        "less_than": f"less than {context.get('lt')}",
        "less_than_equal": f"{context.get('le')} or less",
        "string_pattern_mismatch": "auto, cpu, cuda, cuda:0 or mps",
    }.get(kind, detail["msg"].removeprefix("Input should be ").removeprefix("Value error, "))
    words = {"task": "TASK", "data": "DATA"}  # the two that the command line takes without a flag
    on_the_line = f"In a recipe file: {name} = …; on the command line: {words.get(name, _flag(name))}."
    way_out = on_the_line if name in Recipe.model_fields else ""
    return expected(name, wanted, repr(found), way_out)
