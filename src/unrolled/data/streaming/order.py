"""The order in which an epoch goes through blocks: shuffled, in pieces that fit into memory, read ahead by threads.

The blocks are put into a random order and taken a few at a time; the rows of such a piece are mixed. A batch so has
rows from as many places of the file as a piece has blocks, and rows that stand together in the file are spread over a
piece. Every row comes once. What comes depends on a key and on how many batches are behind, not on threads or time.

Axes     the rows of a piece are numbered from 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from unrolled.data.streaming.store import Store
from unrolled.data.streaming.tables import Table

__all__ = ["Piece", "pieces_of", "read_ahead", "shuffled"]

T = TypeVar("T")


class Piece(NamedTuple):
    """Rows of some blocks, and those of them whose turn it is."""

    table: Table
    rows: np.ndarray  # in no particular order
    rng: np.random.Generator  # for the order of its batches
    behind: int  # batches of it that are behind


class _Plan(NamedTuple):
    blocks: list[int]
    order: np.ndarray  # of its rows; the first `held` wait for the next piece
    held: int
    behind: int


def pieces_of(store: Store, key: int, size: int, batch_size: int) -> list[list[int]]:
    """The pieces of an epoch: numbers of blocks that take about `size` bytes, and have rows for a batch at least."""
    pieces: list[list[int]] = []
    rows = batch_size
    for group in store.grouped(permuted(len(store.blocks), key).tolist(), size):
        if rows < batch_size:
            pieces[-1] += group
        else:
            pieces.append(group)
            rows = 0
        rows += _rows(store, group)
    if rows < batch_size and len(pieces) > 1:
        last = pieces.pop()
        pieces[-1] += last
    return pieces


def shuffled(store: Store, key: int, *, size: int, batch_size: int, behind: int, threads: int) -> Iterator[Piece]:
    """The pieces of an epoch, from the one in which the batch after the first `behind` begins.

    All batches but one in the last piece are full: the rows that are too many for a piece wait for the next one.

    Args:
        key: makes the order.
        size: bytes of a piece.
        threads: that read ahead.
    """
    pieces = pieces_of(store, key, size, batch_size)
    first, plans, waiting = _plans(store, key, pieces, batch_size, behind)
    held = None if waiting is None else store.joined(waiting.blocks).taken(waiting.order[: waiting.held])
    tables = read_ahead((partial(store.joined, blocks) for blocks in pieces[first:]), threads)
    for number, (table, plan) in enumerate(zip(tables, plans, strict=True), start=first):
        rows = plan.order[plan.held :]
        waits = table.taken(plan.order[: plan.held]) if plan.held else None
        if held is not None:
            rows = np.concatenate([np.arange(len(held)), rows + len(held)])
            table = Table.joined([held, table])
        yield Piece(table, rows, np.random.default_rng([key, number, 1]), plan.behind)
        held = waits


def _plans(
    store: Store, key: int, pieces: Sequence[list[int]], batch_size: int, behind: int
) -> tuple[int, Iterator[_Plan], _Plan | None]:
    """The number of the first piece that has batches left, its plan and those after it, and the plan of the one before
    where that has rows for it."""
    carried, done = 0, 0
    sizes = [_rows(store, piece) for piece in pieces]
    first, counts = len(pieces), []
    for number, rows in enumerate(sizes):
        held = (carried + rows) % batch_size if number < len(pieces) - 1 else 0
        count = -(-(carried + rows - held) // batch_size)
        if done + count > behind and first == len(pieces):
            first, skipped = number, behind - done
        counts.append(held)
        carried, done = held, done + count

    def plan(number: int) -> _Plan:
        order = permuted(sizes[number], key, number)
        return _Plan(pieces[number], order, counts[number], skipped if number == first else 0)

    before = plan(first - 1) if 0 < first < len(pieces) and counts[first - 1] else None
    return first, (plan(number) for number in range(first, len(pieces))), before


def permuted(count: int, *key: int) -> np.ndarray:
    """The numbers below `count` in an order that depends on the key alone."""
    return np.random.default_rng(list(key)).permutation(count)


def _rows(store: Store, blocks: Iterable[int]) -> int:
    return sum(store.blocks[block].rows for block in blocks)


def read_ahead(calls: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """What the calls return, in their order; `threads` of them are made before they are asked for, 0: none."""
    if not threads:
        for call in calls:
            yield call()
        return
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="unrolled-data")
    try:
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
