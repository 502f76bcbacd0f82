"""What the fields of a recipe must agree on, and the sentences that say what is wrong."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from unrolled.errors import RecipeError, expected
from unrolled.training.recipe_fields import extra_of
from unrolled.training.recipe_forecast import ForecastFields, check_forecast

__all__ = ["check_together", "flag", "has_meaning", "sentence"]


# What the patterns of fields say, in words.
PATTERNS = {
    "device": "auto, cpu, cuda, cuda:0 or mps",
    "track": "tensorboard, wandb or mlflow; several are parted by commas, without blanks",
}


def has_meaning(recipe: ForecastFields, name: str) -> bool:
    """Whether a field has a meaning for this task and cell."""
    extra = extra_of(recipe, name)
    return recipe.task in (extra["tasks"] or [recipe.task]) and recipe.cell in (extra["cells"] or [recipe.cell])


def flag(name: str) -> str:
    """`learning_rate` → `--learning-rate`."""
    return "--" + name.replace("_", "-")


def check_together(recipe: ForecastFields, usual: Mapping[str, Any]) -> None:
    """What no field can check alone; `usual` are the defaults of the task."""
    for name in sorted(recipe.model_fields_set):
        value, extra = getattr(recipe, name), extra_of(recipe, name)
        plain = type(recipe).model_fields[name].default
        if not has_meaning(recipe, name) and value not in (usual.get(name), plain):
            only = (
                f"task {' or '.join(extra['tasks'])}"
                if recipe.task not in (extra["tasks"] or [recipe.task])
                else (f"cell {' or '.join(extra['cells'])}")
            )
            found = f"{value!r} for task {recipe.task}, cell {recipe.cell}"
            raise RecipeError(expected(name, f"to be set with {only} only", found, f"Leave out {flag(name)}."))
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
        check_forecast(recipe)
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


def _check_pairs(recipe: ForecastFields) -> None:
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


def sentence(detail: Any, fields: Collection[str]) -> str:
    """One of pydantic's findings in the house's form."""
    name = ".".join(str(part) for part in detail["loc"]) or "recipe"
    kind, context, found = detail["type"], detail.get("ctx", {}), detail["input"]
    if isinstance(context.get("error"), RecipeError):
        return str(context["error"])  # of `check_together`: a sentence already
    if kind == "extra_forbidden":
        import difflib

        near = difflib.get_close_matches(name, fields, n=1)
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
        "string_pattern_mismatch": PATTERNS.get(name),
    }.get(kind, detail["msg"].removeprefix("Input should be ").removeprefix("Value error, "))
    words = {"task": "TASK", "data": "DATA"}  # the two that the command line takes without a flag
    on_the_line = f"In a recipe file: {name} = …; on the command line: {words.get(name, flag(name))}."
    way_out = on_the_line if name in fields else ""
    return expected(name, wanted, repr(found), way_out)
