"""Options of the command line, made from the fields of the recipe.

One field is one option: `learning_rate` is `--learning-rate`, a boolean has its `--no-` twin, a field that may be
off (`clip`, when its default is a number) takes the word `none`. A field added to the recipe is an option at once.
Values are checked by the recipe itself, so a flag, a recipe file and Python get the same errors.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from unrolled.errors import RecipeError
from unrolled.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Collection

# The arguments TASK and DATA give these two; an option as well would be a second way to say the same.
ARGUMENTS = ("task", "data")


class _Off:
    """What the word `none` on the command line means: the field is None, as opposed to not given."""

    def __repr__(self) -> str:
        return "none"


OFF = _Off()


def flag(name: str) -> str:
    """`learning_rate` → `--learning-rate`."""
    return "--" + name.replace("_", "-")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were on the command line, as fields of the recipe."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or value == []:
            continue
        fields[name] = None if value is OFF else tuple(value) if isinstance(value, list) else value
    return fields


def with_recipe_options(
    names: Iterable[str] | None = None, *, without: Collection[str] = ARGUMENTS
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: replace the parameter `**options` of a command by one option for each field of the recipe."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        wanted = list(Recipe.model_fields if names is None else names)
        own = [
            parameter
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        taken = {parameter.name for parameter in own} | set(without)
        made = [parameter_of(name, Recipe.model_fields[name]) for name in wanted if name not in taken]
        command.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in [*own, *made]}
        return command

    return decorate


def parameter_of(name: str, field: FieldInfo) -> inspect.Parameter:
    """One field of the recipe as one parameter that typer turns into an option."""
    kind, choices, optional = kind_of(field.annotation)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    settings: dict[str, Any] = {
        "help": help_of(field, default_of(field, extra)),
        "rich_help_panel": str(extra.get("panel", "Options")),
        "show_default": False,
    }
    if kind is bool:
        declared = [f"{flag(name)}/--no-{name.replace('_', '-')}"]
        annotation: Any = bool | None
    elif kind in (int, float) and optional and field.default is not None and not field.is_required():
        declared = [flag(name)]
        settings |= {"parser": _or_none(kind), "metavar": f"{'INTEGER' if kind is int else 'FLOAT'}|none"}
        annotation = Any
    elif kind in (int, float):
        declared, annotation = [flag(name)], kind | None
    elif kind is list:
        declared, annotation = [flag(name)], list[str] | None
        settings["help"] += " Repeat the option for several."
    else:
        declared, annotation = [flag(name)], str | None
        settings["metavar"] = "|".join(choices) if choices else "TEXT"
    option = typer.Option(None, *declared, **settings)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)


def kind_of(annotation: Any) -> tuple[type, tuple[str, ...], bool]:
    """(bool | int | float | list | str, the words allowed, whether None is allowed) of a field's annotation."""
    members, optional = [annotation], False
    if get_origin(annotation) in (Union, types.UnionType):
        members = [m for m in get_args(annotation) if m is not type(None)]
        optional = len(members) < len(get_args(annotation))
    if all(get_origin(m) is Literal for m in members):
        return str, tuple(str(word) for m in members for word in get_args(m)), optional
    if len(members) > 1:
        return (float if set(members) == {int, float} else str), (), optional
    member = members[0]
    if get_origin(member) in (tuple, list):
        return list, (), optional
    return (member if member in (bool, int, float) else str), (), optional


def default_of(field: FieldInfo, extra: Mapping[str, Any]) -> str:
    """The default as the help prints it; a default that depends on the task is told by the recipe itself."""
    if "default" in extra:
        return str(extra["default"])
    if field.is_required() or field.default in (None, "", ()):
        return ""
    value = field.default
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def help_of(field: FieldInfo, default: str) -> str:
    """The field's description, with its default."""
    text = (field.description or "").strip()
    text = text if text.endswith((".", "?", ")")) or not text else text + "."
    escaped = text.replace("[", r"\[")  # rich reads [x] as a style
    return f"{escaped} [dim](default: {default})[/dim]" if default else escaped


def _or_none(kind: type) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        return OFF if text is OFF or str(text).lower() == "none" else kind(text)

    parse.__name__ = kind.__name__  # what typer prints when the text is not a number
    return parse


def recipe_from(
    file: Path | None, task: str | None, data: str | None, options: Mapping[str, Any]
) -> Recipe:
    """The recipe of a run: the file's values, then the arguments, then the flags; the later ones win."""
    from unrolled.training import recipe as recipes

    values: dict[str, Any] = {}
    if file is not None:
        values |= Recipe.load(file).model_dump(exclude_unset=True)
    values |= {name: value for name, value in (("task", task), ("data", data)) if value is not None}
    values |= given(options)
    for name in ARGUMENTS:
        if name not in values:
            raise RecipeError(
                f"{name.upper()} is missing. Write: unrolled train TASK DATA, or name a recipe file that has both "
                "task and data with --recipe FILE."
            )
    return recipes.Recipe(**values)
