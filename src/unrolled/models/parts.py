"""What every model is put together from: a batch, its valid steps, and the checks that two parts fit.

Axes     B batch, T time, W characters of a word, D channels. Batch first everywhere in this room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.layers.lengths import as_lengths

__all__ = ["Batch", "Inputs", "check_fit", "check_rate", "lengths_of", "valid_steps", "widened", "width_of"]


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of sequences. What stands past a row's length is never looked at."""

    inputs: Tensor  # (B, T) token ids, or (B, T, D) features
    lengths: Tensor  # (B,) valid steps of each row, 0 allowed
    characters: Tensor | None = None  # (B, T, W) character ids of each token
    widths: Tensor | None = None  # (B, T) characters of each token, 0 allowed
    targets: Tensor | None = None  # (B,) classes, or (B, T) tags

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        moved = {name: part.to(device) for name, part in vars(self).items() if part is not None}
        return replace(self, **moved)

    def __len__(self) -> int:
        return self.inputs.shape[0]

    @property
    def valid(self) -> Tensor:
        """(B, T) boolean: True at the steps that are not padding."""
        return valid_steps(self.lengths, self.inputs)


class Inputs(nn.Module):
    """What turns the inputs of a batch into vectors (B, T, width)."""

    width: int

    def read(self, batch: Batch) -> Tensor:
        raise NotImplementedError


def lengths_of(lengths: Any, like: Tensor) -> Tensor:
    """Lengths of any kind as int64 (B,), checked against `like` (B, T, …) and on its device."""
    return as_lengths(lengths, like.shape[0], like.shape[1], like.device)


def valid_steps(lengths: Any, like: Tensor) -> Tensor:
    """(B, T) boolean: True on each row's first `lengths` steps. `like` (B, T, …) says how many steps there are."""
    return torch.arange(like.shape[1], device=like.device) < lengths_of(lengths, like)[:, None]


def widened(numbers: Tensor) -> Tensor:
    """Half precision as float32, in which sums of exponentials are formed; other types as they are."""
    return numbers.float() if numbers.dtype in (torch.float16, torch.bfloat16) else numbers


def width_of(recurrent: Any) -> int:
    """Features of a recurrent layer's output: (projection or hidden size) × directions."""
    size = getattr(recurrent, "proj_size", 0) or recurrent.hidden_size
    return 2 * size if recurrent.bidirectional else size


def check_fit(inputs: Any, recurrent: Any) -> None:
    """Raise where a recurrent layer cannot read what the inputs give."""
    if not recurrent.batch_first:
        raise ShapeError(
            expected("recurrent", "batch_first=True", "batch_first=False", "Models read (batch, time, …).")
        )
    if recurrent.input_size != inputs.width:
        raise ShapeError(
            expected(
                "recurrent",
                f"input_size={inputs.width}, the width of the inputs",
                f"input_size={recurrent.input_size}",
            )
        )


def check_rate(name: str, rate: float) -> float:
    """A dropout rate: 0 or more, and less than 1, since nothing would be left."""
    if not 0 <= rate < 1:
        raise ValueError(expected(name, "0 or more and less than 1", rate))
    return float(rate)
