"""torch's names of weights: a state_dict in, levels of units out, and back. Ours and torch.nn's are the same.

Names    weight_ih_l0 (G·H, I), weight_hh_l0 (G·H, P), bias_ih_l0, bias_hh_l0 (G·H,), weight_hr_l0 (P, H), and the same
         with _reverse; cells have no _l0. The number of blocks tells the cell: 4 LSTM, 3 GRU, 1 RNN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from unrolled.conventions import find
from unrolled.convert.packing import pack, unpack
from unrolled.convert.spec import ConvertError, Recurrent, Unit, refuse
from unrolled.errors import expected

__all__ = ["NAME", "levels_of", "state_of"]

NAME = re.compile(r"(weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)(?:_l(\d{1,4})(_reverse)?)?$")
_RAW = {"weight_ih": "W", "weight_hh": "U", "bias_ih": "b", "bias_hh": "b_h", "weight_hr": "V"}
_CELLS = {1: "rnn", 3: "gru", 4: "lstm"}


def levels_of(
    tensors: Mapping[str, np.ndarray],
    prefix: str = "",
    *,
    nonlinearity: str | None = None,
    reset_after: bool = True,
) -> list[Recurrent]:
    """The layers of one recurrent module, from its tensors by their last names.

    Raises:
        ConvertError: a name or a tensor that does not fit, or one that is missing; the message names it.
    """
    raws: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for name, array in tensors.items():
        match = NAME.match(name)
        if match is None:
            raise ConvertError(expected(prefix + name, "a weight of RNN, LSTM or GRU", "another name"))
        place = (int(match[2] or 0), int(match[3] is not None))
        raws.setdefault(place, {})[_RAW[match[1]]] = array
    layers = max(layer for layer, _ in raws) + 1
    directions = max(direction for _, direction in raws) + 1
    levels = []
    for layer in range(layers):
        units = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            raw = raws.get((layer, direction))
            if raw is None or not {"W", "U"} <= raw.keys():
                missing = "weight_hh" if raw is not None and "W" in raw else "weight_ih"
                raise ConvertError(expected(f"{prefix}{missing}{suffix}", "a tensor", "none: the key is missing"))
            where = f"{prefix.rstrip('.')} layer {layer}".strip() + (", reverse" if direction else "")
            names = {key: f"{prefix}{name}{suffix}" for name, key in _RAW.items()}
            units.append(_unit(raw, where, names, nonlinearity, reset_after))
        levels.append(Recurrent(tuple(units)))
    return levels


def _unit(
    raw: dict[str, np.ndarray], where: str, names: dict[str, str], nonlinearity: str | None, reset_after: bool
) -> Unit:
    rows = raw["W"].shape[0] if raw["W"].ndim == 2 else 0
    hidden = (raw["V"].shape[1] if "V" in raw else raw["U"].shape[1]) if raw["U"].ndim == 2 else 0
    if not hidden or rows % hidden or rows // hidden not in _CELLS:
        raise _misfit(raw, names)
    cell = _CELLS[rows // hidden]
    if cell == "rnn" and nonlinearity is None:
        way_out = "The file does not say it: pass nonlinearity='tanh' (torch's default) or 'relu'."
        raise refuse(f"{where}: nonlinearity", "tanh or relu", "nothing", way_out)
    layout = find("torch", cell)
    assert layout is not None
    if cell == "gru" and not reset_after:
        layout = replace(layout, framework="unrolled", reset="before")
    return unpack(layout, raw, where, nonlinearity=nonlinearity or "tanh", names=names)


def _misfit(raw: Mapping[str, np.ndarray], names: Mapping[str, str]) -> ConvertError:
    """No cell has these sizes: the error names the tensor that does not go with the others."""
    W, U = raw["W"], raw["U"]
    for key, array, axes in (("W", W, "(gates · hidden, input)"), ("U", U, "(gates · hidden, state)")):
        if array.ndim != 2 or 0 in array.shape:
            return ConvertError(expected(names[key], f"2 axes, none of size 0, {axes}", array.shape))
    rows = W.shape[0]
    if "V" in raw and U.shape[0] == rows:
        return ConvertError(expected(names["V"], f"({U.shape[1]}, {rows // 4}) (state, hidden)", raw["V"].shape))
    whole = U.shape[0] % U.shape[1] == 0 and U.shape[0] // U.shape[1] in _CELLS
    agreed = any(raw[key].shape == (rows,) for key in ("b", "b_h") if key in raw)
    if whole and U.shape[0] != rows and not agreed:
        wanted = f"({U.shape[0]}, {W.shape[1]}) (gates · hidden, input), as {names['U']} has"
        return ConvertError(expected(names["W"], wanted, W.shape))
    fitting = [f"({rows}, {rows // count}) ({cell})" for count, cell in _CELLS.items() if rows % count == 0]
    wanted = f"{' or '.join(reversed(fitting))}, (gates · hidden, state)"
    return ConvertError(expected(names["U"], wanted, U.shape))


def state_of(levels: Sequence[Recurrent], prefix: str = "", *, own: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """torch's names and tensors; two biases, as torch.nn keeps them, or with `own` as many as there are.

    Raises:
        ConvertError: torch.nn cannot compute it: the reset before the product.
    """
    for number, level in enumerate(levels):
        for direction, unit in enumerate(level.units):
            layout = find("torch", unit.cell)
            assert layout is not None
            if own and not unit.reset_after:
                layout = replace(layout, reset="before")
            if own and unit.b_h is None:
                layout = replace(layout, hidden_bias="")
            raw = pack(layout, unit)
            suffix = f"_l{number}" + ("_reverse" if direction else "")
            for name, key in _RAW.items():
                if key in raw:
                    yield f"{prefix}{name}{suffix}", raw[key]
