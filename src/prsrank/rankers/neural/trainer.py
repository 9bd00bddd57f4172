"""The training loop of the neural rankers: epochs over batches of whole lists."""

from collections.abc import Callable

from prsrank.rankers.neural.list_blocks import ListBlock, ResidentLists
from prsrank.rankers.neural.recorded_steps import RecordedSteps
from prsrank.rankers.neural.score_net import Rooms, ScoreNet, room_for
from prsrank.rankers.neural.torch_library import has_triton, torch

Tensor = torch.Tensor

_MULTIPLE = 128  # docs in a recorded step


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
