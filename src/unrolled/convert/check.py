"""Every conversion checks itself: the source's convention on the source's tensors against our layers on the converted.

Law      `step` computes one step as the other framework does, on its tensors as they are: its gate order, its bias
         places, its polarity of z, its offset on f, its word for the nonlinearity. It shares no line with `packing`,
         only the table of layouts, and asks nothing of the unit that a reader made.
Numbers  float64 on both sides; non-zero states, several steps and rows. The file's own weights run through the whole
         network; then random weights of awkward sizes, with non-zero biases, run through each row of the table that
         the file used, since zero biases or one hidden unit would hide a fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from unrolled.convert.packing import unpack
from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Origin, Recurrent, Unit
from unrolled.convert.stack import ACTIVATIONS, Stack, layer_of
from unrolled.errors import expected

__all__ = [
    "TOLERANCE",
    "Difference",
    "check",
    "distance",
    "draw",
    "in_double",
    "probe",
    "run_module",
    "run_network",
    "step",
]

TOLERANCE = 1e-9  # of float64 results near 1; a gate in the wrong place moves them by more than 1e-3
ROUNDINGS = 32  # epsilons of the weights' own type, where two biases had to be added into one
STEPS, ROWS = 5, 3
PROBE = (4, 3, 2)  # I, H, and P where there is a projection

State = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Difference:
    """The largest difference between the source's convention and the converted module."""

    weights: float  # on the file's own weights
    random: float  # on random weights of the same layouts

    @property
    def largest(self) -> float:
        return max(self.weights, self.random)


def check(network: Network, module: Any, *, rounded: bool = False) -> Difference:
    """Compare `module` with the conventions that the tensors of `network` came in.

    Args:
        rounded: the tensors of `network` were made from the module's, so that a sum of two biases was rounded once.

    Raises:
        ConvertError: they differ by more than `TOLERANCE`, or a tensor is not finite.
    """
    _check_finite(network)
    eps = float(np.finfo(network.units[0].W.dtype).eps)
    allowed = max(TOLERANCE, ROUNDINGS * eps) if rounded else TOLERANCE
    own = _compare(network, module)
    layouts = {unit.origin.layout.name: unit for unit in network.units if unit.origin is not None}
    drawn = max((probe(unit) for unit in layouts.values()), default=0.0)
    for name, value, most in (("the file's weights", own, allowed), ("random weights", drawn, TOLERANCE)):
        if not value <= most:
            raise ConvertError(
                expected("self-check", f"at most {most:.1g} between the source's convention and ours on {name}",
                         f"{value:.3g}", "The conversion is wrong: please report it. Nothing was written.")
            )  # fmt: skip
    return Difference(own, drawn)


def probe(unit: Unit) -> float:
    """The difference on random tensors in the layout that `unit` came in, at sizes that hide nothing."""
    origin = unit.origin
    assert origin is not None
    raw = random_raw(origin, np.random.default_rng(7))
    offset, said = origin.forget_offset, origin.nonlinearity
    drawn = unpack(origin.layout, raw, "probe", nonlinearity=unit.nonlinearity, said=said, forget_offset=offset)
    network = Network((Recurrent((drawn,)),), layer=True)
    return _compare(network, layer_of([(drawn,)], True))


def random_raw(origin: Origin, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Tensors with the names that the file had, of the probe's sizes."""
    inputs, hidden, projected = PROBE
    layout = origin.layout
    state = projected if "V" in origin.raw else hidden
    wide = len(layout.gates) * hidden
    shapes: dict[str, tuple[int, ...]] = {"WU": (inputs + state, wide), "W": (inputs, wide), "U": (state, wide)}
    shapes["V"] = (hidden, state)
    if layout.matrices == "rows":
        shapes = {name: shape[::-1] for name, shape in shapes.items()}
    shapes |= {"b": (len(layout.input_bias) * hidden,), "b_h": (len(layout.hidden_bias) * hidden,)}
    for gate in layout.gates:
        shapes |= {f"W_{gate}": (inputs, hidden), f"U_{gate}": (hidden, hidden)}
    return {name: rng.normal(size=shapes[name]) for name in origin.raw}


# the other framework's arithmetic


def step(origin: Origin, x: np.ndarray, state: State) -> State:
    """One step as the other framework computes it: x (B, I), state (h,), or (h, c) whatever order it has there."""
    layout = origin.layout
    h = state[0]
    from_x = {gate: x @ _block(origin, gate, "W") + _bias(origin, gate, "b") for gate in layout.gates}
    from_h = {gate: h @ _block(origin, gate, "U") + _bias(origin, gate, "b_h") for gate in layout.gates}
    if layout.cell == "rnn":
        return (_NONLINEARITIES[origin.nonlinearity.lower()](from_x["h"] + from_h["h"]),)
    if layout.cell == "lstm":
        forget = _sigmoid(from_x["f"] + from_h["f"] + origin.forget_offset)
        c = forget * state[1] + _sigmoid(from_x["i"] + from_h["i"]) * np.tanh(from_x["g"] + from_h["g"])
        shown = _sigmoid(from_x["o"] + from_h["o"]) * np.tanh(c)
        if "V" in origin.raw:
            shown = shown @ (origin.raw["V"].T if layout.matrices == "rows" else origin.raw["V"])
        return shown, c
    r, z = (_sigmoid(from_x[gate] + from_h[gate]) for gate in "rz")
    if layout.reset == "after":
        n = np.tanh(from_x["n"] + r * from_h["n"])
    else:
        n = np.tanh(from_x["n"] + (r * h) @ _block(origin, "n", "U") + _bias(origin, "n", "b_h"))
    return ((1 - z) * n + z * h,) if layout.keeps else ((1 - z) * h + z * n,)


def _block(origin: Origin, gate: str, name: str) -> np.ndarray:
    """(I, H) or (P, H): what a row vector is multiplied with."""
    layout, raw = origin.layout, origin.raw
    if layout.matrices == "separate":
        return raw[f"{name}_{gate}"]
    number, count = layout.gates.index(gate), len(layout.gates)
    if layout.matrices == "rows":
        size = raw[name].shape[0] // count
        return raw[name][number * size : (number + 1) * size].T
    if layout.matrices == "columns":
        size = raw[name].shape[1] // count
        return raw[name][:, number * size : (number + 1) * size]
    size = raw["WU"].shape[1] // count
    state = raw["V"].shape[1] if "V" in raw else size
    rows = slice(None, -state) if name == "W" else slice(-state, None)
    return raw["WU"][rows, number * size : (number + 1) * size]


def _bias(origin: Origin, gate: str, name: str) -> np.ndarray | float:
    present = origin.layout.input_bias if name == "b" else origin.layout.hidden_bias
    if name not in origin.raw or gate not in present:
        return 0.0
    order = [one for one in origin.layout.gates if one in present]
    size = origin.raw[name].shape[0] // len(order)
    start = order.index(gate) * size
    return origin.raw[name][start : start + size]


_NONLINEARITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * a))


# whole networks


def _compare(network: Network, module: Any) -> float:
    x, states = draw(network)
    with np.errstate(over="ignore", invalid="ignore"):
        truth, finals = run_network(in_double(network), x, states)
    got, got_finals = run_module(module, network, x, states)
    if (len(got), len(got_finals)) != (len(truth), len(finals)):
        return float("inf")
    pairs = [*zip(got, truth, strict=True), *zip(got_finals, finals, strict=True)]
    return max(distance(a, b) for a, b in pairs)


def distance(got: np.ndarray, truth: np.ndarray) -> float:
    if got.shape != truth.shape:
        return float("inf")
    scale = max(1.0, float(np.abs(truth).max(initial=0.0)))
    return float(np.abs(got - truth).max(initial=0.0)) / scale


def _sizes(unit: Unit) -> tuple[int, ...]:
    return (unit.state_size, unit.hidden_size)[: 2 if unit.cell == "lstm" else 1]


def draw(network: Network) -> tuple[np.ndarray, list[tuple[State, ...]]]:
    """A random input, batch first, and a random initial state for each layer and direction."""
    rng = np.random.default_rng(11)
    states = [tuple(tuple(rng.normal(size=(ROWS, n)) for n in _sizes(u)) for u in p.units) for p in network.recurrent]
    return _draw_input(network, rng), states


def _draw_input(network: Network, rng: np.random.Generator) -> np.ndarray:
    first = network.parts[0]
    if isinstance(first, Embedding):
        low = 1 if first.mask_zero and len(first.weight) > 1 else 0
        return rng.integers(low, len(first.weight), size=(ROWS, STEPS))
    width = first.units[0].input_size if isinstance(first, Recurrent) else first.weight.shape[0]
    return rng.normal(size=(ROWS, STEPS, width))


Runner = Callable[[Unit, np.ndarray, State], tuple[np.ndarray, list[np.ndarray]]]


def run_network(
    network: Network, x: Any, states: Sequence[Sequence[State]], run_unit: Runner | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The outputs (one, or a pair of halves), batch first, and the final states of all layers and directions.

    `run_unit` runs one layer in one direction, (B, T, I) → (B, T, P) and the final state; None is the convention.
    """
    given, finals = iter(states), []
    for part in network.parts:
        if isinstance(part, Embedding):
            x = part.weight[x]
        elif isinstance(part, Dense):
            x = x @ part.weight + (0 if part.bias is None else part.bias)
            x = ACTIVATIONS[part.activation](torch.from_numpy(x)).numpy()
        else:
            x, last = _run_level(part, x, next(given), run_unit or _run_unit)
            finals += last
    return list(x) if isinstance(x, tuple) else [x], finals


def _run_level(
    part: Recurrent, x: np.ndarray, states: Sequence[State], run_unit: Runner
) -> tuple[Any, list[np.ndarray]]:
    if part.backwards or part.reverse:
        x = x[:, ::-1]
    halves, finals = [], []
    for number, (unit, state) in enumerate(zip(part.units, states, strict=True)):
        out, last = run_unit(unit, x[:, ::-1] if number else x, state)
        halves.append(out[:, ::-1] if number and part.every else out if part.every else last[0])
        finals += last
    if part.reverse and part.every:
        halves = [half[:, ::-1] for half in halves]
    return _merge(part.merge, halves), finals


def _run_unit(unit: Unit, x: np.ndarray, state: State) -> tuple[np.ndarray, list[np.ndarray]]:
    assert unit.origin is not None
    outs = []
    for t in range(x.shape[1]):
        state = step(unit.origin, x[:, t], state)
        outs.append(state[0])
    return np.stack(outs, 1), list(state)


def _merge(merge: str | None, halves: list[np.ndarray]) -> Any:
    if len(halves) == 1:
        return halves[0]
    if merge is None:
        return tuple(halves)
    whole = {"sum": sum(halves), "ave": sum(halves) / 2, "mul": halves[0] * halves[1]}
    return whole[merge] if merge in whole else np.concatenate(halves, -1)


def run_module(
    module: Any, network: Network, x: np.ndarray, states: Sequence[Sequence[State]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same by our layers in float64, with the states in the order and the shapes that they take."""
    module = copy.deepcopy(module).double().eval()
    flat = [state for level in states for state in level]
    layers = [block.layer for block in module.blocks] if isinstance(module, Stack) else [module]
    hx, begin = [], 0
    for layer in layers:
        count = layer.num_layers * layer.num_directions
        parts = tuple(torch.from_numpy(np.stack(part)) for part in zip(*flat[begin : begin + count], strict=True))
        hx.append(parts if len(parts) > 1 else parts[0])
        begin += count
    batch_first = network.batch_first
    input = torch.from_numpy(np.ascontiguousarray(x if batch_first else np.swapaxes(x, 0, 1)))
    with torch.no_grad():
        out, after = module.run(input, hx) if isinstance(module, Stack) else module(input, hx[0])
    after = after if isinstance(module, Stack) else [after]
    finals = [rows for state in after for rows in _by_direction(state)]
    outs = list(out) if isinstance(out, tuple) else [out]
    return [_batch_first(part, batch_first) for part in outs], finals


def _by_direction(state: Any) -> list[np.ndarray]:
    parts = state if isinstance(state, tuple) else (state,)
    return [part[index].numpy() for index in range(parts[0].shape[0]) for part in parts]


def _batch_first(out: torch.Tensor, batch_first: bool) -> np.ndarray:
    return out.numpy() if batch_first or out.dim() == 2 else out.transpose(0, 1).numpy()


def in_double(network: Network) -> Network:
    def double(part: Any) -> Any:
        if isinstance(part, Recurrent):
            return replace(part, units=tuple(map(_origin_in_double, part.units)))
        if isinstance(part, Dense):
            bias = None if part.bias is None else part.bias.astype(np.float64)
            return Dense(part.weight.astype(np.float64), bias, part.activation, part.where)
        return Embedding(part.weight.astype(np.float64), part.mask_zero)

    return Network(tuple(double(part) for part in network.parts), network.batch_first, network.layer)


def _origin_in_double(unit: Unit) -> Unit:
    assert unit.origin is not None
    raw = {name: array.astype(np.float64) for name, array in unit.origin.raw.items()}
    return replace(unit, origin=replace(unit.origin, raw=raw))


def _check_finite(network: Network) -> None:
    for unit in network.units:
        tensors: Mapping[str, np.ndarray] = unit.origin.raw if unit.origin is not None else {"W": unit.W}
        for name, array in tensors.items():
            _finite(f"{unit.where}: {name}", array)
    for part in network.parts:
        if isinstance(part, Embedding):
            _finite("embedding", part.weight)
        elif isinstance(part, Dense):
            _finite(part.where, part.weight)
            _finite(f"{part.where}: bias", np.zeros(1) if part.bias is None else part.bias)


def _finite(name: str, array: np.ndarray) -> None:
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise ConvertError(expected(name, "finite numbers", f"{count} that are NaN or infinite"))
