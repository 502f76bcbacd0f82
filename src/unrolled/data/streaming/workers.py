"""Pieces of a file parsed by several processes; what comes, and in which order, is the same for any number of them."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from unrolled.data.items import Dataset
from unrolled.data.readers.pieces import Raw, parse
from unrolled.errors import DataError, expected

__all__ = ["Parse", "one_by_one", "parser"]

Parse = Callable[[Iterable[Raw]], Iterator[Dataset]]


def one_by_one(raws: Iterable[Raw]) -> Iterator[Dataset]:
    """Parse pieces in this process."""
    return map(parse, raws)


@contextmanager
def parser(workers: int) -> Iterator[Parse]:
    """How pieces are parsed: by so many processes beside this one, each a piece at a time; below 2: in this one."""
    if workers < 2:
        yield one_by_one
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:

        def by_many(raws: Iterable[Raw]) -> Iterator[Dataset]:
            waiting: deque[Future[Dataset]] = deque()
            try:
                for raw in raws:
                    waiting.append(pool.submit(parse, raw))
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BrokenProcessPool:
                way_out = 'Begin the program with if __name__ == "__main__", or use one worker.'
                wanted = "processes that can be started and have memory"
                raise DataError(expected("workers", wanted, "one that ended", way_out)) from None
            finally:
                for future in waiting:
                    future.cancel()

        yield by_many
