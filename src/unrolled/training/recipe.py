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

Task = Literal["classify", "tag", "lm"]
TASKS: tuple[str, ...] = get_args(Task)

_BY_TASK: dict[str, dict[str, Any]] = {
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
    task: Task = _field("Data", "classify (a label a sequence), tag (a tag a step) or lm (the next token).")
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
        tasks="classify tag",
    )
    id: str | None = _field("Data", "The column that says which rows form one sequence.", None, tasks="classify tag")
    time: str | None = _field("Data", "The column that orders the rows of a sequence.", None, tasks="classify tag")
    group: str | None = _field("Data", "The column whose equal values never stand in two parts of a split.", None)
    tokenizer: Literal["chars", "words", "spaces", "subword"] = _field(
        "Data",
        "What a token of a text is. spaces: the text is tokenised already, a line end is <eos>.",
        "words",
        tasks="classify lm",
        shown="words; lm: chars",
    )
    vocabulary_size: int | None = _field(
        "Data", "At most so many tokens, the most frequent ones; for subword, the pieces to learn.", None, ge=2
    )
    min_count: int = _field("Data", "Tokens seen less often in training count as unknown.", 2, ge=1)
    lowercase: bool = _field("Data", "Lower all letters.", False, tasks="classify lm")
    context: Literal["auto", "continuous", "independent"] = _field(
        "Data",
        "continuous: one stream, the state goes on from text to text. independent: every document starts from the "
        "initial state and ends in an end symbol. auto: independent where the data hold several documents.",
        "auto",
        tasks="lm",
    )

    # model
    cell: Literal["rnn", "lstm", "gru"] = _field("Model", "The recurrent cell.", "lstm")
    hidden: int = _field("Model", "Units of each layer and direction.", 128, ge=1, shown="128; lm: 512")
    layers: int = _field("Model", "Layers, one on the other.", 1, ge=1)
    bidirectional: bool = _field("Model", "Also read from the end; not for lm.", False, shown="on; lm: off")
    embedding: int = _field("Model", "Numbers that stand for a token.", 100, ge=1, shown="100; lm: 128")
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
    single_bias: bool = _field("Model", "One bias a gate, as textbooks write it; off: two, as torch.", False)
    reset_after: bool = _field(
        "Model", "Reset gate after the product (torch, cuDNN); off: before, as Cho et al. (2014).", True, cells="gru"
    )
    forget_bias: float | None = _field(
        "Model", "The forget gate's bias at the start. None: as init.", None, cells="lstm"
    )
    init: Literal["torch", "keras", "irnn"] = _field("Model", "How the recurrent weights start.", "torch")
    init_range: float | None = _field(
        "Model", "All weights start uniform between minus and plus this; wins over init.", None, gt=0
    )
    learn_initial_state: bool = _field("Model", "Train the state that a sequence starts from.", False)

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
        "Training", "Share of the target spread over all labels.", 0.0, ge=0, lt=1, tasks="classify"
    )
    feature_noise: float = _field(
        "Training", "Deviation of noise added to standardised features.", 0.0, ge=0, tasks="classify tag"
    )
    average: float | None = _field(
        "Training", "Keep a moving average of the weights with this decay a step, and score it.", None, gt=0, lt=1
    )
    patience: int | None = _field(
        "Training", "Stop after so many epochs without a better validation score.", 10, ge=1, shown="10; lm: none"
    )

    # the run
    seed: int = _field("Run", "The same seed, machine and threads give the same weights.", 0, ge=0, lt=2**63)
    device: str = _field("Run", "auto, cpu, cuda, cuda:0 or mps.", "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    threads: int | None = _field("Run", "Threads for the arithmetic. None: as torch chooses.", None, ge=1)
    backend: Literal["auto", "reference", "native", "torch"] = _field(
        "Run", "The engine of the recurrent layers.", "auto"
    )
    log_every: int = _field("Run", "Optimizer steps between two lines of metrics.jsonl.", 20, ge=1)

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
    if recipe.dropout > 0 and recipe.layers == 1:
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
