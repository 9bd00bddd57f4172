r"""The prior: how relevant a doc is by its features, learned from clicks by their likelihood.

$q(x) = 1 / (1 + e^{-f(x)})$ with f chosen for the greatest likelihood of the counts. It is
*cross-fitted*: queries fall into parts, and the q of a part's docs comes from an f that has not
seen them. Else q would hold the doc's own clicks, and the posterior would count them twice. How
long f learns is one choice for all parts together, by the likelihood of every doc left out: a
query's own clicks move its own q by no more than their share of that sum.

Which parts there are is chance, and few clicks make much of it: there f is the mean of several
cross-fits, each of other parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.families import Family
from prsrank.hashing import text_hashes
from prsrank.threads import one_blas_thread
from prsrank.types import Floats, IdArray, Longs, Marks

PARTS = 5

FITS = 3
"""A prior is the mean of so many cross-fits where no more docs and clicks than FEW are."""

FEW = 200_000


@dataclass(frozen=True, eq=False)
class Prior:
    """What the features say about each doc.

    Attributes:
        logit: f(x) of each doc, from the parts that it is not in (docs).
        log_likelihood: of each doc's counts under it: a judge that needs no labels (docs).
        predict: returns the logit of the docs of other lists, each from parts that its query is
            not in, whether it was there or not; None if nobody can.
        saturated: whether it was learned from some of the lists only, because they were enough.
    """

    logit: Floats
    log_likelihood: Floats
    predict: Callable[[RankingDataset], Floats] | None = None
    saturated: bool = False

    @property
    def q(self) -> Floats:
        """The expected theta of each doc."""
        return np.asarray(1 / (1 + np.exp(-self.logit)))


class CrossFit(NamedTuple):
    """What a model says of docs, each from the parts that it is not in.

    Attributes:
        logit: f(x) of each doc (docs).
        predict: returns the logit of the docs of other lists, given which are in each part.
        saturated: see `Prior`.
    """

    logit: Floats
    predict: Callable[[RankingDataset, Sequence[Marks]], Floats] | None = None
    saturated: bool = False


Fit = Callable[[ClickEvidence, Sequence[Marks]], CrossFit]
"""Takes clicks on the docs, and which docs are in each part."""


class PriorModel(Protocol):
    """A family of functions f(x), and how one is chosen. Immutable."""

    def on(self, dataset: RankingDataset, clicks: float, *, seed: int, threads: int | None) -> Fit:
        """Make lists ready to learn from, for as many counts of their clicks as there are.

        Args:
            dataset: the lists.
            clicks: how many there are on them.
            seed: of everything random.
            threads: default: the cores this process may use. No effect on the result.
        """
        ...


PRIORS: Family[PriorModel] = Family(
    "prior",
    {
        "trees": "prsrank.relevance.tree_prior:TREES",
        "linear": "prsrank.relevance.linear_prior:LINEAR",
    },
)
"""With default settings; `dataclasses.replace` changes a setting."""


def find_prior(prior: str | PriorModel) -> PriorModel:
    """Return the prior of a name, or itself.

    >>> find_prior("linear").l2[0]
    1000.0
    """
    return PRIORS.find(prior) if isinstance(prior, str) else prior


def cross_fitting(
    dataset: RankingDataset,
    clicks: float,
    model: PriorModel,
    *,
    parts: int = PARTS,
    fits: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Callable[[ClickEvidence], Prior]:
    """Return what fits a prior to clicks on these lists, each part of the queries from the others.

    Args:
        dataset: the lists.
        clicks: how many there are on them.
        model: the family of priors.
        parts: how many.
        fits: of how many cross-fits the logits are the mean; default: FITS of a small log, else 1.
        seed: this and others as `PriorModel.on` takes them.
        threads: no effect on the result.
    """
    fits = fits or (FITS if max(dataset.docs, clicks) <= FEW else 1)
    # far apart, so that a neighbouring seed is a draw of its own
    seeds = [seed + 1000 * number for number in range(fits)]
    held = [marked_parts(dataset, parts, seed=each) for each in seeds]
    ready = model.on(dataset, clicks, seed=seed, threads=threads)

    @one_blas_thread()
    def fit(evidence: ClickEvidence) -> Prior:
        if evidence.docs != dataset.docs:
            raise InputError(f"clicks on {evidence.docs} docs for a data set of {dataset.docs}")
        if not evidence.clicked.any():
            raise InputError("the log has no clicks at all: there is nothing to learn from")
        fitted = [ready(evidence, [part for part in marks if part.any()]) for marks in held]
        logit = np.mean([each.logit for each in fitted], axis=0)
        predict = None
        if fitted[0].predict is not None and all(part.any() for marks in held for part in marks):
            predict = partial(_mean_prediction, fitted, seeds, parts)
        return Prior(
            logit,
            evidence.log_likelihood(1 / (1 + np.exp(-logit)), threads=threads),
            predict,
            fitted[0].saturated,
        )

    return fit


def _mean_prediction(
    fitted: Sequence[CrossFit], seeds: Sequence[int], parts: int, lists: RankingDataset
) -> Floats:
    logits = [
        each.predict(lists, marked_parts(lists, parts, seed=seed))
        for each, seed in zip(fitted, seeds, strict=True)
        if each.predict is not None
    ]
    return np.asarray(np.mean(logits, axis=0))


def marked_parts(dataset: RankingDataset, parts: int, *, seed: int) -> list[Marks]:
    """Return which docs are in each part."""
    part = np.repeat(query_parts(dataset.query_ids, parts, seed=seed), dataset.list_lengths)
    return [part == number for number in range(parts)]


def cross_fitted_prior(
    dataset: RankingDataset, evidence: ClickEvidence, model: PriorModel, **options: Any
) -> Prior:
    """Fit a prior to the clicks; options as those of `cross_fitting`."""
    return cross_fitting(dataset, float(evidence.clicked.sum()), model, **options)(evidence)


def query_parts(query_ids: IdArray, parts: int, *, seed: int = 0) -> Longs:
    """Return the part of each query: a hash of seed and id, whatever the other queries are.

    >>> query_parts(np.array(["a", "b", "c"]), 5).tolist()
    [3, 1, 2]
    """
    if parts < 2:
        raise InputError(f"cross-fitting needs at least 2 parts, not {parts}")
    hashes = text_hashes([f"{seed} {query}" for query in query_ids.tolist()])
    return (hashes % np.uint64(parts)).astype(np.int64)


_SAMPLED_PARTS = 1000
_SAMPLED_SEED = 1


def sampled_queries(query_ids: IdArray, share: float, *, seed: int = _SAMPLED_SEED) -> Marks:
    """Mark about a share of the queries, by a hash of their ids: the same wherever they lie."""
    parts = query_parts(query_ids, _SAMPLED_PARTS, seed=seed)
    return np.asarray(parts < _SAMPLED_PARTS * share)
