"""Epochs over batches of whole lists; on a GPU each step is recorded once and replayed."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsrank.rankers.neural.list_blocks import ListBlock, ResidentLists
from prsrank.rankers.neural.score_net import Rooms, ScoreNet, room_for
from prsrank.rankers.neural.torch_library import has_triton, torch

if TYPE_CHECKING:
    from prsrank.rankers.neural.triton_kernels import Room

Tensor = torch.Tensor

_MULTIPLE = 128  # docs in a recorded step
_LARGE = 32 << 20  # bytes of a batch's docs, beyond which they would leave the cache
_WARM_UP = 3  # steps before one is recorded: libraries set themselves up in them


def sgd(net: ScoreNet, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum 0.9."""
    return torch.optim.SGD(
        [net.weights],
        lr=learning_rate,
        momentum=0.9,
        weight_decay=weight_decay,
        foreach=False,  # for one vector the fused kernels use three of a GPU's processors
    )


def adamw(net: ScoreNet, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay."""
    return torch.optim.AdamW(
        [net.weights],
        lr=learning_rate,
        weight_decay=weight_decay,
        fused=net.weights.is_cuda,
        capturable=net.weights.is_cuda,
    )


OPTIMISERS: dict[str, Callable[[ScoreNet, float, float], torch.optim.Optimizer]] = {
    "sgd": sgd,
    "adamw": adamw,
}


class Trainer:
    """Steps over batches of whole lists; on a GPU each step is recorded once and replayed.

    Without a recording, a batch of 4,096 short lists costs more in kernel launches than in
    work. A recorded step has a fixed number of docs: the most that any batch of the epoch has;
    the rows that a batch leaves over have no gradient.

    Args:
        net: the net to train.
        optimiser: its optimiser.
        source: the lists.
        batch_lists: lists per batch.
        scale: factor of the loss of a batch's pairs.
        seed: of the batches.

    Attributes:
        net: the net.
        state: the tensors that are learned.
    """

    def __init__(
        self,
        net: ScoreNet,
        optimiser: torch.optim.Optimizer,
        source: ResidentLists,
        *,
        batch_lists: int,
        scale: float,
        seed: int,
    ) -> None:
        self.net, self._optimiser, self._source = net, optimiser, source
        self.state = [net.weights]
        self._size = min(batch_lists, source.lists)
        self._scale, self._seed = scale, seed
        device = net.weights.device
        self._generator = torch.Generator(device).manual_seed(seed)
        self._recording = device.type == "cuda" and has_triton()
        self._total = net.weights.new_zeros(self._total_entries())
        self._capacity = 0
        self._steps: dict[int, RecordedSteps] = {}
        # a GPU's memory is kept by PyTorch itself
        self._rooms: Rooms | None = {} if device.type == "cpu" else None
        self._epoch = 0

    def _total_entries(self) -> int:
        if not self._recording:
            return 1
        from prsrank.rankers.neural.triton_kernels import loss_entries

        return loss_entries(self._size, self._source.longest)

    def epoch(self) -> float:
        """Train on every list once; return the mean loss of a list."""
        self._total.zero_()
        for block in self._source.blocks(self._seed + self._epoch):
            batches = self._batches(block)
            if self._recording:
                self._recorded_steps(block, batches)
            else:
                for batch in batches:
                    self._plain_step(block, batch[batch >= 0])
        self._epoch += 1
        # _scale holds 1 / batch size
        return float(self._total.sum()) * self._size / self._source.lists

    def _batches(self, block: ListBlock) -> Tensor:
        """Return the lists of a block in random order, -1 where the last batch is not full."""
        lists, device = block.lists, self.net.weights.device
        order = torch.full((-(-lists // self._size) * self._size,), -1, device=device)
        order[:lists] = torch.randperm(lists, generator=self._generator, device=device)
        return order.view(-1, self._size)

    def _plain_step(self, block: ListBlock, batch: Tensor) -> None:
        rows, starts = block.rows(batch)
        room = room_for(self._rooms, "docs", len(rows), block.features[0])
        docs = torch.index_select(block.features, 0, rows, out=room)
        scores, passed = self.net.forward(docs, rooms=self._rooms)
        loss, grad = block.loss(scores, batch, starts)
        self.net.backward(passed, grad.mul_(self._scale))
        self._optimiser.step()
        self._total[0] += loss * self._scale

    def _recorded_steps(self, block: ListBlock, batches: Tensor) -> None:
        from prsrank.rankers.neural.triton_kernels import Room, list_pair_loss

        def compute(room: Room) -> None:
            scores, passed = self.net.forward(room.docs)
            longest, scale = self._source.longest, self._scale
            grad = list_pair_loss(scores, block, room, longest, scale, self._total)
            self.net.backward(passed, grad)
            self._optimiser.step()

        starts, most = self._starts(block, batches)
        self._fit_capacity(most)
        # a recording reads where the block lies in memory: a streamed one in one of the buffers
        key = block.features.data_ptr()
        if key not in self._steps:
            shape = -(-self._source.block_lists // self._size), self._size
            self._steps[key] = RecordedSteps(block, shape, self._capacity, self._source.longest)
        self._steps[key].run(batches, starts, compute)

    def _starts(self, block: ListBlock, batches: Tensor) -> tuple[Tensor, int]:
        """Return where each list begins among its batch's docs, and the docs of the largest."""
        longest = self._source.longest
        if self._source.uniform:
            return torch.arange(self._size, device=batches.device) * longest, self._size * longest
        lengths = torch.where(batches >= 0, block.offsets.diff()[batches], 0)
        ends = lengths.view(-1).cumsum(0).view_as(lengths)  # along rows it would be slow
        ends -= (ends - lengths)[:, :1].clone()
        return ends - lengths, int(ends[:, -1].max())

    def _fit_capacity(self, most: int) -> None:
        """Make recorded steps wide enough for the largest batch."""
        if most > self._capacity:
            room = int(1.05 * most) if self._capacity else most
            self._capacity = -(-room // _MULTIPLE) * _MULTIPLE
            self._steps.clear()


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
        self, block: ListBlock, shape: tuple[int, int], capacity: int, longest: int
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
