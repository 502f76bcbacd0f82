"""Errors that say which argument, what was wanted, what was found, and the way out.

Each class is also the built-in that a caller would expect, so `except ValueError` keeps working. A plain argument out
of range raises the plain built-in; what a file, a recipe or a run can cause is an `UnrolledError`, which the command
line prints as one line.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class UnrolledError(Exception):
    """Base of all errors raised on purpose."""


class ShapeError(UnrolledError, RuntimeError, ValueError):
    """A tensor has the wrong axes or sizes. torch.nn raises both built-in kinds for this, so it is both."""


class DtypeError(UnrolledError, TypeError, RuntimeError, ValueError):
    """A tensor is of the wrong type of number. torch.nn raises ValueError or RuntimeError for this, by layer."""


class DataError(UnrolledError, ValueError):
    """A data file, a row, a label or a text cannot be used."""


class RecipeError(UnrolledError, ValueError):
    """A recipe, or a flag of the command line, is not valid."""


class RunError(UnrolledError, RuntimeError):
    """A run cannot start, go on or be read."""


class BundleError(UnrolledError, ValueError):
    """A model file is damaged, is not ours, or is of a newer format."""


class MissingExtra(UnrolledError, ImportError):
    """An optional dependency is not installed."""


def expected(argument: str, wanted: object, found: object, way_out: str = "") -> str:
    """One sentence in the house's form.

    >>> expected("hx", "(2, 3, 16) (layers, batch, hidden)", "(3, 16)", "Add the layer axis with hx[None].")
    'hx: expected (2, 3, 16) (layers, batch, hidden), found (3, 16). Add the layer axis with hx[None].'
    """
    said = f"{_short(argument)}: expected {_short(wanted)}, found {_short(found)}."
    return f"{said} {_shown(way_out)}" if way_out else said


LONGEST = 500  # characters of one part: a file may hold a name of any length


def _short(part: object) -> str:
    text = str(part)
    return _shown(text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}")


def _shown(text: str) -> str:
    """The text on one line; what a terminal would obey, hide or fail to print is escaped, as a file may name it."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    Raises:
        MissingExtra: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingExtra(f"{module} is not installed. Install it with: pip install 'unrolled[{extra}]'") from error
