"""Truncated backpropagation through time: long sequences in chunks, at the memory of one chunk.

Axes     B batch, T time, K steps of a chunk; every batch tensor is (B, T, …), batch first.
Source   Williams and Peng (1990), "An efficient gradient-based algorithm for on-line training of recurrent
         network trajectories": BPTT(h; h'), written TBPTT(k1, k2) today. `chunk` is k1, `window` is k2.
Variant  The state's value crosses a cut, its graph does not. A window longer than the chunk is computed again
         from the state that stood at its beginning, so an optimizer step may follow every chunk; graphs kept
         from earlier chunks would not allow it (their weights have changed).

    for piece in TruncatedBPTT(35).chunks(tokens, targets, lengths=lengths, resets=resets):
        logits, state = model(piece.inputs, piece.state, lengths=piece.lengths, resets=piece.resets)
        loss = cross_entropy(logits, piece.targets, mask=piece.mask)
        (loss * piece.weight).backward()
        piece.carry(state)
    optimizer.step()

The weighted losses add up to the mean over all valid positions. To step the optimizer after every chunk,
leave the weight out of the backward pass (each step then follows the mean of its own chunk) and keep it for
the loss that is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unrolled.errors import RunError, ShapeError, expected

__all__ = ["Block", "Chunk", "Cut", "TruncatedBPTT", "detach", "select_rows"]

_PENDING: Any = object()


class Block(NamedTuple):
    """Some consecutive steps of a batch, each tensor (B, t, …)."""

    inputs: Tensor
    targets: Tensor | None = None
    resets: Tensor | None = None  # boolean: a document begins here
    mask: Tensor | None = None  # boolean: this position counts in the loss

    def steps(self, begin: int, end: int | None = None) -> Block:
        def cut(part: Tensor | None) -> Tensor | None:
            return None if part is None else part[:, begin:end]

        return Block(self.inputs[:, begin:end], cut(self.targets), cut(self.resets), cut(self.mask))

    def then(self, other: Block) -> Block:
        def join(name: str) -> Tensor | None:
            parts = [part for part in (getattr(self, name), getattr(other, name)) if part is not None]
            if len(parts) == 1:
                raise ShapeError(expected(name, "in every block of a stream, or in none", "in some"))
            return torch.cat(parts, dim=1) if parts else None

        inputs = torch.cat([self.inputs, other.inputs], dim=1)
        return Block(inputs, join("targets"), join("resets"), join("mask"))


class Cut(NamedTuple):
    """Between two chunks: all that is needed to go on from there another day."""

    chunks: int  # that are behind
    states: tuple[Any, ...]  # at the last few cuts, the newest last: as many as a window has chunks


@dataclass(eq=False)
class Chunk:
    """What one turn of the loop needs: the steps of a chunk, after the earlier ones that the window adds."""

    inputs: Tensor
    targets: Tensor | None
    state: Any  # value to start from, without a graph; None: the layer's own initial state
    lengths: Tensor | None  # (B,) valid steps of each row in here; None: all of them
    resets: Tensor | None
    mask: Tensor  # (B, steps of inputs): the positions whose loss is counted in this chunk, and in no other
    index: int
    start: int  # the first counted step, in the whole sequence
    steps: int  # how many positions are counted
    total: int | None  # … and in the whole batch; None where a stream does not say
    batch_axis: int | None
    states: tuple[Any, ...] = field(default=(), repr=False)  # at the cuts that stand before this chunk's window
    kept: int = 1  # how many of them the next chunk needs
    carried: Any = field(default=_PENDING, repr=False)

    @property
    def weight(self) -> float:
        """The share of this chunk in the mean over all valid positions."""
        if self.total is None:
            raise RunError(
                expected(
                    "weight",
                    "a stream whose length is known",
                    "neither lengths nor total",
                    "Pass lengths= or total= to stream(), or weight by piece.steps and divide at the end.",
                )
            )
        return self.steps / self.total if self.total else 0.0

    @property
    def cut(self) -> Cut:
        """Where the sequence stands behind this chunk, once its state is carried on."""
        return Cut(self.index + 1, (*self.states, self.carried)[-self.kept :])

    def carry(self, state: Any) -> Any:
        """Hand the state on to the next chunk: the value, cut from its graph. Returns what is handed on."""
        _check_state(state, self.inputs.shape[0], self.batch_axis)
        self.carried = detach(state)
        return self.carried


class TruncatedBPTT:
    """Cuts batches into chunks of `chunk` steps and lets gradients reach `window` steps back.

    Args:
        chunk: steps whose loss is counted at a time (k1); the last chunk may be shorter.
        window: how far gradients go back (k2), a multiple of `chunk`; None: as far as the chunk.
        batch_axis: where a state's tensors hold the batch: -2 suits (layers, B, H) and (B, H).
            None switches the check of batch sizes off.
    """

    def __init__(self, chunk: int, *, window: int | None = None, batch_axis: int | None = -2) -> None:
        if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
            raise ValueError(expected("chunk", "a whole number of steps, 1 or more", repr(chunk)))
        window = chunk if window is None else window
        if isinstance(window, bool) or not isinstance(window, int) or window < chunk or window % chunk:
            way_out = f"Windows begin where an earlier chunk ended: try {max(1, round(window / chunk)) * chunk}."
            raise ValueError(expected("window", f"a multiple of chunk={chunk}", repr(window), way_out))
        self.chunk, self.window, self.batch_axis = chunk, window, batch_axis

    def __repr__(self) -> str:
        return f"TruncatedBPTT(chunk={self.chunk}, window={self.window})"

    def bounds(self, steps: int) -> list[tuple[int, int]]:
        """Start and end (exclusive) of each chunk of a sequence of `steps` steps.

        >>> TruncatedBPTT(3).bounds(7)
        [(0, 3), (3, 6), (6, 7)]
        """
        return [(start, min(start + self.chunk, steps)) for start in range(0, steps, self.chunk)]

    def chunks(
        self,
        inputs: Tensor,
        targets: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        resets: Tensor | None = None,
        mask: Tensor | None = None,
        state: Any = None,
        cut: Cut | None = None,
    ) -> Iterator[Chunk]:
        """Cut tensors (B, T, …) that are in memory.

        Args:
            lengths: (B,) valid steps of each row; rows may end in different chunks. None: all rows are full.
            resets: boolean (B, T), True where a row starts a new document; handed on to the layer.
            mask: boolean (B, T), positions that count in the loss, of the valid ones. None: all valid ones.
            state: the value to start from, such as that of the batch before; no gradient flows into it.
                None: the layer's own initial state.
            cut: the `cut` of an earlier chunk of the same tensors: begin behind it, in place of `state`.
        """
        block = Block(inputs, targets, resets, mask)
        _check_block(block)
        rows = _lengths(lengths, inputs)
        if rows is not None and rows.numel() and int(rows.max()) > inputs.shape[1]:
            raise ShapeError(
                expected(
                    "lengths",
                    f"at most T = {inputs.shape[1]} steps",
                    f"{int(rows.max())} in row {int(rows.argmax())}",
                )
            )
        total = inputs.shape[0] * inputs.shape[1] if rows is None else int(rows.sum())
        if mask is not None:
            total = int(_counted(block, rows, 0).sum())
        block = block.steps(self._origin(cut))
        return self._run([block], rows, total, state, cut)

    def stream(
        self,
        blocks: Iterable[Block | tuple[Tensor | None, ...] | Tensor],
        *,
        lengths: Tensor | Sequence[int] | None = None,
        total: int | None = None,
        state: Any = None,
        cut: Cut | None = None,
    ) -> Iterator[Chunk]:
        """Cut an iterable of blocks, such as reads from a disk; no more than a window and a block is held.

        Args:
            blocks: tensors, or tuples (inputs, targets, resets, mask) whose tail may be left out, each
                (B, t, …) with any t; they are joined and cut again to chunks.
            lengths: (B,) valid steps of each row over the whole stream.
            total: how many positions will be counted, where it is known: it makes `weight` known.
            cut: the `cut` of an earlier chunk: begin behind it, in place of `state`. The blocks begin there too: at
                step `cut.chunks * chunk`, or earlier by what the window is longer than the chunk.
        """

        def checked() -> Iterator[Block]:
            for block in blocks:
                block = Block(block) if isinstance(block, Tensor) else Block(*block)  # type: ignore[arg-type]
                _check_block(block)
                yield block

        return self._run(checked(), lengths, total, state, cut)

    def _run(
        self, blocks: Iterable[Block], lengths: Any, total: int | None, state: Any, cut: Cut | None
    ) -> Iterator[Chunk]:
        kept = self.window // self.chunk
        states: deque[Any] = deque([detach(state)] if cut is None else cut.states, maxlen=kept)  # at the last few cuts
        first = 0 if cut is None else cut.chunks
        rows: Tensor | None = None
        for index, (begin, start, block) in enumerate(self._windows(blocks, lengths, cut), first):
            batch, steps = block.inputs.shape[:2]
            if index == first:
                rows = _lengths(lengths, block.inputs)
                if total is None and rows is not None and block.mask is None:
                    total = int(rows.sum())
                _check_state(list(states), batch, self.batch_axis)
            if states[-1] is _PENDING:
                raise RunError(
                    f"chunk {index - 1} handed on no state: call piece.carry(state) with the state that the "
                    "model returned, before the next chunk (carry(None) starts it afresh)."
                )
            here = None if rows is None else (rows - begin).clamp(0, steps)
            mask = _counted(block, here, start - begin)
            chunk = Chunk(
                inputs=block.inputs,
                targets=block.targets,
                state=states[0],
                lengths=here,
                resets=block.resets,
                mask=mask,
                index=index,
                start=start,
                steps=int(mask.sum()),
                total=total,
                batch_axis=self.batch_axis,
                states=tuple(states),
                kept=kept,
            )
            yield chunk
            states.append(chunk.carried)

    def _origin(self, cut: Cut | None) -> int:
        """The first step that is needed behind a cut."""
        return 0 if cut is None else max(0, (cut.chunks + 1) * self.chunk - self.window)

    def _windows(self, blocks: Iterable[Block], lengths: Any, cut: Cut | None) -> Iterator[tuple[int, int, Block]]:
        """(first step of the window, first step of its chunk, the window), chunk after chunk."""
        limit = None if lengths is None else max((int(length) for length in lengths), default=0)
        buffer: Block | None = None
        begin = seen = self._origin(cut)  # the buffer holds the steps begin … seen
        start = 0 if cut is None else cut.chunks * self.chunk
        for block in blocks:
            block = block if limit is None else block.steps(0, limit - seen)
            seen += block.inputs.shape[1]
            buffer = block if buffer is None else buffer.then(block)
            while seen - start >= self.chunk:
                yield begin, start, buffer.steps(0, start + self.chunk - begin)
                start += self.chunk
                next_begin = max(0, start + self.chunk - self.window)
                buffer, begin = buffer.steps(next_begin - begin), next_begin
            if seen == limit:
                break
        if limit is not None and seen < limit:
            raise ShapeError(expected("lengths", f"at most the {seen} steps of the stream", limit))
        if buffer is not None and seen > start:
            yield begin, start, buffer


def detach(state: Any) -> Any:
    """The value of a state, cut from its graph: a tensor, None, or tuples, lists and dicts."""
    return _map(lambda leaf: leaf.detach(), state)


def select_rows(state: Any, rows: Tensor | Sequence[int], batch_axis: int = -2) -> Any:
    """The state of some rows of a batch, in the order given (numbers, or a boolean for each row).

    Use it where a batch shrinks or its rows change places: nothing here guesses which rows are meant.
    """
    index = torch.as_tensor(rows)
    index = index.nonzero()[:, 0] if index.dtype == torch.bool else index.long()
    return _map(lambda leaf: leaf.index_select(batch_axis, index.to(leaf.device)), state)


def _map(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, dict):
        return {key: _map(function, part) for key, part in state.items()}
    if isinstance(state, tuple | list):
        parts = [_map(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    raise TypeError(expected("state", "tensors, None, or tuples, lists and dicts of these", type(state).__name__))


def _check_state(state: Any, batch: int, axis: int | None) -> None:
    def check(leaf: Tensor) -> Tensor:
        if axis is not None and (leaf.dim() < -axis or leaf.shape[axis] != batch):
            raise ShapeError(
                expected(
                    "state",
                    f"{batch} rows on axis {axis}, as the batch has",
                    f"shape {list(leaf.shape)}",
                    "Start afresh with state=None, keep the rows that go on with select_rows(state, rows), "
                    "or make all batches equally large.",
                )
            )
        return leaf

    _map(check, state)


def _check_block(block: Block) -> None:
    if block.inputs.dim() < 2:
        raise ShapeError(expected("inputs", "(batch, time, …)", f"shape {list(block.inputs.shape)}"))
    for name, part in zip(block._fields, block, strict=True):
        if part is None:
            continue
        if part.shape[:2] != block.inputs.shape[:2]:
            wanted = f"{list(block.inputs.shape[:2])} (batch, time) first, as inputs"
            raise ShapeError(expected(name, wanted, f"shape {list(part.shape)}"))
        if name in ("resets", "mask") and (part.dtype != torch.bool or part.dim() != 2):
            raise ShapeError(expected(name, "boolean (batch, time)", f"{part.dtype} {list(part.shape)}"))


def _lengths(lengths: Any, inputs: Tensor) -> Tensor | None:
    if lengths is None:
        return None
    rows = torch.as_tensor(lengths, device=inputs.device).long()
    if rows.shape != inputs.shape[:1]:
        raise ShapeError(expected("lengths", f"[{inputs.shape[0]}] (batch)", f"shape {list(rows.shape)}"))
    if rows.numel() and int(rows.min()) < 0:
        raise ShapeError(expected("lengths", "0 or more", f"{int(rows.min())} in row {int(rows.argmin())}"))
    return rows


def _counted(block: Block, lengths: Tensor | None, first: int) -> Tensor:
    """Boolean (B, t): valid, wanted by the mask, and not before `first`."""
    batch, steps = block.inputs.shape[:2]
    positions = torch.arange(steps, device=block.inputs.device)
    counted = (positions >= first).expand(batch, steps)
    if lengths is not None:
        counted = counted & (positions < lengths[:, None])
    return counted if block.mask is None else counted & block.mask
