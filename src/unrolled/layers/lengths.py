"""Lengths, masks, and what to take from an output or a state.

Axes     T time, B batch, H features, L layers, D directions. As in torch, time comes first unless batch_first is True,
         and states are (L·D, B, H) in the order layer 0 forward, layer 0 reverse, layer 1 forward, ...
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unrolled.errors import DtypeError, ShapeError, expected


def lengths_from_mask(mask: Any) -> Tensor:
    """Lengths (B,) of a mask (B, T) that is True on each row's first steps and False after them.

    Raises:
        ValueError: a row is padded on the left or has a hole; the message names the row. The sum of such a mask is not
            a length.
    """
    mask = _as_tensor("mask", mask)
    if mask.dim() != 2:
        raise ShapeError(expected("mask", "(batch, time)", tuple(mask.shape)))
    mask = mask != 0
    lengths = mask.sum(1)
    prefix = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    broken = (mask != prefix).any(1).nonzero()
    if len(broken):
        row = int(broken[0])
        first = int(mask[row].nonzero()[0])
        what = "is padded on the left" if first else "has a hole"
        raise ValueError(
            f"mask: row {row} {what}: {_short(mask[row])}. Expected the True steps first, then the False ones; "
            "move the row's valid steps to the front."
        )
    return lengths


def as_lengths(lengths: Any, batch: int, steps: int, device: torch.device) -> Tensor:
    """Any list, array or integer tensor of lengths, as int64 (B,) on the device.

    Raises:
        ShapeError: not one length a row.
        DtypeError: not integers.
        ValueError: a length below 0 or above the time axis; the message names the row.
    """
    lengths = _integers("lengths", lengths, "For a mask, use unrolled.lengths_from_mask(mask).")
    if lengths.dim() == 0 and batch == 1:
        lengths = lengths[None]
    if lengths.shape != (batch,):
        raise ShapeError(expected("lengths", f"({batch},) (batch)", tuple(lengths.shape)))
    # A copy: the backward pass must not see what a caller writes into the tensor later.
    lengths = lengths.to(device=device, dtype=torch.int64, copy=True)
    if torch.compiler.is_compiling() or not len(lengths) or torch._C._functorch.is_functorch_wrapped_tensor(lengths):
        return lengths
    low, high = lengths.min().item(), lengths.max().item()
    if low < 0 or high > steps:
        row = int(((lengths < 0) | (lengths > steps)).nonzero()[0])
        raise ValueError(expected(f"lengths[{row}]", f"0 to {steps}, the input's time axis", int(lengths[row])))
    return lengths


def as_resets(resets: Any, batch: int, steps: int, device: torch.device) -> Tensor:
    """Resets as bool (B, T) on the device: batch first, whatever batch_first says."""
    resets = _as_tensor("resets", resets).to(device)
    if resets.dim() == 1 and batch == 1:
        resets = resets[None]
    if resets.shape != (batch, steps):
        way_out = "Resets are batch first always; transpose them." if resets.shape == (steps, batch) else ""
        raise ShapeError(expected("resets", f"({batch}, {steps}) (batch, time)", tuple(resets.shape), way_out))
    return resets != 0


def last_valid(out: Tensor, lengths: Any, *, batch_first: bool = False) -> Tensor:
    """(B, H): the output at each row's last valid step; 0 for a row of length 0.

    For a bidirectional layer this is not the final state: its reverse half has seen one step only. Use `final_state`.
    """
    time_major = out.transpose(0, 1) if batch_first else out
    steps, batch = time_major.shape[:2]
    lengths = as_lengths(lengths, batch, steps, out.device)
    if steps == 0:
        return out.new_zeros(batch, out.shape[-1])
    rows = torch.arange(batch, device=out.device)
    return time_major[(lengths - 1).clamp(min=0), rows].masked_fill((lengths == 0)[:, None], 0)


def hold_last(out: Tensor, lengths: Any, *, batch_first: bool = False) -> Tensor:
    """The output with each row's last valid value repeated over its padding, instead of 0."""
    time_major = out.transpose(0, 1) if batch_first else out
    steps, batch = time_major.shape[:2]
    lengths = as_lengths(lengths, batch, steps, out.device)
    padding = torch.arange(steps, device=out.device)[:, None] >= lengths
    held = torch.where(padding[:, :, None], last_valid(time_major, lengths), time_major)
    return held.transpose(0, 1) if batch_first else held


def state_by_layer(state: Tensor, *, bidirectional: bool = False) -> Tensor:
    """(L·D, B, H) → (L, D, B, H): `state_by_layer(h_n, bidirectional=True)[1, 0]` is layer 1, forward."""
    return state.unflatten(0, (-1, 2 if bidirectional else 1))


def final_state(state: Any, *, bidirectional: bool = False) -> Tensor:
    """(B, D·H): the top layer's state after the last step of each direction, side by side.

    `state` is what the layer returned; of an LSTM's pair (h, c) the h is taken. This is what a classifier wants, never
    out[:, -1], which is padding for a short row and has seen a single step in the reverse direction.
    """
    h = state[0] if isinstance(state, tuple | list) else state
    return torch.cat(tuple(state_by_layer(h, bidirectional=bidirectional)[-1]), dim=-1)


def as_rows(rows: Any, batch: int) -> Tensor:
    """The numbers (int64) of some rows of a batch, given as a number, a list of numbers, or a mask (batch,).

    Raises:
        IndexError: a row is not there; the message names it.
        ShapeError: a mask of another length.
    """
    mask = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
    if mask.dtype == np.bool_:
        if mask.shape != (batch,):
            raise ShapeError(expected("rows", f"a mask ({batch},) (batch)", mask.shape))
        return torch.from_numpy(mask.nonzero()[0])
    index = _integers("rows", rows).reshape(-1).long().cpu()
    for row in index.tolist():
        if not -batch <= row < batch:
            raise IndexError(expected("rows", f"row numbers from 0 to {batch - 1}", row))
    return index


def _integers(name: str, values: Any, mask_hint: str = "") -> Tensor:
    values = _as_tensor(name, values)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise DtypeError(expected(name, "integers", values.dtype, mask_hint if values.dtype == torch.bool else ""))
    return values


def _as_tensor(name: str, values: Any) -> Tensor:
    """A tensor as it is; anything else that NumPy understands as a copy (read-only, reversed, of any byte order)."""
    if isinstance(values, Tensor):
        return values
    if torch.compiler.is_compiling():
        return torch.tensor(values)
    try:
        array = np.array(values)
    except ValueError:
        raise ShapeError(expected(name, "an array", "lists of different lengths")) from None
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iubf":
        raise DtypeError(expected(name, "numbers", array.dtype))
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _short(row: Tensor) -> str:
    shown = "".join("1" if step else "0" for step in row[:40].tolist())
    return shown + ("..." if len(row) > 40 else "")
