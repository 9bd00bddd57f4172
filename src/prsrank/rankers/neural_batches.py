"""Lists and their pairs where the neural ranker trains: on the device, or streamed to it."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.ragged import offsets_of, ragged_rows, runs
from prsrank.rankers.torch_library import torch
from prsrank.types import Longs, Reals

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet

Tensor = torch.Tensor
Transform = Callable[[npt.NDArray], Reals]

_ROWS = 1 << 16  # docs transformed at a time
_CHUNK_BYTES = 1 << 29  # of features sent to the device at a time
_SHARE = 0.6  # of the device's free memory that the data may take


class ListBlock(NamedTuple):
    """Lists with their pairs, laid out as in `PairSet`.

    Attributes:
        features: docs x columns, transformed; the columns are a multiple of 8.
        offsets: where each list's docs begin, and the end (lists + 1).
        winner_offsets: where each list's winners begin, and the end (lists + 1).
        winner_row: row in its list of each winner (winners).
        weight_starts: where each list's rows of weights begin (lists).
        weights: one dense row per winner, float32.
    """

    features: Tensor
    offsets: Tensor
    winner_offsets: Tensor
    winner_row: Tensor
    weight_starts: Tensor
    weights: Tensor

    @property
    def lists(self) -> int:
        """Number of lists."""
        return len(self.weight_starts)

    def rows(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the docs of the lists `batch`, and where each list begins among them."""
        lengths = self.offsets[batch + 1] - self.offsets[batch]
        return ragged(self.offsets[batch], lengths), lengths.cumsum(0) - lengths

    def pairs(self, batch: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return winner, other and weight of the pairs, docs numbered as in `rows`."""
        lengths = self.offsets[batch + 1] - self.offsets[batch]
        winners = self.winner_offsets[batch + 1] - self.winner_offsets[batch]
        width = lengths.repeat_interleave(winners)
        first = starts.repeat_interleave(winners)
        won = first + self.winner_row[ragged(self.winner_offsets[batch], winners)]
        index = ragged(self.weight_starts[batch], winners * lengths)
        return won.repeat_interleave(width), ragged(first, width), self.weights[index]

    def slice(self, first: int, last: int) -> "ListBlock":
        """Return lists `first` to `last` - 1 as views; offsets still count from the whole."""
        docs = slice(int(self.offsets[first]), int(self.offsets[last]))
        won = slice(int(self.winner_offsets[first]), int(self.winner_offsets[last]))
        ends = [*self.weight_starts[first : last + 1].tolist(), len(self.weights)]
        return ListBlock(
            self.features[docs],
            self.offsets[first : last + 1],
            self.winner_offsets[first : last + 1],
            self.winner_row[won],
            self.weight_starts[first:last],
            self.weights[ends[0] : ends[last - first]],
        )


class ResidentLists:
    """All lists on the device.

    Attributes:
        lists: number of lists.
        longest: docs of the longest list.
        uniform: whether all lists are as long.
    """

    def __init__(self, block: ListBlock) -> None:
        self.block = block
        self.lists = block.lists
        lengths = block.offsets.diff()
        self.longest, shortest = int(lengths.max()), int(lengths.min())
        self.uniform = self.longest == shortest

    def blocks(self, seed: int) -> Iterator[ListBlock]:
        """Yield the one block."""
        yield self.block


class StreamedLists(ResidentLists):
    """Lists in pinned host memory, sent in chunks while the device works on the one before.

    The chunks come in random order, and batches are drawn within one chunk; `block` must
    therefore hold the lists in random order.
    """

    def __init__(self, block: ListBlock, device: torch.device, chunk_lists: int) -> None:
        super().__init__(block)
        bounds = [*range(0, block.lists, chunk_lists), block.lists]
        self._chunks = [block.slice(a, b) for a, b in pairwise(bounds)]
        self._device = device
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._buffers = [self._buffer() for _ in range(2)]
        self._used = [_event() for _ in range(2)]

    def _buffer(self) -> ListBlock:
        """Return room on the device for the largest chunk."""
        return ListBlock(
            *(
                torch.empty(
                    (max(len(part) for part in parts), *parts[0].shape[1:]),
                    dtype=parts[0].dtype,
                    device=self._device,
                )
                for parts in zip(*self._chunks, strict=True)
            )
        )

    def blocks(self, seed: int) -> Iterator[ListBlock]:
        """Yield the chunks in random order; each is valid until the next but one is asked for."""
        order = np.random.default_rng(seed).permutation(len(self._chunks)).tolist()
        sent = [self._send(order[0], 0)]
        for turn in range(len(order)):
            if turn + 1 < len(order):
                sent.append(self._send(order[turn + 1], (turn + 1) % 2))
            block, arrived = sent.pop(0)
            torch.cuda.current_stream(self._device).wait_event(arrived)
            yield block
            self._used[turn % 2].record(torch.cuda.current_stream(self._device))

    def _send(self, chunk: int, side: int) -> tuple[ListBlock, torch.cuda.Event]:
        parts = self._chunks[chunk]
        buffer = self._buffers[side]
        arrived = _event()
        with torch.cuda.stream(self._copies):
            # the device may still read what this buffer held two chunks ago
            self._copies.wait_event(self._used[side])
            views = ListBlock(
                *(room[: len(part)] for room, part in zip(buffer, parts, strict=True))
            )
            for view, part in zip(views, parts, strict=True):
                view.copy_(part, non_blocking=True)
            # offsets count from the whole: on the device, from the chunk
            for name in ("offsets", "winner_offsets", "weight_starts"):
                getattr(views, name).sub_(int(getattr(parts, name)[0]))
            arrived.record(self._copies)
        return views, arrived


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def training_lists(
    dataset: RankingDataset,
    pairs: "PairSet",
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
        pairs: their pairs.
        transform: of raw features to `columns` columns.
        columns: the width, a multiple of 8.
        device: where to train.
        dtype: of the features there.
        seed: of the order in which lists are streamed.
        room: bytes on the device for the data; default: most of what is free.
    """
    if not np.array_equal(pairs.offsets, dataset.offsets):
        raise InputError("the pairs are not those of this data set: their lists differ")
    chosen = np.flatnonzero(np.diff(pairs.winner_offsets))
    if not len(chosen) or not np.any(pairs.weights > 0):
        raise InputError("there are no pairs to learn from: no list has a winner and a loser")
    docs = int(np.diff(pairs.offsets)[chosen].sum())
    size = docs * columns * dtype.itemsize + len(pairs.weights) * 4
    if device.type == "cuda" and room is None:
        room = int(torch.cuda.mem_get_info(device)[0] * _SHARE)
    streamed = device.type == "cuda" and room is not None and size > room
    if streamed:
        chosen = np.random.default_rng(seed).permutation(chosen)
    home = torch.device("cpu") if streamed else device
    block = _laid_out(dataset, pairs, chosen, transform, columns, home, dtype, pinned=streamed)
    if not streamed:
        return ResidentLists(block)
    chunk = max(1, min(_CHUNK_BYTES, (room or 0) // 4) * len(chosen) // size)
    return StreamedLists(block, device, chunk)


def _laid_out(
    dataset: RankingDataset,
    pairs: "PairSet",
    chosen: Longs,
    transform: Transform,
    columns: int,
    device: torch.device,
    dtype: torch.dtype,
    *,
    pinned: bool,
) -> ListBlock:
    """Return the chosen lists in the order given."""
    lengths = np.diff(pairs.offsets)[chosen]
    offsets = offsets_of(lengths)
    won, winner_offsets = ragged_rows(pairs.winner_offsets, chosen)
    sources, weight_offsets = ragged_rows(pairs.weight_offsets[pairs.winner_offsets], chosen)
    weights = pairs.weights[sources]
    features = torch.empty(
        (int(offsets[-1]), columns), dtype=dtype, device=device, pin_memory=pinned
    )
    for first, last in _runs(offsets):
        rows = runs(dataset.offsets[chosen[first:last]], lengths[first:last])
        part = torch.from_numpy(transform(dataset.features[rows]))
        features[offsets[first] : offsets[last]].copy_(part)
    arrays = (
        offsets,
        winner_offsets,
        pairs.winner_row[won].astype(np.int64),
        weight_offsets[:-1],
        weights,
    )
    tensors = [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays[:-1]]
    tensors.append(torch.from_numpy(weights.astype(np.float32)).to(device))
    return ListBlock(features, *(t.pin_memory() if pinned else t for t in tensors))


def _runs(offsets: Longs) -> Iterator[tuple[int, int]]:
    """Cut lists into runs of about _ROWS docs."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _ROWS, side="right")) - 1
        yield first, max(last, first + 1)
        first = max(last, first + 1)


def ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return starts[k], starts[k] + 1, ..., lengths[k] of them, for each k."""
    first = (starts - lengths.cumsum(0) + lengths).repeat_interleave(lengths)
    return first + torch.arange(len(first), device=first.device)
