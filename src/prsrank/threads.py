"""Threads for kernels that release the interpreter lock, and LightGBM with threads that yield."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice, pairwise
from types import ModuleType
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from prsrank.errors import InputError
from prsrank.types import Longs

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count(threads: int | None = None) -> int:
    """Return `threads`, or by default the number of cores this process may use.

    >>> thread_count(3)
    3
    """
    if threads is None:
        if _most is not None:
            return _most
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # not on macOS and Windows
            return os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, not {threads}")
    return threads


_most: int | None = None


def use_threads(most: int) -> None:
    """Let this process use so many threads by default: it shares the machine with others."""
    global _most  # noqa: PLW0603 - of the process
    _most = most


MANY_VALUES = 1_000_000
"""For a matrix of fewer LightGBM's threads cost more than they save."""


def tree_threads(values: int, threads: int | None = None) -> int:
    """Return how many threads LightGBM is given for a matrix of so many values.

    >>> tree_threads(100), tree_threads(100, 2)
    (1, 2)
    """
    return 1 if threads is None and values < MANY_VALUES else thread_count(threads)


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """Apply a function to items in threads; yield results in order.

    At most `threads` + 1 items are under way at a time, so a stream of large items is
    never held whole.
    """
    count = thread_count(threads)
    if count == 1:
        yield from map(function, items)
        return
    source = iter(items)
    with ThreadPoolExecutor(count) as pool:
        pending: list[Future[Result]] = [
            pool.submit(function, i) for i in islice(source, count + 1)
        ]
        while pending:
            result = pending.pop(0).result()
            pending.extend(pool.submit(function, i) for i in islice(source, 1))
            yield result


def even_pieces(offsets: Longs, pieces: int) -> list[tuple[int, int]]:
    """Cut lists 0..n into at most `pieces` runs (start, stop) of about as many docs each.

    >>> even_pieces(np.array([0, 2, 4, 8]), 2)
    [(0, 2), (2, 3)]
    """
    lists = len(offsets) - 1
    targets = np.linspace(offsets[0], offsets[-1], pieces + 1)[1:-1]
    cuts = [0, *np.searchsorted(offsets, targets, side="left").tolist(), lists]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def for_each_piece(
    kernel: Callable[[int, int], object],
    offsets: Longs,
    *,
    threads: int | None = None,
) -> None:
    """Call `kernel(first_list, last_list)` on runs of lists, side by side in threads.

    The calling thread works too, and each takes the next run when it is done with one, so a
    thread that another program holds up delays little. Small work stays in the calling thread.
    """
    count = thread_count(threads)
    if count == 1 or offsets[-1] - offsets[0] < 20_000:
        kernel(0, len(offsets) - 1)
        return
    runs = iter(even_pieces(offsets, 4 * count))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                run = next(runs, None)
            if run is None:
                return
            kernel(*run)

    helpers = [_shared_pool().submit(work) for _ in range(count - 1)]
    try:
        work()
    finally:
        # One that has not begun finds nothing left to do; waiting for it could wait for ever.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
    for helper in started:
        helper.result()


_pool: ThreadPoolExecutor | None = None


def _shared_pool() -> ThreadPoolExecutor:
    """The threads that `for_each_piece` keeps: starting them anew would cost each call."""
    global _pool  # noqa: PLW0603 - one pool for the process
    if _pool is None:
        _pool = ThreadPoolExecutor(max(thread_count() - 1, 1), thread_name_prefix="prsrank")
    return _pool


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy's matrix products run in one thread, here or, as a decorator, in a function.

    How BLAS cuts a product, and so its last digits, depends on the number of its threads; and
    intervals with them.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def import_lightgbm() -> ModuleType:
    """Import LightGBM; where its OpenMP library is absent, say what to install.

    GNU OpenMP's threads wait for new work by spinning, by default for milliseconds, and so hold
    up the kernels that run between two trees, and everything else on a busy machine. Unless
    the user has set it, or LightGBM is loaded already, they spin a shorter time.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        import lightgbm
    except OSError as error:
        raise InputError(
            f"LightGBM cannot be loaded ({error}): install libgomp "
            "(Debian: apt-get install libgomp1; Fedora: dnf install libgomp)"
        ) from error
    module: ModuleType = lightgbm
    return module
