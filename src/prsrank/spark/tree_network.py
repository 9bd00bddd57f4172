"""LightGBM's network over our own sockets: it asks us to add up histograms and to pass on the rest."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from prsrank.spark.worker_sums import WorkerSums
from prsrank.threads import import_lightgbm

_INT, _ADDRESS = ctypes.c_int32, ctypes.c_void_p
_INTS = ctypes.POINTER(_INT)
# LightGBM's include/LightGBM/meta.h; a C++ reference is a pointer
_REDUCE = ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _INT, _INT)
_REDUCE_SCATTER = ctypes.CFUNCTYPE(
    None, _ADDRESS, _INT, _INT, _INTS, _INTS, _INT, _ADDRESS, _INT, ctypes.POINTER(_REDUCE)
)
_ALLGATHER = ctypes.CFUNCTYPE(None, _ADDRESS, _INT, _INTS, _INTS, _INT, _ADDRESS, _INT)


@contextmanager
def tree_network(sums: WorkerSums) -> Iterator[None]:
    """Let what LightGBM does in this thread be done together with all workers, who do the same.

    Raises:
        LostWorker: in place of what LightGBM says of it, if a worker is gone.
    """
    if sums.workers == 1:
        yield
        return
    library, calls = import_lightgbm().basic._LIB, _Calls(sums)
    functions = _REDUCE_SCATTER(calls.reduce_scatter), _ALLGATHER(calls.allgather)
    # options of any call say how much LightGBM prints from then on: nothing of the network
    library.LGBM_GetSampleCount(1, b"verbosity=-1", ctypes.byref(_INT()))
    library.LGBM_NetworkInitWithFunctions(sums.workers, sums.worker, *functions)
    try:
        yield
    finally:
        library.LGBM_NetworkFree()
        if calls.error is not None:
            raise calls.error


class _Calls:
    """What LightGBM calls; its blocks are by worker. An error cannot pass through LightGBM.

    It is kept, and LightGBM gets bytes of 255. They are NaN where it looks for sums, and -1 where
    it looks for the length of an array: it then gives up with an error of its own.
    """

    def __init__(self, sums: WorkerSums) -> None:
        self.sums = sums
        self.error: BaseException | None = None

    def reduce_scatter(
        self,
        data: int,
        _size: int,
        item: int,
        starts: Any,
        sizes: Any,
        count: int,
        out: int,
        _room: int,
        reducer: Any,
    ) -> None:
        """Add up this worker's block over all workers, in their order."""
        size = sizes[self.sums.worker]

        def add() -> None:
            blocks = [ctypes.string_at(data + starts[i], sizes[i]) for i in range(count)]
            first, *others = self.sums.exchange(blocks, [size] * count)
            ctypes.memmove(out, _address(first), size)
            for block in others:
                reducer[0](_address(block), out, item, size)

        self._guard(add, out, size)

    def allgather(
        self, data: int, size: int, starts: Any, sizes: Any, count: int, out: int, room: int
    ) -> None:
        """Put the blocks of all workers where each belongs."""

        def gather() -> None:
            own = ctypes.string_at(data, size)  # a copy: it may lie where the others go
            blocks = self.sums.exchange([own] * count, sizes[:count])
            for i, block in enumerate(blocks):
                ctypes.memmove(out + starts[i], _address(block), sizes[i])

        self._guard(gather, out, room)

    def _guard(self, work: Callable[[], None], out: int, size: int) -> None:
        try:
            if self.error is None:
                work()
        except BaseException as error:
            self.error = error
            self.sums.close()
        if self.error is not None:
            ctypes.memset(out, 255, size)


def _address(block: bytes | bytearray) -> int:
    return int(np.frombuffer(block, np.uint8).ctypes.data)
