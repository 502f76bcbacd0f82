"""Streaming: the one object here that remembers, and says so.

Axes     chunks in the layer's own layout, (T, B, I) or (B, T, I) with batch_first; any T, also 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unrolled.errors import expected
from unrolled.layers.inputs import initial_state
from unrolled.layers.lengths import as_rows

if TYPE_CHECKING:
    from unrolled.layers.recurrent import Recurrent


class Stream:
    """Feeds a sequence to a layer in chunks of any size; the outputs are those of the whole sequence at once.

    Inference only: pushes record no gradient. Dropout between layers follows the layer's mode, so call layer.eval()
    first. To train on chunks, use `unrolled.training.TruncatedBPTT`.
    """

    def __init__(self, layer: Recurrent, batch_size: int = 1) -> None:
        if layer.bidirectional:
            raise ValueError(
                "stream: the layer is bidirectional, and its reverse direction starts at the end of the sequence, "
                "which has not come yet. Use a layer with bidirectional=False."
            )
        if batch_size < 1:
            raise ValueError(expected("batch_size", "at least 1", batch_size))
        self.layer = layer
        self.batch_size = batch_size
        self._state = self._initial()

    @property
    def state(self) -> Any:
        """The state after the last push, as the layer returns it; it can be set to one such."""
        return self._state[0] if len(self._state) == 1 else self._state

    @state.setter
    def state(self, state: Any) -> None:
        parts = (state,) if isinstance(state, Tensor) else tuple(state)
        if len(parts) != len(self._state):
            raise ValueError(expected("state", f"{len(self._state)} tensors, as the layer returns it", len(parts)))
        for part, own in zip(parts, self._state, strict=True):
            if part.shape != own.shape:
                raise ValueError(expected("state", tuple(own.shape), tuple(part.shape)))
        self._state = tuple(part.detach().clone() for part in parts)

    @torch.no_grad()
    def push(self, chunk: Tensor, *, lengths: Any = None, resets: Any = None) -> Tensor:
        """The outputs of the chunk; the state moves on. `lengths` lets rows of a chunk be shorter than others."""
        axis = 0 if self.layer.batch_first else 1
        if chunk.dim() != 3 or chunk.shape[axis] != self.batch_size:
            raise ValueError(
                expected("chunk", f"3 axes with {self.batch_size} rows on axis {axis}", tuple(chunk.shape))
            )
        out, state = self.layer(chunk, self.state, lengths=lengths, resets=resets)
        self._state = state if isinstance(state, tuple) else (state,)
        return out

    def reset(self, rows: Any = None) -> None:
        """Start again, all rows or the named ones (an index, a list of indices or a boolean mask)."""
        fresh = self._initial()
        if rows is None:
            self._state = fresh
            return
        index = as_rows(rows, self.batch_size).to(fresh[0].device)
        self._state = tuple(part.clone() for part in self._state)
        for part, start in zip(self._state, fresh, strict=True):
            part[:, index] = start[:, index]

    @torch.no_grad()
    def _initial(self) -> tuple[Tensor, ...]:
        weight = next(self.layer.parameters())
        return tuple(part.clone() for part in initial_state(self.layer, self.batch_size, weight.dtype, weight.device))
