"""GPU kernels of the neural ranker, in Triton: imported only where there is a CUDA device.

Each has a plain PyTorch form that it equals up to rounding: `ListBlock.rows` for `gather_lists`,
`pair_loss` for `list_pair_loss`, and the CPU's branches of `ScoreNet`.
"""

from typing import TYPE_CHECKING

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from prsrank.rankers.torch_library import torch

if TYPE_CHECKING:
    from prsrank.rankers.neural_batches import ListBlock

Tensor = torch.Tensor

_GATHERED = 4096  # values that one program copies at a time
_ROWS = 16  # rows of activations that one program handles at a time
_PROGRAMS = 528  # four for each multiprocessor of an H100 or H200


def gather_lists(
    lists: "ListBlock", batch: Tensor, starts: Tensor, longest: int, out: Tensor
) -> None:
    """Copy the docs of the lists `batch` into `out`, those of list b from row `starts[b]` on.

    A negative number in `batch` is no list.
    """
    columns = lists.features.shape[1]
    block = min(_GATHERED, triton.next_power_of_2(longest * columns))
    together = _GATHERED // block
    _gather_kernel[(triton.cdiv(len(batch), together),)](
        lists.features, lists.offsets, batch, starts, out, len(batch), columns, together, block
    )


def list_pair_loss(
    scores: Tensor, lists: "ListBlock", batch: Tensor, starts: Tensor, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """Return the pair loss of the lists times `scale`, and its gradient by the scores.

    One program computes whole lists: sums have a fixed order, and no pair is written down.
    """
    grad = torch.zeros_like(scores)
    docs = triton.next_power_of_2(longest)
    # short lists share a program, or most of its threads would idle
    together = max(1, 128 // docs)
    warps = min(16, max(1, docs // 256))
    programs = triton.cdiv(len(batch), together)
    loss = scores.new_empty(programs)
    _pair_loss_kernel[(programs,)](
        scores, batch, starts, *lists[1:], loss, grad, len(batch), scale,
        together, docs, num_warps=warps,
    )  # fmt: skip
    return loss.sum(), grad


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
    features, offsets, batch, starts, out, batch_size,
    COLUMNS: tl.constexpr, LISTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    q = tl.load(batch + b, mask=b < batch_size, other=-1)
    real = q >= 0
    first = tl.load(offsets + q, mask=real, other=0)
    values = ((tl.load(offsets + q + 1, mask=real, other=0) - first) * COLUMNS)[:, None]
    source = features + (first * COLUMNS)[:, None]
    target = out + (tl.load(starts + b, mask=real, other=0) * COLUMNS)[:, None]
    for k in range(0, tl.max(values), BLOCK):
        index = k + tl.arange(0, BLOCK)[None, :]
        here = index < values
        tl.store(target + index, tl.load(source + index, mask=here), mask=here)


@triton.jit
def _pair_loss_kernel(  # type: ignore[no-untyped-def]
    scores, batch, starts, offsets, winner_offsets, winner_row, weight_starts, weights,
    loss, grad, batch_size, scale, LISTS: tl.constexpr, DOCS: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
    q = tl.load(batch + b, mask=b < batch_size, other=-1)
    real = q >= 0
    n = tl.load(offsets + q + 1, mask=real, other=0) - tl.load(offsets + q, mask=real, other=0)
    first = tl.load(winner_offsets + q, mask=real, other=0)
    winners = tl.load(winner_offsets + q + 1, mask=real, other=0) - first
    row = tl.load(weight_starts + q, mask=real, other=0)
    j = tl.arange(0, DOCS)[None, :]
    there = j < n[:, None]
    index = tl.load(starts + b, mask=real, other=0)[:, None] + j
    s = tl.load(scores + index, mask=there, other=0.0)
    g = tl.zeros([LISTS, DOCS], tl.float32)
    total = tl.zeros([LISTS], tl.float32)
    for v in range(0, tl.max(winners, 0)):
        has = v < winners
        i = tl.load(winner_row + first + v, mask=has, other=0)
        w = tl.load(weights + (row + v * n)[:, None] + j, mask=there & has[:, None], other=0.0)
        own = j == i[:, None]
        # a masked sum picks s_i out: a block cannot be indexed by a value
        d = s - tl.sum(tl.where(own, s, 0.0), 1)[:, None]
        # never above 1, so neither the logarithm nor the sigmoid can overflow
        e = tl.exp(-tl.abs(d))
        total += tl.sum(w * (tl.maximum(d, 0.0) + tl.log(1.0 + e)), 1)
        push = w * tl.where(d >= 0, 1.0, e) / (1.0 + e)
        g += push - tl.where(own, tl.sum(push, 1)[:, None], 0.0)
    tl.store(grad + index, g * scale, mask=there)
    tl.store(loss + tl.program_id(0), tl.sum(total, 0) * scale)


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
