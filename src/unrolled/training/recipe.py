"""The recipe: every option of a run, in one frozen object that is written beside the model.

One field is one key of recipe.toml, one option of the command line and one keyword in Python. Defaults may depend on
the task (`defaults`). Needs pydantic, not torch, so that the command line can print its help at once.

Axes     sizes count units, `chunk` counts time steps, `batch_size` counts sequences (for `lm`: parallel streams).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from unrolled.errors import RecipeError, expected, require
from unrolled.training.recipe_checks import check_together, has_meaning, sentence
from unrolled.training.recipe_fields import TASKS
from unrolled.training.recipe_forecast import ForecastFields

__all__ = ["TASKS", "Recipe", "defaults", "read_toml"]

LARGEST = 2**20  # letters of a recipe, which has some hundred lines at most
# A name of parts takes tomllib time by the square of their number: half a minute for a hundred kilobytes.
_MANY_DOTS = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")

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


class Recipe(ForecastFields):
    """All that is needed to repeat a run.

    Raises:
        RecipeError: a value is not valid; the message names the field, what was wanted, what was found, the way out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise RecipeError("\n".join(sentence(detail, Recipe.model_fields) for detail in error.errors())) from None

    @model_validator(mode="wrap")
    @classmethod
    def _resolve(cls, values: Any, handler: ModelWrapValidatorHandler[Recipe]) -> Recipe:
        """Fill in what the task implies; `model_fields_set` stays what was said."""
        if not isinstance(values, Mapping):
            return handler(values)
        said = {name: _word_none(name, value) for name, value in values.items()}
        recipe = handler(_BY_TASK.get(str(said.get("task")), {}) | said)
        object.__setattr__(recipe, "__pydantic_fields_set__", set(said))
        check_together(recipe, defaults(recipe.task))
        return recipe

    def has(self, name: str) -> bool:
        """Whether a field has a meaning for this task and cell."""
        return has_meaning(self, name)

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
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(expected("recipe", "a readable UTF-8 file", f"{path}: {error}")) from None
    if len(text) > LARGEST or _MANY_DOTS.search(text):
        found = "a name of twenty parts" if len(text) <= LARGEST else "more"
        raise RecipeError(expected(str(path), f"at most {LARGEST:,} letters, and names without dots", found))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is the first; so is a number of thousands of digits
        found = "lists or tables nested too deep" if isinstance(error, RecursionError) else str(error)
        raise RecipeError(expected(str(path), "TOML, such as hidden = 64", found)) from None


def _word_none(name: str, value: Any) -> Any:
    """TOML has no null: the word none stands for it where a field may be None and is not a name."""
    field = Recipe.model_fields.get(name)
    optional = field is not None and type(None) in get_args(field.annotation)
    return None if optional and value == "none" else value
