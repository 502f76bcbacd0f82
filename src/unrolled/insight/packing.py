"""Numbers on their way into JSON: small, and never a blank where something is not finite.

number   a float of six digits, or one of the words "nan", "inf", "-inf", which JSON has no number for.
heat     a table of numbers as bytes: {"rows": R, "columns": C, "low": l, "step": s, "smallest": …, "largest": …,
         "data": base64 of R·C signed bytes, row after row}. A byte q from -125 to 127 is the value l + (q + 125) · s,
         off by half of s at most, 0.2 % of the range. -128 is empty (padding, or out of reach), -127 is -inf (the
         logarithm of an exact 0), -126 is what is not finite otherwise. smallest and largest are the exact ends.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

__all__ = ["EMPTY", "MINUS_INFINITY", "NOT_FINITE", "heat", "number", "numbers", "unpack"]

EMPTY, MINUS_INFINITY, NOT_FINITE = -128, -127, -126
LOWEST, LEVELS = -125, 252


def number(value: Any) -> float | int | str | None:
    """One number as JSON can hold it."""
    if value is None or isinstance(value, int):
        return value
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}")


def numbers(value: Any) -> Any:
    """The same for lists, tensors and dicts of numbers; other values stay."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(one) for one in value]
    return value if isinstance(value, str | bool) else number(value)


def heat(values: Any, *, empty: Any = None) -> dict[str, Any]:
    """A table (R, C) as bytes.

    Args:
        empty: boolean (R, C), cells that are not there; None: those that are NaN.
    """
    table = np.asarray(values, np.float64)
    hidden = np.isnan(table) if empty is None else np.asarray(empty, bool)
    shown = np.isfinite(table) & ~hidden
    low, high = (float(table[shown].min()), float(table[shown].max())) if shown.any() else (0.0, 0.0)
    step = (high / LEVELS - low / LEVELS) or 1.0
    codes = np.full(table.shape, NOT_FINITE, np.int8)
    levels = np.clip(np.rint(table[shown] / step - low / step), 0, LEVELS)
    codes[shown] = (levels + LOWEST).astype(np.int8)
    codes[table == -np.inf] = MINUS_INFINITY
    codes[hidden] = EMPTY
    ends = {"low": low, "step": step, "smallest": number(low), "largest": number(high)}
    rows, columns = table.shape
    return {"rows": rows, "columns": columns, **ends, "data": base64.b64encode(codes.tobytes()).decode()}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """The table (R, C) of a heat; NaN where it is empty or not finite, -inf where it says so."""
    codes = np.frombuffer(base64.b64decode(packed["data"]), np.int8).reshape(packed["rows"], packed["columns"])
    values = packed["low"] + (codes.astype(np.float64) - LOWEST) * packed["step"]
    values[codes <= NOT_FINITE] = np.nan
    values[codes == MINUS_INFINITY] = -np.inf
    return values
