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

from unrolled.cli.completion import ARGUMENTS
from unrolled.errors import RecipeError, expected
from unrolled.training.recipe import Recipe, read_toml
from unrolled.training.recipe_checks import flag

if TYPE_CHECKING:
    from collections.abc import Collection

# Begins the parameter's name of a `--no-` twin; no field of the recipe can begin like this.
NO = "no__"


class _Off:
    """What the word `none` on the command line means: the field is None, as opposed to not given."""

    def __repr__(self) -> str:
        return "none"


OFF = _Off()


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were on the command line, as fields of the recipe."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or value == []:
            continue
        field = name.removeprefix(NO)
        if field in fields:
            raise RecipeError(expected(field, f"{flag(field)} or {flag('no_' + field)}", "both"))
        if name.startswith(NO):
            value = not value
        fields[field] = None if value is OFF else tuple(value) if isinstance(value, list) else value
    return fields


def parameters_of_recipe(
    names: Iterable[str] | None, taken: Collection[str], defaults: bool
) -> list[inspect.Parameter]:
    """One option for each field of the recipe, but for those that are taken; `names` None: of all fields."""
    wanted = [name for name in (Recipe.model_fields if names is None else names) if name not in taken]
    return [one for name in wanted for one in parameters_of(name, Recipe.model_fields[name], defaults)]


def parameters_of(name: str, field: FieldInfo, defaults: bool = True) -> list[inspect.Parameter]:
    """One field of the recipe as one parameter that typer turns into an option; two, if there is a `--no-` twin."""
    kind, choices, optional = kind_of(field.annotation)
    settings: dict[str, Any] = {
        "help": help_of(name, field, choices, default_of(field) if defaults else ""),
        "rich_help_panel": str(_extra(field).get("panel", "Options")),
        "show_default": False,
    }
    annotation: Any = kind | None
    if kind is bool:
        # The twin is not listed by itself: a column for it would leave the help no room in 80 columns.
        twin = typer.Option(None, flag(f"no_{name}"), hidden=True)
        return [_keyword(name, typer.Option(None, flag(name), **settings)), _keyword(NO + name, twin)]
    if kind in (int, float) and optional and field.default is not None:
        settings |= {"parser": _or_none(kind), "metavar": f"<{kind.__name__}>|none"}
        annotation = Any
    elif kind is list:
        settings["metavar"] = "TEXT"
        annotation = list[str] | None
    elif kind is str:
        settings["metavar"] = "WORD" if choices else "TEXT"
    return [_keyword(name, typer.Option(None, flag(name), **settings), annotation)]


def _keyword(name: str, option: Any, annotation: Any = bool | None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


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


def default_of(field: FieldInfo) -> str:
    """The default as the help prints it; what depends on the task is told by the recipe itself."""
    if "default" in _extra(field):
        return str(_extra(field)["default"])
    if field.is_required() or field.default in (None, "", ()):
        return ""
    value = field.default
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def help_of(name: str, field: FieldInfo, choices: tuple[str, ...], default: str) -> str:
    """The field's description, the words it takes, and its default."""
    extra = _extra(field)
    parts = [(field.description or "").strip()]
    if choices:
        parts.append(f"One of: {', '.join(choices)}.")
    if get_origin(field.annotation) in (tuple, list):
        parts.append("Repeat the option for several.")
    if default.startswith("on"):
        parts.append(f"{flag('no_' + name)} switches it off.")
    if extra.get("tasks") or extra.get("cells"):
        parts.append(f"(only {', '.join([*extra.get('tasks', ()), *extra.get('cells', ())])})")
    text = " ".join(parts).replace("[", r"\[")  # rich reads [x] as a style
    return f"{text} [dim](default: {default})[/dim]" if default else text


def _or_none(kind: type) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        return OFF if text is OFF or str(text).lower() == "none" else kind(text)

    parse.__name__ = kind.__name__  # what typer prints when the text is not a number
    return parse


def recipe_from(file: Path | None, task: str | None, data: str | None, options: Mapping[str, Any]) -> Recipe:
    """The recipe of a run: the file's values, then the arguments, then the flags; the later ones win."""
    values: dict[str, Any] = {} if file is None else read_toml(file)
    values |= {name: value for name, value in (("task", task), ("data", data)) if value is not None}
    values |= given(options)
    for name in ARGUMENTS:
        if name not in values:
            way_out = "Write: unrolled train TASK DATA, or name a file that has both with --recipe FILE."
            raise RecipeError(expected(name.upper(), "a value", "none", way_out))
    return Recipe(**values)
