"""Standardised features of the lists with pairs, and the products that linear rankers need."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.weighted_pairs import PairRows, WeightedPairs
from prsrank.threads import even_pieces, for_each_piece, map_in_order
from prsrank.types import Floats, Reals

_BLOCK = 4096
_RUN = 2048
# sums may be reordered to vectorise; NaN and infinity stay what they are
_REORDER = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """The docs of all lists that have winners, standardised, and the pairs on them.

    The rows are kept in float32; products are summed in float64, over blocks that do not
    depend on the number of threads, so neither does any result.

    Attributes:
        rows: standardised features with indicator columns (docs x columns).
        pairs: the pairs, on those docs only: a PairSet or OuterPairs, as given.
        weight_sum: sum of all weights.
        threads: default: the cores this process may use.
    """

    rows: Reals
    pairs: Any
    weight_sum: float
    threads: int | None = None

    @classmethod
    def build(
        cls,
        dataset: RankingDataset,
        pairs: WeightedPairs,
        scaling: FeatureScaling,
        *,
        threads: int | None = None,
    ) -> "PairMatrix":
        """Standardise the docs of lists with winners; an InputError if there is no pair."""
        if pairs.weight_sum == 0:
            raise InputError("there are no pairs to learn from: no list has a winner and a loser")
        # the other lists have no pairs: their docs need no rows
        chosen = pairs.paired_lists
        docs = np.flatnonzero(np.repeat(chosen, dataset.list_lengths))
        rows = np.empty((len(docs), scaling.columns), np.float32)

        def fill(start: int) -> None:
            part = slice(start, start + _BLOCK)
            rows[part] = scaling.transform(dataset.features[docs[part]])

        list(map_in_order(fill, range(0, len(docs), _BLOCK), threads=threads))
        kept = pairs if chosen.all() else pairs.keep_lists(chosen)
        return cls(rows, kept, pairs.weight_sum, threads)

    def scores(self, weights: Floats) -> Floats:
        r"""Return $X w$ (docs)."""
        out = np.empty(len(self.rows))
        self._in_blocks(lambda a, b: _scores_kernel(a, b, self.rows, weights, out))
        return out

    def gather(self, by_doc: Floats) -> Floats:
        r"""Return $X^\top g$ (columns)."""
        # a sum per block, added in order: the same for any number of threads
        blocks = -(-len(self.rows) // _BLOCK)
        out = np.zeros((blocks, self.rows.shape[1]))
        self._in_blocks(lambda a, b: _gather_kernel(a, b, self.rows, by_doc, out))
        return np.asarray(out.sum(axis=0))

    def _in_blocks(self, kernel) -> None:  # type: ignore[no-untyped-def]
        ends = np.append(np.arange(0, len(self.rows), _BLOCK), len(self.rows))
        for_each_piece(kernel, ends * self.rows.shape[1], threads=self.threads)

    def spread_of_pairs(self) -> Floats:
        r"""Return about $\sum W_{ij} (x_i - x_j)(x_i - x_j)^\top / \sum W_{ij}$ (columns squared).

        It preconditions a solver and need not be exact: runs of lists evenly spaced over the
        data are used, as many as cost about five products with X and X^T.
        """
        pairs, columns = self.pairs, self.rows.shape[1]
        runs = even_pieces(pairs.offsets, -(-pairs.docs // _RUN))
        wanted = max(32 * columns, 60 * pairs.docs // columns)
        stride = max(1, pairs.docs // wanted)
        chosen = runs[min(stride // 2, len(runs) - 1) :: stride]
        total, weight = np.zeros((columns, columns)), 0.0
        for part, of_part in map_in_order(self._spread_of_lists, chosen, threads=self.threads):
            total += part
            weight += of_part
        return (total + np.triu(total, 1).T) / weight if weight > 0 else np.eye(columns)

    def _spread_of_lists(self, lists: tuple[int, int]) -> tuple[Reals, float]:
        first, last = lists
        pairs = self.pairs
        x = self.rows[pairs.offsets[first] : pairs.offsets[last]]
        out = np.zeros((x.shape[1], x.shape[1]), np.float32)
        pulled = np.zeros_like(x)
        if isinstance(pairs, OuterPairs):
            weight = _outer_laplacian(first, last, pairs, x, pulled)
            _upper_product_kernel(x, pulled, out)
            return out, weight
        _laplacian_kernel(first, last, pairs.for_kernels, self.rows, pulled)
        _upper_product_kernel(x, pulled, out)
        begin, end = pairs.work_offsets[[first, last]]
        return out, float(pairs.weights[begin:end].sum(dtype=np.float64))


def _outer_laplacian(first: int, last: int, pairs: OuterPairs, x: Reals, pulled: Reals) -> float:
    """Do what `_laplacian_kernel` does, in time linear in the docs; return the sum of weights.

    Pairs that count one way are taken as both ways, which preconditions them as well.
    """
    origin, weight = pairs.offsets[first], 0.0
    for q in range(first, last):
        docs = slice(pairs.offsets[q], pairs.offsets[q + 1])
        mine = slice(docs.start - origin, docs.stop - origin)
        u, v = pairs.winning[docs].astype(np.float32), pairs.losing[docs].astype(np.float32)
        pulled[mine] = x[mine] * (u * v.sum() + v * u.sum())[:, None]
        pulled[mine] -= np.outer(u, v @ x[mine]) + np.outer(v, u @ x[mine])
        weight += float(u.sum()) * float(v.sum()) - float(u @ v)
    return weight


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _scores_kernel(first: int, last: int, rows: Reals, weights: Floats, out: Floats) -> None:
    for i in range(first * _BLOCK, min(last * _BLOCK, len(rows))):
        total = 0.0
        row = rows[i]
        for k in range(len(weights)):
            # rows are float32 for the memory's sake; sums of many need double
            total += np.float64(row[k]) * weights[k]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _gather_kernel(first: int, last: int, rows: Reals, by_doc: Floats, out: Floats) -> None:
    for block in range(first, last):
        total = out[block]
        stop = min((block + 1) * _BLOCK, len(rows))
        i = block * _BLOCK
        # four rows at a time: a quarter of the traffic to the sums
        while i + 4 <= stop:
            a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            ga, gb, gc, gd = by_doc[i], by_doc[i + 1], by_doc[i + 2], by_doc[i + 3]
            for k in range(len(total)):
                total[k] += ga * a[k] + gb * b[k] + gc * c[k] + gd * d[k]
            i += 4
        while i < stop:
            for k in range(len(total)):
                total[k] += by_doc[i] * rows[i, k]
            i += 1


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _laplacian_kernel(first: int, last: int, pairs: PairRows, rows: Reals, out: Reals) -> None:
    """Add sum_ij W_ij (e_i - e_j)(x_i - x_j)^T over the lists to out, one row per doc."""
    offsets, winner_offsets, winner_row, weight_starts, weights = pairs
    origin = offsets[first]
    for q in range(first, last):
        begin, start = offsets[q], weight_starts[q]
        for v in range(winner_offsets[q], winner_offsets[q + 1]):
            i = begin + winner_row[v]
            xi, oi = rows[i], out[i - origin]
            for j in range(begin, offsets[q + 1]):
                w = np.float32(weights[start + j - begin])
                # most weights of a long list are 0
                if w == 0 or i == j:
                    continue
                xj, oj = rows[j], out[j - origin]
                for k in range(rows.shape[1]):
                    pull = w * (xi[k] - xj[k])
                    oi[k] += pull
                    oj[k] -= pull
            start += offsets[q + 1] - begin


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _upper_product_kernel(x: Reals, y: Reals, out: Reals) -> None:
    """Add the upper triangle of x^T y to out; unlike BLAS, without threads that wait busily."""
    for i in range(0, len(x) - len(x) % 8, 8):
        y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
        y4, y5, y6, y7 = y[i + 4], y[i + 5], y[i + 6], y[i + 7]
        for a in range(x.shape[1]):
            c0, c1, c2, c3 = x[i, a], x[i + 1, a], x[i + 2, a], x[i + 3, a]
            c4, c5, c6, c7 = x[i + 4, a], x[i + 5, a], x[i + 6, a], x[i + 7, a]
            row = out[a]
            for k in range(a, x.shape[1]):
                near = c0 * y0[k] + c1 * y1[k] + c2 * y2[k] + c3 * y3[k]
                row[k] += near + c4 * y4[k] + c5 * y5[k] + c6 * y6[k] + c7 * y7[k]
    for i in range(len(x) - len(x) % 8, len(x)):
        for a in range(x.shape[1]):
            for k in range(a, x.shape[1]):
                out[a, k] += x[i, a] * y[i, k]
