"""Lists and their pairs where the neural ranker trains: on the device, or streamed to it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.ragged import offsets_of, ragged_rows, runs
from prsrank.rankers.neural.pair_tensors import RowTensors, VectorTensors, batch_loss, pick, ragged
from prsrank.rankers.neural.torch_library import torch
from prsrank.types import Longs, Reals

Tensor = torch.Tensor
Transform = Callable[[npt.NDArray], Reals]

_ROWS = 1 << 16  # docs transformed at a time
_CHUNK_BYTES = 1 << 29  # of features sent to the device at a time
_BUFFERS = 3  # chunks on the device; with two, a small chunk would hold up the copy after it
_SHARE = 0.6  # of the device's free memory that the data may take


class ListBlock(NamedTuple):
    """Lists with their pairs.

    Attributes:
        features: docs x columns, transformed; the columns are a multiple of 8.
        offsets: where each list's docs begin, and the end (lists + 1).
        pairs: the pairs of the lists.
    """

    features: Tensor
    offsets: Tensor
    pairs: RowTensors | VectorTensors

    @property
    def lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All there is, in one row."""
        return self.features, self.offsets, *self.pairs

    def of(self, tensors: Iterable[Tensor]) -> "ListBlock":
        """Return a block of the same kind made of other `tensors`."""
        features, offsets, *pairs = tensors
        return ListBlock(features, offsets, type(self.pairs)(*pairs))

    def rows(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the docs of the lists `batch`, and where each list begins among them."""
        first = pick(self.offsets, batch)
        lengths = pick(self.offsets, batch + 1) - first
        return ragged(first, lengths), lengths.cumsum(0) - lengths

    def loss(self, scores: Tensor, batch: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pair loss of the lists `batch` and its gradient; docs as `rows` has them."""
        return batch_loss(scores, self.pairs, self.offsets, batch, starts)

    def slice(self, first: int, last: int) -> "ListBlock":
        """Return lists `first` to `last` - 1, offsets counted from the first of them."""
        offsets = self.offsets[first : last + 1]
        pairs = self.pairs.slice(self.offsets, first, last)
        return ListBlock(self.features[offsets[0] : offsets[-1]], offsets - offsets[0], pairs)


class ResidentLists:
    """All lists on the device.

    Attributes:
        lists: number of lists.
        block_lists: lists of the largest block.
        longest: docs of the longest list.
        uniform: whether all lists are as long.
    """

    def __init__(self, block: ListBlock) -> None:
        self.block = block
        self.lists = self.block_lists = block.lists
        lengths = block.offsets.diff()
        self.longest = int(lengths.max())
        self.uniform = self.longest == int(lengths.min())

    def blocks(self, seed: int) -> Iterator[ListBlock]:
        """Yield the one block."""
        yield self.block


class _Sent(NamedTuple):
    """A chunk on its way into one of the buffers."""

    side: int
    block: ListBlock
    arrived: torch.cuda.Event


class StreamedLists(ResidentLists):
    """Lists in pinned host memory, sent in chunks while the device works on the one before.

    The chunks come in random order, and batches are drawn within one chunk; `block` must
    therefore hold the lists in random order.
    """

    def __init__(self, block: ListBlock, device: torch.device, chunk_lists: int) -> None:
        super().__init__(block)
        self.block_lists = min(chunk_lists, block.lists)
        bounds = [*range(0, block.lists, chunk_lists), block.lists]
        self._chunks = [_pinned(block.slice(a, b)) for a, b in pairwise(bounds)]
        self._device = device
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._buffers = [self._buffer() for _ in range(_BUFFERS)]
        self._used = [_event() for _ in range(_BUFFERS)]
        self._sent: deque[_Sent] = deque()
        self._side, self._following = 0, -1

    def _buffer(self) -> list[Tensor]:
        """Return room on the device for the largest chunk."""
        return [
            torch.empty(
                (max(len(part) for part in parts), *parts[0].shape[1:]),
                dtype=parts[0].dtype,
                device=self._device,
            )
            for parts in zip(*(chunk.tensors for chunk in self._chunks), strict=True)
        ]

    def _order(self, seed: int) -> list[int]:
        order: list[int] = np.random.default_rng(seed).permutation(len(self._chunks)).tolist()
        return order

    def blocks(self, seed: int) -> Iterator[ListBlock]:
        """Yield the chunks in random order; each is valid until the next one is asked for.

        With the last ones go the first of seed + 1: the copies need not stop between epochs.
        """
        stream = torch.cuda.current_stream(self._device)
        if seed != self._following:  # what was sent ahead, if anything, is not what is wanted
            self._sent.clear()
            for event in self._used:
                event.record(stream)
        self._following = -1
        endless = chain.from_iterable(map(self._order, count(seed)))
        coming = islice(endless, len(self._sent), None)
        for _ in self._chunks:
            while len(self._sent) < _BUFFERS:
                self._sent.append(self._send(next(coming)))
            sent = self._sent[0]
            stream.wait_event(sent.arrived)
            yield sent.block
            self._used[sent.side].record(stream)
            self._sent.popleft()
        self._following = seed + 1

    def _send(self, chunk: int) -> _Sent:
        parts, arrived, side = self._chunks[chunk], _event(), self._side
        self._side = (side + 1) % _BUFFERS
        with torch.cuda.stream(self._copies):
            # the device may still read what this buffer held before
            self._copies.wait_event(self._used[side])
            views = []
            # nothing but copies: a kernel in this stream would wait for the training's
            for room, part in zip(self._buffers[side], parts.tensors, strict=True):
                views.append(room[: len(part)].copy_(part, non_blocking=True))
            arrived.record(self._copies)
        return _Sent(side, parts.of(views), arrived)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def _pinned(block: ListBlock) -> ListBlock:
    """Return the block with those parts pinned that are not yet: the few that a slice made."""
    return block.of(part if part.is_pinned() else part.pin_memory() for part in block.tensors)


def training_lists(
    dataset: RankingDataset,
    pairs: Any,
    transform: Transform,
    columns: int,
    *,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    room: int | None = None,
) -> ResidentLists:
    """Lay out the lists that have pairs: on the device if they fit there, else to be streamed.

    Args:
        dataset: the lists.
        pairs: their pairs, a `PairSet` or `OuterPairs`.
        transform: of raw features to `columns` columns.
        columns: the width, a multiple of 8.
        device: where to train.
        dtype: of the features there.
        seed: of the order in which lists are streamed.
        room: bytes on the device for the data; default: most of what is free.
    """
    if not np.array_equal(pairs.offsets, dataset.offsets):
        raise InputError("the pairs are not those of this data set: their lists differ")
    if getattr(pairs, "one_way", 0.0):
        pairs = pairs.dense(np.float32)  # they are no products, which losses here know
    if not pairs.weight_sum > 0:
        raise InputError("there are no pairs to learn from: no list has a winner and a loser")
    chosen = np.flatnonzero(pairs.paired_lists)
    docs = int(np.diff(pairs.offsets)[chosen].sum())
    size = docs * columns * dtype.itemsize + pairs.nbytes
    if device.type == "cuda" and room is None:
        room = int(torch.cuda.mem_get_info(device)[0] * _SHARE)
    streamed = device.type == "cuda" and room is not None and size > room
    if streamed:
        chosen = np.random.default_rng(seed).permutation(chosen)
    home = torch.device("cpu") if streamed else device
    block = ListBlock(
        _gathered(dataset, chosen, transform, columns, home, dtype, pinned=streamed),
        torch.from_numpy(offsets_of(np.diff(pairs.offsets)[chosen])).to(home),
        _pairs_of(pairs, chosen, home),
    )
    if not streamed:
        return ResidentLists(block)
    chunk = max(1, min(_CHUNK_BYTES, (room or 0) // 4) * len(chosen) // size)
    return StreamedLists(_pinned(block), device, chunk)


def _pairs_of(pairs: Any, chosen: Longs, device: torch.device) -> RowTensors | VectorTensors:
    """Return the pairs of the chosen lists in the order given."""

    def there(array: npt.NDArray, dtype: npt.DTypeLike) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype)).to(device)

    if not hasattr(pairs, "winner_row"):
        docs, _ = ragged_rows(pairs.offsets, chosen)
        vectors = (pairs.winning, pairs.losing)
        return VectorTensors(*(there(vector[docs], np.float32) for vector in vectors))
    won, winner_offsets = ragged_rows(pairs.winner_offsets, chosen)
    index, weight_starts = ragged_rows(pairs.work_offsets, chosen)
    return RowTensors(
        there(winner_offsets, np.int64),
        there(pairs.winner_row[won], np.int32),
        there(weight_starts, np.int64),
        there(pairs.weights[index], np.float32),
    )


def _gathered(
    dataset: RankingDataset,
    chosen: Longs,
    transform: Transform,
    columns: int,
    device: torch.device,
    dtype: torch.dtype,
    *,
    pinned: bool,
) -> Tensor:
    """Return the transformed docs of the chosen lists in the order given."""
    lengths = np.diff(dataset.offsets)[chosen]
    offsets = offsets_of(lengths)
    features = torch.empty(
        (int(offsets[-1]), columns), dtype=dtype, device=device, pin_memory=pinned
    )
    for first, last in _runs(offsets):
        rows = runs(dataset.offsets[chosen[first:last]], lengths[first:last])
        part = torch.from_numpy(transform(dataset.features[rows]))
        features[offsets[first] : offsets[last]].copy_(part)
    return features


def _runs(offsets: Longs) -> Iterator[tuple[int, int]]:
    """Cut lists into runs of about _ROWS docs."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _ROWS, side="right")) - 1
        yield first, max(last, first + 1)
        first = max(last, first + 1)
