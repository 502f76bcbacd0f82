"""Numbers on their way into JSON: small, and never a blank where something is not finite.

number   a float of six digits (nine where it is an exponent), or one of the words "nan", "inf", "-inf", for which JSON
         has no number.
heat     a table of numbers as bytes: {"rows": R, "columns": C, "low": l, "step": s, "smallest": …, "largest": …,
         "data": base64 of R·C signed bytes, row after row}. A byte q from -125 to 127 is the value l + (q + 125) · s,
         off by half of s at most, 0.2 % of the range. -128 is empty (padding, or out of reach), -127 is -inf (the
         logarithm of an exact 0), -126 is what is not finite otherwise. smallest and largest are the exact ends.
         With "bits": 16 the table holds two bytes a number, the lower one first: q from -32765 to 32767 is
         l + (q + 32765) · s, the three words are -32768, -32767 and -32766, and the error is 8 millionths of the range.
exact    a table as float32: {"rows", "columns", "data": base64 of R·C numbers of four bytes, the lowest first}; NaN is
         empty, -inf is itself.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

__all__ = ["exact", "heat", "number", "numbers", "unpack"]

CODES: dict[int, np.dtype[Any]] = {8: np.dtype("<i1"), 16: np.dtype("<i2")}


def number(value: Any, digits: int = 6) -> float | int | str | None:
    """One number as JSON can hold it, with so many digits that count."""
    if value is None or isinstance(value, int):
        return value
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.{digits}g}")


def numbers(value: Any, digits: int = 6) -> Any:
    """The same for lists, tensors and dicts of numbers; other values stay."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: numbers(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(one, digits) for one in value]
    return value if isinstance(value, str | bool) else number(value, digits)


def heat(values: Any, *, empty: Any = None, bits: int = 8) -> dict[str, Any]:
    """A table (R, C) as bytes.

    Args:
        empty: boolean (R, C), cells that are not there; None: those that are NaN.
        bits: 8 or 16 for a number.
    """
    lowest = int(np.iinfo(CODES[bits]).min)  # three codes are words: empty, -inf, not finite
    levels = 2**bits - 4
    table = np.asarray(values, np.float64)
    hidden = np.isnan(table) if empty is None else np.asarray(empty, bool)
    shown = np.isfinite(table) & ~hidden
    low, high = (float(table[shown].min()), float(table[shown].max())) if shown.any() else (0.0, 0.0)
    step = (high / levels - low / levels) or 1.0
    codes = np.full(table.shape, lowest + 2, CODES[bits])
    at = np.clip(np.rint(table[shown] / step - low / step), 0, levels)
    codes[shown] = (at + lowest + 3).astype(CODES[bits])
    codes[table == -np.inf] = lowest + 1
    codes[hidden] = lowest
    ends = {"low": low, "step": step, "smallest": number(low), "largest": number(high)}
    ends |= {} if bits == 8 else {"bits": bits}
    return {**_size(table), **ends, "data": base64.b64encode(codes.tobytes()).decode()}


def exact(values: Any) -> dict[str, Any]:
    """A table (R, C) as float32."""
    table = np.asarray(values, np.float64).astype("<f4")
    return {**_size(table), "data": base64.b64encode(table.tobytes()).decode()}


def _size(table: np.ndarray) -> dict[str, Any]:
    return dict(zip(("rows", "columns"), table.shape, strict=True))


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """The table (R, C) of a heat or of an exact one; NaN where it is empty or not finite, -inf where it says so."""
    data, shape = base64.b64decode(packed["data"]), (packed["rows"], packed["columns"])
    if "step" not in packed:
        return np.frombuffer(data, "<f4").reshape(shape).astype(np.float64)
    kind = CODES[packed.get("bits", 8)]
    lowest = int(np.iinfo(kind).min)
    codes = np.frombuffer(data, kind).reshape(shape)
    values = packed["low"] + (codes.astype(np.float64) - lowest - 3) * packed["step"]
    values[codes <= lowest + 2] = np.nan
    values[codes == lowest + 1] = -np.inf
    return values
