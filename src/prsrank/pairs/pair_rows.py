"""The weights of a PairSet as kernels take them, and how kernels run over its lists."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from prsrank.threads import for_each_piece
from prsrank.types import Ints, Longs

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairSet


class PairRows(NamedTuple):
    """For each list its winners, and for each winner a row of weights over the list's docs.

    Attributes:
        offsets: where each list's docs begin, and the end.
        winner_offsets: where each list's winners begin, and the end.
        winner_row: row in its list of each winner.
        starts: where each list's weights begin, and the end.
        weights: the rows, one after the other.
    """

    offsets: Longs
    winner_offsets: Longs
    winner_row: Ints
    starts: Longs
    weights: npt.NDArray


def rows_of(pairs: "PairSet") -> PairRows:
    """Return the weights of a set of pairs as kernels take them."""
    return PairRows(
        pairs.offsets,
        pairs.winner_offsets,
        pairs.winner_row,
        pairs.list_weight_offsets,
        pairs.weights,
    )


def run_over_lists(
    kernel: Callable[..., None], pairs: "PairSet", *arguments: Any, threads: int | None
) -> None:
    """Call kernel(first, last, rows, *arguments) for pieces of the lists, of about equal work."""
    rows = rows_of(pairs)
    for_each_piece(lambda a, b: kernel(a, b, rows, *arguments), rows.starts, threads=threads)
