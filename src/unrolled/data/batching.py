"""Padding, batches of like length, and parallel streams of one long text.

Axes     B rows of the batch, T time, D channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrolled.errors import DataError, expected

POOL = 50  # batches that are sorted by length together: little padding, yet batches differ from epoch to epoch


def pad(arrays: Sequence[np.ndarray], value: float = 0) -> tuple[np.ndarray, np.ndarray]:
    """Stack arrays (T, …) of different T into (B, longest T, …), filled at the end; also their lengths, int64.

    >>> pad([np.array([1, 2, 3]), np.array([4])])
    (array([[1, 2, 3],
           [4, 0, 0]]), array([3, 1]))
    """
    if not arrays:
        raise DataError(expected("arrays", "at least one", "none"))
    rows = [np.asarray(array) for array in arrays]
    for i, row in enumerate(rows):
        if row.ndim == 0 or row.shape[1:] != rows[0].shape[1:]:
            wanted = f"shape (T, *{rows[0].shape[1:]}) as arrays[0]"
            raise DataError(expected(f"arrays[{i}]", wanted, f"shape {row.shape}"))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.full((len(rows), int(lengths.max()), *rows[0].shape[1:]), value, dtype=np.result_type(*rows))
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded, lengths


def batch_indices(
    lengths: Sequence[int] | np.ndarray,
    batch_size: int,
    *,
    rng: np.random.Generator | None = None,
    bucket: bool = True,
) -> list[np.ndarray]:
    """Indices of the rows of each batch, every index exactly once.

    With `rng` the order is shuffled. With `bucket` rows of like length share a batch, so little of it is padding.
    """
    if batch_size < 1:
        raise DataError(expected("batch_size", "1 or more", batch_size))
    sizes = np.asarray(lengths)
    order = np.arange(len(sizes)) if rng is None else rng.permutation(len(sizes))
    if bucket:
        step = len(sizes) or 1 if rng is None else POOL * batch_size
        pools = [order[start : start + step] for start in range(0, len(order), step)]
        order = np.concatenate([p[np.argsort(sizes[p], kind="stable")] for p in pools]) if pools else order
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    if rng is not None and bucket:
        batches = [batches[i] for i in rng.permutation(len(batches))]
    return batches


def streams(ids: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut one long array (N,) into `batch_size` contiguous rows: (B, ⌈N/B⌉) and the length of each, int64.

    No token is dropped: where N does not divide, the first rows are one longer. For a language model, call it on
    ids[:-1] for the inputs and on ids[1:] for the targets; the rows then correspond.

    >>> streams(np.arange(5), 2)
    (array([[0, 1, 2],
           [3, 4, 0]]), array([3, 2]))
    """
    ids = np.asarray(ids)
    if ids.ndim != 1 or not len(ids):
        raise DataError(expected("ids", "a non-empty array (N,)", f"shape {ids.shape}"))
    if batch_size < 1:
        raise DataError(expected("batch_size", "1 or more", batch_size))
    return pad(np.array_split(ids, batch_size))
