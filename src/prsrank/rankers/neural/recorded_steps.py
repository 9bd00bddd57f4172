"""Steps on a GPU, recorded once and replayed, each while the next batch is gathered."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsrank.rankers.neural.torch_library import torch

if TYPE_CHECKING:
    from prsrank.rankers.neural.list_blocks import ListBlock
    from prsrank.rankers.neural.triton_kernels import Room

Tensor = torch.Tensor

_LARGE = 32 << 20  # bytes of a batch's docs, beyond which they would leave the cache
_WARM_UP = 3  # steps before one is recorded: libraries set themselves up in them


class RecordedSteps:
    """The steps on the batches of one block.

    Two rooms take turns: a step computes on the batch in one, and in a branch of its own gathers
    the next batch into the other. A large batch is gathered by its own step, into one room: the
    first layer then finds much of it in the cache. Which batch is next stands on the device, so
    a replay is all that a step needs.

    Args:
        block: the lists.
        shape: the most batches, and lists per batch.
        capacity: the most docs of a batch.
        longest: docs of the longest list.
    """

    def __init__(
        self, block: "ListBlock", shape: tuple[int, int], capacity: int, longest: int
    ) -> None:
        from prsrank.rankers.neural.triton_kernels import Room

        device, (most, size) = block.features.device, shape
        self._block, self._longest = block, longest
        # behind the last batch stands one without a list: the last step gathers it
        self._order = torch.full((most + 1, size), -1, device=device)
        self._starts = torch.zeros_like(self._order)
        self._turn = torch.zeros((), dtype=torch.long, device=device)
        self._ahead = capacity * block.features.shape[1] * block.features.itemsize < _LARGE
        self._rooms = [
            Room(
                block.features.new_zeros((capacity, block.features.shape[1])),
                torch.full((size,), -1, device=device),
                torch.zeros(size, dtype=torch.long, device=device),
                torch.zeros(capacity, device=device),
            )
            for _ in range(2 if self._ahead else 1)
        ]
        self._branch = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._warm_up = _WARM_UP

    def run(self, batches: Tensor, starts: Tensor, compute: Callable[["Room"], None]) -> None:
        """Take a step on each batch.

        Args:
            batches: the lists of each; -1 is no list.
            starts: where each list begins among the docs of its batch.
            compute: what a step does with a batch once it is gathered.
        """
        self._order[: len(batches)] = batches
        self._order[len(batches)] = -1
        self._starts[: len(batches)] = starts
        self._turn.zero_()
        if self._ahead:
            self._gather(0)
        for number in range(len(batches)):
            side = number % len(self._rooms)
            if self._warm_up:
                self._step(side, compute)
                self._warm_up -= 1
                continue
            if not self._graphs:
                self._record(compute)
            self._graphs[side].replay()

    def _record(self, compute: Callable[["Room"], None]) -> None:
        pool = torch.cuda.graph_pool_handle()  # shared: the two never run side by side
        for side in range(len(self._rooms)):
            graph = torch.cuda.CUDAGraph()
            with _no_collection(), torch.cuda.graph(graph, pool=pool):
                self._step(side, compute)
            self._graphs.append(graph)

    def _step(self, side: int, compute: Callable[["Room"], None]) -> None:
        if not self._ahead:
            self._gather(side)
            compute(self._rooms[side])
            return
        main = torch.cuda.current_stream(self._order.device)
        self._branch.wait_stream(main)
        with torch.cuda.stream(self._branch):
            self._gather(1 - side)
        compute(self._rooms[side])
        main.wait_stream(self._branch)

    def _gather(self, side: int) -> None:
        from prsrank.rankers.neural.triton_kernels import gather_lists

        room = self._rooms[side]
        gather_lists(self._block, self._order, self._starts, self._turn, self._longest, room)
        self._turn += 1


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage now and not in the block: freeing another graph would end a recording."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
