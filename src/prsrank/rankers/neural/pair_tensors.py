"""The pairs of lists as the neural ranker holds them: rows of weights, or two vectors."""

from collections.abc import Iterator
from typing import NamedTuple

from prsrank.rankers.neural.torch_library import torch

Tensor = torch.Tensor

_PAIRS = 1 << 20  # computed at a time: memory does not grow with the pairs of a batch


class PaddedLists(NamedTuple):
    """Some lists of a batch, each as a row of as many docs as the longest has.

    Attributes:
        lists: their numbers.
        lengths: docs of each (lists).
        docs: where each list's docs are in the data (lists x longest).
        there: which are docs, not padding (lists x longest).
    """

    lists: Tensor
    lengths: Tensor
    docs: Tensor
    there: Tensor


class RowTensors(NamedTuple):
    """One dense row of weights per winner, laid out as in `PairSet`.

    Attributes:
        winner_offsets: where each list's winners begin, and the end (lists + 1).
        winner_row: row in its list of each winner (winners).
        weight_starts: where each list's rows of weights begin, and the end (lists + 1).
        weights: the rows, float32.
    """

    winner_offsets: Tensor
    winner_row: Tensor
    weight_starts: Tensor
    weights: Tensor

    def winners(self, lists: Tensor) -> Tensor:
        """Return the number of winners of each list."""
        return pick(self.winner_offsets, lists + 1) - pick(self.winner_offsets, lists)

    def loss(self, scores: Tensor, padded: PaddedLists) -> tuple[Tensor, Tensor]:
        """Return the loss of lists, and its gradient by their scores (lists x longest).

        Args:
            scores: likewise.
            padded: the lists.
        """
        winners, width = self.winners(padded.lists), scores.shape[1]
        owner = torch.arange(len(winners), device=scores.device).repeat_interleave(winners)
        nth = ragged(torch.zeros_like(winners), winners)
        first, start = (
            pick(pick(part, padded.lists), owner)
            for part in (self.winner_offsets, self.weight_starts)
        )
        at = owner * width + pick(self.winner_row, first + nth)  # of each winner
        start += nth * pick(padded.lengths, owner)
        index = start[:, None] + torch.arange(width, device=scores.device)
        weights = pick(self.weights, index.clamp_(max=len(self.weights) - 1))
        weights *= padded.there.index_select(0, owner)
        difference = scores.index_select(0, owner) - pick(scores.view(-1), at)[:, None]
        push = torch.sigmoid(difference).mul_(weights)
        grad = torch.zeros_like(scores).scatter_add_(0, owner[:, None].expand_as(push), push)
        grad.view(-1).index_add_(0, at, -push.sum(1))
        return torch.nn.functional.softplus(difference).mul_(weights).sum(), grad

    def slice(self, offsets: Tensor, first: int, last: int) -> "RowTensors":
        """Return the pairs of lists `first` to `last` - 1, counted from the first of them."""
        won, starts = self.winner_offsets[first : last + 1], self.weight_starts[first : last + 1]
        return RowTensors(
            won - won[0],
            self.winner_row[won[0] : won[-1]],
            starts - starts[0],
            self.weights[starts[0] : starts[-1]],
        )


class VectorTensors(NamedTuple):
    """Every pair of docs of a list, its weight the product of two of their values: `OuterPairs`.

    Attributes:
        winning: u of each doc, float32; the pair (i, j) has the weight u_i v_j.
        losing: v of each doc.
    """

    winning: Tensor
    losing: Tensor

    def winners(self, lists: Tensor) -> Tensor | None:
        """Return None: every doc of a list is one."""
        return None

    def loss(self, scores: Tensor, padded: PaddedLists) -> tuple[Tensor, Tensor]:
        """Return loss and gradient; see `RowTensors.loss`."""
        u, v = (pick(part, padded.docs).mul_(padded.there) for part in self)
        total, grad = scores.new_zeros(()), torch.zeros_like(scores)
        step = max(1, _PAIRS // scores.numel())  # of a long list some rows at a time
        for first in range(0, scores.shape[1], step):
            rows = slice(first, first + step)
            weights = u[:, rows, None] * v[:, None, :]
            weights[:, :, rows].diagonal(dim1=1, dim2=2).zero_()
            difference = scores[:, None, :] - scores[:, rows, None]
            push = torch.sigmoid(difference).mul_(weights)
            grad += push.sum(1)
            grad[:, rows] -= push.sum(2)
            total += torch.nn.functional.softplus(difference).mul_(weights).sum()
        return total, grad

    def slice(self, offsets: Tensor, first: int, last: int) -> "VectorTensors":
        """Return the values of the docs of lists `first` to `last` - 1."""
        docs = slice(int(offsets[first]), int(offsets[last]))
        return VectorTensors(self.winning[docs], self.losing[docs])


def batch_loss(
    scores: Tensor,
    pairs: RowTensors | VectorTensors,
    offsets: Tensor,
    batch: Tensor,
    starts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the loss of the pairs of the lists `batch`, and its gradient by the scores.

    Args:
        scores: of the docs of the batch.
        pairs: of all lists.
        offsets: where each list's docs begin, and the end.
        batch: the lists.
        starts: where each one's docs begin among those of the batch.
    """
    total, grad = scores.new_zeros(()), torch.zeros_like(scores)
    begin = pick(offsets, batch)
    lengths, winners = pick(offsets, batch + 1) - begin, pairs.winners(batch)
    for piece in _pieces(lengths, lengths if winners is None else winners):
        lists, n = pick(batch, piece), pick(lengths, piece)
        column = torch.arange(int(n[-1]), device=scores.device)  # the longest is the last
        there = column < n[:, None]
        # padding stands for the list's first doc: its weights and gradient are 0
        column = column * there
        index = pick(starts, piece)[:, None] + column
        padded = PaddedLists(lists, n, pick(begin, piece)[:, None] + column, there)
        loss, slope = pairs.loss(pick(scores, index), padded)
        total += loss
        grad.index_add_(0, index.view(-1), slope.view(-1))
    return total, grad


def _pieces(lengths: Tensor, winners: Tensor) -> Iterator[Tensor]:
    """Cut lists into pieces of about _PAIRS pairs, shortest first, the longest of a piece last."""
    order = lengths.argsort(stable=True)
    number = pick(lengths * winners, order).cumsum(0).sub_(1).clamp_(min=0) // _PAIRS
    if int(winners.sum()) * int(lengths.max()) > _PAIRS:
        # one long list would make long rows of all: none is padded to more than twice its length
        number = number * 64 + pick(lengths, order).log2().ceil()
    yield from torch.split(order, torch.unique_consecutive(number, return_counts=True)[1].tolist())


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Return values[index] of a vector; on a CPU it takes a tenth of the time of the brackets."""
    return values.index_select(0, index.view(-1)).view(index.shape)


def ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return starts[k], starts[k] + 1, ..., lengths[k] of them, for each k."""
    first = (starts - lengths.cumsum(0) + lengths).repeat_interleave(lengths)
    return first + torch.arange(len(first), device=first.device)
