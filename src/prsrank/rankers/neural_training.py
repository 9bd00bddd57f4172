"""The training loop of the neural rankers: epochs over batches of whole lists."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from prsrank.errors import InputError
from prsrank.rankers.neural_batches import ListBlock, ResidentLists
from prsrank.rankers.neural_loss import pair_loss
from prsrank.rankers.neural_net import Pass, ScoreNet
from prsrank.rankers.torch_library import has_triton, torch

Tensor = torch.Tensor

_WARM_UP = 3  # batches before a step is recorded: libraries set themselves up in them
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
        self._net, self._optimiser, self._source = net, optimiser, source
        self._size = min(batch_lists, source.lists)
        self._scale, self._seed = scale, seed
        device = net.weights.device
        self._generator = torch.Generator(device).manual_seed(seed)
        self._total = torch.zeros((), dtype=net.weights.dtype, device=device)
        self._recording = device.type == "cuda" and has_triton()
        self._warm_up = _WARM_UP
        self._capacity = 0
        self._steps: dict[int, _RecordedStep] = {}
        self._epoch = 0

    def epoch(self) -> float:
        """Train on every list once; return the mean loss of a list."""
        self._total.zero_()
        for block in self._source.blocks(self._seed + self._epoch):
            batches = self._batches(block)
            if self._recording:
                self._fit_capacity(block, batches)
            for batch in batches:
                self._step(block, batch)
        self._epoch += 1
        # _scale holds 1 / batch size
        return float(self._total) * self._size / self._source.lists

    def _batches(self, block: ListBlock) -> Tensor:
        """Return the lists of a block in random order, -1 where the last batch is not full."""
        lists, device = block.lists, self._net.weights.device
        order = torch.full((-(-lists // self._size) * self._size,), -1, device=device)
        order[:lists] = torch.randperm(lists, generator=self._generator, device=device)
        return order.view(-1, self._size)

    def _fit_capacity(self, block: ListBlock, batches: Tensor) -> None:
        """Make recorded steps wide enough for the largest batch."""
        most = self._size * self._source.longest
        if not self._source.uniform:
            lengths = torch.where(batches >= 0, block.offsets.diff()[batches], 0)
            most = int(lengths.sum(1).max())
        if most > self._capacity:
            room = most if self._source.uniform or not self._capacity else int(1.05 * most)
            self._capacity = -(-room // _MULTIPLE) * _MULTIPLE
            self._steps.clear()

    def _step(self, block: ListBlock, batch: Tensor) -> None:
        if not self._recording:
            self._plain_step(block, batch[batch >= 0])
            return
        key = block.features.data_ptr()
        if key not in self._steps:
            docs, longest = (self._capacity, block.features.shape[1]), self._source.longest
            self._steps[key] = _RecordedStep(block, docs, self._size, longest)
        self._steps[key](self._kernel_step, batch, record=self._warm_up <= 0)
        self._warm_up -= 1

    def _plain_step(self, block: ListBlock, batch: Tensor) -> None:
        rows, starts = block.rows(batch)
        scores, passed = self._net.forward(block.features[rows])
        loss, grad = pair_loss(scores, *block.pairs(batch, starts))
        self._finish(passed, grad.mul_(self._scale), loss * self._scale)

    def _kernel_step(self, block: ListBlock, batch: Tensor, starts: Tensor, docs: Tensor) -> None:
        from prsrank.rankers.neural_kernels import gather_lists, list_pair_loss

        if not self._source.uniform:
            real = batch.clamp(min=0)
            lengths = torch.where(batch >= 0, block.offsets[real + 1] - block.offsets[real], 0)
            starts = lengths.cumsum(0) - lengths
        gather_lists(block, batch, starts, self._source.longest, docs)
        scores, passed = self._net.forward(docs)
        loss, grad = list_pair_loss(scores, block, batch, starts, self._source.longest, self._scale)
        self._finish(passed, grad, loss)

    def _finish(self, passed: Pass, grad: Tensor, loss: Tensor) -> None:
        self._net.backward(passed, grad)
        self._optimiser.step()
        self._total += loss


class _RecordedStep:
    """A step on one block, run as it is or recorded and replayed."""

    def __init__(self, block: ListBlock, docs: tuple[int, int], size: int, longest: int) -> None:
        device = block.features.device
        self._batch = torch.full((size,), -1, device=device)
        starts = torch.arange(size, device=device) * longest
        room = torch.zeros(docs, dtype=block.features.dtype, device=device)
        self._arguments = block, self._batch, starts, room
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, step: Callable[..., None], batch: Tensor, *, record: bool) -> None:
        self._batch.copy_(batch)
        if not record:
            step(*self._arguments)
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with _no_collection(), torch.cuda.graph(self._graph):
                step(*self._arguments)
        self._graph.replay()


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


@dataclass
class BestEpoch:
    """Epochs so far and the best of them; early stopping.

    Attributes:
        patience: epochs without an improvement after which to stop; None never stops.
        history: one record per epoch: loss, and the validation value if there is one.
        best_epoch: index of the best epoch; without validation the last.
    """

    patience: int | None
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = -1
    _best: float = -np.inf
    _weights: list[Tensor] = field(default_factory=list)

    def add(self, loss: float, value: float | None, weights: Sequence[Tensor]) -> bool:
        """Note an epoch; tell whether to go on."""
        if not np.isfinite(loss):
            raise InputError(
                f"training diverged: the loss of epoch {len(self.history) + 1} is {loss}; "
                "a lower learning_rate may help"
            )
        self.history.append({"loss": loss} | ({} if value is None else {"validation": value}))
        if value is None or value > self._best:
            self._best = -np.inf if value is None else value
            self.best_epoch = len(self.history) - 1
            self._weights = [] if value is None else [part.clone() for part in weights]
        waited = len(self.history) - 1 - self.best_epoch
        return value is None or self.patience is None or waited < self.patience

    def restore(self, weights: Sequence[Tensor]) -> None:
        """Put the weights of the best epoch back."""
        for part, best in zip(weights, self._weights, strict=False):
            part.copy_(best)
