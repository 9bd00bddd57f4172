r"""What clicks say about the relevance of each doc: the likelihood of counts.

A click model in which a click on doc d at position k depends on d's own $\theta_d$ alone gives

$$P_k(\theta) = b_k + g_k \theta, \quad
\log L(\theta) = \sum_k n_k \log P_k(\theta) + (N_k - n_k) \log(1 - P_k(\theta))$$

with $N_k$ impressions of d at k, and $n_k$ clicks. The counts suffice, and those of the parts of
a log add up to those of the whole, so cost never depends on the number of clicks. The
position-based model has gain $g_k = p_k$ and floor $b_k = 0$; trust bias has
$g_k = p_k (\epsilon^+_k - \epsilon^-_k)$ and $b_k = p_k \epsilon^-_k$.

Impressions may be counted only in sessions with a click at or below them, which in a cascade
were seen for certain. With B the probability of a click further down, if this one is skipped,

$$P(\text{click} \mid \text{a click here or below}) = \frac{P_k}{P_k + (1 - P_k) B}$$

and B = 1 for impressions that are counted in every session (see `prsrank.clicks.cascade`).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import GAPS_FILLED, InputError
from prsrank.ragged import list_of_row, offsets_of
from prsrank.threads import for_each_piece
from prsrank.types import Floats, Longs, Marks

# P is kept this far from 0 and 1, so that no count is impossible for rounding
_LEAST = 1e-12
# the base rate settles by about a half at each turn
_TURNS = 20


@dataclass(frozen=True, eq=False)
class DocCells:
    """Counts in cells, such as one for each position of a doc, doc after doc.

    Attributes:
        offsets: where each doc's cells begin, and the end (docs + 1).
        shown: N, impressions of each cell.
        clicked: n, clicks of each cell.
    """

    per_cell: ClassVar[tuple[str, ...]] = ("shown", "clicked")
    per_doc: ClassVar[tuple[str, ...]] = ()

    offsets: Longs
    shown: Floats
    clicked: Floats

    @property
    def docs(self) -> int:
        """Number of docs."""
        return len(self.offsets) - 1

    @property
    def cell_docs(self) -> Longs:
        """The doc of each cell."""
        return list_of_row(self.offsets)

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each doc's cells."""
        return np.bincount(self.cell_docs, values, self.docs).astype(np.float64)

    def of_docs(self, docs: Marks) -> Self:
        """Return the cells of some of the docs."""
        cells = docs[self.cell_docs]
        columns = {name: getattr(self, name)[cells] for name in self.per_cell}
        columns |= {name: getattr(self, name)[docs] for name in self.per_doc}
        return replace(self, offsets=offsets_of(np.diff(self.offsets)[docs]), **columns)


@dataclass(frozen=True, eq=False)
class ClickEvidence(DocCells):
    r"""All that the clicks say about each doc's theta: counts, and what each cell's P(click) is.

    Attributes:
        gain: g of each cell.
        floor: b of each cell.
        below: B of each cell: 1 where its impressions are counted whatever else is clicked.

    >>> once = ClickEvidence.of([0, 1], shown=[4], clicked=[1], gain=[0.5], floor=[0.0])
    >>> once.log_likelihood([0.5]).round(4).tolist()  # log .25 + 3 log .75
    [-2.2493]
    """

    per_cell: ClassVar[tuple[str, ...]] = (*DocCells.per_cell, "gain", "floor", "below")

    gain: Floats
    floor: Floats
    below: Floats

    @classmethod
    def of(
        cls,
        offsets: npt.ArrayLike,
        *,
        shown: npt.ArrayLike,
        clicked: npt.ArrayLike,
        gain: npt.ArrayLike,
        floor: npt.ArrayLike,
        below: npt.ArrayLike | None = None,
    ) -> "ClickEvidence":
        """Check the arrays and make them of one kind; without `below` it is 1 everywhere."""
        after = np.ones(np.shape(shown)) if below is None else below
        parts = (shown, clicked, gain, floor, after)
        cells = [np.ascontiguousarray(part, np.float64) for part in parts]
        evidence = cls(np.ascontiguousarray(offsets, np.int64), *cells)
        impossible = (evidence.clicked > 0) & (evidence.gain + evidence.floor <= 0)
        if impossible.any():
            doc = int(np.searchsorted(evidence.offsets, impossible.argmax(), side="right")) - 1
            raise InputError(
                f"the doc of row {doc} was clicked where the propensity is 0 {GAPS_FILLED}"
            )
        return evidence

    def without(self, docs: Marks) -> "ClickEvidence":
        """Return the evidence as if some docs had never been shown."""
        rest = self.of_docs(~docs)
        offsets = offsets_of(np.where(docs, 0, np.diff(self.offsets)))
        return replace(rest, offsets=offsets)

    def base_rate(self, docs: Marks | None = None) -> float:
        r"""Return the theta that all docs would share by moments, kept from 0 and 1.

        $\sum (n - N b) / \sum N g$ over the chosen docs; where impressions hang on a click
        below, each counts for the $1 / (P_k + (1 - P_k) B)$ sessions that it stands for, and the
        equation is solved by turns.
        """
        chosen = slice(None) if docs is None else docs[self.cell_docs]
        shown, gain, floor = self.shown[chosen], self.gain[chosen], self.floor[chosen]
        below, clicks = self.below[chosen], self.clicked[chosen].sum()
        rate, weight = 0.0, np.ones(len(shown))
        for _ in range(_TURNS if (below < 1).any() else 1):
            seen = weight * shown
            exposure, wanted = float((seen * gain).sum()), float(clicks - (seen * floor).sum())
            rate = min(max(wanted / exposure if exposure else 0.0, 1e-3), 0.9)
            p = floor + gain * rate
            weight = 1 / np.maximum(p + (1 - p) * below, _LEAST)
        return rate

    def log_likelihood(self, theta: npt.ArrayLike, *, threads: int | None = None) -> Floats:
        """Return log L of each doc (docs); `threads` as for `gradient`."""
        return np.asarray(self._run(_value_kernel, np.asarray(theta, np.float64), 1, threads)[0])

    def gradient(
        self, logit: npt.ArrayLike, *, threads: int | None = None
    ) -> tuple[Floats, Floats]:
        r"""Return first derivative and expected curvature of $-\log L$ by the logit of theta.

        $$-\sum_k (n_k - N_k P_k) \frac{g_k \theta (1 - \theta)}{P_k (1 - P_k)}, \quad
        \sum_k N_k \frac{(g_k \theta (1 - \theta))^2}{P_k (1 - P_k)}$$

        With $D_k = P_k + (1 - P_k) B_k$ the $N_k P_k$ of the first is over $D_k$, and a term of the
        second is times $B_k / D_k^2$.

        Args:
            logit: log(theta / (1 - theta)) of each doc.
            threads: default: the cores this process may use. No effect on the result.
        """
        logits = np.ascontiguousarray(logit, np.float64)
        first, second = self._run(_gradient_kernel, logits, 2, threads)
        return first, second

    def _run(self, kernel, values: Floats, outputs: int, threads: int | None) -> Floats:  # type: ignore[no-untyped-def]
        if values.shape != (self.docs,):
            raise InputError(f"{values.shape} values for {self.docs} docs")
        out = np.zeros((outputs, self.docs))
        cells = (self.offsets, self.shown, self.clicked, self.gain, self.floor, self.below)
        for_each_piece(
            lambda a, b: kernel(a, b, *cells, values, out), self.offsets, threads=threads
        )
        return out


@njit(cache=True, nogil=True, error_model="numpy")
def _value_kernel(first, last, offsets, shown, clicked, gain, floor, below, theta, out):  # type: ignore[no-untyped-def]
    for doc in range(first, last):
        total = 0.0
        for i in range(offsets[doc], offsets[doc + 1]):
            p = min(max(floor[i] + gain[i] * theta[doc], _LEAST), 1 - _LEAST)
            if clicked[i] > 0:
                total += clicked[i] * np.log(p)
            if shown[i] > clicked[i]:
                total += (shown[i] - clicked[i]) * np.log1p(-p)
            if below[i] < 1:
                total -= shown[i] * np.log(p + (1 - p) * below[i])
                if shown[i] > clicked[i]:  # a skip where nothing can follow has no likelihood
                    total += (shown[i] - clicked[i]) * np.log(max(below[i], _LEAST))
        out[0, doc] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _gradient_kernel(first, last, offsets, shown, clicked, gain, floor, below, logit, out):  # type: ignore[no-untyped-def]
    for doc in range(first, last):
        if offsets[doc] == offsets[doc + 1]:
            continue
        theta = 1 / (1 + np.exp(-logit[doc]))
        bend = theta * (1 - theta)
        pull, curvature = 0.0, 0.0
        for i in range(offsets[doc], offsets[doc + 1]):
            p = min(max(floor[i] + gain[i] * theta, _LEAST), 1 - _LEAST)
            slope = gain[i] * bend
            share = slope / (p * (1 - p))
            if below[i] == 1:  # D = 1: three divisions less
                pull -= (clicked[i] - shown[i] * p) * share
                curvature += shown[i] * slope * share
                continue
            whole = p + (1 - p) * below[i]
            pull -= (clicked[i] - shown[i] * p / whole) * share
            curvature += shown[i] * slope * share * below[i] / (whole * whole)
        out[0, doc] = pull
        out[1, doc] = curvature
