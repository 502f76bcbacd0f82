"""From one framework's tensors to ours and back, by the table of layouts: gates are moved by name, never by number.

Axes     raw tensors as the layout says: W (G·H, I), (I, G·H), or one of (I, H) a gate; b and b_h (G·H,) over the gates
         that have one; V (P, H) beside rows, (H, P) beside columns. Ours: W (G, I, H), U (G, P, H), b (G, H), V (H, P).
Exact    moving blocks, turning a matrix, and negating the z blocks change no bit. Two biases of one gate are added only
         where both stand in the same sum; the recurrent bias of a reset-after GRU's candidate does not, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from unrolled.conventions import OURS, Layout
from unrolled.convert.spec import ConvertError, Origin, Unit, refuse
from unrolled.errors import expected

__all__ = ["pack", "unpack"]

Raw = dict[str, np.ndarray]


def unpack(
    layout: Layout,
    raw: Mapping[str, np.ndarray],
    where: str,
    *,
    nonlinearity: str = "tanh",
    said: str = "",
    forget_offset: float | None = None,
    names: Mapping[str, str] | None = None,
) -> Unit:
    """One unit from the tensors of another framework.

    Args:
        raw: W and U (or WU for a joined matrix, or W_i … U_o for separate ones), and b, b_h, V where there are any.
        where: how messages call this unit.
        said: the source's own word for the nonlinearity, which the self-check goes by; "" is ours.
        names: how the file calls the tensors, for messages; the keys of `raw` where it is left out.
        forget_offset: what the framework adds to f at run time, where the layout leaves that open.

    Raises:
        ConvertError: a tensor is missing, too many, or of the wrong shape; the message names it.
    """
    if layout.nonlinearities and nonlinearity not in layout.nonlinearities.split():
        raise refuse(f"{where}: nonlinearity", layout.nonlinearities.replace(" ", " or "), repr(nonlinearity))
    call = _Call(where, names or {})
    _check_types(raw, call)
    matrices = _read_matrices(layout, raw, call)
    W, U = (np.stack([blocks[gate] for gate in OURS[layout.cell]]) for blocks in matrices)
    offset = _run_time_offset(layout, forget_offset, W.dtype, where)
    b, b_h = _read_biases(layout, raw, W.shape[2], call)
    if not layout.keeps:
        z = OURS[layout.cell].index("z")
        for array in (W, U, b, b_h):
            if array is not None:
                array[z] = -array[z]
    if offset:  # beside the stored bias, not added to it: adding 1 and taking it away again loses bits
        b_h = np.zeros_like(b) if b_h is None else b_h
        b_h[OURS[layout.cell].index("f")] += np.asarray(offset, b_h.dtype)
    V = raw.get("V")
    if V is not None:
        V = np.array(V.T if layout.matrices == "rows" else V)
        _want(call.name("V"), V.shape, (W.shape[2], U.shape[1]), "(hidden, state)")
    origin = Origin(layout, dict(raw), where, offset, said or nonlinearity)
    reset = layout.reset != "before"
    return Unit(layout.cell, W, U, b, b_h, V, nonlinearity, reset, where, origin)


def pack(layout: Layout, unit: Unit, *, forget_offset: float | None = None) -> Raw:
    """The tensors of another framework from one unit.

    Raises:
        ConvertError: the other framework cannot compute the same; the message names the tensor, the reason, and what
            can be chosen.
    """
    _check_same_law(layout, unit)
    offset = forget_offset if layout.forget_offset is None else layout.forget_offset
    if offset is None:
        raise refuse(f"{unit.where}: forget_bias", "the number that is added at run time", "nothing",
                     "Pass forget_bias=1.0, or what the cell will be built with.")  # fmt: skip
    W, U = np.array(unit.W), np.array(unit.U)
    b, b_h = _share_biases(layout, unit, offset)
    if not layout.keeps:
        z = OURS[layout.cell].index("z")
        for array in (W, U, b, b_h):
            array[z] = -array[z]
    raw = _write_matrices(layout, W, U)
    given = unit.b is not None or unit.b_h is not None or offset
    if given or not layout.optional_bias:
        for name, array, gates in (("b", b, layout.input_bias), ("b_h", b_h, layout.hidden_bias)):
            if gates:
                raw[name] = np.concatenate([array[OURS[layout.cell].index(g)] for g in layout.gates if g in gates])
    if unit.V is not None:
        raw["V"] = np.ascontiguousarray(unit.V.T if layout.matrices == "rows" else unit.V)
    return raw


# reading


class _Call(NamedTuple):
    """How messages call a unit and its tensors."""

    where: str
    names: Mapping[str, str]

    def name(self, key: str) -> str:
        return self.names.get(key, f"{self.where}: {key}")


def _run_time_offset(layout: Layout, given: float | None, dtype: np.dtype, where: str) -> float:
    """What is added to f at every call, in the weights' own type, as the other framework adds it."""
    offset = given if layout.forget_offset is None else layout.forget_offset
    if offset is None:
        way_out = "The file does not say it: pass forget_bias=1.0, the default of TensorFlow's cells, or what was used."
        raise refuse(f"{where}: forget_bias", "the number that was added at run time", "nothing", way_out)
    return float(np.asarray(offset, dtype))


def _check_types(raw: Mapping[str, np.ndarray], call: _Call) -> None:
    first = next(iter(raw.values()), np.zeros(0)).dtype
    for key, array in raw.items():
        if array.dtype != first:
            raise ConvertError(expected(call.name(key), f"numbers of one type, {first} as the others", array.dtype))


def _read_matrices(
    layout: Layout, raw: Mapping[str, np.ndarray], call: _Call
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    gates = layout.gates
    allowed = {"b", "b_h", "V"} if layout.projection else {"b", "b_h"}
    needed = {"joined": ["WU"], "separate": [f"{m}_{g}" for m in "WU" for g in gates]}.get(layout.matrices, ["W", "U"])
    for name in needed:
        if name not in raw:
            raise ConvertError(expected(call.name(name), f"a tensor, which {layout.name} has", "none"))
    for name in raw:
        if name not in needed and name not in allowed:
            raise ConvertError(expected(call.name(name), f"a tensor of {layout.name}", "one that it does not have"))
    for name in needed:
        _want_axes(call.name(name), raw[name], 2)
    if layout.matrices == "separate":
        hidden = raw[f"U_{gates[0]}"].shape[1]
        W, U = ({gate: raw[f"{name}_{gate}"] for gate in gates} for name in "WU")
        inputs = W[gates[0]].shape[0]
        for gate in gates:
            _want(call.name(f"W_{gate}"), W[gate].shape, (inputs, hidden), "(input, hidden)")
            _want(call.name(f"U_{gate}"), U[gate].shape, (hidden, hidden), "(hidden, hidden)")
        return W, U
    return _read_wide(layout, raw, call)


def _read_wide(
    layout: Layout, raw: Mapping[str, np.ndarray], call: _Call
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    count = len(layout.gates)
    by_rows = layout.matrices == "rows"
    first = raw["WU" if layout.matrices == "joined" else "W"]
    wide = first.shape[0 if by_rows else 1]
    if wide % count or not wide:
        axis = "rows" if by_rows else "columns"
        name = call.name("WU" if layout.matrices == "joined" else "W")
        raise ConvertError(expected(name, f"a multiple of {count} {axis} ({layout.cell})", first.shape))
    hidden = wide // count
    projected = raw.get("V")
    state = hidden if projected is None else _want_axes(call.name("V"), projected, 2).shape[0 if by_rows else 1]
    if layout.matrices == "joined":
        inputs = first.shape[0] - state
        if inputs < 1:
            wanted = f"more than {state} rows, (input + state, {count} · hidden)"
            raise ConvertError(expected(call.name("WU"), wanted, first.shape))
        matrices = [first[:inputs], first[inputs:]]
    else:
        matrices = [raw["W"], raw["U"]]
        want = (wide, state) if by_rows else (state, wide)
        _want(call.name("U"), raw["U"].shape, want, "(gates · hidden, state)" if by_rows else "(state, gates · hidden)")
    turned = [matrix.T if by_rows else matrix for matrix in matrices]  # (I, G·H)
    W, U = (dict(zip(layout.gates, np.split(matrix, count, axis=1), strict=True)) for matrix in turned)
    return W, U


def _read_biases(
    layout: Layout, raw: Mapping[str, np.ndarray], hidden: int, call: _Call
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(G, H) of each side. Where a layout has one side for all gates, that one is `b`, whichever side it is."""
    sides: list[np.ndarray | None] = []
    for name, gates in (("b", layout.input_bias), ("b_h", layout.hidden_bias)):
        flat = raw.get(name)
        if flat is None:
            sides.append(None)
            continue
        if not gates:
            raise ConvertError(expected(call.name(name), f"no such tensor in {layout.name}", flat.shape))
        _want(call.name(name), flat.shape, (len(gates) * hidden,), f"({len(gates)} · hidden,)")
        order = [gate for gate in layout.gates if gate in gates]
        blocks = dict(zip(order, np.split(flat, len(order)), strict=True))
        nothing = np.zeros(hidden, flat.dtype)
        sides.append(np.stack([blocks.get(gate, nothing) for gate in OURS[layout.cell]]))
    b, b_h = sides
    if b is None and b_h is not None and not layout.input_bias:
        return b_h, None
    if b is None and b_h is not None:
        return np.zeros_like(b_h), b_h
    return b, b_h


# writing


def _check_same_law(layout: Layout, unit: Unit) -> None:
    if layout.cell != unit.cell:
        raise refuse(unit.where, f"a cell of kind {layout.cell}", unit.cell)
    if unit.cell == "rnn" and unit.nonlinearity not in layout.nonlinearities.split():
        wanted = layout.nonlinearities.replace(" ", " or ")
        raise refuse(f"{unit.where}: nonlinearity", f"{wanted}, which {layout.name} has", repr(unit.nonlinearity))
    if unit.cell == "gru" and unit.reset_after != (layout.reset == "after"):
        found = "after it" if unit.reset_after else "before it"
        raise refuse(
            f"{unit.where}: weight_hh of the candidate n", f"the reset {layout.reset} the product, as {layout.name}",
            found, "The two are different functions: choose a target with the same reset, or train that form.",
        )  # fmt: skip
    if unit.V is not None and not layout.projection:
        raise refuse(
            f"{unit.where}: weight_hr {unit.V.T.shape}", f"no projection, which {layout.name} lacks", "one",
            "Choose torch, unrolled or tf1, or train with proj_size=0.",
        )  # fmt: skip


def _share_biases(layout: Layout, unit: Unit, offset: float) -> tuple[np.ndarray, np.ndarray]:
    """The two sides as the layout has room for them; each (G, H), zero where it has no room."""
    nothing = np.zeros((len(layout.gates), unit.hidden_size), unit.W.dtype)
    b = np.array(nothing if unit.b is None else unit.b)
    b_h = np.array(nothing if unit.b_h is None else unit.b_h)
    for number, gate in enumerate(OURS[layout.cell]):
        if gate == "f" and offset:
            # The offset first leaves the recurrent bias: where that is the offset itself, nothing is rounded.
            b_h[number] = b_h[number] - np.asarray(offset, b_h.dtype)
        left, right = gate in layout.input_bias, gate in layout.hidden_bias
        if left and right:
            continue
        if layout.reset == "after" and gate == "n":
            _check_candidate(layout, unit, b[number] if right else b_h[number])
            continue
        both = b[number] + b_h[number]
        b[number], b_h[number] = (both, 0) if left else (0, both)
    return b, b_h


def _check_candidate(layout: Layout, unit: Unit, homeless: np.ndarray) -> None:
    if homeless.any():
        raise refuse(
            f"{unit.where}: bias_hh of the candidate n (b_hn)", f"zeros, since {layout.name} has no place for it",
            f"values up to {np.abs(homeless).max():.3g}",
            "It stands inside the reset and cannot be added to bias_ih. Targets that keep it: keras, flax-linen, "
            "equinox, onnx, torch, rtneural. Or train with single_bias=True.",
        )  # fmt: skip


def _write_matrices(layout: Layout, W: np.ndarray, U: np.ndarray) -> Raw:
    order = [OURS[layout.cell].index(gate) for gate in layout.gates]
    if layout.matrices == "separate":
        named = {"W": W, "U": U}
        pairs = [(f"{m}_{g}", named[m][n]) for m in "WU" for g, n in zip(layout.gates, order, strict=True)]
        return {name: np.ascontiguousarray(block) for name, block in pairs}
    W, U = (np.concatenate([array[n] for n in order], axis=1) for array in (W, U))  # (I, G·H)
    if layout.matrices == "joined":
        return {"WU": np.concatenate([W, U])}
    turn: Callable[[np.ndarray], np.ndarray] = np.transpose if layout.matrices == "rows" else np.asarray
    return {"W": np.ascontiguousarray(turn(W)), "U": np.ascontiguousarray(turn(U))}


# shapes


def _want(name: str, found: tuple[int, ...], wanted: tuple[int, ...], axes: str) -> None:
    if tuple(found) != tuple(wanted):
        raise ConvertError(expected(name, f"{tuple(wanted)} {axes}", tuple(found)))


def _want_axes(name: str, array: np.ndarray, axes: int) -> np.ndarray:
    if array.ndim != axes or 0 in array.shape:
        raise ConvertError(expected(name, f"{axes} axes, none of size 0", array.shape))
    return array
