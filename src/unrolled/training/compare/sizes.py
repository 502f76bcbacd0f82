"""The number of units that gives a cell a number of parameters.

All parameters of the model count: embedding, layers, output. Only `hidden` is varied (with tied weights, `embedding`
with it; for a Transformer also `feedforward`), so what the cells do not share is the layer alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from unrolled.errors import RecipeError, expected
from unrolled.training.recipe import Recipe
from unrolled.training.tasks import Task, find

__all__ = ["Sized", "count", "for_cell", "sized"]

MOST_UNITS = 2**16


class Sized(NamedTuple):
    """A recipe whose model has the parameters asked for, and how many it has."""

    recipe: Recipe
    parameters: int


def for_cell(recipe: Recipe, cell: str) -> Recipe:
    """The same recipe for another cell, without the options that this cell does not have."""
    said = recipe.model_dump(exclude_unset=True) | {"cell": cell}
    kept = {}
    for name, value in said.items():
        of = (Recipe.model_fields[name].json_schema_extra or {}).get("cells")  # type: ignore[union-attr]
        if not of or cell in of:  # type: ignore[operator]
            kept[name] = value
    if cell == "transformer" and "hidden" not in kept:
        kept["hidden"] = recipe.hidden - recipe.hidden % kept.get("heads", Recipe.model_fields["heads"].default)
    return Recipe(**kept)


def count(recipe: Recipe, task: Task) -> int:
    """Parameters of the recipe's model. No memory is taken for them."""
    start: dict[str, str | None] = {name: None for name in ("forget_bias", "init_range") if recipe.has(name)}
    start |= {"init": "torch"} if recipe.has("init") else {}
    twin = find(recipe.task).from_dict(recipe.replace(**start), task.to_dict())
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in twin.build().parameters())


def sized(recipe: Recipe, task: Task, parameters: int, tolerance: float = 0.03) -> Sized:
    """The recipe with the `hidden` that comes nearest to a number of parameters.

    Args:
        task: what `caching.prepare` found.
        tolerance: how far off the result may be, as a share of `parameters`.

    Raises:
        RecipeError: no size comes near enough.
    """
    step = recipe.heads if recipe.cell == "transformer" else 1

    def of(units: int) -> Sized:
        changed = _with_hidden(recipe, units * step)
        return Sized(changed, count(changed, task))

    low, high = 1, 2
    while of(high).parameters < parameters and high * step < MOST_UNITS:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of(middle).parameters < parameters else (low, middle)
    best = min((of(low), of(high)), key=lambda one: abs(one.parameters - parameters))
    if recipe.cell == "transformer" and recipe.feedforward is None:
        best = _with_feedforward(best, task, parameters)
    if abs(best.parameters - parameters) > tolerance * parameters:
        found = f"{best.parameters:,} with hidden = {best.recipe.hidden}, the nearest"
        way_out = "Ask for another number (--parameters), allow more (--tolerance), or take a smaller --embedding."
        wanted = f"within {tolerance:.0%} of {parameters:,} for {recipe.cell}"
        raise RecipeError(expected("parameters", wanted, found, way_out))
    return best


def _with_feedforward(near: Sized, task: Task, parameters: int) -> Sized:
    """Heads allow only few sizes; what is left over is made up by the width of the feed-forward network."""
    wide = 4 * near.recipe.hidden
    more = near.recipe.replace(feedforward=wide + 1)
    a_unit = count(more, task) - near.parameters
    changed = near.recipe.replace(feedforward=max(1, wide + round((parameters - near.parameters) / a_unit)))
    return Sized(changed, count(changed, task))


def _with_hidden(recipe: Recipe, hidden: int) -> Recipe:
    return recipe.replace(hidden=hidden, **({"embedding": hidden} if recipe.tie_weights else {}))
