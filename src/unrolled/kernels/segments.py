"""Rows cut into runs of steps that nothing interrupts, and the order in which a packed kernel wants them.

Axes     T time, B rows, S segments, N valid steps in all.
Variant  a segment is counted in the direction of the pass: in reverse its first step is its last in time.

A row of length n without resets is one segment of n steps; a row of length 0 has none; each reset inside a row makes
one more. Only the segment that the pass enters first starts from the row's own state, the others start from the restart
state; only the one it leaves last gives the row's final state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

State = tuple[Tensor, ...]


class Segments(NamedTuple):
    shape: tuple[int, int]  # (T, B) of the padded input
    row: Tensor  # (S,) the row that each segment lies in, longest segment first
    enters: Tensor  # (S,) starts from the row's own state
    leaves: Tensor  # (S,) gives the row's final state
    batch_sizes: Tensor  # (longest,) on the CPU: segments still running at each step
    steps: Tensor  # (N,) where each packed step lies in time
    rows: Tensor  # (N,) and in which row

    @classmethod
    def cut(cls, x: Tensor, lengths: Tensor | None, resets: Tensor | None, reverse: bool) -> Segments:
        steps, batch = x.shape[:2]
        time = torch.arange(steps, device=x.device)
        ends = torch.full((batch,), steps, device=x.device) if lengths is None else lengths
        opens = (time == 0).expand(batch, steps) if resets is None else (time == 0) | resets
        row, first = (opens & (time < ends[:, None])).nonzero(as_tuple=True)  # row by row, in time

        last_of_row = torch.ones_like(row, dtype=torch.bool)
        last_of_row[:-1] = row[1:] != row[:-1]
        stop = torch.where(last_of_row, ends[row], first.roll(-1))
        size, order = (stop - first).sort(descending=True, stable=True)
        row, first, stop, last_of_row = row[order], first[order], stop[order], last_of_row[order]

        run = torch.arange(int(size[0]) if len(size) else 0, device=x.device)[:, None] < size  # (longest, S)
        offset, segment = run.nonzero(as_tuple=True)  # time-major: the order of a packed sequence
        # A reset at step 0 keeps the forward pass from the row's own state; a reverse pass ends there anyway.
        fresh = torch.zeros_like(last_of_row) if resets is None else resets[row, first]
        head, tail = first == 0, last_of_row
        return cls(
            (steps, batch),
            row,
            tail if reverse else head & ~fresh,
            head if reverse else tail,
            run.sum(1).cpu(),
            (stop[segment] - 1 - offset) if reverse else (first[segment] + offset),
            row[segment],
        )

    @property
    def number(self) -> int:
        """S; 0 where no row has a step."""
        return len(self.row)

    def pack(self, x: Tensor) -> Tensor:
        """(T, B, I) → (N, I)."""
        return x[self.steps, self.rows]

    def unpack(self, data: Tensor) -> Tensor:
        """(N, H) → (T, B, H), zero where no step was taken."""
        out = data.new_zeros(*self.shape, data.shape[-1])
        return out.index_put((self.steps, self.rows), data)

    def start(self, state: State, restart: tuple[Tensor | None, ...]) -> State:
        """(B, H) → (S, H): the state that each segment starts from."""
        enters = self.enters[:, None]
        return tuple(
            torch.where(enters, own[self.row], 0 if fresh is None else fresh)
            for own, fresh in zip(state, restart, strict=True)
        )

    def finish(self, last: State, state: State) -> State:
        """(S, H) → (B, H): each row's final state; a row without segments keeps the state it came with."""
        row = self.row[self.leaves]
        ends = [part[self.leaves] for part in last]
        # Under autocast the kernel's state comes in the lower precision.
        return tuple(own.index_put((row,), end.to(own.dtype)) for end, own in zip(ends, state, strict=True))
