"""GPU kernels of the neural ranker, in Triton: imported only where there is a CUDA device.

Each has a plain PyTorch form that it equals up to rounding: `ListBlock.rows` for `gather_lists`,
`ListBlock.loss` for `list_pair_loss`, and the CPU's branches of `ScoreNet`.
"""

from typing import TYPE_CHECKING, NamedTuple

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from prsrank.rankers.neural.pair_tensors import VectorTensors
from prsrank.rankers.neural.torch_library import torch

if TYPE_CHECKING:
    from prsrank.rankers.neural.list_blocks import ListBlock

Tensor = torch.Tensor

_GATHERED = 4096  # values that one program copies at a time
_OUTER_DOCS = 1024  # docs of one list that one program handles of outer pairs
_ROWS = 16  # rows of activations that one program handles at a time
_PROGRAMS = 528  # four for each multiprocessor of an H100 or H200


class Room(NamedTuple):
    """A batch laid ready for a step.

    Attributes:
        docs: features of the batch's docs; rows behind them hold anything finite.
        batch: the lists; a negative number is no list.
        starts: where each list begins in `docs`.
        grad: room for the gradient by the scores, 0 where no doc is.
    """

    docs: Tensor
    batch: Tensor
    starts: Tensor
    grad: Tensor


def gather_lists(
    lists: "ListBlock", order: Tensor, starts: Tensor, turn: Tensor, longest: int, out: Room
) -> None:
    """Lay batch number `turn` ready in `out`: the lists in that row of `order`.

    Args:
        lists: the lists.
        order: the lists of each batch (batches x size); a negative number is no list.
        starts: where each list begins among its batch's docs (batches x size).
        turn: number of the batch, on the device: a recorded step finds the next by itself.
        longest: docs of the longest list.
        out: where to.
    """
    columns, size = lists.features.shape[1], order.shape[1]
    block = min(_GATHERED, triton.next_power_of_2(longest * columns))
    together = _GATHERED // block
    _gather_kernel[(triton.cdiv(size, together),)](
        lists.features, lists.offsets, order, starts, turn, *out[:3], size, columns, together, block
    )  # fmt: skip
    out.grad.zero_()


def list_pair_loss(
    scores: Tensor, lists: "ListBlock", room: Room, longest: int, scale: float, total: Tensor
) -> Tensor:
    """Return the gradient of the pair loss times `scale`; add the loss itself to `total`.

    Each program computes whole lists, or docs of one: sums have a fixed order, and no pair is
    written down. `total` has an entry for each program, `loss_entries` in all.
    """
    outer = isinstance(lists.pairs, VectorTensors)
    docs, inner, together = _tile(longest, outer=outer)
    grid = (triton.cdiv(len(room.batch), together), triton.cdiv(longest, docs) if outer else 1)
    kernel = _outer_loss_kernel if outer else _pair_loss_kernel
    kernel[grid](
        scores, room.batch, room.starts, lists.offsets, *lists.pairs, total, room.grad,
        len(room.batch), scale, together, inner, docs,
        num_warps=min(16, max(1, docs * inner * together // 256)),
    )  # fmt: skip
    return room.grad


def loss_entries(lists: int, longest: int) -> int:
    """Return how many entries the `total` of `list_pair_loss` must have."""
    return lists * -(-longest // _OUTER_DOCS)


def _tile(longest: int, *, outer: bool) -> tuple[int, int, int]:
    """Return docs, their rivals at a time, and lists of one program.

    Short lists share a program, or most of its threads would idle; and several rivals at a time,
    or it would wait for memory at each.
    """
    docs = triton.next_power_of_2(longest)
    docs = min(docs, _OUTER_DOCS) if outer else docs
    inner = min(2 if outer else 4, max(1, 256 // docs))
    return docs, inner, max(1, 256 // (docs * inner))


def output_scores(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return hidden @ weight + bias in float32, one score a row."""
    rows, width = hidden.shape
    scores = torch.empty(rows, dtype=torch.float32, device=hidden.device)
    _output_kernel[(triton.cdiv(rows, _ROWS),)](
        hidden, weight, bias, scores, rows, width, triton.next_power_of_2(width), _ROWS
    )
    return scores


def output_backward(
    hidden: Tensor, grad_scores: Tensor, weight: Tensor, bias_out: Tensor, weight_out: Tensor
) -> Tensor:
    """Return the gradient before the last hidden layer's ReLU; write its sums and the weight's."""
    rows, width = hidden.shape
    grad = torch.empty_like(hidden)
    # few programs with a row of sums each, added in order: atomic adds would differ from run to run
    programs = min(triton.cdiv(rows, _ROWS), _PROGRAMS)
    sums = torch.empty((2, programs, width), dtype=torch.float32, device=hidden.device)
    _output_backward_kernel[(programs,)](
        hidden, grad_scores, weight, grad, sums, rows, width, triton.next_power_of_2(width), _ROWS
    )
    _add_up(sums[0], bias_out)
    _add_up(sums[1], weight_out)
    return grad


def relu_backward(grad: Tensor, hidden: Tensor, bias_out: Tensor) -> None:
    """Zero `grad` in place where the hidden unit is off; write its sums over rows."""
    rows, width = hidden.shape
    programs = min(triton.cdiv(rows, _ROWS), _PROGRAMS)
    sums = torch.empty((programs, width), dtype=torch.float32, device=hidden.device)
    _relu_backward_kernel[(programs,)](
        grad, hidden, sums, rows, width, triton.next_power_of_2(width), _ROWS
    )
    _add_up(sums, bias_out)


def _add_up(sums: Tensor, out: Tensor) -> None:
    """Write the sums over rows of a matrix of few rows; PyTorch's own takes four times as long."""
    rows, width = sums.shape
    _add_up_kernel[(triton.cdiv(width, 8),)](
        sums, out, rows, width, triton.next_power_of_2(rows), 8
    )


@triton.jit
def _gather_kernel(  # type: ignore[no-untyped-def]
    features, offsets, order, starts, turn, out, batch, batch_starts, size,
    COLUMNS: tl.constexpr, LISTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    place = tl.load(turn) * size + b
    q = tl.load(order + place, mask=b < size, other=-1)
    start = tl.load(starts + place, mask=b < size, other=0)
    tl.store(batch + b, q, mask=b < size)
    tl.store(batch_starts + b, start, mask=b < size)
    real = q >= 0
    first = tl.load(offsets + q, mask=real, other=0)
    values = ((tl.load(offsets + q + 1, mask=real, other=0) - first) * COLUMNS)[:, None]
    source = features + (first * COLUMNS)[:, None]
    target = out + (start * COLUMNS)[:, None]
    for k in range(0, tl.max(values), BLOCK):
        index = k + tl.arange(0, BLOCK)[None, :]
        here = index < values
        tl.store(target + index, tl.load(source + index, mask=here), mask=here)


@triton.jit
def _pair_loss_kernel(  # type: ignore[no-untyped-def]
    scores, batch, starts, offsets, winner_offsets, winner_row, weight_starts, weights,
    loss, grad, size, scale, LISTS: tl.constexpr, WINNERS: tl.constexpr, DOCS: tl.constexpr,
):  # fmt: skip
    # blocks are lists x winners x docs
    b = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    q = tl.load(batch + b, mask=b < size, other=-1)
    real = q >= 0
    n = tl.load(offsets + q + 1, mask=real, other=0) - tl.load(offsets + q, mask=real, other=0)
    first = tl.load(winner_offsets + q, mask=real, other=0)
    winners = tl.load(winner_offsets + q + 1, mask=real, other=0) - first
    row = tl.load(weight_starts + q, mask=real, other=0)
    j = tl.arange(0, DOCS)[None, :]
    index = tl.load(starts + b, mask=real, other=0)[:, None] + j
    there = j < n[:, None]
    s = tl.load(scores + index, mask=there, other=0.0)[:, None, :]
    g = tl.zeros([LISTS, DOCS], tl.float32)
    total = tl.zeros([LISTS, WINNERS, DOCS], tl.float32)
    for k in range(0, tl.max(winners, 0), WINNERS):
        v = k + tl.arange(0, WINNERS)[None, :]
        has = v < winners[:, None]
        i = tl.load(winner_row + first[:, None] + v, mask=has, other=0)
        at = (row[:, None] + v * n[:, None])[:, :, None] + j[:, None, :]
        w = tl.load(weights + at, mask=has[:, :, None] & there[:, None, :], other=0.0)
        own = j[:, None, :] == i[:, :, None]
        # a masked sum picks s_i out: a block cannot be indexed by a value
        d = s - tl.sum(tl.where(own, s, 0.0), 2)[:, :, None]
        # never above 1, so neither the logarithm nor the sigmoid can overflow
        e = tl.exp(-tl.abs(d))
        total += w * (tl.maximum(d, 0.0) + tl.log(1.0 + e))
        push = w * tl.where(d >= 0, 1.0, e) / (1.0 + e)
        g += tl.sum(push - tl.where(own, tl.sum(push, 2)[:, :, None], 0.0), 1)
    tl.store(grad + index, g * scale, mask=there)
    mine = loss + tl.program_id(0)
    tl.store(mine, tl.load(mine) + tl.sum(total) * scale)


@triton.jit
def _outer_loss_kernel(  # type: ignore[no-untyped-def]
    scores, batch, starts, offsets, winning, losing,
    loss, grad, size, scale, LISTS: tl.constexpr, OTHERS: tl.constexpr, DOCS: tl.constexpr,
):  # fmt: skip
    # blocks are lists x other docs x docs; a doc's gradient takes both directions of its pairs,
    # so no sum over docs is needed
    b = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    q = tl.load(batch + b, mask=b < size, other=-1)
    real = q >= 0
    first = tl.load(offsets + q, mask=real, other=0)[:, None]
    n = tl.load(offsets + q + 1, mask=real, other=0)[:, None] - first
    start = tl.load(starts + b, mask=real, other=0)[:, None]
    j = tl.program_id(1) * DOCS + tl.arange(0, DOCS)[None, :]
    there = j < n
    s = tl.load(scores + start + j, mask=there, other=0.0)[:, None, :]
    u = tl.load(winning + first + j, mask=there, other=0.0)[:, None, :]
    v = tl.load(losing + first + j, mask=there, other=0.0)[:, None, :]
    g = tl.zeros([LISTS, OTHERS, DOCS], tl.float32)
    total = tl.zeros([LISTS, OTHERS, DOCS], tl.float32)
    for k in range(0, tl.max(n), OTHERS):
        i = k + tl.arange(0, OTHERS)[None, :]
        d = s - tl.load(scores + start + i, mask=i < n, other=0.0)[:, :, None]
        won = tl.load(winning + first + i, mask=i < n, other=0.0)[:, :, None] * v
        lost = tl.load(losing + first + i, mask=i < n, other=0.0)[:, :, None] * u
        itself = i[:, :, None] == j[:, None, :]
        won, lost = tl.where(itself, 0.0, won), tl.where(itself, 0.0, lost)
        e = tl.exp(-tl.abs(d))
        total += won * (tl.maximum(d, 0.0) + tl.log(1.0 + e))
        # by the sigmoids of d and of -d
        g += (won * tl.where(d >= 0, 1.0, e) - lost * tl.where(d >= 0, e, 1.0)) / (1.0 + e)
    tl.store(grad + start + j, tl.sum(g, 1) * scale, mask=there)
    mine = loss + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(mine, tl.load(mine) + tl.sum(total) * scale)


@triton.jit
def _output_kernel(  # type: ignore[no-untyped-def]
    hidden, weight, bias, scores, rows, width, WIDTH: tl.constexpr, ROWS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    inside = (row[:, None] < rows) & (column[None, :] < width)
    index = row.to(tl.int64)[:, None] * width + column[None, :]
    h = tl.load(hidden + index, mask=inside, other=0.0).to(tl.float32)
    tl.store(scores + row, tl.sum(h * w[None, :], 1) + tl.load(bias), mask=row < rows)


@triton.jit
def _output_backward_kernel(  # type: ignore[no-untyped-def]
    hidden, grad_scores, weight, grad, sums, rows, width, WIDTH: tl.constexpr, ROWS: tl.constexpr
):
    column = tl.arange(0, WIDTH)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    bias_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    weight_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < width)
        index = row.to(tl.int64)[:, None] * width + column[None, :]
        h = tl.load(hidden + index, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(grad_scores + row, mask=row < rows, other=0.0)[:, None]
        dz = tl.where(h > 0, g * w[None, :], 0.0)
        tl.store(grad + index, dz, mask=inside)
        bias_sum += dz
        weight_sum += g * h
    out = sums + tl.program_id(0) * width + column
    tl.store(out, tl.sum(bias_sum, 0), mask=column < width)
    second = out + tl.num_programs(0) * width
    tl.store(second, tl.sum(weight_sum, 0), mask=column < width)


@triton.jit
def _relu_backward_kernel(grad, hidden, sums, rows, width, WIDTH: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.arange(0, WIDTH)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < width)
        index = row.to(tl.int64)[:, None] * width + column[None, :]
        on = tl.load(hidden + index, mask=inside, other=0.0) > 0
        dz = tl.where(on, tl.load(grad + index, mask=inside, other=0.0), 0.0)
        tl.store(grad + index, dz, mask=inside)
        # half precision would lose the sum of many rows
        total += dz.to(tl.float32)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=column < width)


@triton.jit
def _add_up_kernel(sums, out, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows) & (column[None, :] < width)
    values = tl.load(sums + row * width + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(values, 0), mask=column < width)
