"""What a layer accepts, checked and brought to one form, and the way back.

Axes     the form inside is time-major and batched: x (T, B, I), states (L·D, B, P or H), lengths (B,), resets (B, T).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unrolled import init as initialisers
from unrolled.errors import DtypeError, ShapeError, expected
from unrolled.kernels import ENGINES
from unrolled.layers.lengths import as_lengths, as_resets

if TYPE_CHECKING:
    from unrolled.layers.recurrent import Recurrent

HALF = (torch.float16, torch.bfloat16)

DEFAULTS = {
    "num_layers": 1,
    "nonlinearity": "tanh",
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
    "proj_size": 0,
    "single_bias": False,
    "reset_after": True,
    "forget_bias": None,
    "init": "torch",
    "learn_initial_state": False,
    "memory": "store",
    "backend": "auto",
}


class Call(NamedTuple):
    x: Tensor  # (T, B, I)
    state: tuple[Tensor | None, ...]
    restart: tuple[Tensor, ...] | None  # (L·D, P or H): the learned state, or None for zeros
    lengths: Tensor | None
    resets: Tensor | None
    packed: PackedSequence | None
    batched: bool
    dtype: torch.dtype  # what the output comes back as


def check_options(layer: Recurrent, dropout: Any) -> None:
    """The constructor's numbers and names.

    Raises:
        TypeError: hidden_size is not an integer.
        ValueError: a size, a probability or a name out of range.
    """
    name = type(layer).__name__
    if not isinstance(layer.hidden_size, int):
        raise TypeError(expected("hidden_size", "an int", type(layer.hidden_size).__name__))
    for size in ("input_size", "hidden_size", "num_layers"):
        if getattr(layer, size) < 1:
            raise ValueError(expected(size, "at least 1", getattr(layer, size)))
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError(expected("dropout", "a probability from 0 to 1", dropout))
    if not 0 <= layer.proj_size < layer.hidden_size:
        raise ValueError(expected("proj_size", f"0 to hidden_size - 1 = {layer.hidden_size - 1}", layer.proj_size))
    if layer.single_bias and not layer.bias:
        raise ValueError(f"{name}: single_bias=True contradicts bias=False.")
    if not callable(layer.init) and layer.init not in initialisers.NAMED:
        wanted = f"a callable or one of {', '.join(map(repr, initialisers.NAMED))}"
        raise ValueError(expected("init", wanted, repr(layer.init)))
    if layer.backend not in ("auto", *ENGINES):
        raise ValueError(expected("backend", f"one of 'auto', {', '.join(map(repr, ENGINES))}", repr(layer.backend)))
    if layer.memory not in ("store", "recompute"):
        raise ValueError(expected("memory", "'store' or 'recompute'", repr(layer.memory)))


def refuse_projection(cell: str, options: dict[str, Any]) -> None:
    if options.pop("proj_size", 0):
        raise ValueError(f"proj_size is a feature of the LSTM; {cell} has no memory cell to project.")


def read(layer: Recurrent, input: Any, hx: Any, lengths: Any, resets: Any) -> Call:
    """Check the arguments of a call and bring them to the form inside."""
    x: Any = input
    packed = input if isinstance(input, PackedSequence) else None
    if packed is not None:
        if lengths is not None:
            raise ValueError("lengths: a PackedSequence carries its own; give one or the other.")
        x, lengths = pad_packed_sequence(packed)  # time-major, whatever batch_first says
        batched = True
    else:
        if not isinstance(x, Tensor):
            raise TypeError(expected("input", "a tensor or a PackedSequence", type(x).__name__))
        if x.dim() not in (2, 3):
            raise ShapeError(
                f"{type(layer).__name__}: Expected input to be 2D or 3D, got {x.dim()}D instead: {tuple(x.shape)}."
            )
        batched = x.dim() == 3
        if not batched:
            x = x[:, None]
        elif layer.batch_first:
            x = x.transpose(0, 1)
    _check_input(layer, x)
    dtype, inside = x.dtype, compute_dtype(x.dtype, x.device)
    steps, batch = x.shape[:2]

    restart = _restart(layer, inside)
    state: tuple[Tensor | None, ...] = (None,) * len(layer.STATES)  # zeros, which an engine need not be shown
    if hx is not None:
        state = tuple(part.to(inside) for part in _read_state(layer, hx, x, batched))
    elif restart is not None:
        state = tuple(part[:, None].expand(-1, batch, -1) for part in restart)
    return Call(
        x if dtype == inside else x.to(inside),
        state,
        restart,
        None if lengths is None else as_lengths(lengths, batch, steps, x.device),
        None if resets is None else as_resets(resets, batch, steps, x.device),
        packed,
        batched,
        dtype,
    )


def initial_state(layer: Recurrent, batch: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """What every row starts from: the learned vectors, or zeros."""
    restart = _restart(layer, dtype)
    if restart is not None:
        return tuple(part[:, None].expand(-1, batch, -1) for part in restart)
    return tuple(
        torch.zeros(_state_shape(layer, size, batch), dtype=dtype, device=device) for size in layer.state_sizes
    )


def write(layer: Recurrent, out: Any, state: tuple[Tensor, ...], call: Call) -> tuple[Any, Any]:
    """The way back to the form and the type of number that came in."""
    if out.dtype != call.dtype:
        out = out.to(call.dtype)
        state = tuple(part.to(call.dtype) for part in state)
    if call.packed is not None:
        out = _pack_like(out, call.lengths, call.packed)
    elif not call.batched:
        out, state = out[:, 0], tuple(part[:, 0] for part in state)
    elif layer.batch_first:
        out = out.transpose(0, 1)
    return out, state[0] if len(state) == 1 else state


def _check_input(layer: Recurrent, x: Tensor) -> None:
    weight = layer.weight_ih_l0
    if x.shape[-1] != layer.input_size:
        raise ShapeError(
            f"input.size(-1) must be equal to input_size: expected {layer.input_size}, got {x.shape[-1]} in "
            f"{tuple(x.shape)} (time, batch, input)."
        )
    if x.device != weight.device:
        raise RuntimeError(f"input is on {x.device} and the weights are on {weight.device}; move one with .to(...).")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        way_out = (
            f"Use input.to({weight.dtype}), or layer.to({x.dtype})."
            if x.is_floating_point()
            else (f"Use input.to({weight.dtype}); ids go through an embedding first.")
        )
        raise DtypeError(expected("input", f"{weight.dtype} as the weights", x.dtype, way_out))


def compute_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Half precision computes in float32 on the CPU; the accelerators' kernels accumulate in float32 themselves."""
    return torch.float32 if dtype in HALF and device.type == "cpu" else dtype


def _state_shape(layer: Recurrent, size: int, batch: int) -> tuple[int, int, int]:
    return (layer.num_layers * layer.num_directions, batch, size)


def _restart(layer: Recurrent, dtype: torch.dtype) -> tuple[Tensor, ...] | None:
    if not layer.learn_initial_state:
        return None
    suffixes = [suffix for _, suffix in layer._suffixes()]
    return tuple(
        torch.stack([getattr(layer, f"initial_{name}{suffix}") for suffix in suffixes]).to(dtype)
        for name in layer.STATES
    )


def _read_state(layer: Recurrent, hx: Any, x: Tensor, batched: bool) -> tuple[Tensor, ...]:
    """hx as a tuple of batched states, each checked by name."""
    parts = (hx,) if len(layer.STATES) == 1 else hx
    if not isinstance(parts, tuple | list) or len(parts) != len(layer.STATES):
        found = f"{len(parts)} parts" if isinstance(parts, tuple | list) else type(hx).__name__
        raise ShapeError(expected("hx", f"the pair ({', '.join(layer.STATES)})", found))
    checked = []
    for name, part, size in zip(layer.STATES, parts, layer.state_sizes, strict=True):
        label = f"hx ({name})"
        if not isinstance(part, Tensor):
            raise TypeError(expected(label, "a tensor", type(part).__name__))
        shape = _state_shape(layer, size, x.shape[1])
        wanted = shape if batched else (shape[0], shape[2])
        axes = "(layers x directions, batch, state)" if batched else "(layers x directions, state)"
        if tuple(part.shape) != wanted:
            raise ShapeError(expected(label, f"{wanted} {axes}", tuple(part.shape), _state_hint(part, wanted)))
        if part.device != x.device:
            raise RuntimeError(f"{label} is on {part.device} and the input is on {x.device}; move one with .to(...).")
        if part.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
            raise DtypeError(expected(label, f"{x.dtype} as the input", part.dtype, f"Use hx.to({x.dtype})."))
        checked.append(part if batched else part[:, None])
    return tuple(checked)


def _state_hint(part: Tensor, wanted: tuple[int, ...]) -> str:
    if part.dim() == len(wanted) - 1:
        return "The axis of layers and directions is missing; add it with hx[None]."
    if part.dim() == 3 and len(wanted) == 3:
        if (part.shape[1], part.shape[0]) == wanted[:2]:
            return "Layers come first, also with batch_first: use hx.transpose(0, 1)."
        if part.shape[1] == 1:
            return "One state for all rows is not broadcast silently: use hx.expand(...)."
        if part.shape[0] == wanted[0] and part.shape[2] == wanted[2]:
            return (
                "The state comes from another batch size: pick its rows with hx[:, rows], or start anew with hx=None."
            )
    return ""


def _pack_like(out: Tensor, lengths: Any, packed: PackedSequence) -> PackedSequence:
    if packed.sorted_indices is not None:
        out, lengths = out[:, packed.sorted_indices], lengths[packed.sorted_indices]
    data = pack_padded_sequence(out, lengths.cpu()).data
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
