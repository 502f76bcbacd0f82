"""Options that are made from the fields of the recipe, made when their command is asked for: the recipe takes longer
to load than the help that lists the commands may take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

__all__ = ["ARGUMENTS", "complete", "recipe_options"]

# The arguments TASK and DATA give these two; an option as well would be a second way to say the same.
ARGUMENTS = ("task", "data")

Command = Callable[..., None]


class Wanted(NamedTuple):
    """Which fields become options of a command."""

    names: tuple[str, ...] | None  # None: all
    without: tuple[str, ...]
    defaults: bool


def recipe_options(
    names: Iterable[str] | None = None, *, without: Collection[str] = ARGUMENTS, defaults: bool = True
) -> Callable[[Command], Command]:
    """Decorator: `complete` replaces the parameter `**options` by one option for each field of the recipe.

    Args:
        names: the fields; None: all.
        without: fields that the command takes in another way.
        defaults: whether the help tells the recipe's defaults, which a command with its own recipes does not use.
    """

    def decorate(command: Command) -> Command:
        parameters = inspect.signature(command, eval_str=True).parameters.values()
        own = [one for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
        wanted = Wanted(None if names is None else tuple(names), tuple(without), defaults)
        vars(command)["wanted"] = wanted
        return _with_parameters(command, own)

    return decorate


def complete(command: Command) -> Command:
    """A command with all its options."""
    wanted: Wanted | None = vars(command).get("wanted")
    if wanted is None:
        return command
    from unrolled.cli.options import parameters_of_recipe

    own = list(inspect.signature(command).parameters.values())
    taken = {parameter.name for parameter in own} | set(wanted.without)
    return _with_parameters(command, [*own, *parameters_of_recipe(wanted.names, taken, wanted.defaults)])


def _with_parameters(command: Any, parameters: list[inspect.Parameter]) -> Command:
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
