"""Work on the pieces of a file by several processes; what comes, and in which order, is the same for any number."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from unrolled.data.readers.pieces import Raw
from unrolled.errors import DataError, expected

__all__ = ["spread_out"]

T = TypeVar("T")
_work: Callable[[Raw], Any]  # of a worker process


@contextmanager
def spread_out(
    count: int, make: Callable[..., Callable[[Raw], T]], *given: Any
) -> Iterator[Callable[[Iterable[Raw]], Iterator[T]]]:
    """A map over pieces, by so many processes beside this one, each a piece at a time; below 2: by this one.

    Args:
        make: called once in each process with `given`, which are sent there; returns the function that is mapped.

    Raises:
        DataError: a process ended, or could not be started.
    """
    if count < 2:
        work = make(*given)
        yield lambda raws: map(work, raws)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(make, given)) as pool:
        yield lambda raws: _by_many(pool, count, raws)


def _by_many(pool: ProcessPoolExecutor, count: int, raws: Iterable[Raw]) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    try:
        for raw in raws:
            waiting.append(pool.submit(_call, raw))
            if len(waiting) > count:
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


def _begin(make: Callable[..., Callable[[Raw], Any]], given: tuple[Any, ...]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of them, and the first one ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = make(*given)


def _end_with_parent() -> None:
    """A process that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(raw: Raw) -> Any:
    return _work(raw)
